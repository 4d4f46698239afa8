package rest

// leaseEntry names a lease by its receipt: what a delete batch holds (section 4.8).
type leaseEntry struct {
	id      string // in a batch
	receipt string
}

// extendEntry also says when the lease shall end: a change of visibility, alone or in a batch.
type extendEntry struct {
	leaseEntry
	visibility *uint32
	problem    error // the number is out of range
}

var leaseObject = object[leaseEntry]{fields: map[string]func(*scan, *leaseEntry) error{
	"id":             readLeaseID,
	"receipt_handle": readReceipt,
}}

var extendObject = object[extendEntry]{fields: map[string]func(*scan, *extendEntry) error{
	"id":             func(s *scan, e *extendEntry) error { return readLeaseID(s, &e.leaseEntry) },
	"receipt_handle": func(s *scan, e *extendEntry) error { return readReceipt(s, &e.leaseEntry) },
	"visibility_timeout_seconds": func(s *scan, e *extendEntry) error {
		return s.whole(visibilitySpan, &e.visibility, &e.problem)
	},
}}

func readLeaseID(s *scan, e *leaseEntry) error { return s.text("id", &e.id) }
func readReceipt(s *scan, e *leaseEntry) error { return s.text("receipt_handle", &e.receipt) }

func (e *leaseEntry) entryID() string { return e.id }

// complete says what an entry lacks. An empty receipt is most likely a variable that was not set.
func (e *leaseEntry) complete() error {
	if e.receipt == "" {
		return invalid("receipt_handle is missing; send the one that the receive gave")
	}
	return nil
}

func (e *extendEntry) complete() error {
	if e.visibility == nil && e.problem == nil {
		return invalid("visibility_timeout_seconds is missing; send %s", visibilitySpan)
	}
	return e.leaseEntry.complete()
}
