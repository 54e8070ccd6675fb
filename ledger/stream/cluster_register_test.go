package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"counterfoil/internal/testkit/freeport"
)

func mustRegister(t testing.TB, s *Stream) *Register {
	t.Helper()
	r, err := s.Register(t.Context(), "lease")
	must(t, err)
	return r
}

// Three nodes race for every revision: each is won once, and what is read is what
// the winner wrote (LOG-03).
func TestCluster_RegisterRace(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	regs := make([]*Register, 3)
	var wg sync.WaitGroup
	for i, s := range c.s {
		wg.Go(func() {
			var err error
			if regs[i], err = s.Register(t.Context(), "lease"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if v, rev, err := regs[1].Get(t.Context()); err != nil || rev != 0 || len(v) != 0 {
		t.Fatalf("never written: %q %d %v", v, rev, err)
	}
	seen := make(chan uint64, 1000)
	ctx, stop := context.WithCancel(t.Context())
	wg.Go(func() {
		_ = regs[2].Watch(ctx, func(_ []byte, rev uint64) error { seen <- rev; return nil })
	})
	var rev uint64
	for round := range 20 {
		type result struct {
			node int
			rev  uint64
			err  error
		}
		results := make(chan result, 3)
		for i, r := range regs {
			go func() {
				n, err := r.Put(t.Context(), fmt.Append(nil, "node ", i, " round ", round), rev)
				results <- result{i, n, err}
			}()
		}
		won := -1
		var next uint64
		for range regs {
			switch r := <-results; {
			case r.err == nil && won >= 0:
				t.Fatalf("round %d: nodes %d and %d both won", round, won, r.node)
			case r.err == nil:
				won, next = r.node, r.rev
			case !errors.Is(r.err, ErrRevision):
				t.Fatalf("round %d node %d: %v", round, r.node, r.err)
			}
		}
		if won < 0 || next <= rev {
			t.Fatalf("round %d: winner %d, revision %d after %d", round, won, next, rev)
		}
		rev = next
		for i, r := range regs {
			v, got, err := r.Get(t.Context())
			if want := fmt.Sprint("node ", won, " round ", round); err != nil || got != rev || string(v) != want {
				t.Fatalf("node %d reads %q %d %v, expected %q %d", i, v, got, err, want, rev)
			}
		}
	}
	// The watch saw ascending revisions, and the newest in the end.
	var last uint64
	for last != rev {
		n := <-seen
		if n <= last {
			t.Fatalf("watch told %d after %d", n, last)
		}
		last = n
	}
	stop()
	wg.Wait()
}

// The loss of the register's leader is a pause: a writer goes on with its
// revisions, a watcher misses nothing that stays (LOG-14).
func TestCluster_RegisterSurvivesItsLeader(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	reg := mustRegister(t, c.s[0])
	lead := c.leader(t, reg.bucket)
	reg = mustRegister(t, c.s[(lead+1)%3])
	other := mustRegister(t, c.s[(lead+2)%3])
	ctx, stop := context.WithCancel(t.Context())
	seen := make(chan string, 1000)
	var wg sync.WaitGroup
	wg.Go(func() { _ = other.Watch(ctx, func(v []byte, _ uint64) error { seen <- string(v); return nil }) })
	var rev uint64
	for i := range 40 {
		if i == 10 {
			c.closeNode(t, lead)
		}
		next, err := reg.Put(t.Context(), fmt.Append(nil, i), rev)
		if err != nil || next <= rev {
			t.Fatalf("put %d: revision %d after %d, %v", i, next, rev, err)
		}
		rev = next
	}
	for v := ""; v != "39"; v = <-seen {
	}
	stop()
	wg.Wait()
}

// A node that is alone says so, and who is missing, when its time is over (LOG-14).
func TestCluster_AloneWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	cfgs := clusterConfigs(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := Open(ctx, cfgs[0])
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	for _, want := range []string{"no leader", "n0", "nobody", cfgs[0].Cluster.Routes[0], cfgs[0].Cluster.Routes[1]} {
		if !containsText(err, want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}

// A node without the secret does not get in, and harms nobody (LOG-01).
func TestCluster_SecretIsNeeded(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	bad := testConfig(t.TempDir())
	bad.Cluster = &ClusterConfig{Name: "test", Node: "stranger", Listen: fmt.Sprint("127.0.0.1:", freeport.Row(t, 1)),
		Routes: []string{c.cfgs[0].Cluster.Listen, c.cfgs[1].Cluster.Listen}, Secret: "some other secret of nobody"}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := Open(ctx, bad); !errors.Is(err, ErrUnavailable) {
		t.Errorf("the stranger: %v", err)
	}
	got, err := c.s[0].ClusterState(t.Context())
	if err != nil || len(got.Connected) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	mustPublish(t, c.s[0], 1, "x", 0)
}

// What a cluster cannot be made of is said at once, all of it (LOG-01).
func TestCluster_Validation(t *testing.T) {
	cfg := testConfig("x")
	cfg.Cluster = &ClusterConfig{Name: "no dots.", Listen: "nowhere", Routes: []string{"n1"}, Secret: "short"}
	_, err := Open(t.Context(), cfg)
	for _, want := range []string{"cluster name", "node name", "listen address of the cluster", `route "n1"`, "secret of the cluster has 5 bytes"} {
		if !containsText(err, want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
	if containsText(err, "short") {
		t.Errorf("the error has the secret: %v", err)
	}
}
