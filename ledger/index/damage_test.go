package index

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/event"
)

// TestLOG03_UnreadableFilesAreBuiltAgain damages the files of an index as kills
// and worse do. It opens, empty or with a prefix, and ends with the same rows.
func TestLOG03_UnreadableFilesAreBuiltAgain(t *testing.T) {
	const attempts = 40
	msgs := history(attempts)
	clean := open(t, t.TempDir())
	run(t, clean, msgs)
	want := dump(t, clean, attempts)
	if err := clean.Close(); err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) func(dir string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), b, 0o600) }
	}
	each := func(pattern string, b []byte) func(dir string) error {
		return func(dir string) error {
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(names) == 0 {
				return fmt.Errorf("no %s: %w", pattern, err)
			}
			for _, n := range names {
				if err := os.WriteFile(n, b, 0o600); err != nil {
					return err
				}
			}
			return nil
		}
	}
	garbage := bytes.Repeat([]byte("not a file of Badger "), 1000)
	for name, damage := range map[string]func(dir string) error{
		"empty log of a memory table":  write("00009.mem", nil),
		"empty value log":              write("000009.vlog", nil),
		"garbage log":                  write("00009.mem", garbage),
		"garbage value log":            each("*.vlog", garbage),
		"short value log":              each("*.vlog", garbage[:7]),
		"empty tables":                 each("*.sst", nil),
		"garbage tables":               each("*.sst", garbage),
		"tables of zeros":              each("*.sst", make([]byte, 1<<20)),
		"garbage manifest":             write("MANIFEST", garbage),
		"no manifest":                  func(dir string) error { return os.Remove(filepath.Join(dir, "MANIFEST")) },
		"empty manifest":               write("MANIFEST", nil),
		"garbage key registry":         write("KEYREGISTRY", garbage),
		"a file in place of the index": func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, garbage, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "index")
			x := open(t, dir)
			run(t, x, msgs[:len(msgs)/2])
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			x = open(t, dir)
			defer x.Close()
			seq, _ := x.Position()
			t.Logf("opens at %d", seq)
			run(t, x, msgs[seq:])
			if d := cmp.Diff(want, dump(t, x, attempts)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestLOG03_IndexInUseIsNotDeleted opens an index twice.
func TestLOG03_IndexInUseIsNotDeleted(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	run(t, x, history(3))
	if _, err := Open(x.cfg); err == nil || !strings.Contains(err.Error(), "lock") {
		t.Fatalf("opened twice: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, dir)
	defer x.Close()
	if seq, _ := x.Position(); seq == 0 {
		t.Error("the index was emptied while another had it open")
	}
}

// TestDUR06_FullDiskKeepsRowsInMemory: nothing is written and nothing fails; once
// there is space, everything is, also more than one transaction takes.
func TestDUR06_FullDiskKeepsRowsInMemory(t *testing.T) {
	const attempts = 9000
	msgs := history(attempts)
	dir := t.TempDir()
	cfg := Config{Dir: dir, Tenant: "default", Origin: "ledger.example", Logger: slog.New(slog.DiscardHandler), MinFree: math.MaxUint64,
		Check: func(*event.Record, []byte, uint64) error { return nil }}
	x, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, x, msgs)
	if x.written != 0 || x.dirty.bytes+x.flushing.bytes < 2_500_000 {
		t.Fatalf("written up to %d, %d bytes in memory; want nothing written and more than a transaction takes", x.written, x.dirty.bytes+x.flushing.bytes)
	}
	want := dump(t, x, attempts)
	x.cfg.MinFree = 1
	for range 2 { // the layer of the first failure, then the rest
		if err := x.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, dir)
	defer x.Close()
	if d := cmp.Diff(want, dump(t, x, attempts)); d != "" {
		t.Error(d)
	}
}
