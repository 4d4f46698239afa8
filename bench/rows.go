//go:build linux

package main

import (
	"fmt"
	"math"
)

// The demanded bounds. They are those of the repository's issue; README and table quote them.
const (
	singleSendMin, singleTakeMin = 0.75, 0.65
	batchSendMin, batchTakeMin   = 0.9, 0.65
	manyQueuesMin                = 0.6
	loneSyncsMax                 = 2.0

	// CPU bounds in µs hold on a machine where the empty server takes so much, and are scaled to this one.
	sendMicrosMax, takeMicrosMax, batchMicrosMax = 40.0, 75.0, 18.0
	emptySendMicros, emptyTakeMicros             = 31.0, 45.0

	e2eMillisMax    = 0.9
	idlePercentMax  = 1.0
	depthWithin     = 0.2
	residentMBMax   = 200.0
	dedupBytesPerID = 40
)

func perSecond(p *phase) float64 { return p.PerSecond }
func micros(p *phase) float64    { return p.ServerMicros }

// speedRows are the rates as ratios of medians, the CPU times, and the lone sender, of the workloads that were selected.
func (b *bench) speedRows(base, ours string) []row {
	var rows []row
	add := func(what, workload, phase string, least float64) {
		if !b.o.works(workload) {
			return
		}
		rows = append(rows, b.rateRow(what, key{base, workload, phase}, key{ours, workload, phase}, least))
	}
	c := b.o.clients
	add(fmt.Sprintf("send 1, %d clients", c), single, sending, singleSendMin)
	add("receive 1 + ack", single, taking, singleTakeMin)
	add("send by 10", batch, sending, batchSendMin)
	add("receive by 10 + ack", batch, taking, batchTakeMin)
	add(fmt.Sprintf("%d queues, 4 clients each: send, receive, ack", b.o.queues), manyQueues, cycling, manyQueuesMin)
	add("FIFO send 1", fifoSingle, sending, 0)
	add("FIFO receive 1 + ack", fifoSingle, taking, 0)
	add("FIFO send by 10", fifoBatch, sending, 0)
	add("FIFO receive by 10 + ack", fifoBatch, taking, 0)
	rows = append(rows, b.cpuRows(base, ours)...)
	if b.o.works(lone) {
		rows = append(rows, b.loneRow(key{ours, lone, sending}))
	}
	return rows
}

// rateRow compares two throughputs. A least of 0 demands nothing.
func (b *bench) rateRow(what string, base, ours key, least float64) row {
	x, y := b.seen[base], b.seen[ours]
	r := row{What: what}
	if least > 0 {
		r.Demand = fmt.Sprintf(">= %.2f", least)
	}
	if len(x) == 0 || len(y) == 0 {
		r.Verdict = noResult
		return r
	}
	ratio := median(y, perSecond) / median(x, perSecond)
	r.Base, r.Ours = rate(median(x, perSecond)), rate(median(y, perSecond))
	r.Ratio = fmt.Sprintf("%.2f%s", ratio, spread(x, y))
	if least > 0 {
		r.Verdict = verdict(ratio >= least)
	}
	return r
}

// spread is the least and the greatest ratio of runs that stood next to each other.
func spread(x, y []phase) string {
	lo, hi := math.Inf(1), 0.0
	for i := range min(len(x), len(y)) {
		ratio := y[i].PerSecond / x[i].PerSecond
		lo, hi = min(lo, ratio), max(hi, ratio)
	}
	return fmt.Sprintf(" (%.2f-%.2f)", lo, hi)
}

// cpuRows scale the bounds by what the empty server takes for single messages here, the batched one by the mean of both
// factors.
func (b *bench) cpuRows(base, ours string) []row {
	send := median(b.seen[key{base, single, sending}], micros) / emptySendMicros
	take := median(b.seen[key{base, single, taking}], micros) / emptyTakeMicros
	both := (send + take) / 2
	var rows []row
	for _, c := range []struct {
		what, workload, phase string
		most, factor          float64
	}{
		{"server CPU a send", single, sending, sendMicrosMax, send},
		{"server CPU a receive + ack", single, taking, takeMicrosMax, take},
		{"server CPU a message sent by 10", batch, sending, batchMicrosMax, both},
		{"server CPU a message received by 10 + ack", batch, taking, batchMicrosMax, both},
	} {
		if !b.o.works(single) || !b.o.works(c.workload) {
			continue
		}
		x, y := b.seen[key{base, c.workload, c.phase}], b.seen[key{ours, c.workload, c.phase}]
		r := row{What: c.what, Demand: fmt.Sprintf("<= %.0f us, here %.1f", c.most, c.most*c.factor), Verdict: noResult}
		if len(x) > 0 && len(y) > 0 && c.factor > 0 {
			r.Base, r.Ours = fmt.Sprintf("%.1f us", median(x, micros)), fmt.Sprintf("%.1f us", median(y, micros))
			r.Ratio = fmt.Sprintf("%.2f", median(y, micros)/median(x, micros))
			r.Verdict = verdict(median(y, micros) <= c.most*c.factor)
		}
		rows = append(rows, r)
	}
	return rows
}

// loneRow judges each run by the fdatasync measured around it.
func (b *bench) loneRow(ours key) row {
	y := b.seen[ours]
	r := row{What: "lone sender p50 beside an fdatasync", Demand: fmt.Sprintf("<= %.0f", loneSyncsMax), Verdict: noResult}
	if len(y) == 0 {
		return r
	}
	ratio := median(y, func(p *phase) float64 { return p.Latency.P50 / p.Extra["fdatasync_p50_ms"] })
	r.Base = fmt.Sprintf("%.3f ms", median(y, func(p *phase) float64 { return p.Extra["fdatasync_p50_ms"] }))
	r.Ours = fmt.Sprintf("%.3f ms", median(y, func(p *phase) float64 { return p.Latency.P50 }))
	r.Ratio, r.Verdict = fmt.Sprintf("%.2f", ratio), verdict(ratio <= loneSyncsMax)
	return r
}
