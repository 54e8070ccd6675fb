package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/internal/testkit/freeport"
)

// nodes are three nodes of one ledger in this process.
type nodes struct {
	t      testing.TB
	dir    string
	routes []string
	change []func(*app.Config)
	all    [3]*ledger // nil while stopped
}

// freeAddresses are addresses that were free a moment ago: the routes must be known
// before any node starts.
func freeAddresses(t testing.TB, n int) []string {
	t.Helper()
	var out []string
	for range n {
		out = append(out, freeport.Addr(t))
	}
	return out
}

// newNodes prepares three nodes and starts none.
func newNodes(t testing.TB, change ...func(*app.Config)) *nodes {
	t.Helper()
	if testing.Short() {
		t.Skip("three nodes take seconds to start")
	}
	ns := &nodes{t: t, dir: t.TempDir(), routes: freeAddresses(t, 3), change: change}
	cfg := app.Config{Dir: ns.data(0), Origin: "example.com/three"}
	startable(&cfg)
	if _, err := app.PrepareNodes(cfg, []string{ns.data(1), ns.data(2)}); err != nil {
		t.Fatal(err)
	}
	return ns
}

func threeNodes(t testing.TB, change ...func(*app.Config)) *nodes {
	t.Helper()
	ns := newNodes(t, change...)
	ns.start(0, 1, 2)
	return ns
}

func (ns *nodes) data(i int) string { return filepath.Join(ns.dir, "n"+strconv.Itoa(i+1)) }

func (ns *nodes) config(i int) app.Config {
	cfg := app.Config{Dir: ns.data(i), Listen: "127.0.0.1:0",
		Cluster: &app.Cluster{Name: "test", Node: "n" + strconv.Itoa(i+1), Listen: ns.routes[i]}}
	startable(&cfg)
	cfg.Logger = slog.New(slog.NewTextHandler(nodeWriter{ns.t, cfg.Cluster.Node}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	for j, r := range ns.routes {
		if j != i {
			cfg.Cluster.Routes = append(cfg.Cluster.Routes, r)
		}
	}
	for _, c := range ns.change {
		c(&cfg)
	}
	return cfg
}

type nodeWriter struct {
	t    testing.TB
	node string
}

func (w nodeWriter) Write(b []byte) (int, error) {
	return testWriter{w.t}.Write([]byte(w.node + " " + string(b)))
}

// start starts nodes side by side: one alone waits for a second.
func (ns *nodes) start(which ...int) {
	ns.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	errs := make([]error, 3)
	var starting sync.WaitGroup
	for _, i := range which {
		starting.Go(func() {
			s, err := app.Start(ctx, ns.config(i))
			if errs[i] = err; err == nil {
				ns.all[i] = &ledger{ns.t, s}
			}
		})
	}
	starting.Wait()
	for i, err := range errs {
		if ns.all[i] != nil {
			ns.t.Cleanup(ns.all[i].stop)
		}
		if err != nil {
			ns.t.Fatalf("node %d: %v", i+1, err)
		}
	}
}

func (ns *nodes) stop(i int) {
	ns.all[i].stop()
	ns.all[i] = nil
}

// signer is the index of the node that signs, as the others see it too.
func (ns *nodes) signer(not ...int) int {
	ns.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		for i, l := range ns.all {
			if l == nil {
				continue
			}
			c := l.want(200, "GET", "/v1/cluster", nil)
			if text(c, "signer") != text(c, "node") || len(not) > 0 && i == not[0] {
				continue
			}
			return i
		}
		if time.Now().After(deadline) {
			ns.t.Fatal("no node signs")
		}
	}
}

// settled waits until all running nodes have published one tree of at least size
// leaves, and demands that it is the same.
func (ns *nodes) settled(size uint64) {
	ns.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		seen := map[string][]string{}
		for i, l := range ns.all {
			if l != nil {
				_, b := l.raw("GET", "/log/checkpoint", nil, "")
				seen[string(b)] = append(seen[string(b)], fmt.Sprint("n", i+1))
			}
		}
		if len(seen) == 1 {
			for cp := range seen {
				if n := sizeIn(ns.t, cp); n >= size {
					return
				}
			}
		}
		if time.Now().After(deadline) {
			ns.t.Fatalf("the nodes do not meet at size %d: %v", size, seen)
		}
	}
}

func sizeIn(t testing.TB, checkpoint string) uint64 {
	t.Helper()
	var origin string
	var size uint64
	if _, err := fmt.Sscanf(checkpoint, "%s\n%d\n", &origin, &size); err != nil {
		return 0 // none is published yet
	}
	return size
}

// wipe deletes what a node keeps, but not who it is and its keys.
func (ns *nodes) wipe(i int) {
	ns.t.Helper()
	for _, name := range []string{"log", "log.lock", "guard", "vault", "index", "views", "cluster", "aside", "witness"} {
		if err := os.RemoveAll(filepath.Join(ns.data(i), name)); err != nil {
			ns.t.Fatal(err)
		}
	}
}
