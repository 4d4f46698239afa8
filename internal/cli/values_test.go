package cli

import (
	"testing"

	"github.com/leaselog/leaselog/internal/client"
)

func TestSeconds(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "90": 90, "30s": 30, "5m": 300, "1h30m": 5400, "4d": 345600, "1d12h": 129600, "1.5h": 5400,
		"": -1, "-1": -1, "-5m": -1, "soon": -1, "1500ms": -1, "1x": -1, "d": -1, "1d-1h": -1, "1.5d": -1, "99999999999999": 99999999999999,
		"999999h": -1, "65536d": -1, "1h ": -1, "1e3": -1,
	} {
		got, err := parseSeconds(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %d (%v), want %d", text, got, err, want)
		}
	}
}

func TestDurationReadsBack(t *testing.T) {
	for _, n := range []int{0, 1, 59, 60, 61, 3600, 5400, 86400, 90061, 1209600} {
		if got, err := parseSeconds(duration(n)); got != n || err != nil {
			t.Errorf("%d shows as %s, which reads as %d, %v", n, duration(n), got, err)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int{
		"1024": 1024, "64KB": 65536, "64kb": 65536, "64 KiB": 65536, "64k": 65536, "1MB": 1 << 20, "12B": 12,
		"": -1, "KB": -1, "-1": -1, "1.5KB": -1, "1GB": -1, "9999999MB": -1, "99999999999999999999": -1,
	} {
		var s size
		got := -1
		if err := s.Set(text); err == nil {
			got = *s.value
		}
		if got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}

func TestAttribute(t *testing.T) {
	for text, want := range map[string]struct {
		name string
		a    client.Attribute
	}{
		"a=b":          {"a", client.Attribute{Type: "String", Value: "b"}},
		"a=b=c":        {"a", client.Attribute{Type: "String", Value: "b=c"}},
		"a=":           {"a", client.Attribute{Type: "String"}},
		"n:Number=1":   {"n", client.Attribute{Type: "Number", Value: "1"}},
		"n:binary=AA=": {"n", client.Attribute{Type: "Binary", Value: "AA="}},
		"a:b=c":        {"a:b", client.Attribute{Type: "String", Value: "c"}},
		":Number=1":    {":Number", client.Attribute{Type: "String", Value: "1"}},
	} {
		name, a, err := parseAttribute(text)
		if err != nil || name != want.name || a != want.a {
			t.Errorf("%q is %s %v, %v", text, name, a, err)
		}
	}
	for _, text := range []string{"", "a", "=b"} {
		if _, _, err := parseAttribute(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestBrief(t *testing.T) {
	for text, want := range map[string]string{
		"short": "short", "exactly ten": "exactly t…", "\x1b[2Jé\n": "·[2Jé·", "日本語日本語日本語日本": "日本語日本語日本語…", "\u202eabc": "·abc",
	} {
		if got := brief(text, 10); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
