package host

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// List prices of us-east-1 in dollars, as AWS' price pages had them in 2026, without free tiers and discounts for volume.
// Those of requests, units and GB-seconds are for a million, those of bytes for a GB.
const (
	priceWriteUnit  = 0.625 // DynamoDB on demand, standard table class
	priceReadUnit   = 0.125
	priceChangeUnit = 0.10 // a change of up to 1 KB, captured for Kinesis
	priceStored     = 0.25 // and month
	priceRestorable = 0.20 // and month, point-in-time recovery
	priceStreamIn   = 0.08 // Kinesis on demand, each record rounded up to 1 KB
	priceStreamOut  = 0.04
	priceKMS        = 3.00
	priceInvocation = 0.20  // Lambda
	priceCompute    = 13.33 // GB-seconds on arm64
	priceGateway    = 1.00  // HTTP API, requests of up to 512 KB
	priceLogged     = 0.50  // CloudWatch Logs
	priceSQS        = 0.40  // requests of up to 64 KB
	priceSQSFifo    = 0.50
)

// What cannot be measured here is stated: how long a call to DynamoDB takes in a region, and an invocation besides; the
// two lines of JSON that Lambda itself writes for an invocation (platform.start and platform.report); and what is
// counted for each line and each item over their bytes.
const (
	callSeconds    = 0.005
	invokeSeconds  = 0.002
	platformBytes  = 520
	lineExtraBytes = 26
	itemExtraBytes = 100
	monthsKept     = 0.5 // 15 days
	sqsBytesMax    = 64 << 10
)

// usage is what something took, in the units that are charged.
type usage struct {
	reads, writes           float64 // units of the log and the views
	claimReads, claimWrites float64 // units of the claims
	calls                   float64 // to DynamoDB and KMS
	kms                     float64 // of them, to KMS
	lost                    float64 // writes that met another's
	changes                 float64 // KB, each rounded up
	streamed                float64 // bytes, each record rounded up to 1 KB
	stored                  float64 // bytes of items
	invocations             float64
	seconds                 float64 // that functions run
	logged                  float64 // bytes
}

func (u *usage) add(v usage, factor float64) {
	for _, f := range []struct {
		to *float64
		v  float64
	}{{&u.reads, v.reads}, {&u.writes, v.writes}, {&u.claimReads, v.claimReads}, {&u.claimWrites, v.claimWrites}, {&u.calls, v.calls},
		{&u.kms, v.kms}, {&u.lost, v.lost}, {&u.changes, v.changes}, {&u.streamed, v.streamed}, {&u.stored, v.stored},
		{&u.invocations, v.invocations}, {&u.seconds, v.seconds}, {&u.logged, v.logged}} {
		*f.to += f.v * factor
	}
}

// charge is a line of a bill.
type charge struct {
	name    string
	amount  float64 // of one
	dollars float64 // of a million
}

// bill gives what a million cost of something that took u. at is what comes by the clock, at one message a second.
func (u usage) bill(at usage, memory float64) []charge {
	const perByte = 1e6 / 1e9
	return []charge{
		{"write units", u.writes + u.claimWrites, (u.writes + u.claimWrites) * priceWriteUnit},
		{"read units", u.reads + u.claimReads, (u.reads + u.claimReads) * priceReadUnit},
		{"read units for callers' keys, at 1/s", at.claimReads, at.claimReads * priceReadUnit},
		{"KMS requests, at 1/s", at.kms, at.kms * priceKMS},
		{"changes captured, KB", u.changes, u.changes * priceChangeUnit},
		{"Kinesis in and out, KB", u.streamed / 1024, u.streamed * perByte * (priceStreamIn + priceStreamOut)},
		{"15 days of storage and recovery, KB", u.stored / 1024, u.stored * perByte * monthsKept * (priceStored + priceRestorable)},
		{"HTTP API requests", u.invocations, u.invocations * priceGateway},
		{"Lambda invocations", u.invocations, u.invocations * priceInvocation},
		{"Lambda GB-seconds", u.seconds * memory, u.seconds * memory * priceCompute},
		{"logs, KB", u.logged / 1024, u.logged * perByte * priceLogged},
	}
}

// sqs is what a million messages cost there that are sent, received and deleted.
func sqs(fifo bool, size, batch int) float64 {
	price := priceSQS
	if fifo {
		price = priceSQSFifo
	}
	payload := math.Ceil(float64(size*batch) / sqsBytesMax)
	return (2*payload + 1) / float64(batch) * price
}

// column is a bill beside others, with SQS' own.
type column struct {
	name    string
	charges []charge
	sqs     float64
}

// table prints bills side by side, in Markdown, without what nobody is charged for.
func table(columns []column) string {
	var b strings.Builder
	row := func(name string, cell func(column) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", cell(c))
		}
		b.WriteString("\n")
	}
	row("", func(c column) string { return c.name })
	b.WriteString("|---|" + strings.Repeat("---:|", len(columns)) + "\n")
	for i, line := range columns[0].charges {
		if !slices.ContainsFunc(columns, func(c column) bool { return c.charges[i].dollars > 0 }) {
			continue
		}
		row(line.name, func(c column) string {
			return fmt.Sprintf("%s · $%.2f", amount(c.charges[i].amount), c.charges[i].dollars)
		})
	}
	row("**a million**", func(c column) string {
		sum := 0.0
		for _, line := range c.charges {
			sum += line.dollars
		}
		return fmt.Sprintf("**$%.2f**", sum)
	})
	row("SQS", func(c column) string { return fmt.Sprintf("$%.2f", c.sqs) })
	return b.String()
}

// amount gives three digits or the whole number.
func amount(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", v), "0"), ".")
}
