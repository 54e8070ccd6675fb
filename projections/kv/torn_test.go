package kv

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLOG05_ATornLogLeavesWholeBatches cuts Badger's write-ahead log everywhere,
// as a power loss would, and opens what is left: rows and cursor are always those
// of one batch.
func TestLOG05_ATornLogLeavesWholeBatches(t *testing.T) {
	const batches, keys = 4, 30
	dir := t.TempDir()
	db := open(t, config(dir))
	value := func(i int) string { return fmt.Sprint("batch ", i) }
	for i := 1; i <= batches; i++ {
		b := begin(t, db)
		for k := range keys {
			set(t, b, fmt.Sprint("k", k), value(i))
		}
		commit(t, b, uint64(i))
	}
	if err := db.db.Sync(); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	wal := ""
	for _, pattern := range []string{"*", "*/*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			if b, err := os.ReadFile(p); err == nil { // not a directory
				name, _ := filepath.Rel(dir, p)
				if files[name] = b; strings.HasSuffix(name, ".mem") {
					wal = name
				}
			}
		}
	}
	if wal == "" {
		t.Fatal("no write-ahead log")
	}
	end := bytes.LastIndex(files[wal], []byte(value(batches))) + 200
	seen := map[uint64]bool{}
	for cut := 0; cut < end; cut += end / 45 {
		copied := filepath.Join(t.TempDir(), "views")
		for name, b := range files {
			p := filepath.Join(copied, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
				t.Fatal(err)
			}
			if name == wal {
				b = append(bytes.Clone(b[:cut]), make([]byte, len(b)-cut)...)
			}
			if err := os.WriteFile(p, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		torn := open(t, config(copied))
		c, err := torn.Cursor()
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if torn.Fresh() != "" {
			t.Errorf("cut at %d: views were dropped: %s", cut, torn.Fresh())
		}
		got := rows(t, torn, "k")
		if c.Size == 0 && len(got) != 0 || c.Size != 0 && len(got) != keys {
			t.Errorf("cut at %d: cursor at %d with %d rows", cut, c.Size, len(got))
		}
		for _, r := range got {
			if !strings.HasSuffix(r, "="+value(int(c.Size))) {
				t.Errorf("cut at %d: cursor at %d with row %q", cut, c.Size, r)
			}
		}
		seen[c.Size] = true
		_ = torn.Close()
	}
	if len(seen) != batches+1 {
		t.Errorf("cursors seen: %v, want each of 0 to %d", seen, batches)
	}
}
