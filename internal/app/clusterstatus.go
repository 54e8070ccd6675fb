package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"counterfoil/internal/api"
	"counterfoil/ledger/stream"
)

// report is what this node says of itself.
func (l *Ledger) report() report {
	r := report{URL: l.url(), Version: l.cfg.Version, StreamLast: l.stream.LastSeen(), LogSize: l.tlog.Size(), PublishedSize: l.tlog.PublishedSize()}
	if l.refilled.Load() { // the others must not wait for this one to make good what all lost
		r.LogSize = 0
	}
	if !l.opened.Load() {
		return r
	}
	r.ViewSize = l.views.size()
	if l.gather != nil {
		r.WitnessedSize = l.gather.Status().Witnessed
	}
	return r
}

// leaderWithin is how long Cluster waits for what the stream's leader alone knows. While
// there is none it is asked for, which must not keep who wants to see just that.
const leaderWithin = 2 * time.Second

// Cluster tells how the nodes of the ledger stand, as far as this one knows.
func (l *Ledger) Cluster(ctx context.Context) *api.Cluster {
	rec, _ := l.cluster.lease.Record()
	out := &api.Cluster{SchemaVersion: api.ClusterSchema, Name: l.cfg.Cluster.Name, Node: l.cfg.Cluster.Node,
		Signer: rec.Node, Epoch: rec.Epoch, GuardSize: rec.Guard.Size, Replicas: l.cfg.Cluster.Replicas, Members: l.stream.Members(), Nodes: l.cluster.nodes.list()}
	ctx, cancel := context.WithTimeout(ctx, leaderWithin)
	defer cancel()
	st, err := l.stream.ClusterState(ctx)
	if err != nil {
		out.Stream.Trouble = streamTrouble(&st, err)
	}
	out.Stream.Leader, out.Stream.Replicas = st.Leader, []api.StreamReplica{}
	for _, r := range st.Replicas {
		out.Stream.Replicas = append(out.Stream.Replicas, api.StreamReplica{Server: r.Server, Leader: r.Leader, Current: r.Current, Offline: r.Offline, Lag: r.Lag})
	}
	return out
}

// streamTrouble says why a state has no leader.
func streamTrouble(st *stream.Cluster, err error) string {
	if !errors.Is(err, stream.ErrUnavailable) {
		return err.Error()
	}
	seen := ""
	if st.Name != "" { // by its own server
		seen = fmt.Sprintf(", and %s is connected to %s", st.Node, cmp.Or(strings.Join(st.Connected, ", "), "nobody"))
	}
	return fmt.Sprintf("no leader answers%s: %v", seen, err)
}

const clusterHint = "see docs/runbooks/cluster.md; counterfoil doctor --cluster asks all nodes"

// clusterCheck adds who signs to a status. That another node signs, or that one is
// away, does not make this one unready: it takes events all the same.
func (l *Ledger) clusterCheck(st *api.Status) {
	if l.cluster == nil {
		return
	}
	rec, _ := l.cluster.lease.Record()
	c := api.Check{Name: "cluster", OK: true}
	switch {
	case l.cluster.lease.Held():
		c.Detail = fmt.Sprintf("this node signs, epoch %d", rec.Epoch)
	case rec.Node != "":
		c.Detail = fmt.Sprintf("%s signs, epoch %d", rec.Node, rec.Epoch)
	default:
		c.Detail, c.Hint = "no node signs now", clusterHint
	}
	if err := l.cluster.lease.Trouble(); err != nil {
		c.Detail, c.Hint = c.Detail+"; "+err.Error(), clusterHint
	}
	for _, n := range l.cluster.nodes.list() {
		if n.Away && n.Name != l.cfg.Cluster.Node {
			c.Detail, c.Hint = c.Detail+fmt.Sprintf("; node %s has not reported for %.0f s", n.Name, n.SilentSeconds), clusterHint
		}
	}
	st.Checks = append(st.Checks, c)
}

// url is where clients reach this node, empty before it listens.
func (l *Ledger) url() string {
	if l.cfg.ExternalURL != "" {
		return l.cfg.ExternalURL
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.address
}

func (l *Ledger) setURL(url string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.address = url
	if l.cluster != nil {
		l.cluster.nodes.soon()
	}
}

// joins reports whether this node has nothing yet and gets everything from the
// others.
func (l *Ledger) joins() bool { return l.cfg.Cluster != nil && l.id.Complete && l.vacant }

// clusterView is Cluster for the API; nil on a ledger alone.
func (l *Ledger) clusterView() func(context.Context) *api.Cluster {
	if l.cluster == nil {
		return nil
	}
	return l.Cluster
}

func (l *Ledger) signsMetric() float64 {
	if signs, _ := l.signs(); signs {
		return 1
	}
	return 0
}

func (l *Ledger) epochMetric() float64 {
	if l.cluster == nil {
		return 0
	}
	rec, _ := l.cluster.lease.Record()
	return float64(rec.Epoch)
}

func (l *Ledger) awayMetric() float64 {
	if l.cluster == nil {
		return 0
	}
	away := 0
	for _, n := range l.cluster.nodes.list() {
		if n.Away {
			away++
		}
	}
	return float64(away)
}
