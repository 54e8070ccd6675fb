package app_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/app"
)

// refusedStart is the error of a start that must fail.
func refusedStart(t *testing.T, cfg app.Config) string {
	t.Helper()
	s, err := app.Start(context.Background(), cfg)
	if err == nil {
		_ = s.Stop(context.Background())
		t.Fatal("it starts")
	}
	return err.Error()
}

// TestPreparedAlone: a directory that was prepared for a node is not started without
// the flags of one, and stays as it was.
func TestPreparedAlone(t *testing.T) {
	ns := newNodes(t)
	for i := range 2 {
		cfg := ns.config(i)
		cfg.Cluster = nil
		if got := refusedStart(t, cfg); !strings.Contains(got, "--cluster-name NAME --node NAME") {
			t.Errorf("node %d: %s", i+1, got)
		}
		if _, err := os.Stat(filepath.Join(ns.data(i), "stream")); err == nil {
			t.Error("a stream was made")
		}
	}
}

// TestPartOfANode: a node of whose directory a part is gone says how it joins anew.
func TestPartOfANode(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes take seconds to start")
	}
	ns := threeNodes(t)
	ns.all[0].begin("call")
	ns.settled(1)
	w := (ns.signer() + 1) % 3
	ns.stop(w)
	for _, part := range []string{"vault", "guard", "log"} {
		from, to := filepath.Join(ns.data(w), part), filepath.Join(ns.dir, "kept")
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
		if got := refusedStart(t, ns.config(w)); !strings.Contains(got, "if the other nodes are whole, delete everything but ledger.json, keys/, tokens and node.json") {
			t.Errorf("without %s: %s", part, got)
		}
		if err := os.RemoveAll(from); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(to, from); err != nil {
			t.Fatal(err)
		}
	}
	ns.start(w)
	ns.settled(1)
}
