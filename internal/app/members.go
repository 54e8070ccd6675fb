package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"counterfoil/internal/api"
	"counterfoil/ledger/stream"
)

// checkPlace refuses a node that would be one too many, before anything is written
// under its name: a slip in a name that was accepted would be a vote for ever.
func (l *Ledger) checkPlace(ctx context.Context) error {
	c := l.cfg.Cluster
	if c == nil || l.cfg.NATS != "" {
		return nil // others run the servers of an external NATS, however many
	}
	var all map[string]report
	err := l.steadily(func(ctx context.Context) error {
		r, err := l.stream.Register(ctx, "nodes")
		if err != nil {
			return err
		}
		value, _, err := r.Get(ctx)
		if err != nil {
			return err
		}
		all, err = parseReports(value)
		return err
	})(ctx)
	if err != nil {
		return fmt.Errorf("read which nodes there are: %w", err)
	}
	if err := placeFor(c, all); err != nil {
		l.refused = true
		return err
	}
	return nil
}

// placeFor says whether a node is one of those that report, or there is room for it.
func placeFor(c *Cluster, all map[string]report) error {
	if _, known := all[c.Node]; known || len(all) < c.Replicas {
		return nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(all)), ", ")
	return fmt.Errorf("cluster %q has its %d nodes already: %s; %q would be one more (hint: is the name of --node right? By this start %[4]s may have a vote in the cluster that nobody casts: counterfoil doctor --cluster shows its members, counterfoil node remove %[4]s takes it back)",
		c.Name, c.Replicas, names, c.Node)
}

// nodeRemover is RemoveNode for the API; nil on a ledger alone.
func (l *Ledger) nodeRemover() func(context.Context, string) (*api.NodeRemoved, error) {
	if l.cluster == nil {
		return nil
	}
	return l.RemoveNode
}

// RemoveNode takes a node out of the cluster that is away and keeps no copy of the
// stream: one that was started under a name by mistake. It is done once most servers
// agree, and doing it again after trouble is safe.
func (l *Ledger) RemoveNode(ctx context.Context, name string) (*api.NodeRemoved, error) {
	runs := api.NewConflict(fmt.Sprintf("node %q runs", name), "stop it first; who was stopped counts as away after some seconds")
	switch {
	case len(name) > 32:
		return nil, api.NewInvalid("", "counterfoil doctor --cluster lists the nodes", "the name of a node has at most 32 characters")
	case l.cfg.NATS != "":
		return nil, api.NewConflict("the members of an external NATS are not this ledger's to remove", "its operator does it: nats server cluster peer-remove NAME, with the system account")
	case name == l.cfg.Cluster.Node || l.cluster.nodes.reports(name):
		return nil, runs
	}
	err := l.stream.RemoveMember(ctx, name)
	switch {
	case errors.Is(err, stream.ErrMemberRuns):
		return nil, runs
	case errors.Is(err, stream.ErrMemberKeeps):
		return nil, api.NewConflict(fmt.Sprintf("node %q keeps a copy of the stream: there would be one copy less", name),
			"start it again; if its machine is lost, start a prepared directory under its name (docs/runbooks/cluster.md)")
	case errors.Is(err, stream.ErrUnavailable):
		return nil, errors.Join(&api.Unavailable{Reason: "stream_unavailable", Message: "too few nodes are there to agree on it"}, err)
	case err != nil && !errors.Is(err, stream.ErrNoMember):
		return nil, err
	}
	listed, rerr := l.cluster.nodes.remove(ctx, name)
	if rerr != nil {
		return nil, errors.Join(&api.Unavailable{Reason: "stream_unavailable", Message: "the list of the nodes could not be changed"}, rerr)
	}
	if err != nil && !listed {
		return nil, api.NewNotFound(fmt.Sprintf("the cluster has no node %q", name), "counterfoil doctor --cluster lists the nodes and members")
	}
	l.log.Info("a node was removed from the cluster", "node", name)
	return &api.NodeRemoved{SchemaVersion: api.NodeRemovedSchema, Node: name}, nil
}

// reports tells whether a node has reported of late.
func (n *nodes) reports(name string) bool {
	return slices.ContainsFunc(n.list(), func(x api.Node) bool { return x.Name == name && !x.Away })
}

// remove strikes a node off the list, and tells whether it was on it.
func (n *nodes) remove(ctx context.Context, name string) (bool, error) {
	for try := 1; ; try++ {
		value, rev, err := n.reg.Get(ctx)
		if err != nil {
			return false, err
		}
		all, err := parseReports(value)
		if err != nil {
			return false, err
		}
		if _, listed := all[name]; !listed {
			return false, nil
		}
		delete(all, name)
		b, err := json.Marshal(all, json.Deterministic(true))
		if err != nil {
			return false, err
		}
		next, err := n.reg.Put(ctx, b, rev)
		if err == nil {
			return true, n.take(b, next)
		}
		if !errors.Is(err, stream.ErrRevision) || try == 4*reportTries {
			return false, err
		}
	}
}
