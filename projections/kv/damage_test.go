package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLOG05_DamagedViewsStartAgain breaks each file of a database in turn. Views
// are derived: they must come back, whole or empty, and never half.
func TestLOG05_DamagedViewsStartAgain(t *testing.T) {
	for _, damage := range []string{"MANIFEST", ".mem", "KEYREGISTRY", "current", "generation"} {
		t.Run(damage, func(t *testing.T) {
			dir := t.TempDir()
			db := open(t, config(dir))
			b := begin(t, db)
			set(t, b, "k", strings.Repeat("v", 1000))
			commit(t, b, 1)
			gen := db.name
			if damage != ".mem" {
				_ = db.Close()
			} else if err := db.db.Sync(); err != nil {
				t.Fatal(err)
			}
			hit := 0
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || !strings.HasSuffix(d.Name(), damage) {
					return err
				}
				if damage == ".mem" { // a copy, as if the process had been killed
					path = filepath.Join(t.TempDir(), d.Name())
				}
				hit++
				return os.WriteFile(path, []byte("garbage garbage garbage"), 0o600)
			})
			if err != nil {
				t.Fatal(err)
			}
			if damage == "generation" {
				hit++
				if err := os.RemoveAll(filepath.Join(dir, gen)); err != nil {
					t.Fatal(err)
				}
			}
			if hit == 0 {
				t.Fatal("nothing was damaged")
			}
			if damage == ".mem" {
				_ = db.Close()
			}
			db = open(t, config(dir))
			c, err := db.Cursor()
			if err != nil {
				t.Fatal(err)
			}
			got := rows(t, db, "k")
			if whole := c.Size == 1 && len(got) == 1; !whole && (c.Size != 0 || got != nil || db.Fresh() == "") {
				t.Errorf("cursor at %d with %d rows, fresh %q", c.Size, len(got), db.Fresh())
			}
			b = begin(t, db)
			set(t, b, "k", "again")
			commit(t, b, 2)
		})
	}
}

// TestLOG05_ViewsThatKillTheProcessAreGivenUp: Badger panics in its own goroutine
// on a block that says it has more entries than bytes. The process may fall a few
// times, then it heals.
func TestLOG05_ViewsThatKillTheProcessAreGivenUp(t *testing.T) {
	dir := t.TempDir()
	db := open(t, config(dir))
	b := begin(t, db)
	set(t, b, "k", "v")
	commit(t, b, 1)
	_ = db.Close()
	tables, err := filepath.Glob(filepath.Join(dir, db.name, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no tables", err)
	}
	table, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	// … last block: entries, their number, checksum, its length | index, its length,
	// checksum, its length
	at := len(table) - 4
	at -= int(binary.BigEndian.Uint32(table[at:])) + 4
	at -= int(binary.BigEndian.Uint32(table[at:]))
	copy(table[at-9:at], []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1})
	if err := os.WriteFile(tables[0], table, 0o600); err != nil {
		t.Fatal(err)
	}
	falls := 0
	for ; falls <= openingTries; falls++ {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		if cmd.Run() == nil {
			break
		}
	}
	if falls == 0 || falls > openingTries {
		t.Errorf("the process fell %d times, want 1 to %d", falls, openingTries)
	}
	db = open(t, config(dir))
	if c, err := db.Cursor(); err != nil || c.Size != 0 {
		t.Errorf("cursor %+v, %v", c, err)
	}
	if _, err := os.Stat(filepath.Join(dir, openingFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the count is still there: %v", err)
	}
}

// TestLOG05_AFlippedBitIsAnErrorNotAnAnswer flips each of some bits of a table.
func TestLOG05_AFlippedBitIsAnErrorNotAnAnswer(t *testing.T) {
	dir := t.TempDir()
	db := open(t, config(dir))
	b := begin(t, db)
	for i := range 200 {
		set(t, b, fmt.Sprintf("k%03d", i), strings.Repeat("v", 100))
	}
	commit(t, b, 1)
	_ = db.Close()
	tables, err := filepath.Glob(filepath.Join(dir, db.name, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no tables", err)
	}
	whole, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	if db = open(t, config(dir)); db.Verify() != nil {
		t.Fatal("whole tables do not verify")
	}
	_ = db.Close()
	at := bytes.Index(whole, []byte(strings.Repeat("v", 100)))
	for _, off := range []int{at, at + 99, at + 100, at + 2000} { // values, and the checksum of a row
		bad := slices.Clone(whole)
		bad[off] ^= 1
		if err := os.WriteFile(tables[0], bad, 0o600); err != nil {
			t.Fatal(err)
		}
		db := open(t, config(dir))
		damaged, s := 0, snapshot(t, db)
		for i := range 200 {
			v, err := s.Get(fmt.Appendf(nil, "k%03d", i))
			switch {
			case errors.Is(err, ErrDamaged):
				damaged++
			case err != nil || string(v) != strings.Repeat("v", 100):
				t.Errorf("offset %d: row %d is answered as %q, %v", off, i, v, err)
			}
		}
		listed, it := 0, s.Iter([]byte("k"), false)
		for ok := it.First(); ok; ok = it.Next() {
			if _, err := it.Value(); errors.Is(err, ErrDamaged) {
				listed++
			}
		}
		if damaged != 1 || listed != 1 {
			t.Errorf("offset %d: %d rows damaged, %d in the list; want 1", off, damaged, listed)
		}
		if _, err := s.Digest(t.Context(), 1); !errors.Is(err, ErrDamaged) {
			t.Errorf("offset %d: digest: %v", off, err)
		}
		s.Close()
		if err := db.Verify(); !errors.Is(err, ErrDamaged) {
			t.Errorf("offset %d: Verify: %v", off, err)
		}
		_ = db.Close()
	}
}
