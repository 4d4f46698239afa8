package events

import "testing"

// The benchmarks take an entry as the message path writes it under load: ten messages of 1 KB, a lease of ten, an ack.

func benchEvents() []Event {
	leased := &Leased{At: sampleAt, Lease: sampleLease, Until: sampleAt + 30_000}
	for i := range 10 {
		leased.Items = append(leased.Items, Taken{Position: Position(1000 + i), Info: &Info{Retained: sampleAt, Due: sampleAt, Key: 1}})
	}
	return []Event{leased, &Acked{At: sampleAt, Lease: sampleLease, Items: []Position{900, 901}}}
}

func BenchmarkEncode(b *testing.B) {
	all := benchEvents()
	b.ReportAllocs()
	for b.Loop() {
		Encode(all)
	}
}

func BenchmarkDecode(b *testing.B) {
	data := Encode(benchEvents())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

func benchMessages() []Message {
	all := make([]Message, 10)
	for i := range all {
		all[i].Body = make([]byte, 1024)
	}
	return all
}

func BenchmarkEncodeMessages(b *testing.B) {
	all := benchMessages()
	b.ReportAllocs()
	for b.Loop() {
		EncodeMessages(all)
	}
}

func BenchmarkDecodeMessages(b *testing.B) {
	data := EncodeMessages(benchMessages())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeMessages(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHeader(b *testing.B) {
	h := sampleHeaders["header-plain"]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeHeader(EncodeHeader(h)); err != nil {
			b.Fatal(err)
		}
	}
}
