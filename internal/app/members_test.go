package app_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/app"
)

// TestMistypedNode: a start of a prepared directory under a name too many is refused,
// and leaves the directory as it was; the vote that it left is taken back, after which
// the directory serves under its right name (LOG-01).
func TestMistypedNode(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes take seconds to start")
	}
	ns := threeNodes(t)
	ns.all[0].begin("before")
	ns.settled(1)
	w := (ns.signer() + 1) % 3
	ns.stop(w)
	ns.wipe(w)
	if err := os.Remove(filepath.Join(ns.data(w), "node.json")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg := ns.config(w)
	cfg.Cluster.Node = "slip"
	l := ns.all[(w+1)%3]
	members := func() int { return len(l.want(http.StatusOK, "GET", "/v1/cluster", nil)["members"].([]any)) }
	s, err := app.Start(ctx, cfg)
	if err == nil {
		t.Fatal("a fourth node started", s.Stop(ctx))
	} else if !strings.Contains(err.Error(), "counterfoil node remove slip") {
		t.Errorf("refused with %v", err)
	}
	for _, name := range []string{"node.json", "cluster", "log"} {
		if _, err := os.Stat(filepath.Join(ns.data(w), name)); err == nil {
			t.Errorf("the refused start left %s", name)
		}
	}
	path := func(name string) string { return "/v1/cluster/nodes/" + name + "/remove" }
	if code, _ := l.do("POST", path("n9"), nil); code != http.StatusNotFound {
		t.Errorf("removal of what is none: %d", code)
	}
	for i := range 3 { // one is away and keeps the stream, two run
		if code, out := l.do("POST", path(ns.config(i).Cluster.Node), nil); code != http.StatusConflict {
			t.Errorf("removal of node %d: %d %v", i+1, code, out)
		}
	}
	ns.start(w)

	// Such a start may be over before it is a member; this one goes on until it is.
	dir := filepath.Join(ns.dir, "fourth")
	from := app.Config{Dir: ns.data(0)}
	startable(&from)
	if _, err := app.PrepareNodes(from, []string{dir}); err != nil {
		t.Fatal(err)
	}
	cfg.Dir, cfg.Cluster.Listen, cfg.Cluster.Replicas = dir, freeAddresses(t, 1)[0], 5
	cfg.Cluster.Routes = ns.routes
	if s, err = app.Start(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	fourth := &ledger{t, s}
	t.Cleanup(fourth.stop)
	for deadline := time.Now().Add(time.Minute); members() != 4; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d members", members())
		}
	}
	if code, _ := l.do("POST", path("slip"), nil); code != http.StatusConflict {
		t.Errorf("removal of a node that runs: %d", code)
	}
	fourth.stop()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		code, out := l.do("POST", path("slip"), nil)
		if code == http.StatusOK {
			break
		}
		if code != http.StatusConflict && code != http.StatusServiceUnavailable || time.Now().After(deadline) {
			t.Fatalf("removal: %d %v", code, out)
		}
	}
	for deadline := time.Now().Add(time.Minute); members() != 3; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d members", members())
		}
	}
	for _, n := range l.want(http.StatusOK, "GET", "/v1/cluster", nil)["nodes"].([]any) {
		if n.(map[string]any)["name"] == "slip" {
			t.Error("the removed node is still listed")
		}
	}
	ns.settled(1)
}
