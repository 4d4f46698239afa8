package host

import (
	"context"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/watch"
	"github.com/leaselog/leaselog/projections"
)

// Backing is where a server keeps everything, and the broker that works there. The server closes it at its end.
type Backing struct {
	Broker    *broker.Broker
	Directory *auth.Directory // accounts and access keys
	Secret    [32]byte        // authenticates the markers of pages; the same in every process
	Region    string          // in the names of resources, unless the server is told another
	// Healthy says why no writes are taken, or nil. What stands before its first colon is told to strangers.
	Healthy func() error
	Disk    watch.Disk // nil where nothing is kept on this machine
	// Tick and Maintain do what time must do, several times a second and every minute.
	Tick, Maintain func(context.Context) error
	// Follow keeps views until ctx ends; nil: nobody does here.
	Follow func(ctx context.Context)
	Views  projections.Store // where they are
	Close  func() error
	// Shared says that anybody may come to have keys elsewhere, so that callers are verified from the start.
	Shared bool
	// Place says where the data lies, and Manage which command makes access keys, for the greeting.
	Place, Manage string
}
