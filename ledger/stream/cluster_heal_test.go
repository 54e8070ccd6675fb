package stream

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// A stream that ends before the logs is repaired by the one node that may; the
// others wait for it and find it whole (LOG-13).
func TestCluster_OneNodeRepairs(t *testing.T) {
	t.Parallel()
	all := makeLeaves(60, 50)
	c := newTrio(t)
	fillFrom(t, c.s[0], all, 0, 40)
	reports := make([]*Report, 3)
	var asked atomic.Int32
	waiting := make(chan struct{})
	var wg sync.WaitGroup
	for i, s := range c.s {
		wg.Go(func() {
			cfg := healConfig(all, t.TempDir())
			cfg.MayRepair = func(context.Context) (bool, error) {
				if i == 1 {
					<-waiting // the others asked before
					return true, nil
				}
				if asked.Add(1) == 4 {
					close(waiting)
				}
				return false, nil
			}
			r, err := s.Heal(t.Context(), cfg)
			if err != nil {
				t.Errorf("node %d: %v", i, err)
				return
			}
			reports[i] = r
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, r := range reports {
		want, n := Nothing, uint64(0)
		if i == 1 {
			want, n = Refilled, 20
		}
		if r.Action != want || r.Republished != n {
			t.Errorf("node %d: %+v", i, r)
		}
		mustHold(t, c.s[i], all)
	}
}

// A node that may not repair waits until its context ends, and changes nothing;
// an error of the question ends it (LOG-13).
func TestCluster_WhoMayNotRepairWaits(t *testing.T) {
	t.Parallel()
	all := makeLeaves(20, 50)
	c := newTrio(t)
	fillFrom(t, c.s[0], all, 0, 10)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	cfg := healConfig(all, t.TempDir())
	cfg.MayRepair = func(context.Context) (bool, error) {
		if n++; n == 3 {
			cancel()
		}
		return false, nil
	}
	if _, err := c.s[0].Heal(ctx, cfg); !errors.Is(err, ErrUnavailable) {
		t.Errorf("heal: %v", err)
	}
	cfg.MayRepair = func(context.Context) (bool, error) { return false, errCrash }
	if _, err := c.s[0].Heal(t.Context(), cfg); !errors.Is(err, errCrash) {
		t.Errorf("heal: %v", err)
	}
	mustHold(t, c.s[0], all[:10])
}

// A hole in every copy is a hole of the stream: the node that may makes it anew
// from its log and what it could set aside, and all hold the same (LOG-13).
func TestCluster_HoleInEveryCopyIsRebuilt(t *testing.T) {
	t.Parallel()
	all := makeLeaves(420, bigBody)
	c := newTrio(t)
	fillFrom(t, c.s[0], all, 0, 420)
	until(t, "all have everything", func() bool {
		st, err := c.s[0].ClusterState(t.Context())
		return err == nil && st.Whole()
	})
	for i := range c.s {
		c.closeNode(t, i)
		must(t, os.Remove(blocks(t, c.cfgs[i].Dir)[1]))
	}
	c.s = openAll(t, c.cfgs)
	var wg, asked sync.WaitGroup
	asked.Add(2)
	for i, s := range c.s {
		wg.Go(func() {
			cfg := healConfig(all[:400], t.TempDir())
			first := sync.OnceFunc(asked.Done)
			cfg.MayRepair = func(context.Context) (bool, error) {
				if i == 2 {
					asked.Wait() // the others have seen the hole
					return true, nil
				}
				first()
				return false, nil
			}
			r, err := s.Heal(t.Context(), cfg)
			if err != nil {
				t.Errorf("node %d: %v", i, err)
				return
			}
			// The others must derive anew what they derived from the old stream.
			if r.Action != Rebuilt || r.Announce() || i == 2 && r.Reappended != 20 || i != 2 && r.Reappended+r.Republished != 0 {
				t.Errorf("node %d: %+v", i, r)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for _, s := range c.s {
		mustHold(t, s, all)
	}
}
