package api

import (
	"context"
	"net/http"
)

// ClusterSchema is the schemaVersion of a [Cluster].
const ClusterSchema = "counterfoil.cluster.v1"

// Cluster is how the nodes of a ledger stand, as the node that answers knows it.
// Sizes are what each node says of itself; whoever compares trees reads /log/ of
// each.
type Cluster struct {
	SchemaVersion string `json:"schemaVersion"`
	Name          string `json:"name"`
	Node          string `json:"node"` // that answers
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

// NodeRemovedSchema is the schemaVersion of a [NodeRemoved].
const NodeRemovedSchema = "counterfoil.node-removed.v1"

// NodeRemoved says that a node is no member of the cluster any more.
type NodeRemoved struct {
	SchemaVersion string `json:"schemaVersion"`
	Node          string `json:"node"`
}

func errAlone() error {
	return notFound("this ledger is alone", "serve --cluster-name makes it one of several nodes")
}

// removeNode serves POST /v1/cluster/nodes/{name}/remove.
func (s *Server) removeNode(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.RemoveNode == nil {
		return errAlone()
	}
	return carried(s, w, r, http.StatusOK, func(ctx context.Context) (*NodeRemoved, error) {
		return s.cfg.RemoveNode(ctx, r.PathValue("name"))
	})
}

// cluster serves GET /v1/cluster.
func (s *Server) cluster(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Cluster == nil {
		return errAlone()
	}
	writeJSON(w, http.StatusOK, s.cfg.Cluster(r.Context()))
	return nil
}
