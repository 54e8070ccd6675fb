package stream

import (
	"errors"
	"testing"
	"time"
)

// A stream that most servers agree is shorter than what was seen has lost
// messages: publishers and readers of every node stop, until it is healed
// (LOG-13).
func TestCluster_LossIsNoticed(t *testing.T) {
	t.Parallel()
	all := makeLeaves(40, 50)
	c := newTrio(t)
	fillFrom(t, c.s[0], all, 0, 40)
	s := c.s[2]
	tail := s.Tail(t.Context(), 1)
	read(t, tail, 1, 40, 100)
	must(t, c.s[0].destroy(t.Context()))
	must(t, c.s[0].create(t.Context()))
	const shard = 39 // of leaf 39
	if _, err := s.Publish(t.Context(), Msg{leafSubject(all[39]), []byte("x")}, filter(shard), 40); !errors.Is(err, ErrRewound) {
		t.Fatalf("publish: %v", err)
	}
	if _, err := tail.Next(t.Context(), 1); !errors.Is(err, ErrRewound) {
		t.Errorf("tail: %v", err)
	}
	r := mustHeal(t, s, healConfig(all, t.TempDir()))
	if r.Action != Refilled || r.Republished != 40 {
		t.Errorf("report %+v", r)
	}
	mustHold(t, c.s[1], all)
	must(t, s.Healthy(t.Context()))
}

// Whom most servers follow (LOG-13).
func TestCluster_Followed(t *testing.T) {
	fresh, old := time.Second, heardWithin
	for _, tc := range []struct {
		name string
		part *clusterPart
		want bool
	}{
		{"a single server", nil, true},
		{"no leader", &clusterPart{Replicas: []replicaPart{{Active: fresh}, {Active: old}, {Active: old}}}, false},
		{"all heard", &clusterPart{Leader: "a", Replicas: []replicaPart{{Active: fresh}, {Active: fresh}}}, true},
		{"one heard", &clusterPart{Leader: "a", Replicas: []replicaPart{{Active: old}, {Active: fresh}}}, true},
		{"none heard", &clusterPart{Leader: "a", Replicas: []replicaPart{{Active: old}, {Active: old}}}, false},
		{"never heard", &clusterPart{Leader: "a", Replicas: []replicaPart{{}, {}}}, false},
		{"offline", &clusterPart{Leader: "a", Replicas: []replicaPart{{Active: fresh, Offline: true}, {Active: fresh, Offline: true}}}, false},
		{"two of five", &clusterPart{Leader: "a", Replicas: []replicaPart{{Active: fresh}, {Active: old}, {Active: old}, {Active: old}}}, false},
	} {
		if got := (&clusterInfo{Cluster: tc.part}).followed(); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// A shorter view counts only when it is there twice, long enough apart, and no
// whole one between (LOG-13).
func TestCluster_DoubtTakesTwoLooks(t *testing.T) {
	t.Parallel()
	s := newTrio(t).s[0]
	mustPublish(t, s, 1, "x", 0)
	until(t, "the others are heard", func() bool {
		var info clusterInfo
		return s.info(t.Context(), &info) == nil && info.followed()
	})
	look := func(d *doubt, at time.Time) bool {
		s.lookBack(t.Context(), d, at)
		return s.gate.wentBack() != nil
	}
	start := time.Now()
	var d doubt
	s.seen.Store(5)
	if look(&d, start) || look(&d, start.Add(backAfter-1)) {
		t.Fatal("a loss after one look")
	}
	s.seen.Store(1)
	if look(&d, start.Add(backAfter)) {
		t.Fatal("a loss of nothing")
	}
	s.seen.Store(5)
	if look(&d, start.Add(2*backAfter)) {
		t.Fatal("a loss though the stream was whole between")
	}
	if !look(&d, start.Add(3*backAfter)) {
		t.Fatal("no loss after two looks")
	}
}
