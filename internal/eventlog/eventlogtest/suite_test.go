package eventlogtest

import (
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

func openMemory(*testing.T) eventlog.Log { return eventlog.NewMemory() }

func TestMemory(t *testing.T) { Run(t, openMemory) }

func TestMemoryUnderFaults(t *testing.T) { RunUnderFaults(t, openMemory) }
