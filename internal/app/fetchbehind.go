package app

import (
	"context"
	"fmt"
	"slices"

	"counterfoil/ledger/lease"
	"counterfoil/ledger/tlog/fetch"
)

// fetchWorth is how many leaves a node must be behind before it takes them from the
// tiles of the others. Fewer come by the stream as fast.
const fetchWorth = 4096

// fetchBehind brings the log of a node that is far behind to the newest checkpoint of
// all nodes, from their tiles, before anything reads it: bundles of 256 leaves that
// are proven by the checkpoint, in place of messages that are appended one by one. The
// leaves after it come by the stream. Where no node gives the tiles, all come by it.
func (l *Ledger) fetchBehind(ctx context.Context) error {
	if l.cluster == nil {
		return nil
	}
	rec, err := l.newestRecord(ctx)
	if err != nil {
		return err
	}
	size, err := sizeOf(rec.Checkpoint)
	if err != nil {
		return err
	}
	had := l.tlog.Size()
	if size < had+fetchWorth {
		return nil
	}
	peers, err := l.otherNodes(ctx, rec.Node)
	if err != nil {
		return err
	}
	began := l.cfg.Now()
	l.log.Info("this node takes the log from the tiles of the others", "leaves", had, "of", size, "nodes", len(peers))
	added, err := l.tlog.Fetch(ctx, rec.Checkpoint, fetch.Config{Peers: peers})
	switch {
	case err == nil:
		l.log.Info("this node has the log of the others' checkpoint", "leaves", size, "fetched", added, "took", l.cfg.Now().Sub(began))
		return nil
	case ctx.Err() != nil, lease.Final(err), l.tlog.Err() != nil:
		return err
	}
	l.log.Warn("the log cannot be taken from the tiles of the others, and comes by the stream", "leaves", had, "of", size, "error", err)
	return nil
}

// newestRecord asks for the record of who signs: what the lease has seen of it by now
// may be what this node's copy had when it went away.
func (l *Ledger) newestRecord(ctx context.Context) (lease.Record, error) {
	value, _, err := l.cluster.signer.Get(ctx)
	if err != nil || len(value) == 0 {
		return lease.Record{}, err
	}
	return lease.Parse(value)
}

// otherNodes are the nodes that have said where they are, the one that signs first.
func (l *Ledger) otherNodes(ctx context.Context, signer string) (peers []fetch.Peer, err error) {
	value, _, err := l.cluster.nodes.reg.Get(ctx)
	if err != nil {
		return nil, err
	}
	all, err := parseReports(value)
	if err != nil {
		l.log.Warn("the nodes' reports cannot be read", "error", err)
	}
	for name, r := range all {
		if name == l.cfg.Cluster.Node || r.URL == "" {
			continue
		}
		src, err := tilesAt(r.URL + "/log")
		if err != nil {
			l.log.Warn("a node cannot be asked for tiles", "node", name, "error", err)
			continue
		}
		peers = append(peers, fetch.Peer{Name: fmt.Sprintf("%s at %s", name, r.URL), Source: src})
		if name == signer {
			last := len(peers) - 1
			peers = slices.Insert(peers[:last:last], 0, peers[last])
		}
	}
	return peers, nil
}
