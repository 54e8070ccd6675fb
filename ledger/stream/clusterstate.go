package stream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Cluster is how the servers of a cluster stand.
type Cluster struct {
	// Name of the cluster; empty for a single server.
	Name string
	// Node is the server that was asked: the embedded one, or that of the
	// connection.
	Node string
	// MetaLeader leads the cluster itself. Empty: there is none, or an external
	// cluster that does not tell us.
	MetaLeader string
	// Connected are the servers that the embedded one has routes to, sorted.
	Connected []string
	// Leader of the stream; empty while there is none.
	Leader string
	// Replicas are all servers that keep the stream, sorted by name.
	Replicas []Replica
}

// Replica is one server's copy of the stream, as the stream's leader sees it.
type Replica struct {
	Server  string
	Leader  bool
	Current bool   // it has everything
	Offline bool   // it is not connected
	Lag     uint64 // messages and votes that it does not have yet
	// Active is how long ago it was last heard of; 0 for the leader.
	Active time.Duration
}

// Whole tells whether all replicas are there and have everything.
func (c *Cluster) Whole() bool {
	return c.Leader != "" && !slices.ContainsFunc(c.Replicas, func(r Replica) bool { return !r.Current || r.Offline })
}

// ClusterState asks how the cluster stands. With an error it still has what
// this node knows by itself.
func (s *Stream) ClusterState(ctx context.Context) (Cluster, error) {
	c := Cluster{Node: s.nc.ConnectedServerName()}
	if s.emb != nil && s.cfg.Cluster != nil {
		c.Name, c.Node = s.cfg.Cluster.Name, s.cfg.Cluster.Node
		if srv := s.emb.current(); srv != nil {
			c.MetaLeader, c.Connected = metaLeader(srv)
		}
	}
	var info clusterInfo
	if err := s.info(ctx, &info); err != nil {
		return c, fmt.Errorf("state of the cluster: %w", err)
	}
	if info.Cluster == nil { // a single server has no more to say
		c.Leader = c.Node
		c.Replicas = []Replica{{Server: c.Node, Leader: true, Current: true}}
		return c, nil
	}
	c.Name, c.Leader = info.Cluster.Name, info.Cluster.Leader
	if c.Leader != "" {
		c.Replicas = append(c.Replicas, Replica{Server: c.Leader, Leader: true, Current: true})
	}
	for _, r := range info.Cluster.Replicas {
		c.Replicas = append(c.Replicas, Replica{Server: r.Name, Current: r.Current, Offline: r.Offline, Lag: r.Lag, Active: r.Active})
	}
	slices.SortFunc(c.Replicas, func(a, b Replica) int { return strings.Compare(a.Server, b.Server) })
	return c, nil
}
