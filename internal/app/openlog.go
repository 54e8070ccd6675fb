package app

import (
	"context"

	"counterfoil/ledger/tlog"
)

func (l *Ledger) openLog(ctx context.Context) error {
	l.tiles = newLogReader(l.paths.log())
	cfg := tlog.Config{
		Dir: l.paths.log(), GuardDir: l.paths.guard(), Origin: l.id.Origin, Signer: l.keys.Log(), VerifierKey: l.keys.LogVerifierKey(),
		Create: !l.id.Complete, CheckLeaf: l.checkUnguarded(ctx), Logger: l.log,
	}
	if l.cfg.Cluster != nil {
		cfg.Fence, cfg.Join, cfg.Create = fence{l}, l.joins(), !l.id.Complete && !l.joins()
	}
	log, err := tlog.Open(ctx, cfg)
	if err != nil {
		return err
	}
	l.tlog = log
	l.onClose(log.Close)
	return nil
}
