package host

import "testing"

// TestMemoryLimit holds that whatever is alive has room to grow by three tenths until the collector must run, also where
// much of the memory is not objects: a drained FIFO queue of 1,000,000 has 93 MB alive and 50 MB beside, and with 144 MB for
// all of it the collector ran 55 times a second.
func TestMemoryLimit(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct{ live, beside, least, most int64 }{
		{10 * mb, 5 * mb, heapFloor, heapFloor},
		{80 * mb, 30 * mb, heapFloor, heapFloor},
		{93 * mb, 50 * mb, 170 * mb, 171 * mb},
		{300 * mb, 60 * mb, 450 * mb, 450 * mb},
	} {
		limit := memoryLimit(c.live, c.beside)
		if limit < c.least || limit > c.most {
			t.Errorf("%d MB alive and %d beside: the limit is %d MB", c.live/mb, c.beside/mb, limit/mb)
		}
		if room := limit - c.beside; room < c.live+c.live*3/10 {
			t.Errorf("%d MB alive and %d beside have room for %d MB", c.live/mb, c.beside/mb, room/mb)
		}
	}
}
