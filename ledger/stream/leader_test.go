package stream

import (
	"errors"
	"testing"
	"time"
)

// A node that stops gives what it leads to the others while it still takes part, so
// that they have a leader at every moment and choose none (DUR-01, LOG-14).
func TestCluster_HandsOver(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	last := mustPublish(t, c.s[0], 7, "before", 0)
	name := c.s[0].cfg.Name
	n := c.leader(t, name)
	srv := c.s[n].emb.current()
	c.s[n].emb.handOver(t.Context(), srv)
	leader := streamLeaders(srv)[name]
	if leader == "" || leader == srv.Name() || leads(srv, name) {
		t.Fatalf("after node %s handed over, %q leads", srv.Name(), leader)
	}
	if next := c.leader(t, name); c.s[next].emb.current().Name() != leader {
		t.Errorf("node %d leads, the one that stops says %s", next, leader)
	}
	mustPublish(t, c.s[n], 7, "through the one that stops", last)
}

// The last nodes of a cluster have nobody to hand over to, and do not wait.
func TestCluster_HandsOverToNobody(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	name := c.s[0].cfg.Name
	n := c.leader(t, name)
	closeStream(t, c.s[(n+1)%3])
	srv := c.s[n].emb.current()
	until(t, "one other node is left", func() bool { _, others := metaLeader(srv); return len(others) == 1 })
	c.s[n].emb.handOver(t.Context(), srv)
	if !leads(srv, name) {
		t.Error("a node that cannot be done without gave the stream away")
	}
}

// Every node hears of a new leader, and with it what waits for an answer of the old
// one is sent again (DUR-01).
func TestCluster_HearsElections(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	mustPublish(t, c.s[0], 7, "before", 0)
	lead := c.leader(t, DefaultName)
	var heard []<-chan struct{}
	for _, s := range c.s {
		heard = append(heard, s.elected.wait())
	}
	f := c.s[(lead+1)%3].pub.failed(Msg{subject("tool_action", "attempt", 7), []byte("x")}, expectation{}, time.Now().Add(time.Hour), nil)
	f.done, f.elected = make(chan struct{}), heard[(lead+1)%3] // sent, and never answered
	f.p.mu.Lock()
	f.p.pending[f.token] = f
	f.p.mu.Unlock()
	c.s[lead].emb.handOver(t.Context(), c.s[lead].emb.current())
	for i := range heard {
		select {
		case <-heard[i]:
		case <-t.Context().Done():
			t.Fatalf("node %d did not hear of the election", i)
		}
	}
	if _, err := f.await(t.Context(), time.Hour); !errors.Is(err, errSilent) {
		t.Errorf("a publish that waits while there is another leader: %v", err)
	}
}
