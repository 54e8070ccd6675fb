package app_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/app"
	"counterfoil/internal/testkit/fsck"
	"counterfoil/ledger/keyring"
	"counterfoil/ledger/tlog"
	"counterfoil/ledger/tlog/fetch"
)

// fetchLog runs node fetch on a node that is stopped.
func (ns *nodes) fetchLog(i int, from ...string) (*app.Fetched, error) {
	cfg := app.Config{Dir: ns.data(i)}
	startable(&cfg)
	return app.FetchLog(context.Background(), cfg, from, func(uint64, uint64) {})
}

func (ns *nodes) fetched(i int, had, size uint64, from ...string) {
	ns.t.Helper()
	f, err := ns.fetchLog(i, from...)
	if err != nil || f.Had != had || f.Size != size {
		ns.t.Fatalf("fetch: %+v, %v", f, err)
	}
	ns.fsck(i)
}

// fsck checks a node's log with Tessera's own checker.
func (ns *nodes) fsck(i int) {
	ns.t.Helper()
	keys := ns.keys(i)
	fsck.Check(ns.t, filepath.Join(ns.data(i), "log"), keys.Log().Name(), keys.LogVerifierKey())
}

func (ns *nodes) keys(i int) *keyring.Keyring {
	ns.t.Helper()
	keys, err := keyring.Open(keyring.Config{Dir: filepath.Join(ns.data(i), "keys"), Origin: "example.com/three", ReadOnly: true})
	if err != nil {
		ns.t.Fatal(err)
	}
	return keys
}

// fork gives an emptied node a log of the same keys with other leaves.
func (ns *nodes) fork(i int, leaves ...string) {
	ns.t.Helper()
	keys, ctx := ns.keys(i), context.Background()
	log, err := tlog.Open(ctx, tlog.Config{Dir: filepath.Join(ns.data(i), "log"), GuardDir: filepath.Join(ns.data(i), "guard"),
		Origin: keys.Log().Name(), Signer: keys.Log(), VerifierKey: keys.LogVerifierKey(), Create: true, CheckLeaf: func(uint64, []byte) error { return nil }})
	if err != nil {
		ns.t.Fatal(err)
	}
	for _, leaf := range leaves {
		if _, err := log.Append(ctx, [][]byte{[]byte(leaf)}); err != nil {
			ns.t.Fatal(err)
		}
	}
	if _, err := log.Publish(ctx); err != nil {
		ns.t.Fatal(err)
	}
	if err := log.Close(ctx); err != nil {
		ns.t.Fatal(err)
	}
}

// TestCLU11_EmptiedNodeFetchesItsLog: a node that lost everything but its keys takes
// its log from the tiles of another, and everything else as ever.
func TestCLU11_EmptiedNodeFetchesItsLog(t *testing.T) {
	ns := threeNodes(t)
	id := ns.all[0].kept("kept", `{"secret":"of the attempt"}`)
	ns.all[0].fill("call", 700)
	ns.settled(701)
	w := (ns.signer() + 1) % 3
	ns.stop(w)
	ns.wipe(w)
	other := ns.all[(w+1)%3]
	ns.fetched(w, 0, 701, other.Ready.Listening)
	other.begin("meanwhile")
	ns.settled(702)
	ns.fetched(w, 701, 702, "http://127.0.0.1:1", other.Ready.Listening)
	if _, err := ns.fetchLog(w, "http://127.0.0.1:1"); err == nil {
		t.Error("fetched from nobody")
	}
	ns.start(w)
	ns.settled(702)
	if code := ns.all[w].repeat("kept", `{"secret":"of the attempt"}`); code != http.StatusOK {
		t.Errorf("the same again on the node that came back: %d", code)
	}
	ns.all[w].begin("afterwards")
	ns.settled(703)
	ns.all[w].verified(ns.all[w].get("/v1/attempts/" + id + "/bundle"))
	if _, err := os.Stat(filepath.Join(ns.data(w), "fetched")); err == nil {
		t.Error("the note that private values are to come is still there")
	}
}

