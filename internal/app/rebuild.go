package app

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"counterfoil/ledger/trust"
	"counterfoil/projections/follow"
	"counterfoil/projections/kv"
	"counterfoil/projections/query"
)

// Rebuilt is what a rebuild came to.
type Rebuilt struct {
	TreeSize uint64
	Parked   uint64 // leaves that do not count
	// Digest is the view digest at TreeSize, "sha256:" and hex.
	Digest string
}

// Rebuild makes the views of a data directory anew from the published log alone.
// No ledger may run on it. The old views stay until the new ones are complete.
func Rebuild(ctx context.Context, cfg Config) (_ *Rebuilt, err error) {
	l, unlock, err := openStopped(cfg, "--data DIR", false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	l.check = newChecker(l.event.trust.EventKeys)
	l.tiles = newLogReader(l.paths.log())
	if err := l.openDisk(ctx); err != nil {
		return nil, err
	}
	cp, err := l.signedCheckpoint()
	if err != nil {
		return nil, err
	}
	fc := l.followConfig(nil)
	fc.Source = still{published{l}, cp}
	out, err := follow.Rebuild(ctx, l.viewConfig(), fc)
	if err != nil {
		return nil, err
	}
	parked, err := l.countParked(ctx)
	if err != nil {
		return nil, err
	}
	return &Rebuilt{TreeSize: out.Size, Parked: parked, Digest: "sha256:" + hex.EncodeToString(out.Digest[:])}, nil
}

func (l *Ledger) countParked(ctx context.Context) (_ uint64, err error) {
	db, err := kv.Open(l.viewConfig())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := query.New(db, leafReader{l.tiles}).Counts(ctx)
	if err != nil {
		return 0, err
	}
	return c.Parked, nil
}

// signedCheckpoint reads the published checkpoint and verifies it under the
// log's key.
func (l *Ledger) signedCheckpoint() (trust.Checkpoint, error) {
	raw, err := os.ReadFile(filepath.Join(l.paths.log(), "checkpoint"))
	if err != nil {
		return trust.Checkpoint{}, fmt.Errorf("read the checkpoint: %w", err)
	}
	note, err := trust.ParseNote(raw)
	if err != nil {
		return trust.Checkpoint{}, fmt.Errorf("checkpoint: %w", err)
	}
	if v, err := note.VerifyBy(l.event.trust.Log); err != nil || v.Lines == 0 {
		return trust.Checkpoint{}, errors.Join(errors.New("the checkpoint is not signed by the log's key"), err)
	}
	return trust.ParseCheckpoint(note.Text)
}

// still is a log that does not grow.
type still struct {
	published
	cp trust.Checkpoint
}

func (s still) Published(context.Context) (uint64, [32]byte, error) { return s.cp.Size, s.cp.Root, nil }

func (s still) Changed() <-chan struct{} { return nil }
