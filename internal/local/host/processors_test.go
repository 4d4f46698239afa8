package host

import (
	"runtime"
	"testing"
)

func TestProcessors(t *testing.T) {
	t.Setenv("GOMAXPROCS", "3")
	if n := processors(3); n != 3 {
		t.Errorf("the environment says 3 processors, and there are %d", n)
	}
	t.Setenv("GOMAXPROCS", "")
	if n := processors(3); n != 5 {
		t.Errorf("3 cores have %d processors, not 5", n)
	}
	addProcessors()
	before := runtime.GOMAXPROCS(0)
	if addProcessors(); runtime.GOMAXPROCS(0) != before {
		t.Errorf("a second server in the process makes %d processors of %d", runtime.GOMAXPROCS(0), before)
	}
}
