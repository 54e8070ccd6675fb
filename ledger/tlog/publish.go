package tlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"

	"golang.org/x/mod/sumdb/note"
)

// maxCheckpoint bounds a published checkpoint: ours has one signature, others
// may have added cosignatures of up to 3.3 kB.
const maxCheckpoint = 128 << 10

// Publish signs the durable tree and puts the checkpoint in place of the last
// one. If that is of the same size it is returned as it is. It may run beside
// an Append; it then publishes what was durable before the batch in flight.
//
// After an error the old checkpoint or the new one is in place, never anything
// else, and Publish may be called again. ErrRolledBack, ErrDisagrees and
// ErrGuardChanged are final, and so is what a Fence calls final: nothing was signed
// and nothing will be, see Err.
func (l *Log) Publish(ctx context.Context) (Checkpoint, error) {
	if err := take(ctx, l.signing); err != nil {
		return l.Checkpoint(), fmt.Errorf("publish: %w", err)
	}
	defer release(l.signing)
	if ctx.Err() != nil {
		return l.Checkpoint(), fmt.Errorf("publish: %w", context.Cause(ctx))
	}
	if err := l.usable(); err != nil {
		return l.Checkpoint(), fmt.Errorf("publish: %w", err)
	}
	t, err := l.checkStored(ctx)
	if err != nil {
		return l.Checkpoint(), fmt.Errorf("publish: %w", l.fail(err))
	}
	if cp := l.Checkpoint(); cp.Note != nil && cp.Size == t.size {
		return cp, nil
	}
	// The guard comes first: once a signature exists, no smaller and no other
	// tree can be signed, whatever happens to this process and to the log's
	// files. A crash from here on leaves a guard that is ahead of the
	// checkpoint, which Open accepts; the next Publish makes up for it.
	if err := l.storeGuard(t); err != nil {
		return l.Checkpoint(), fmt.Errorf("publish: %w", err)
	}
	// Then the guard that all nodes share. Its promise is never of a tree that is
	// not durable here: who promises can always keep it, or another node does.
	if err := l.reserve(ctx, t); err != nil {
		return l.Checkpoint(), fmt.Errorf("publish: %w", err)
	}
	signed, err := l.sign(t)
	if err != nil {
		return l.Checkpoint(), fmt.Errorf("publish size %d: %w", t.size, err)
	}
	// The others have it before anybody can read it here: a checkpoint that is
	// shown is never one that a later holder does not know. A crash from here on
	// leaves it to them, and to Adopt.
	if err := l.announce(ctx, signed); err != nil {
		return l.Checkpoint(), fmt.Errorf("publish size %d: %w", t.size, err)
	}
	cp := Checkpoint{Size: t.size, Root: t.root, Note: signed}
	if err := l.show(cp); err != nil {
		return l.Checkpoint(), fmt.Errorf("publish size %d: %w", t.size, err)
	}
	return cp, nil
}

func (l *Log) reserve(ctx context.Context, t tree) error {
	if l.cfg.Fence == nil {
		return nil
	}
	return l.fail(l.cfg.Fence.Reserve(ctx, t.size, t.root))
}

func (l *Log) announce(ctx context.Context, signed []byte) error {
	if l.cfg.Fence == nil {
		return nil
	}
	return l.fail(l.cfg.Fence.Publish(ctx, signed))
}

// storeGuard makes t the guard's tree. The caller holds l.signing.
func (l *Log) storeGuard(t tree) error {
	if err := l.guard.store(t); err != nil {
		return l.fail(err)
	}
	l.mu.Lock()
	l.guarded = l.guard.tree
	l.mu.Unlock()
	return nil
}

// show puts a checkpoint in place that the guard knows. The caller holds
// l.signing.
func (l *Log) show(cp Checkpoint) error {
	// The commit point. A crash loses nothing: the old checkpoint or the new
	// one is there, and both are below the guard.
	if err := l.cfg.files.write(filepath.Join(l.cfg.Dir, tiles.Path{Kind: tiles.Checkpoint}.String()), cp.Note, 0o644); err != nil {
		return err
	}
	l.mu.Lock()
	l.published = cp
	l.broadcastLocked()
	l.mu.Unlock()
	return nil
}

// checkStored returns the durable tree, after comparing it with what is stored:
// the state file, which a batch in flight may already have moved on, and the
// root that the tiles give at exactly its size.
func (l *Log) checkStored(ctx context.Context) (tree, error) {
	l.mu.Lock()
	t := l.tree
	l.mu.Unlock()
	st, err := l.liveState()
	if err != nil {
		return t, err
	}
	l.mu.Lock()
	most := max(l.tree.size, l.target)
	l.mu.Unlock()
	if st.size < t.size || st.size > most || st.size == t.size && st.root != t.root {
		return t, stateError(st, t)
	}
	root, err := l.tiles.Root(ctx, t.size)
	if err != nil {
		return t, tilesError(err)
	}
	if root != t.root {
		return t, fmt.Errorf("%w: the tiles have root %x at size %d, computed %x", ErrDisagrees, root, t.size, t.root)
	}
	return t, nil
}

// sign makes the note and verifies it, since the signer may be anywhere.
func (l *Log) sign(t tree) ([]byte, error) {
	text := checkpointText(l.cfg.Origin, t)
	signed, err := note.Sign(&note.Note{Text: text}, l.cfg.Signer)
	if err != nil {
		return nil, fmt.Errorf("sign the checkpoint: %w", err)
	}
	n, err := note.Open(signed, note.VerifierList(l.verifier))
	if err != nil {
		return nil, fmt.Errorf("verify the checkpoint's new signature: %w", err)
	}
	if n.Text != text {
		return nil, errors.New("the signed checkpoint has another text")
	}
	return signed, nil
}

// readCheckpoint reads the published checkpoint at the start, and believes only
// what this log's key signed. An error for none is an fs.ErrNotExist.
func (l *Log) readCheckpoint() (Checkpoint, error) {
	name := filepath.Join(l.cfg.Dir, tiles.Path{Kind: tiles.Checkpoint}.String())
	if fi, err := os.Stat(name); err == nil && fi.Size() > maxCheckpoint {
		return Checkpoint{}, fmt.Errorf("%w: %d bytes, expected at most %d", ErrCheckpoint, fi.Size(), maxCheckpoint)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("read the checkpoint: %w", err)
	}
	cp, err := l.parseCheckpoint(raw)
	return cp.Checkpoint, err
}

// parsed is a checkpoint that the log's key signed.
type parsed struct {
	Checkpoint
	extension string
}

// parseCheckpoint believes only what this log's key signed. Its error is an
// ErrCheckpoint.
func (l *Log) parseCheckpoint(raw []byte) (parsed, error) {
	if len(raw) > maxCheckpoint {
		return parsed{}, fmt.Errorf("%w: %d bytes, expected at most %d", ErrCheckpoint, len(raw), maxCheckpoint)
	}
	n, err := note.Open(raw, note.VerifierList(l.verifier))
	if err != nil {
		return parsed{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	cp, err := trust.ParseCheckpoint(n.Text)
	if err != nil {
		return parsed{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if cp.Origin != l.cfg.Origin {
		return parsed{}, fmt.Errorf("%w: its origin is %q, expected %q", ErrCheckpoint, cp.Origin, l.cfg.Origin)
	}
	return parsed{Checkpoint{Size: cp.Size, Root: cp.Root, Note: bytes.Clone(raw)}, cp.Extension}, nil
}

// tilesError marks what the tiles could not answer.
func tilesError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrTiles, err)
}
