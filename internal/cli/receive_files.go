package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/leaselog/leaselog/internal/client"
)

// keep writes a message's body to a file named by its id, whole and durable: it may be acked right after. A message
// that comes again replaces its file by the same content.
func keep(dir string, m *client.Received) (string, error) {
	if m.ID == "" || m.ID != filepath.Base(m.ID) || m.ID[0] == '.' {
		return "", fmt.Errorf("the server gave %q as a message's id, which is no name for a file", m.ID)
	}
	file := filepath.Join(dir, m.ID)
	temp, err := os.CreateTemp(dir, ".receiving-")
	if err != nil {
		return "", err
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(m.Body)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return "", err
	}
	if err := os.Rename(temp.Name(), file); err != nil {
		return "", err
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	return file, errors.Join(d.Sync(), d.Close())
}
