package cli

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/local/store"
)

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

// flipCommand is "flip DIR": it turns one bit in the middle of the largest table of a stopped store, as a bad disk does.
func flipCommand(ts *testscript.TestScript, _ bool, args []string) {
	tables, err := filepath.Glob(ts.MkAbs(args[0]) + "/store/*.sst")
	ts.Check(err)
	var text []byte
	var largest string
	for _, t := range tables {
		content, err := os.ReadFile(t)
		ts.Check(err)
		if len(content) > len(text) {
			text, largest = content, t
		}
	}
	text[len(text)/4] ^= 1
	ts.Check(os.WriteFile(largest, text, 0o600))
}
