package envelope

import (
	"crypto/rand"
	"fmt"
	"testing"
)

func BenchmarkSeal(b *testing.B) {
	for _, size := range []int{0, 1 << 10, 10 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			k := testKeyring(b, &fakeKeys{}, rand.Reader, 1)
			header, plain := make([]byte, 120), make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				k.Seal(b.Context(), testNow, testReuse, Place{"q/0000/m0", 7}, 1, header, plain)
			}
		})
	}
}

func BenchmarkSealParallel(b *testing.B) {
	k := testKeyring(b, &fakeKeys{}, rand.Reader, 1)
	header, plain := make([]byte, 120), make([]byte, 1<<10)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			k.Seal(b.Context(), testNow, testReuse, Place{"q/0000/m0", 7}, 1, header, plain)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	for _, size := range []int{1 << 10, 10 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			k := testKeyring(b, &fakeKeys{}, rand.Reader, 1)
			header := make([]byte, 120)
			place := Place{"q/0000/m0", 7}
			sealed, _ := k.Seal(b.Context(), testNow, testReuse, place, 1, header, make([]byte, size))
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				k.Open(b.Context(), testNow, testReuse, place, 1, header, sealed)
			}
		})
	}
}

func BenchmarkHash(b *testing.B) {
	k := testKeyring(b, &fakeKeys{}, rand.Reader, 1)
	b.ReportAllocs()
	for b.Loop() {
		k.Hash(b.Context(), testNow, testReuse, "dedup", "order-2026-000017")
	}
}
