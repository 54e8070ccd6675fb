package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func journalPath(cfg Config) string { return filepath.Join(cfg.Dir, journalName) }
func guardPath(cfg Config) string   { return filepath.Join(cfg.GuardDir, guardName) }

func TestLOG09_RefusesAnOlderCopyOfTheState(t *testing.T) {
	cfg := config(t)
	s := mustOpen(t, cfg)
	addLogs(t, s, a)
	mustSet(t, s, latest(t, a, 5, "x", 10))
	old := read(t, journalPath(cfg))
	mustSet(t, s, latest(t, a, 9, "x", 11))
	_ = s.Close()
	newest := read(t, journalPath(cfg))
	guard := read(t, guardPath(cfg))

	write(t, journalPath(cfg), old)
	wantRefused(t, cfg, ErrRolledBack)
	if _, err := Open(cfg); !strings.Contains(err.Error(), "update 2") || !strings.Contains(err.Error(), "update 3") {
		t.Errorf("it does not say how far: %v", err)
	}
	write(t, journalPath(cfg), newest)
	if !bytes.Equal(read(t, guardPath(cfg)), guard) {
		t.Error("a refused start changed the guard")
	}
	s = mustOpen(t, cfg)
	wantLatest(t, s, latest(t, a, 9, "x", 11))
}

