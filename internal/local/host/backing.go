package host

import (
	"context"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/watch"
)

// Backing is where a server keeps everything, and the broker that works there. The server closes it at its end.
type Backing struct {
	Broker    *broker.Broker
	Directory *auth.Directory // accounts and access keys
	Secret    [32]byte        // authenticates the markers of pages; the same in every process
	Region    string          // in the names of resources, unless the server is told another
	// Healthy says why no writes are taken, or nil. What stands before its first colon is told to strangers.
	Healthy func() error
	Disk    watch.Disk                  // nil where nothing is kept on this machine
	Tick    func(context.Context) error // does what time must do at once, several times a second
	Sweeps  sweep.Site                  // what the other chores work on
	Follow  func(ctx context.Context)   // keeps views until ctx ends; nil: nobody does here
	Close   func() error
	// Shared says that anybody may come to have keys elsewhere, so that callers are verified from the start.
	Shared bool
	// Place says where the data lies, and Manage which command makes access keys, for the greeting.
	Place, Manage string
}
