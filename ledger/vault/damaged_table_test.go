package vault

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestLOG15_GarbageTableIsRefused: a table that a disk left as garbage is damage with a
// name and a hint, not the end of the process.
func TestLOG15_GarbageTableIsRefused(t *testing.T) {
	dir := t.TempDir()
	v, err := Open(dir, [32]byte{1}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(v.Put("att_1", [32]byte{1}), v.Close()); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no table: ", err)
	}
	for _, b := range [][]byte{make([]byte, 4096), bytes.Repeat([]byte("text of another file "), 400)} {
		if err := os.WriteFile(tables[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, [32]byte{1}, Options{}); !errors.Is(err, ErrCorrupt) || !bytes.Contains([]byte(err.Error()), []byte(tables[0])) {
			t.Errorf("opened with %q…: %v", b[:8], err)
		}
	}
}
