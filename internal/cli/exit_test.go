package cli

import (
	"fmt"
	"testing"

	"github.com/leaselog/leaselog/internal/fault"
)

func TestFaultExits(t *testing.T) {
	for _, code := range fault.Codes {
		if _, ok := faultExits[code]; !ok {
			t.Errorf("faultExits has no exit status for %s", code)
		}
	}
	p := Program{options: &options{}}
	got := p.explain(fmt.Errorf("keys: %w", fault.New(fault.Exists, "it is there")))
	if got.exit != exitConflict || got.text != "keys: it is there" {
		t.Errorf("a fault is explained as %d %q", got.exit, got.text)
	}
}
