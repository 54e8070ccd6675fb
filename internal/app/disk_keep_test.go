package app

import (
	"os"
	"path/filepath"
	"testing"
)

// What the databases may write again is kept free beside the reserve, each up to
// its own bound; what waits to be logged comes on top.
func TestDUR06_KeepsWhatDatabasesWriteAgain(t *testing.T) {
	dir := t.TempDir()
	large, small := filepath.Join(dir, "large"), filepath.Join(dir, "small")
	for d, n := range map[string]int{large: 3 << 20, small: 1 << 20} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "table"), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := newDiskWatch(dir, 4096, diskStore{large, 2 << 20}, diskStore{small, 2 << 20}, diskStore{filepath.Join(dir, "absent"), 1})
	if err != nil {
		t.Fatal(err)
	}
	if low, got := uint64(4096+3<<20), w.keep(0); got < low || got > low+64<<10 {
		t.Errorf("%d bytes are kept, want %d and a little", got, low)
	}
	if more := w.keep(3) - w.keep(0); more != 3*eventCost {
		t.Errorf("3 waiting events keep %d bytes more, want %d", more, 3*eventCost)
	}
}
