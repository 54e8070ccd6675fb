package app

import (
	"context"
	"fmt"

	"counterfoil/ledger/vault"
)

func (l *Ledger) openVault(ctx context.Context) error {
	// Without its vault a ledger could compare no repeat with what it recorded
	// and open no commitment: that is a loss to know of, not a first start.
	if l.id.Complete && isEmpty(l.paths.vault()) && !l.joins() {
		return fmt.Errorf("%s is missing: it holds the keys of all attempts (hint: restore it from a backup; nothing is created over it)", l.paths.vault())
	}
	opts := vault.Options{MinFree: l.disk.toWrite(), Log: l.log}
	if l.cfg.Cluster != nil {
		rows, err := l.stream.Rows(ctx, "VAULT")
		if err != nil {
			return err
		}
		opts.Replica = rows
	}
	v, err := vault.Open(l.paths.vault(), l.keys.VaultSealKey().Array(), opts)
	if err != nil {
		return err
	}
	l.vault = v
	l.onClose(bounded("vault", v.Close))
	return nil
}
