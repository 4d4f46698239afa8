//go:build linux

package main

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// subBits gives 32 buckets per power of two: a quantile is at most about 3 % too high.
const subBits = 5

// hist counts durations in buckets that grow with their value. Many goroutines may add at once.
type hist struct {
	n     [64 << subBits]atomic.Uint32
	count atomic.Int64
	most  atomic.Int64
}

func (h *hist) add(d time.Duration) {
	v := int64(max(d, 1))
	h.n[bucket(uint64(v))].Add(1)
	h.count.Add(1)
	for m := h.most.Load(); v > m && !h.most.CompareAndSwap(m, v); m = h.most.Load() {
	}
}

func bucket(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	e := bits.Len64(v) - subBits - 1
	return (e+1)<<subBits | int(v>>e)&(1<<subBits-1)
}

// top is the greatest value of a bucket.
func top(b int) int64 {
	e := b>>subBits - 1
	if e < 0 {
		return int64(b)
	}
	return (int64(1<<subBits|b&(1<<subBits-1))+1)<<e - 1
}

// quantile is the value below which the share p lies, 0 without any values.
func (h *hist) quantile(p float64) time.Duration {
	want := max(1, int64(p*float64(h.count.Load())+0.5))
	var seen int64
	for i := range h.n {
		if seen += int64(h.n[i].Load()); seen >= want {
			return time.Duration(min(top(i), h.most.Load()))
		}
	}
	return 0
}

// latency is a histogram's summary, in milliseconds.
type latency struct {
	P50, P90, P99, P999, Max float64
	Count                    int64
}

func (h *hist) latency() *latency {
	if h.count.Load() == 0 {
		return nil
	}
	ms := func(p float64) float64 { return h.quantile(p).Seconds() * 1e3 }
	return &latency{ms(.5), ms(.9), ms(.99), ms(.999), time.Duration(h.most.Load()).Seconds() * 1e3, h.count.Load()}
}
