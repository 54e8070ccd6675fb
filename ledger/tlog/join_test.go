package tlog

import (
	"context"
	"os"
	"strings"
	"testing"
)

func TestCLU10_JoinsWithAnEmptyLog(t *testing.T) {
	b := newBench(t).other(t)
	b.cfg.Join = false
	b.refused(ErrNoLog)
	b.cfg.Join = true
	l := b.open()
	if l.Size() != 0 || l.PublishedSize() != 0 {
		t.Errorf("size %d, published %d", l.Size(), l.PublishedSize())
	}
	if _, err := l.Publish(context.Background()); err != nil { // of no leaves, which is the same everywhere
		t.Error(err)
	}
	b.add(l, 5)
	if cp, err := l.Publish(context.Background()); err == nil || cp.Size != 0 {
		t.Errorf("Publish of a node that has not caught up: %d, %v", cp.Size, err)
	}
	b.add(l, 5)
	b.adopt(l, b.noteAt(10), 10)
	b.close(l)
	b.close(b.open()) // with the flag
	b.cfg.Join = false
	b.close(b.open()) // and without
	b.fsck()
}

// A log or a guard without the other is no log to join with.
func TestCLU10_JoinAdoptsNothingThatIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(b *bench)
		want   error
	}{
		"no guard":       {func(b *bench) { b.remove("guard", guardFile) }, ErrNoGuard},
		"guard alone":    {func(b *bench) { b.remove("log") }, ErrRolledBack},
		"no state":       {func(b *bench) { b.remove("log", stateFile) }, ErrRolledBack},
		"only the tiles": {func(b *bench) { b.remove("guard", guardFile); b.remove("log", ".state"); b.remove("log", "checkpoint") }, ErrNoGuard},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t).other(t)
			l := b.open()
			b.add(l, 5)
			b.adopt(l, b.noteAt(5), 5)
			b.close(l)
			c.damage(b)
			b.refused(c.want)
		})
	}
}

// Joining that was cut off after any of its steps is completed, as a first start is.
func TestCLU10_JoinCutOff(t *testing.T) {
	for _, remove := range [][]string{{"log"}, {"log/.state/version", "log/.state/treeState", "log/checkpoint"}, {"log/.state/treeState", "log/checkpoint"}, {"log/checkpoint"}} {
		b := newBench(t).other(t)
		b.close(b.open())
		for _, name := range remove {
			b.remove(name)
		}
		b.cfg.Join = false
		l := b.open()
		b.add(l, 5)
		b.adopt(l, b.noteAt(5), 5)
		b.close(l)
		b.fsck()
	}
	b := newBench(t).other(t)
	b.cfg.files = (&faultyFiles{name: guardFile, next: failedNotKept}).files()
	if _, err := Open(context.Background(), b.cfg); err == nil {
		t.Error("Open succeeded without a guard")
	}
	if _, err := os.Stat(b.path("log")); err == nil {
		t.Error("there is a log although its guard could not be stored")
	}
	b.close(b.open())
}

func TestCLU10_JoinNeedsAFence(t *testing.T) {
	b := newBench(t).other(t)
	b.cfg.Fence, b.cfg.Create = nil, true
	_, err := Open(context.Background(), b.cfg)
	for _, what := range []string{"without a fence", "both set"} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v does not say %q", err, what)
		}
	}
}