func TestLOG09_RefusesALostState(t *testing.T) {
	made := func() Config {
		cfg := config(t)
		s := mustOpen(t, cfg)
		addLogs(t, s, a)
		mustSet(t, s, latest(t, a, 5, "x", 10))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	remove := func(paths ...string) {
		for _, p := range paths {
			if err := os.RemoveAll(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	cfg := made()
	remove(journalPath(cfg))
	wantRefused(t, cfg, ErrRolledBack)

	cfg = made()
	remove(guardPath(cfg))
	wantRefused(t, cfg, ErrGuard)

	cfg = made()
	remove(cfg.Dir, cfg.GuardDir) // the marker beside the key remains
	wantRefused(t, cfg, ErrOtherKey)
	cfg.Markers = nil
	mustOpen(t, cfg) // this is what cannot be noticed

	cfg = made()
	cfg.Dir, cfg.GuardDir = filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "g")
	wantRefused(t, cfg, ErrOtherKey) // a second state for one key

	cfg = made()
	cfg.Witness = witnessKey(t, "other.example")
	wantRefused(t, cfg, ErrOtherKey)

	// A second key binds itself to the state too, and is good for no other.
	other := made()
	cfg = made()
	cfg.Markers = append(cfg.Markers, filepath.Join(filepath.Dir(cfg.Markers[0]), "second.state"))
	_ = mustOpen(t, cfg).Close()
	_ = mustOpen(t, cfg).Close()
	third := filepath.Join(filepath.Dir(cfg.Markers[0]), "third.state")
	other.Markers = []string{other.Markers[0], third, cfg.Markers[1]}
	wantRefused(t, other, ErrOtherKey)
	if _, err := os.Stat(third); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a key was bound by a start that was refused: %v", err)
	}
	fresh := config(t)
	fresh.Markers = append(fresh.Markers, cfg.Markers[1])
	wantRefused(t, fresh, ErrOtherKey)

	one, two := made(), made()
	one.Dir = two.Dir
	wantRefused(t, one, ErrGuard)
	two.GuardDir, one.GuardDir = one.GuardDir, two.GuardDir
	wantRefused(t, two, ErrGuard)

	cfg = made()
	write(t, guardPath(cfg), []byte("nonsense"))
	wantRefused(t, cfg, ErrGuard)
}

func TestLOG09_RefusesAnotherHistoryUnderTheSameGuard(t *testing.T) {
	cfg := config(t)
	s := mustOpen(t, cfg)
	addLogs(t, s, a)
	mustSet(t, s, latest(t, a, 5, "x", 10))
	fork, forkGuard := read(t, journalPath(cfg)), read(t, guardPath(cfg))
	mustSet(t, s, latest(t, a, 9, "x", 11))
	_ = s.Close()
	journal, guard := read(t, journalPath(cfg)), read(t, guardPath(cfg))

	write(t, journalPath(cfg), fork)
	write(t, guardPath(cfg), forkGuard)
	s = mustOpen(t, cfg) // both at once: not noticed, as documented
	mustSet(t, s, latest(t, a, 9, "y", 11))
	_ = s.Close()
	write(t, guardPath(cfg), guard)
	wantRefused(t, cfg, ErrGuard)
	write(t, journalPath(cfg), journal)
	mustOpen(t, cfg)
}

func TestLOG09_OneProcessHoldsTheState(t *testing.T) {
	cfg := config(t)
	mustOpen(t, cfg)
	wantRefused(t, cfg, ErrInUse)
}

// stopAfter makes a store whose nth step of the kind fails, before or after it
// takes effect.
func stopAt(t *testing.T, cfg Config, at step, after bool) *Store {
	t.Helper()
	armed := false
	s, err := open(cfg, func(st step, op func() error) error {
		if st != at || !armed {
			return op()
		}
		if after {
			if err := op(); err != nil {
				return err
			}
		}
		return errors.New("injected")
	})
	if err != nil {
		t.Fatal(err)
	}
	armed = true
	s.journal.compactAt = 0
	if at != stepCompact {
		s.journal.compactAt = 1 << 40
	}
	go s.run()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestLOG09_EveryStepFailsBeforeAndAfter(t *testing.T) {
	for _, at := range []step{stepWriteJournal, stepSyncJournal, stepWriteGuard, stepSyncGuard, stepCompact} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(at, ", kept ", after), func(t *testing.T) {
				cfg := config(t)
				s := mustOpen(t, cfg)
				addLogs(t, s, a)
				before, next := latest(t, a, 5, "x", 10), latest(t, a, 9, "x", 11)
				mustSet(t, s, before)
				_ = s.Close()

				s = stopAt(t, cfg, at, after)
				if err := set(s, next); !errors.Is(err, ErrStopped) {
					t.Fatalf("got %v", err)
				}
				select {
				case <-s.Failed():
				default:
					t.Error("not said to have failed")
				}
				if err := set(s, latest(t, a, 12, "x", 12)); !errors.Is(err, ErrStopped) {
					t.Errorf("one more update: %v", err)
				}
				_ = s.Close()

				s = mustOpen(t, cfg)
				got, _ := s.Latest(a)
				written := at != stepWriteJournal || after
				switch {
				case written && got != next, !written && got != before:
					t.Errorf("found %+v", got)
				}
				mustSet(t, s, latest(t, a, 12, "x", 12))
			})
		}
	}
}

// TestLOG09_AnUnfinishedEndIsCut: a power loss can leave any beginning of the
// last write. Nobody was told of it.
func TestLOG09_AnUnfinishedEndIsCut(t *testing.T) {
	cfg := config(t)
	s := mustOpen(t, cfg)
	addLogs(t, s, a)
	before, next := latest(t, a, 5, "x", 10), latest(t, a, 9, "x", 11)
	mustSet(t, s, before)
	_ = s.Close()
	whole := len(read(t, journalPath(cfg)))
	s = stopAt(t, cfg, stepWriteGuard, false)
	if err := set(s, next); err == nil {
		t.Fatal("stored")
	}
	_ = s.Close()
	journal, guard := read(t, journalPath(cfg)), read(t, guardPath(cfg))
	for cut := whole; cut <= len(journal); cut += 7 {
		for _, tail := range []string{"", "\x00\x00\x00", "garbage\n"} {
			write(t, journalPath(cfg), append(bytes.Clone(journal[:cut]), tail...))
			write(t, guardPath(cfg), guard)
			s := mustOpen(t, cfg)
			wantLatest(t, s, before)
			mustSet(t, s, latest(t, a, 7, "z", 12))
			_ = s.Close()
			s = mustOpen(t, cfg)
			wantLatest(t, s, latest(t, a, 7, "z", 12))
			_ = s.Close()
			if cut == len(journal) {
				break
			}
		}
	}
	write(t, journalPath(cfg), journal)
	write(t, guardPath(cfg), guard)
	wantLatest(t, mustOpen(t, cfg), next)
}

