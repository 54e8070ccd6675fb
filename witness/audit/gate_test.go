package audit_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/ledger/tiles"
	"counterfoil/projections/leaftest"
	"counterfoil/witness/audit"
)

func (l *ledgerLog) note() []byte {
	l.t.Helper()
	b, err := os.ReadFile(l.file(tiles.Path{Kind: tiles.Checkpoint}))
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

func openGate(t *testing.T, dir string, l *ledgerLog, src tiles.Source, allow uint64, wait time.Duration) *audit.Gate {
	t.Helper()
	g, err := audit.OpenGate(audit.GateConfig{Dir: dir, Wait: wait, Now: time.Now,
		Logs: []audit.GateLog{{Source: src, Trust: l.trust(), AllowParked: allow}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() }) // a test may have closed it
	return g
}

func TestLOG11_GateLetsOnlyAuditedTreesThrough(t *testing.T) {
	leaves := story(1000)
	l := newLog(t)
	dir := t.TempDir()
	g := openGate(t, dir, l, tiles.Dir(l.dir), 0, time.Minute)
	check := func() error { return g.Check(t.Context(), leaftest.Origin, l.note()) }
	l.add()
	if err := check(); err != nil {
		t.Errorf("the empty tree: %v", err)
	}
	var early []byte
	for _, n := range []int{1, 300, 300, 999} {
		if at := int(l.log.Size()); at < n {
			l.add(leaves[at:n]...)
		}
		if err := check(); err != nil {
			t.Errorf("at %d: %v", n, err)
		}
		if n == 300 {
			early = l.note()
		}
	}
	if err := g.Check(t.Context(), leaftest.Origin, early); err != nil {
		t.Errorf("a beginning of what was audited: %v", err)
	}
	if err := g.Check(t.Context(), "other.example/log", early); !errors.Is(err, audit.ErrNoGateLog) {
		t.Errorf("another log: %v", err)
	}
	// A fork, smaller, of the same size, and larger: none passes.
	for _, n := range []int{300, 999, 1200} {
		fork := l.fork().add(append([][]byte{leaftest.Leaf(leaftest.Begin("other", nil))}, story(n)...)[:n]...)
		err := g.Check(t.Context(), leaftest.Origin, fork.note())
		var refused *audit.Refused
		if n != 1200 && !errors.As(err, &refused) || err == nil {
			t.Errorf("a fork of %d leaves: %v", n, err)
		}
	}
	// A restart reads no leaf again.
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	bare := t.TempDir()
	if err := os.CopyFS(bare, os.DirFS(l.dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(bare, "tile", "entries", "000")); err != nil {
		t.Fatal(err)
	}
	g = openGate(t, dir, l, tiles.Dir(bare), 0, time.Minute)
	if err := check(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	// One bad leaf, and none of the trees that hold it passes.
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	g = openGate(t, dir, l, tiles.Dir(l.dir), 0, time.Minute)
	l.add(leaftest.LeafBy(leaftest.Other, leaftest.Begin("forged", nil)))
	for _, name := range []string{"one", "two"} {
		var refused *audit.Refused
		if err := check(); !errors.As(err, &refused) || !strings.Contains(err.Error(), "bad_signature") || !strings.Contains(err.Error(), "leaf 999") {
			t.Errorf("a bad leaf: %v", err)
		}
		l.add(leaftest.Leaf(leaftest.Begin(name, nil)))
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	g = openGate(t, dir, l, tiles.Dir(l.dir), 1, time.Minute)
	l.add(leaftest.Leaf(leaftest.Begin("later", nil)))
	if err := check(); err != nil {
		t.Errorf("with one bad leaf accepted: %v", err)
	}
}

// A log that does not answer holds nobody up, and an audit that takes longer than a
// request goes on behind it.
func TestGateNeverWaitsForLong(t *testing.T) {
	l := newLog(t).add(story(600)...)
	release := make(chan struct{})
	var once sync.Once
	let := func() { once.Do(func() { close(release) }) }
	defer let()
	var cfg audit.Config
	serve(t, l, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/tile/entries") {
			<-release
		}
		return false
	})(&cfg)
	g := openGate(t, t.TempDir(), l, cfg.Source, 0, 10*time.Millisecond)
	for range 3 {
		if err := g.Check(t.Context(), leaftest.Origin, l.note()); !errors.Is(err, audit.ErrPending) {
			t.Fatalf("got %v", err)
		}
	}
	let()
	for {
		err := g.Check(t.Context(), leaftest.Origin, l.note())
		if err == nil {
			break
		}
		if !errors.Is(err, audit.ErrPending) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestGateUnderManyRequests(t *testing.T) {
	l := newLog(t)
	g := openGate(t, t.TempDir(), l, tiles.Dir(l.dir), 0, time.Minute)
	var notes [][]byte
	leaves := story(1000)
	for n := 100; n <= 1000; n += 100 {
		notes = append(notes, l.add(leaves[n-100:n]...).note())
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			err := g.Check(context.Background(), leaftest.Origin, notes[i*7%10])
			if err != nil && !errors.Is(err, audit.ErrPending) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := g.Check(t.Context(), leaftest.Origin, notes[9]); err != nil {
		t.Error(err)
	}
}

func TestGateRefusesItsConfiguration(t *testing.T) {
	l := newLog(t)
	one := audit.GateLog{Source: tiles.Dir(l.dir), Trust: l.trust()}
	if _, err := audit.OpenGate(audit.GateConfig{Dir: t.TempDir(), Logs: []audit.GateLog{one, one}}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("got %v", err)
	}
	var many []audit.GateLog
	for range audit.MaxGateLogs + 1 {
		many = append(many, one)
	}
	if _, err := audit.OpenGate(audit.GateConfig{Dir: t.TempDir(), Logs: many}); err == nil {
		t.Error("too many logs were accepted")
	}
}
