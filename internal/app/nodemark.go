package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"

	"counterfoil/internal/durable"
)

// nodeSchema is the schema of DIR/node.json.
const nodeSchema = "counterfoil.node.v1"

// nodeMark is DIR/node.json: which node of which cluster has this directory. It is
// written when the node has joined the others for the first time.
type nodeMark struct {
	Schema  string `json:"schema"`
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
}

func (p paths) node() string { return p.join("node.json") }

// readNode is the mark of a directory, nil where there is none.
func (p paths) readNode() (*nodeMark, error) {
	raw, err := os.ReadFile(p.node())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which node this is: %w", err)
	}
	m := new(nodeMark)
	if err := json.Unmarshal(raw, m, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", p.node(), err)
	}
	if m.Schema != nodeSchema {
		return nil, fmt.Errorf("%s: schema %q, not %s", p.node(), m.Schema, nodeSchema)
	}
	return m, nil
}

// checkNode refuses a directory of one node to another, and to a ledger alone: that
// would go on from this node's log without the others, and sign a second history.
// A new name would be one more member of the cluster for ever.
func (p paths) checkNode(c *Cluster) error {
	m, err := p.readNode()
	if m == nil || err != nil {
		return err
	}
	flags := fmt.Sprintf("--cluster-name %s --node %s", m.Cluster, m.Node)
	switch {
	case c == nil:
		return fmt.Errorf("this is the directory of node %q of cluster %q: alone it would sign another history than the other nodes (hint: %s; docs/runbooks/cluster.md says how three nodes become one)", m.Node, m.Cluster, flags)
	case c.Name != m.Cluster || c.Node != m.Node:
		return fmt.Errorf("this is the directory of node %q of cluster %q, not of node %q of %q (hint: %s; a further node gets a directory by counterfoil node prepare)", m.Node, m.Cluster, c.Node, c.Name, flags)
	}
	return nil
}

// markNode notes which node this is, before anything is signed as a part of the cluster.
func (l *Ledger) markNode(context.Context) error {
	c := l.cfg.Cluster
	if c == nil {
		return nil
	}
	if m, err := l.paths.readNode(); m != nil || err != nil {
		return err
	}
	b, err := json.Marshal(nodeMark{Schema: nodeSchema, Cluster: c.Name, Node: c.Node})
	if err != nil {
		return err
	}
	if err := durable.WriteFile(l.paths.node(), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("note which node this is: %w", err)
	}
	return nil
}