func TestLOG09_DamageBeforeTheMarkIsRefused(t *testing.T) {
	cfg := config(t)
	s := mustOpen(t, cfg)
	addLogs(t, s, a)
	for i := range uint64(3) {
		mustSet(t, s, latest(t, a, i, "x", i))
	}
	_ = s.Close()
	journal := read(t, journalPath(cfg))
	for at := 0; at < len(journal); at += 13 {
		bad := bytes.Clone(journal)
		bad[at] ^= 1
		write(t, journalPath(cfg), bad)
		s, err := Open(cfg)
		if err == nil {
			_ = s.Close()
			t.Fatalf("byte %d of %d: opened", at, len(journal))
		}
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrGuard) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

func TestLOG09_OneSlotOfTheGuardMayBeTorn(t *testing.T) {
	cfg := config(t)
	s := mustOpen(t, cfg)
	addLogs(t, s, a)
	mustSet(t, s, latest(t, a, 5, "x", 10))
	_ = s.Close()
	guard := read(t, guardPath(cfg))
	for _, at := range []int{40, slotDistance + 40} {
		bad := bytes.Clone(guard)
		bad[at] ^= 1
		write(t, guardPath(cfg), bad)
		s := mustOpen(t, cfg)
		wantLatest(t, s, latest(t, a, 5, "x", 10))
		_ = s.Close()
	}
}

func TestLOG09_CompactionKeepsTheState(t *testing.T) {
	cfg := config(t)
	s := mustOpen(t, cfg)
	addLogs(t, s, a, b)
	_ = s.Close()
	s, err := open(cfg, func(_ step, op func() error) error { return op() })
	if err != nil {
		t.Fatal(err)
	}
	s.journal.compactAt = 4 << 10
	go s.run()
	t.Cleanup(func() { _ = s.Close() })
	var before, guardBefore []byte
	for i := range uint64(200) {
		mustSet(t, s, latest(t, a, i, "x", i))
		if i == 5 {
			before, guardBefore = read(t, journalPath(cfg)), read(t, guardPath(cfg))
		}
	}
	mustSet(t, s, latest(t, b, 3, "x", 3))
	if n := len(read(t, journalPath(cfg))); n > 32<<10 {
		t.Errorf("the journal has %d bytes", n)
	}
	_ = s.Close()
	s = mustOpen(t, cfg)
	wantLatest(t, s, latest(t, a, 199, "x", 199))
	wantLatest(t, s, latest(t, b, 3, "x", 3))
	mustSet(t, s, latest(t, a, 200, "x", 200))
	_ = s.Close()
	journal, guard := read(t, journalPath(cfg)), read(t, guardPath(cfg))
	write(t, journalPath(cfg), before)
	wantRefused(t, cfg, ErrRolledBack)
	write(t, journalPath(cfg), journal)
	write(t, guardPath(cfg), guardBefore)
	wantRefused(t, cfg, ErrGuard)
	write(t, guardPath(cfg), guard)
	wantLatest(t, mustOpen(t, cfg), latest(t, a, 200, "x", 200))
}

func TestLOG09_AGuardFarBehindIsRefused(t *testing.T) {
	cfg := config(t)
	s := mustOpen(t, cfg)
	addLogs(t, s, a)
	_ = s.Close()
	guard := read(t, guardPath(cfg))
	s = mustOpen(t, cfg)
	_, k := logKey(t, a)
	var list []Log
	for i := range maxBatch + 1 {
		list = append(list, Log{Key: k, Origin: fmt.Sprint("log ", i), QPD: 1, Contact: "c"})
	}
	if _, err := s.Import(list); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	write(t, guardPath(cfg), guard)
	wantRefused(t, cfg, ErrGuard)
}
