package keys

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const goodLine = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func place(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	a, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("its mode is %v, %v; want 0600", info.Mode(), err)
	}
	if text, _ := os.ReadFile(path); !bytes.HasPrefix(text, []byte(advice)) || len(text) != len(advice)+digits+1 {
		t.Errorf("it reads %d bytes", len(text))
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("beside it was left %v", left)
	}
	b, err := Open(path)
	if err != nil || a.Secret("x") != b.Secret("x") {
		t.Errorf("opened again it is another key, %v", err)
	}
	c, err := Open(filepath.Join(t.TempDir(), "key"))
	if err != nil || a.Secret("x") == c.Secret("x") {
		t.Errorf("two key files have one key, %v", err)
	}
}

// TestCreateAtOnce: many begin without a file, one makes it, all have the same key.
func TestCreateAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	secrets := make([][32]byte, 16)
	for i := range secrets {
		wg.Go(func() {
			k, err := Open(filepath.Join(dir, "key"))
			if err != nil {
				t.Error(err)
				return
			}
			secrets[i] = k.Secret("x")
		})
	}
	wg.Wait()
	for _, s := range secrets {
		if s != secrets[0] {
			t.Fatal("two of them have different keys")
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("beside it was left %v", left)
	}
}

// TestCreateNeverReplaces: a file that appears after the first look is the one that counts.
func TestCreateNeverReplaces(t *testing.T) {
	path := place(t, title+"\n"+goodLine+"\n", 0o600)
	root, err := create(path)
	if err != nil || !bytes.Equal(root[:], rising(0, keySize)) {
		t.Errorf("the key is not the one that stood there, %v", err)
	}
}

func TestNoDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "key")
	if _, err := Open(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "key file "+path) {
		t.Errorf("%v; want one that names the file", err)
	}
}

func TestMode(t *testing.T) {
	for mode, ok := range map[fs.FileMode]bool{0o600: true, 0o400: true, 0o700: true,
		0o640: false, 0o604: false, 0o620: false, 0o602: false, 0o610: false, 0o644: false, 0o666: false} {
		path := place(t, title+"\n"+goodLine+"\n", mode)
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, link} {
			_, err := Open(p)
			if ok != (err == nil) {
				t.Errorf("mode %04o: %v", mode, err)
			}
			if !ok && !strings.Contains(err.Error(), "chmod 600 "+p) {
				t.Errorf("mode %04o: %q does not say what to do", mode, err)
			}
		}
	}
}

func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe, dangling := filepath.Join(dir, "pipe"), filepath.Join(dir, "dangling")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("nowhere", dangling)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir: "not a regular file", pipe: "not a regular file", dangling: "a symbolic link to a file that does not exist",
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		title + "\n" + goodLine:                         "",
		title + " or what else one\n" + goodLine + "\n": "",
		advice + strings.ToUpper(goodLine) + "\n":       "",
		"":                                      "its first line",
		goodLine + "\n":                         "its first line",
		title:                                   "its first line",
		title + goodLine:                        "its first line",
		"# leaselog key 2:\n" + goodLine + "\n": "its first line",
		title + "\n":                            "64 hexadecimal digits and nothing else",
		title + "\n" + goodLine[1:] + "\n":      "64 hexadecimal digits and nothing else",
		title + "\n" + goodLine + "0\n":         "64 hexadecimal digits and nothing else",
		title + "\n" + goodLine + "\n\n":        "64 hexadecimal digits and nothing else",
		title + "\r\n" + goodLine + "\r\n":      "64 hexadecimal digits and nothing else",
		title + "\n" + goodLine + "\n" + goodLine + "\n":    "64 hexadecimal digits and nothing else",
		title + "\n" + strings.Repeat("0", sizeMax) + "\n":  "64 hexadecimal digits and nothing else",
		title + "\n" + "g" + goodLine[1:] + "\n":            "its second line must be 64 hexadecimal digits",
		title + "\n" + goodLine[:62] + "\xff\xfe" + "\n":    "its second line must be 64 hexadecimal digits",
		title + "\n" + goodLine[:31] + " " + goodLine[32:]:  "its second line must be 64 hexadecimal digits",
		strings.Repeat("\x00", len(advice)+digits+1) + "\n": "its first line",
	} {
		_, err := Open(place(t, text, 0o600))
		if want == "" && err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), goodLine[40:50]) {
			t.Errorf("%v shows the key", err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(render([keySize]byte(rising(0, keySize))))
	f.Add([]byte(title + "\n" + goodLine))
	f.Add([]byte(title + "\n" + "g" + goodLine[1:]))
	f.Fuzz(func(t *testing.T, text []byte) {
		root, err := parse(text)
		if err != nil {
			if root != ([keySize]byte{}) {
				t.Fatalf("%q: a key beside %v", text, err)
			}
			return
		}
		if again, err := parse(render(root)); err != nil || again != root {
			t.Fatalf("%q: read %x, written and read again %x, %v", text, root, again, err)
		}
	})
}
