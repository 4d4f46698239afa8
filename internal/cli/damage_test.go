package cli

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/local/store"
)

// servers has the server of each script by its directory.
var servers sync.Map

// damageCommand is "damage DIR": it writes an entry of rubbish behind the end of every ledger of a stopped store.
func damageCommand(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0]) + "/store"
	quiet := slog.New(slog.DiscardHandler)
	v, err := store.OpenView(store.Config{Dir: dir, Logger: quiet})
	ts.Check(err)
	var ends []eventlog.Append
	for s, err := range v.Streams() {
		ts.Check(err)
		end := eventlog.Append{Stream: s, Width: 1, Header: []byte("rubbish"), Data: []byte("rubbish")}
		for e, err := range v.Entries(s) {
			ts.Check(err)
			end.Seq = e.Next()
		}
		ends = append(ends, end)
	}
	ts.Check(v.Close())
	s, err := store.Open(store.Config{Dir: dir, Logger: quiet})
	ts.Check(err)
	c := eventlog.Commit{Appends: ends}
	_, _ = rand.Read(c.Writer[:])
	ts.Check(s.Commit(context.Background(), c))
	ts.Check(s.Close())
}
