package tlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"counterfoil/ledger/tlog/fetch"
)

// Fetch makes the log the tree of a checkpoint that its key signed, from the tiles of
// peers that nobody trusts: every byte is proven by the checkpoint's root, see package
// fetch. It returns how many leaves the log got; none if it has them all. The
// checkpoint becomes the newest one. What peers serve beyond it is not taken.
//
// Nothing is appended meanwhile. A kill at any moment leaves the log of before, or the
// whole tree; the next Fetch goes on where it was.
//
//   - ErrCheckpoint: it is not a checkpoint of this log.
//   - ErrDisagrees with a *fetch.DifferError: a leaf here is not the signed one. Final.
//   - fetch.ErrNoPeer: no peer gives the tree. The log is what it was.
//
// After any other error the old tree or the new one is in place.
func (l *Log) Fetch(ctx context.Context, signed []byte, cfg fetch.Config) (added uint64, err error) {
	cp, err := l.parseCheckpoint(signed)
	if err == nil && cp.extension != "" {
		err = fmt.Errorf("%w: it has extension lines", ErrCheckpoint)
	}
	if err != nil {
		return 0, fmt.Errorf("fetch the log: %w", err)
	}
	for _, token := range []chan struct{}{l.appending, l.signing} {
		if err := take(ctx, token); err != nil {
			return 0, fmt.Errorf("fetch the log: %w", err)
		}
		defer release(token)
	}
	if added, err = l.fetched(ctx, cp.Checkpoint, cfg); err != nil {
		err = fmt.Errorf("fetch the log to size %d: %w", cp.Size, err)
	}
	return added, err
}

// fetched is Fetch. The caller holds l.appending and l.signing.
func (l *Log) fetched(ctx context.Context, cp Checkpoint, cfg fetch.Config) (uint64, error) {
	if err := l.usable(); err != nil {
		return 0, err
	}
	if _, err := l.settle(); err != nil {
		return 0, err
	}
	base, err := l.checkStored(ctx)
	if err != nil {
		return 0, l.fail(err)
	}
	if cp.Size <= base.size {
		if err := l.begins(ctx, base, cp.Size, cp.Root); err != nil {
			return 0, l.fail(err)
		}
	} else {
		cfg.Size, cfg.Root, cfg.Logger = cp.Size, cp.Root, l.cfg.Logger
		if err := l.grow(ctx, base, cfg); err != nil {
			return 0, l.fail(err)
		}
	}
	if has := l.Checkpoint(); has.Note == nil || cp.Size > has.Size {
		if err := l.putInPlace(l.tree, cp); err != nil {
			return 0, err
		}
	}
	return l.tree.size - base.size, nil
}

// grow makes the log the tree of cfg, which base must be the beginning of.
func (l *Log) grow(ctx context.Context, base tree, cfg fetch.Config) (err error) {
	signed, err := fetch.Open(ctx, cfg)
	if err != nil {
		return err
	}
	var differ *fetch.DifferError
	if err := signed.Begins(ctx, l.tiles, base.size); errors.As(err, &differ) {
		return fmt.Errorf("%w: %w", ErrDisagrees, err)
	} else if err != nil {
		return err
	}
	// No engine sees the tree change under it.
	l.engine.close()
	defer func() {
		engine, eerr := l.cfg.engine(&l.cfg)
		if eerr == nil {
			l.engine = engine
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed == nil {
			l.failed = eerr // nothing can be appended until the log is opened again
		}
		err = errors.Join(err, eerr)
	}()
	edge, err := signed.Fill(ctx, l.cfg.Dir, base.size)
	if err != nil {
		return err
	}
	next, err := treeOf(cfg.Size, edge)
	if err != nil {
		return err
	}
	root, err := l.tiles.Root(ctx, next.size) // of what is on the disk
	if err != nil {
		return tilesError(err)
	}
	if !next.same(cfg.Size, cfg.Root) || root != next.root {
		return fmt.Errorf("%w: the leaves give %s, the files root %x, the checkpoint size %d root %x", ErrDisagrees, next, root, cfg.Size, cfg.Root)
	}
	return l.commit(next)
}

// commit makes next the durable tree. Its tiles are in place and flushed.
func (l *Log) commit(next tree) error {
	raw, err := encodeState(next)
	if err != nil {
		return err
	}
	// The commit point, as it is that of a batch. A crash before the guard has the tree
	// leaves leaves beyond it, which the next Open checks one by one.
	if err := l.flushState(state{raw: raw}); err != nil {
		st, serr := l.liveState()
		if serr != nil || !st.is(next) {
			return errors.Join(err, serr)
		}
		l.mu.Lock() // it is there, and may not survive a power loss
		l.failed = fmt.Errorf("%w: %w", ErrUnanswered, err)
		l.broadcastLocked()
		l.mu.Unlock()
		return err
	}
	l.mu.Lock()
	l.tree, l.target = next, next.size
	l.broadcastLocked()
	l.mu.Unlock()
	return l.storeGuard(next)
}

// encodeState is what Tessera writes as its state.
func encodeState(t tree) ([]byte, error) {
	return json.Marshal(struct {
		Size uint64 `json:"size"`
		Root []byte `json:"root"`
	}{t.size, t.root[:]})
}
