package client

import (
	"context"
	"net/url"
)

// Cluster is how the nodes of a ledger stand, as the node that answers knows it
// (schemaVersion counterfoil.cluster.v1). Sizes are what each node says of itself.
type Cluster struct {
	Name string `json:"name"`
	Node string `json:"node"` // that answers
	// Signer is the node that signs, empty if none does; Epoch counts how often
	// another one took over, GuardSize is the largest tree that may have been signed.
	Signer    string `json:"signer"`
	Epoch     uint64 `json:"epoch"`
	GuardSize uint64 `json:"guardSize"`
	// Replicas is how many nodes there should be. Members are the servers that vote in
	// the cluster, most of which must be there: names, or the short id of one whose name
	// no running node knows; empty with an external NATS.
	Replicas int           `json:"replicas"`
	Members  []string      `json:"members"`
	Nodes    []Node        `json:"nodes"`
	Stream   ClusterStream `json:"stream"`
}

// Node is one node of a ledger.
type Node struct {
	Name          string  `json:"name"`
	URL           string  `json:"url"`
	Version       string  `json:"version"`
	Away          bool    `json:"away"` // it has not reported for a while
	SilentSeconds float64 `json:"silentSeconds"`
	StreamLast    uint64  `json:"streamLast"`
	LogSize       uint64  `json:"logSize"`
	PublishedSize uint64  `json:"publishedSize"`
	WitnessedSize uint64  `json:"witnessedSize"`
	ViewSize      uint64  `json:"viewSize"`
}

// ClusterStream is how the servers that keep the stream stand.
type ClusterStream struct {
	Leader   string          `json:"leader"` // empty while there is none
	Replicas []StreamReplica `json:"replicas"`
	Trouble  string          `json:"trouble,omitempty"` // why the stream did not answer
}

// StreamReplica is one server's copy of the stream, as its leader sees it.
type StreamReplica struct {
	Server  string `json:"server"`
	Leader  bool   `json:"leader"`
	Current bool   `json:"current"`
	Offline bool   `json:"offline"`
	Lag     uint64 `json:"lag"`
}

// Cluster asks how the nodes of the ledger stand. Of a ledger alone it is an error
// with status 404.
func (c *Client) Cluster(ctx context.Context) (*Answer[Cluster], error) {
	return get[Cluster](ctx, c, "/v1/cluster", nil)
}

// NodeRemoved says that a node is no member of the cluster any more.
type NodeRemoved struct {
	SchemaVersion string `json:"schemaVersion"`
	Node          string `json:"node"`
}

// RemoveNode takes a node that is away, and keeps no copy of the stream, out of the
// cluster. Doing it again is an error with status 404.
func (c *Client) RemoveNode(ctx context.Context, name string) (*Answer[NodeRemoved], error) {
	return post[NodeRemoved](ctx, c, "/v1/cluster/nodes/"+url.PathEscape(name)+"/remove", nil)
}
