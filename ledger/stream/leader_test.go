package stream

import (
	"testing"
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
