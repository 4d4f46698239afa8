package host

import (
	"net"
	"testing"
	"time"
)

// deadlined notes the write deadlines that reach a connection.
type deadlined struct {
	net.Conn
	set []time.Time
}

func (d *deadlined) SetWriteDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// A write deadline is never later than asked, never earlier by more than the slack, and seldom set.
func TestCoarseDeadlines(t *testing.T) {
	d := &deadlined{}
	c := &coarseConn{Conn: d}
	begin := time.Unix(1_800_000_000, 0)
	for i := range 10_000 {
		want := begin.Add(time.Duration(i) * 10 * time.Millisecond)
		if err := c.SetWriteDeadline(want); err != nil {
			t.Fatal(err)
		}
		if now := d.set[len(d.set)-1]; now.After(want) || want.Sub(now) >= writeSlack {
			t.Fatalf("asked for %v, set is %v", want, now)
		}
	}
	if n := len(d.set); n != 4 {
		t.Errorf("100 s of requests set it %d times", n)
	}
	for _, want := range []time.Time{begin, {}, begin} { // earlier, none, one again
		c.SetWriteDeadline(want)
		if now := d.set[len(d.set)-1]; now != want {
			t.Errorf("asked for %v, set is %v", want, now)
		}
	}
}
