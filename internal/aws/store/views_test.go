package store

import (
	"testing"

	"github.com/leaselog/leaselog/projections"
	"github.com/leaselog/leaselog/projections/projectionstest"
)

func TestViews(t *testing.T) {
	s := startDatabase(t).open(t)
	projectionstest.RunStore(t, s, func() projections.Store { return s })
}
