package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"counterfoil/internal/durable"
	"counterfoil/internal/wait"
	"counterfoil/ledger/vault"
)

// openVault begins to open the vault; on a ledger alone it is open when it returns.
func (l *Ledger) openVault(ctx context.Context) error {
	// Without its vault a ledger could compare no repeat with what it recorded
	// and open no commitment: that is a loss to know of, not a first start.
	if l.id.Complete && isEmpty(l.paths.vault()) && !l.joins() && !l.refilled.Load() {
		return fmt.Errorf("%w: %s is missing: it holds the keys of all attempts (hint: restore it from a backup; nothing is created over it)", errPartMissing, l.paths.vault())
	}
	opts := vault.Options{MinFree: l.disk.toWrite(), Log: l.log}
	if l.cfg.Cluster != nil {
		rows, err := l.stream.Rows(ctx, "VAULT")
		if err != nil {
			return err
		}
		opts.Replica = rows
	}
	v := &openingVault{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(v.done)
		if v.err = l.awaitValues(ctx, opts.Replica); v.err == nil {
			v.vault, v.err = l.openSharedVault(ctx, opts)
		}
		if v.err != nil {
			l.endStart(v.err) // another part of it may wait for what never comes
		}
	}()
	l.opening = v
	l.onClose(bounded("vault", func() error {
		cancel()
		if <-v.done; v.vault == nil {
			return nil
		}
		return v.vault.Close()
	}))
	if l.cfg.Cluster == nil {
		return l.haveVault(ctx)
	}
	return nil // a node's may have much to take over, which other parts need not wait for
}

// openingVault is a vault that is being opened.
type openingVault struct {
	done  chan struct{} // closed once one of these is set
	vault *vault.Vault
	err   error
}

// vaultError is why the vault cannot be opened, nil as far as that is known.
func (l *Ledger) vaultError() error {
	if l.opening == nil {
		return nil
	}
	select {
	case <-l.opening.done:
		return l.opening.err
	default:
		return nil
	}
}

// haveVault waits until the vault is open.
func (l *Ledger) haveVault(ctx context.Context) error {
	select {
	case <-l.opening.done: // with an error it ended ctx too
	case <-ctx.Done():
		if err := l.vaultError(); err != nil {
			return err
		}
		return context.Cause(ctx)
	}
	l.vault = l.opening.vault
	return l.opening.err
}

// isRefilled reports whether this node's log was fetched from the others, and its private
// values have still to come. Until it has started once, it makes good nothing that all
// nodes lost: others have the same leaves, and a vault.
func (l *Ledger) isRefilled() bool {
	return l.cfg.Cluster != nil && exists(l.paths.fetched()) && isEmpty(l.paths.vault())
}

// hasValues ends that.
func (l *Ledger) hasValues() error {
	l.refilled.Store(false)
	if !exists(l.paths.fetched()) {
		return nil
	}
	return durable.Remove(l.paths.fetched())
}

// awaitValues waits, on a node that has a log and no vault, until another node has given
// the vaults' log what it has: one that is empty was lost on all nodes.
func (l *Ledger) awaitValues(ctx context.Context, rows vault.Replica) error {
	defer wait.Every(ctx, tellEvery, func() {
		l.log.Warn("this node does not answer yet: the vaults' log was lost, and it waits for a node that has a vault", "node", l.cfg.Cluster.Node)
	})()
	for l.refilled.Load() && l.tlog.Size() > 0 {
		last, err := rows.Last(ctx)
		if err != nil || last > 0 {
			return err
		}
		if err := wait.For(ctx, steadyPause); err != nil {
			return err
		}
	}
	return nil
}

// openSharedVault opens the vault. If the log that the vaults of all nodes follow was
// lost, one vault gives the new one its rows, that of the node that repairs the
// stream; the others are set aside and filled from it.
func (l *Ledger) openSharedVault(ctx context.Context, opts vault.Options) (*vault.Vault, error) {
	dir := l.paths.vault()
	for told := false; ; {
		v, err := vault.Open(dir, l.keys.VaultSealKey().Array(), opts)
		if l.cluster == nil || !errors.Is(err, vault.ErrOtherLog) {
			return v, err
		}
		last, lerr := opts.Replica.Last(ctx)
		switch {
		case lerr != nil:
			return nil, errors.Join(err, lerr)
		case last > 0: // another node gave it its rows, or is doing that
			aside := filepath.Join(l.paths.aside(), "vault-"+l.cfg.Now().UTC().Format("20060102T150405.000"))
			l.log.Warn("the vaults' log was made anew; this vault is set aside and filled from it", "aside", aside)
			if err := durable.MkdirAll(l.paths.aside(), 0o700); err != nil {
				return nil, err
			}
			if err := os.Rename(dir, aside); err != nil {
				return nil, fmt.Errorf("set the vault aside: %w", err)
			}
			continue
		}
		may := l.mayRepair()
		if may == nil {
			l.log.Warn("the vaults' log was lost; this vault gives the new one its rows")
			if err := vault.Detach(dir, l.log); err != nil {
				return nil, err
			}
			continue
		}
		if !told {
			told = true
			l.log.Warn("the vaults' log was lost; another node gives the new one its rows", "why", may)
		}
		if werr := wait.For(ctx, steadyPause); werr != nil {
			return nil, errors.Join(err, werr)
		}
	}
}
