package eventlog

import "context"

// Bill hears what calls to a log cost, in capacity units of a store that charges for them. It is called by many goroutines.
type Bill interface {
	Charge(readUnits, writeUnits float64)
}

type billKey struct{}

// Billed gives a context whose calls to a log are charged to a bill.
func Billed(ctx context.Context, b Bill) context.Context { return context.WithValue(ctx, billKey{}, b) }

// Charge tells the context's bill, if there is one, what a call has cost. A store that charges calls it.
func Charge(ctx context.Context, readUnits, writeUnits float64) {
	if b, ok := ctx.Value(billKey{}).(Bill); ok {
		b.Charge(readUnits, writeUnits)
	}
}
