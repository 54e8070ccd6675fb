package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// cable carries the routes from one node to another until it is cut.
type cable struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

func newCable(t testing.TB, to string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := &cable{l: l, to: to, conns: map[net.Conn]bool{}}
	c.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.carry(in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		c.set(true)
		c.wg.Wait()
	})
	return c
}

func (c *cable) addr() string { return c.l.Addr().String() }

// hold remembers a connection, or closes it on a cut cable.
func (c *cable) hold(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		_ = conn.Close()
		return false
	}
	c.conns[conn] = true
	return true
}

func (c *cable) carry(in net.Conn) {
	if !c.hold(in) {
		return
	}
	out, err := net.Dial("tcp", c.to)
	if err != nil {
		_ = in.Close()
		return
	}
	if !c.hold(out) {
		_ = in.Close()
		return
	}
	var wg sync.WaitGroup
	for _, p := range [][2]net.Conn{{in, out}, {out, in}} {
		wg.Go(func() {
			_, _ = io.Copy(p[0], p[1])
			_ = p[0].Close()
			_ = p[1].Close()
		})
	}
	wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, in)
	delete(c.conns, out)
}

// set cuts the cable or mends it.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
		for conn := range c.conns {
			_ = conn.Close()
		}
	}
}

// wired is a trio whose routes go through cables.
type wired struct {
	*trio
	cables [3][3]*cable // from, to
}

func newWired(t testing.TB) *wired {
	t.Helper()
	w := &wired{trio: &trio{cfgs: clusterConfigs(t, 3)}}
	for i := range 3 {
		w.cfgs[i].Cluster.Routes = nil
		// Nodes tell one another of a third: nobody gets there but by its cables.
		w.cfgs[i].Cluster.Advertise = "127.0.0.1:1"
		for j := range 3 {
			if i != j {
				w.cables[i][j] = newCable(t, w.cfgs[j].Cluster.Listen)
				w.cfgs[i].Cluster.Routes = append(w.cfgs[i].Cluster.Routes, w.cables[i][j].addr())
			}
		}
	}
	w.s = openAll(t, w.cfgs)
	return w
}

// isolate cuts all cables from and to a node, or mends them.
func (w *wired) isolate(node int, cut bool) {
	for i := range 3 {
		if i != node {
			w.cables[i][node].set(cut)
			w.cables[node][i].set(cut)
		}
	}
}

// The leader is cut off from the others. What is published on its side waits and
// is stored once when the cable is mended, or lost the race; the others go on
// after a pause. Nobody takes the old leader's view for a loss, the register is
// never read old, and nothing is there twice (LOG-03, LOG-14).
func TestCluster_LeaderIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWired(t)
	var last [4]uint64
	for i := range 40 {
		last[i%4] = mustPublish(t, w.s[i%3], i%4, fmt.Sprint("before ", i), last[i%4])
	}
	lead := w.leader(t, DefaultName)
	old, a, b := w.s[lead], w.s[(lead+1)%3], w.s[(lead+2)%3]
	var rev uint64
	{
		reg := mustRegister(t, a)
		var err error
		rev, err = reg.Put(t.Context(), []byte("before"), 0)
		must(t, err)
	}
	oldReg, aReg := mustRegister(t, old), mustRegister(t, a)
	tail := b.Tail(t.Context(), 1)
	w.isolate(lead, true)

	// On the side of the old leader: one in a shard of its own, one that races.
	type result struct {
		seq uint64
		err error
	}
	publish := func(s *Stream, shard int, body string) <-chan result {
		out := make(chan result, 1)
		m := Msg{subject("tool_action", "attempt", shard), []byte(body)}
		go func() {
			seq, err := s.Publish(t.Context(), m, filter(shard), last[shard])
			out <- result{seq, err}
		}()
		return out
	}
	alone, loser := publish(old, 0, "alone"), publish(old, 1, "loser")
	winner := publish(a, 1, "winner")
	if r := <-winner; r.err != nil {
		t.Fatal("the majority:", r.err)
	}
	must1(t)(aReg.Put(t.Context(), []byte("after"), rev))
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	if v, _, err := oldReg.Get(short); err == nil {
		t.Errorf("the node that is cut off reads %q", v)
	}
	if _, err := oldReg.Put(short, []byte("stale"), rev); err == nil {
		t.Error("the node that is cut off writes the register")
	}
	cancel()
	w.isolate(lead, false)
	if r := <-alone; r.err != nil {
		t.Error("alone in its shard:", r.err)
	}
	var wrong *WrongLastError
	if r := <-loser; !errors.As(r.err, &wrong) {
		t.Errorf("the loser: %+v", r)
	}
	if v, _, err := oldReg.Get(t.Context()); err != nil || string(v) != "after" {
		t.Errorf("register after the cut: %q %v", v, err)
	}
	st, err := a.truth(t.Context())
	must(t, err)
	if st != (State{1, 42, 42, 0}) {
		t.Errorf("state %+v, expected 42 messages", st)
	}
	read(t, tail, 1, 42, 100)
	for i, s := range w.s {
		if s.rewinds.Load() != 0 {
			t.Errorf("node %d took the cut for a loss", i)
		}
		until(t, "healthy", func() bool { return s.Healthy(t.Context()) == nil })
	}
}

func must1(t testing.TB) func(uint64, error) {
	return func(_ uint64, err error) {
		t.Helper()
		must(t, err)
	}
}
