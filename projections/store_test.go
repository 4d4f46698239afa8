package projections_test

import (
	"testing"

	"github.com/leaselog/leaselog/projections"
	"github.com/leaselog/leaselog/projections/projectionstest"
)

func TestMemory(t *testing.T) {
	s := projections.NewMemory()
	projectionstest.RunStore(t, s, func() projections.Store { return s })
}
