package app

import (
	"errors"
	"fmt"

	"counterfoil/ledger/tlog"
)

// errPartMissing: a part of a ledger is not there, which is never a first start.
var errPartMissing = errors.New("part of a ledger is missing")

// partlyDeleted adds to the error of a start on a directory that lost a part, or went
// back, what a node can do that a ledger alone cannot.
func (l *Ledger) partlyDeleted(err error) error {
	for _, kind := range []error{errPartMissing, tlog.ErrNoLog, tlog.ErrNoGuard, tlog.ErrRolledBack, tlog.ErrCheckpointAhead} {
		if l.cfg.Cluster != nil && errors.Is(err, kind) {
			return fmt.Errorf("%w (hint: this is a node: if the other nodes are whole, delete everything but ledger.json, keys/, tokens and node.json in %s to join anew; docs/runbooks/cluster.md)", err, l.paths.dir)
		}
	}
	return err
}

// checkPrepared refuses a directory that was prepared for a node to a ledger alone.
func (l *Ledger) checkPrepared() error {
	if l.cfg.Cluster != nil || !l.id.Complete || !l.vacant || exists(l.paths.stream()) {
		return nil
	}
	return fmt.Errorf("%s has a ledger's identity and keys and nothing else: it was prepared for a node, or all else was deleted (hint: a node needs its flags: --cluster-name NAME --node NAME --cluster-listen ADDR --routes ADDR,ADDR; a ledger alone is restored from a backup)", l.paths.dir)
}
