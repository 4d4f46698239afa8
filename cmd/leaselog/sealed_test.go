package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestNothingReadable holds promise 8 from outside: what senders wrote is nowhere in the data directory, neither in the
// log of a running server nor in the tables of a stopped one.
func TestNothingReadable(t *testing.T) {
	s := newServer(t)
	s.start(t)
	secrets := []string{"BODY-6f1c", "ATTRIBUTE-90ab", "VALUE-77d2", "GROUP-41ce", "DEDUP-c3f8"}
	s.must(t, "POST", "/v1/queues", map[string]any{"name": "sealed.fifo"})
	s.must(t, "POST", "/v1/queues", map[string]any{"name": "dead.fifo"})
	s.must(t, "PATCH", "/v1/queues/sealed.fifo", map[string]any{"redrive_policy": map[string]any{"dead_letter_queue": "dead.fifo", "max_receive_count": 1}})
	s.must(t, "POST", "/v1/queues/sealed.fifo/messages", map[string]any{"body": secrets[0],
		"attributes":       map[string]any{secrets[1]: map[string]string{"type": "String", "value": secrets[2]}},
		"message_group_id": secrets[3], "message_deduplication_id": secrets[4]})
	s.must(t, "POST", "/v1/queues/sealed.fifo/messages/receive", map[string]any{"visibility_timeout_seconds": 0})
	var moved received
	if err := s.call(t.Context(), "POST", "/v1/queues/dead.fifo/messages/receive", map[string]any{"wait_time_seconds": 10}, &moved); err != nil || len(moved.Messages) != 1 {
		t.Fatalf("the dead letter queue gave %+v, %v", moved, err)
	}
	unreadable(t, s.data, secrets)
	s.stop(t)
	s.start(t) // replays the log into tables
	s.stop(t)
	unreadable(t, s.data, secrets)
}

func unreadable(t *testing.T, dir string, secrets []string) {
	t.Helper()
	var size int
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		size += len(data)
		for _, text := range secrets {
			if bytes.Contains(data, []byte(text)) {
				t.Errorf("%s holds %q", path, text)
			}
		}
		return err
	})
	if err != nil || size == 0 {
		t.Errorf("%d bytes read: %v", size, err)
	}
}
