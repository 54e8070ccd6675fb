package tlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

func TestINV4_FirstStart(t *testing.T) {
	b := newBench(t)
	b.cfg.Create = false
	b.refused(ErrNoLog)
	b.cfg.Dir = b.path("no/such/parent/log")
	if _, err := Open(context.Background(), b.cfg); !errors.Is(err, ErrNoLog) {
		t.Errorf("got %v, expected %v", err, ErrNoLog)
	}
	b.cfg.Dir = b.path("log")

	b.cfg.Create = true
	signer := b.watch()
	signer.see = func(text string) error {
		if _, err := os.Stat(b.path("guard", guardFile)); err != nil {
			return fmt.Errorf("a signature is asked for before the guard is stored: %w", err)
		}
		return nil
	}
	l := b.open()
	if want := []string{checkpointText(origin, emptyTree())}; len(signer.all) != 1 || signer.all[0] != want[0] {
		t.Errorf("signed %q, expected %q", signer.all, want)
	}
	if cp := l.Checkpoint(); cp.Size != 0 || !bytes.Equal(cp.Note, b.read("log", "checkpoint")) || cp.Root != emptyTree().root {
		t.Errorf("checkpoint %+v", cp)
	}
	b.add(l, 3)
	b.publish(l)
	b.close(l)
	b.fsck()
}

// A first start may be cut off after any of its steps, and is then completed
// even without Create.
func TestINV4_FirstStartCutOff(t *testing.T) {
	master := newBench(t)
	master.close(master.open())
	for step, remove := range []string{"log", "log/.state/version", "log/.state/treeState", "log/checkpoint"} {
		b := master.copyOf(t)
		b.cfg.Create = false
		b.remove(remove)
		if step < 2 { // neither is what comes after
			b.remove("log/.state/treeState")
		}
		if step < 3 {
			b.remove("log/checkpoint")
		}
		l := b.open()
		if l.Size() != 0 {
			t.Errorf("cut off before %s: size %d", remove, l.Size())
		}
		b.add(l, 5)
		b.publish(l)
		b.close(l)
		b.fsck()
	}
	for _, left := range []string{"log/checkpoint", "log/tile"} { // no step leaves these without a state
		b := master.copyOf(t)
		b.remove("log/.state/treeState")
		if left == "log/tile" {
			b.remove("log/checkpoint")
			must(t, os.MkdirAll(b.path(left), 0o755))
		}
		b.refused(ErrRolledBack)
	}
	b := newBench(t)
	b.cfg.files = (&faultyFiles{name: guardFile, next: failedNotKept}).files()
	if _, err := Open(context.Background(), b.cfg); !errors.Is(err, errDisk) {
		t.Errorf("got %v, expected %v", err, errDisk)
	}
	if _, err := os.Stat(b.path("log")); err == nil {
		t.Error("there is a log although its guard could not be stored")
	}
	b.close(b.open())
}

func TestOpenLocks(t *testing.T) {
	b := newBench(t)
	l := b.open()
	must(t, os.Symlink(b.path("log"), b.path("alias")))
	must(t, os.Symlink(b.dir, b.path("up")))
	for _, dir := range []string{b.path("log"), b.path("log") + "/", b.path("up/log"), b.path("alias"), b.path("guard/../log")} {
		again := b.cfg
		again.Dir, again.GuardDir = dir, b.path("guard2")
		if _, err := Open(context.Background(), again); !errors.Is(err, ErrLocked) {
			t.Errorf("Open of %s: %v, expected %v", dir, err, ErrLocked)
		}
	}
	if _, err := os.Stat(b.path("guard2")); err == nil {
		t.Error("an Open without the lock stored a guard record")
	}
	b.close(l)
	b.close(b.open())
}

func TestConfigNamesEveryProblem(t *testing.T) {
	_, err := Open(context.Background(), Config{})
	for _, name := range []string{"dir", "guardDir", "origin", "signer", "verifierKey", "checkLeaf"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, expected it to name %s", err, name)
		}
	}
	_, other, err := note.GenerateKey(rand.Reader, origin)
	must(t, err)
	for name, change := range map[string]func(*Config){
		"verifierKey is":   func(c *Config) { c.VerifierKey = other },
		"is inside dir":    func(c *Config) { c.GuardDir = c.Dir + "/guard" },
		"is inside dir ":   func(c *Config) { c.GuardDir = c.Dir },
		"has another name": func(c *Config) { c.Origin = "log.test/two" },
	} {
		b := newBench(t)
		change(&b.cfg)
		if _, err := Open(context.Background(), b.cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, expected it to say %q", err, name)
		}
	}
}

func TestOpenHonoursItsContext(t *testing.T) {
	b := damaged(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, b.cfg); !errors.Is(err, context.Canceled) || errors.Is(err, ErrTiles) {
		t.Errorf("got %v, expected context.Canceled alone", err)
	}
	b.close(b.open())
}
