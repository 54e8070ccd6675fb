package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file at its bound is read whole, one over it not at all, and every error
// names the file.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("12345678"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadFile(path, 8); err != nil || string(b) != "12345678" {
		t.Errorf("a file of its bound: %q, %v", b, err)
	}
	missing := filepath.Join(dir, "none")
	if _, err := ReadFile(missing, 8); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("a file that is missing: %v", err)
	}
	for name, want := range map[string]string{path: "is over 7 bytes", dir: "is a directory"} {
		if b, err := ReadFile(name, 7); b != nil || err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %s", name, b, err, want)
		}
	}
}
