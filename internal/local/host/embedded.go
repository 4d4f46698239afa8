package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/local/admin"
	"github.com/leaselog/leaselog/internal/local/keys"
	"github.com/leaselog/leaselog/internal/local/store"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/watch"
	"github.com/leaselog/leaselog/projections"
)

// embedded opens a data directory: the embedded store with its key file, for this process alone.
func embedded(c Config, w *watch.Watch) (_ *Backing, err error) {
	k, err := openKeys(c)
	if err != nil {
		return nil, err
	}
	clock := newClock()
	s, err := store.Open(store.Config{Dir: filepath.Join(c.Data, StoreDir), Logger: c.Logger, Synced: w.Synced,
		Now: func() int64 { return int64(clock.now()) }})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	v := newFollowing(s, c.Logger, w.Viewed)
	b, err := broker.New(broker.Config{Log: s, Keys: k, ReceiptKey: k.Secret("receipt"), Now: clock.now, Rand: rand.Reader,
		Deployment: Deployment, Shards: max(1, c.Shards), Exclusive: true, Ready: s.Ready, Logger: c.Logger, Meter: w, Reached: v.Reached, Buried: v.buried})
	if err != nil {
		return nil, err
	}
	d, err := admin.Directory(s, k, clock.now)
	if err != nil {
		return nil, err
	}
	tick := func(ctx context.Context) error {
		clock.compare()
		return b.Tick(ctx)
	}
	// History that is too old goes, and while the store is too large, whatever the broker may let go of.
	history := func() time.Duration {
		if s.Size() > c.HistoryBytes {
			return 0
		}
		return c.HistoryAge
	}
	data := c.Data
	if absolute, err := filepath.Abs(data); err == nil {
		data = absolute
	}
	return &Backing{Broker: b, Directory: d, Secret: k.Secret("marker"), Region: "local", Healthy: s.Healthy, Disk: s, Tick: tick, Close: s.Close,
		Sweeps: sweep.Site{Broker: b, Claims: s, History: history, Views: s, Keeps: projections.Embedded()}, Follow: v.follow,
		Place:  data + " (sealed; the key is " + filepath.Join(data, KeyFile) + ")",
		Manage: "leaselog keys create --data " + c.Data}, nil
}

// OpenData opens the data directory of a server that does not run, for this process alone. Age and size of the history are
// those of the configuration. There must be a store.
func OpenData(c Config) (*Backing, error) {
	c.fill()
	if _, err := os.Stat(filepath.Join(c.Data, StoreDir)); err != nil {
		return nil, fault.New(fault.NotFound, "there is no store in %s; name the server's own directory with --data", c.Data)
	}
	w, err := watch.New(watch.Config{Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	return embedded(c, w)
}

// openKeys opens the key file, and makes one only where there is no store yet: the key comes first, so a store without
// one has lost it, and a new key would start a server that opens nothing of what is there. A key without a store is
// what a first start leaves that was broken off, or what is left where the store's disk is not mounted.
func openKeys(c Config) (*keys.Keys, error) {
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return nil, fmt.Errorf("data directory %s cannot be created: %w", c.Data, err)
	}
	key, data := filepath.Join(c.Data, KeyFile), filepath.Join(c.Data, StoreDir)
	_, noKey := os.Lstat(key)
	_, noStore := os.Stat(data)
	switch {
	case errors.Is(noKey, fs.ErrNotExist) && errors.Is(noStore, fs.ErrNotExist) && !empty(c.Data):
		return nil, fmt.Errorf("data directory %s holds something else: name an empty one, or one that does not exist yet", c.Data)
	case errors.Is(noKey, fs.ErrNotExist) && noStore == nil:
		return nil, fmt.Errorf("key file %s is missing, and %s holds a store that only it can open: put the key back, or move the store away to start empty", key, data)
	case noKey == nil && errors.Is(noStore, fs.ErrNotExist):
		c.Logger.Warn("there is a key and no store: the server starts empty; is the right disk mounted?", "key", key, "store", data)
	}
	return keys.Open(key)
}

// empty says whether a directory holds nothing but what the file system itself puts there.
func empty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != "lost+found" })
}
