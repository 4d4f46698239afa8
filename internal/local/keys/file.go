package keys

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A key file is two lines: a title with the file's format, which goes on to say what the file is, and the key.
const (
	title   = "# leaselog key 1:"
	advice  = title + " it opens all that this server stores. Keep it secret, and a copy of it apart from the data: without it every message is lost.\n"
	digits  = 2 * keySize
	sizeMax = 1024 // no key file of ours is as large
)

// Open reads the key file at path, and makes it where there is none; its directory must exist. Of several processes
// that make it at once, one wins and all have its key. A file that group or others may use is refused.
func Open(path string) (*Keys, error) {
	root, err := load(path)
	if errors.Is(err, fs.ErrNotExist) {
		root, err = create(path)
	}
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return from(root)
}

// load judges the file that it has open, not the one that its path may name a moment later; so a symbolic link is as
// good as what it points to. Non-blocking, or a pipe would be waited for.
func load(path string) (root [keySize]byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return root, err
	}
	defer f.Close()
	if err := private(f); err != nil {
		return root, err
	}
	text, err := io.ReadAll(io.LimitReader(f, sizeMax+1))
	if err != nil {
		return root, err
	}
	return parse(text)
}

func private(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("this is not a regular file")
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("group or others may use it (mode %04o); only its owner may: chmod 600 %s", perm, f.Name())
	}
	return nil
}

// parse names what is wrong without showing any of it.
func parse(text []byte) (root [keySize]byte, err error) {
	head, line, found := bytes.Cut(text, []byte("\n"))
	if !found || !bytes.HasPrefix(head, []byte(title)) {
		return root, fmt.Errorf("this is not a key file: its first line must begin with %q", title)
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	if len(line) != digits {
		return root, fmt.Errorf("after its first line must stand %d hexadecimal digits and nothing else", digits)
	}
	if _, err := hex.Decode(root[:], line); err != nil {
		return [keySize]byte{}, fmt.Errorf("its second line must be %d hexadecimal digits", digits)
	}
	return root, nil
}

func render(root [keySize]byte) []byte { return fmt.Appendf(nil, "%s%x\n", advice, root) }

// create makes a new key under another name and links it to path when it is whole and durable, so that a crash leaves
// a whole key file or none, and a key that is there already is never replaced.
func create(path string) (root [keySize]byte, err error) {
	if _, err := io.ReadFull(rand.Reader, root[:]); err != nil {
		return root, err
	}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text())
	defer os.Remove(temp)
	if err := write(temp, render(root)); err != nil {
		return root, fmt.Errorf("making it: %w", err)
	}
	if err := os.Link(temp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return root, fmt.Errorf("making it: %w", err)
	}
	// Nothing may be sealed under a key whose name a crash could still take away, whoever made it.
	if err := syncDir(filepath.Dir(path)); err != nil {
		return root, fmt.Errorf("making its directory durable: %w", err)
	}
	root, err = load(path)
	if errors.Is(err, fs.ErrNotExist) { // though the name was taken
		err = errors.New("this is a symbolic link to a file that does not exist")
	}
	return root, err
}

func write(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
