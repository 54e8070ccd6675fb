package stream

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fillFrom publishes the leaves from one to before another.
func fillFrom(t testing.TB, s *Stream, all leaves, from, to int) {
	t.Helper()
	w := s.window()
	for i := from; i < to; i++ {
		must(t, w.put(t.Context(), Msg{leafSubject(all[i]), all[i]}, uint64(i)+1))
	}
	must(t, w.flush(t.Context()))
}

// A node whose store is gone, cannot be used, or lacks a file in the middle gets
// everything from the others. What was there is kept beside, and the stream is
// never touched (LOG-13, LOG-14).
func TestCluster_BrokenStoreIsRefilled(t *testing.T) {
	t.Parallel()
	cluster := t // nodes outlive the parts of the test
	all := makeLeaves(420, bigBody)
	c := newTrio(t)
	fillFrom(t, c.s[0], all, 0, 300)
	for i, tc := range []struct {
		name    string
		aside   bool
		damage  func(t *testing.T, dir string)
		another int // node that reads meanwhile
	}{
		{"gone", false, func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, storeName))) }, 1},
		{"a file where the store should be", true, func(t *testing.T, dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, storeName)))
			must(t, os.WriteFile(filepath.Join(dir, storeName), []byte("x"), 0o600))
		}, 2},
		{"messages missing in the middle", true, func(t *testing.T, dir string) { must(t, os.Remove(blocks(t, dir)[1])) }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			until(t, "all have everything", func() bool {
				st, err := c.s[tc.another].ClusterState(t.Context())
				return err == nil && st.Whole()
			})
			c.closeNode(t, i)
			tc.damage(t, c.cfgs[i].Dir)
			from := 300 + i*40
			fillFrom(t, c.s[tc.another], all, from, from+40) // the others go on
			c.s[i] = openAll(cluster, c.cfgs[i:i+1])[0]
			until(t, "the node has everything", func() bool {
				st, found, err := streamState(c.s[i].emb.current(), DefaultName)
				return err == nil && found && st == State{1, uint64(from + 40), uint64(from + 40), 0}
			})
			if _, err := os.Stat(filepath.Join(c.cfgs[i].Dir, "damaged-1")); (err == nil) != tc.aside {
				t.Errorf("store moved away: %v, expected %v", err == nil, tc.aside)
			}
			mustHold(t, c.s[i], all[:from+40])
		})
	}
	for i, s := range c.s {
		if r := mustHeal(t, s, healConfig(all, t.TempDir())); r.Action != Nothing {
			t.Errorf("node %d: %+v", i, r)
		}
	}
}

// What got no answer is sent again, and finds out that it was stored: alone, with
// another message on top of it, or not at all since another came first (LOG-03).
func TestCluster_LostAnswers(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	s, other := c.s[0], c.s[1]
	// lost publishes a message whose answer goes nowhere.
	lost := func(shard int, body string) *Future {
		prefix := s.pub.prefix
		s.pub.prefix = s.nc.NewInbox() + "."
		f, err := s.PublishAsync(Msg{subject("tool_action", "attempt", shard), []byte(body)}, filter(shard), 0)
		s.pub.prefix = prefix
		must(t, err)
		return f
	}
	stored := func(shard int) uint64 {
		var last uint64
		until(t, "it is stored", func() bool {
			var err error
			last, err = other.LastSeq(t.Context(), filter(shard))
			return err == nil && last > 0
		})
		return last
	}
	t.Run("alone", func(t *testing.T) {
		f := lost(1, "own")
		want := stored(1)
		if seq, err := f.Wait(t.Context()); err != nil || seq != want {
			t.Errorf("got %d, %v, expected %d", seq, err, want)
		}
	})
	t.Run("with another on top", func(t *testing.T) {
		f := lost(2, "own")
		want := stored(2)
		mustPublish(t, other, 2, "on top", want)
		if seq, err := f.Wait(t.Context()); err != nil || seq != want {
			t.Errorf("got %d, %v, expected %d", seq, err, want)
		}
	})
	t.Run("another came first", func(t *testing.T) {
		was := mustPublish(t, other, 3, "first", 0)
		f := lost(3, "own")
		var wrong *WrongLastError
		if seq, err := f.Wait(t.Context()); !errors.As(err, &wrong) || wrong.Last != was {
			t.Errorf("got %d, %v", seq, err)
		}
	})
	t.Run("never sent", func(t *testing.T) {
		f := s.pub.failed(Msg{subject("tool_action", "attempt", 4), []byte("own")}, expectation{filter: filter(4)}, time.Now().Add(s.cfg.AckTimeout), unavailable("test", errNoServer))
		seq, err := f.Wait(t.Context())
		must(t, err)
		if m, err := other.Get(t.Context(), seq); err != nil || string(m.Body) != "own" {
			t.Errorf("message %d: %+v %v", seq, m, err)
		}
	})
	st, err := s.truth(t.Context())
	must(t, err)
	if st != (State{1, 5, 5, 0}) {
		t.Errorf("state %+v, expected 5 messages", st)
	}
}

// Every node compares the stream with its own log, and stops with both digests (LOG-02, LOG-13).
func TestCluster_DisagreeingNodeStops(t *testing.T) {
	t.Parallel()
	all := makeLeaves(40, 50)
	c := newTrio(t)
	fillFrom(t, c.s[0], all, 0, 40)
	changed := append(leaves(nil), all...)
	changed[20] = append(bytes.Clone(all[20]), 'x')
	var d *DisagreeError
	if _, err := c.s[1].Heal(t.Context(), healConfig(changed, t.TempDir())); !errors.As(err, &d) || d.Index != 20 || d.LeafDigest != digest(changed[20]) || d.MessageDigest != digest(all[20]) {
		t.Fatalf("heal: %v", err)
	}
	if r := mustHeal(t, c.s[2], healConfig(all, t.TempDir())); r.Action != Nothing {
		t.Errorf("report %+v", r)
	}
	mustHold(t, c.s[0], all)
}