// TestCLU11_StreamLostAndNodeEmptied: the stream is gone on all nodes and one of them
// is empty as well: it takes its log from another's tiles, and its private values wait
// for the vault of a node that has one.
func TestCLU11_StreamLostAndNodeEmptied(t *testing.T) {
	ns := threeNodes(t)
	id := ns.all[0].kept("kept", `{"secret":"of the attempt"}`)
	ns.all[0].fill("call", 300)
	ns.settled(301)
	const w = 0 // the first by name, which would repair what all lost
	serving := (w + 1) % 3
	for i := range ns.all {
		if i != serving {
			ns.stop(i)
		}
	}
	ns.wipe(w)
	ns.fetched(w, 0, 301, ns.all[serving].Ready.Listening)
	ns.stop(serving)
	for i := range ns.all {
		if err := os.RemoveAll(filepath.Join(ns.data(i), "cluster")); err != nil {
			t.Fatal(err)
		}
	}
	ns.start(0, 1, 2)
	ns.settled(301)
	for i, l := range ns.all {
		if code := l.repeat("kept", `{"secret":"of the attempt"}`); code != http.StatusOK {
			t.Errorf("node %d: the same again: %d", i+1, code)
		}
		if code := l.repeat("kept", `{"secret":"another"}`); code != http.StatusConflict {
			t.Errorf("node %d: another content: %d", i+1, code)
		}
		l.begin(fmt.Sprint("afterwards ", i))
	}
	ns.settled(304)
	ns.all[w].verified(ns.all[w].get("/v1/attempts/" + id + "/bundle"))
}

// TestCLU11_FetchStopsAtAnotherLeaf: a log of the same keys with another leaf is
// refused, with both digests and the place.
func TestCLU11_FetchStopsAtAnotherLeaf(t *testing.T) {
	ns := threeNodes(t)
	ns.all[0].fill("call", 20)
	ns.settled(20)
	const w = 2
	ns.stop(w)
	ns.wipe(w)
	ns.fork(w, "not what the others have", "nor this")
	_, err := ns.fetchLog(w, ns.all[0].Ready.Listening)
	var differ *fetch.DifferError
	if !errors.As(err, &differ) || differ.Index != 0 || differ.Own == differ.Signed {
		t.Errorf("%v", err)
	}
	if !errors.Is(err, tlog.ErrDisagrees) {
		t.Errorf("%v", err)
	}
}

// TestCLU11_FetchAsksForCosignatures: with a policy the checkpoint must have those of a
// quorum, and another log's or an unsigned one never counts.
func TestCLU11_FetchAsksForCosignatures(t *testing.T) {
	h := newHome(t)
	out := filepath.Join(t.TempDir(), "node")
	cfg := app.Config{Dir: h.dir}
	startable(&cfg)
	if _, err := app.PrepareNodes(cfg, []string{out}); err != nil {
		t.Fatal(err)
	}
	w, other := newWitness(t, "witness.example/a", h.log), newWitness(t, "witness.example/b", h.log)
	l := h.start(t, 1, w)
	l.fill("first", 300)
	until(func() bool { return w.size(h.log.Name) == 300 })
	until(func() bool {
		code, _ := l.raw("GET", "/log/checkpoint.witnessed", nil, "")
		return code == http.StatusOK
	})
	stranger := newLedger(t)
	stranger.fill("other", 5)

	cfg = app.Config{Dir: out}
	startable(&cfg)
	take := func(policy string, from ...string) (*app.Fetched, error) {
		cfg.WitnessPolicy = policy
		return app.FetchLog(context.Background(), cfg, from, func(uint64, uint64) {})
	}
	if _, err := take(h.policy(t, 2, w, other), l.Ready.Listening); err == nil || !strings.Contains(err.Error(), "has no quorum") {
		t.Errorf("without a quorum: %v", err)
	}
	if _, err := take("", stranger.Ready.Listening); err == nil || !strings.Contains(err.Error(), "not signed by") {
		t.Errorf("another log: %v", err)
	}
	if f, err := take(h.policy(t, 1, w, other), stranger.Ready.Listening, l.Ready.Listening); err != nil || f.Size != 300 || f.Cosigned == "" || f.From != l.Ready.Listening {
		t.Errorf("with a quorum: %+v, %v", f, err)
	}
	if f, err := take("", l.Ready.Listening); err != nil || f.Had != 300 || f.Size != 300 || f.Cosigned != "" {
		t.Errorf("again: %+v, %v", f, err)
	}
}
