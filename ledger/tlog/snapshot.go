package tlog

import (
	"fmt"
	"path/filepath"

	"counterfoil/ledger/tiles"
)

// Snapshot is the durable tree of a moment, with the small files that a copy of
// the log needs beside the tiles of exactly that size.
type Snapshot struct {
	Size uint64
	Root tiles.Hash
	// State and Guard are the contents of [SnapshotState] in the log's directory
	// and of [SnapshotGuard] in the guard's.
	State, Guard []byte
	// Checkpoint is the newest published one, of Size or less; without a Note if
	// there is none.
	Checkpoint Checkpoint
}

// Names of the files of a Snapshot.
var (
	SnapshotState = filepath.ToSlash(stateFile)
	SnapshotGuard = guardFile
)

// Snapshot returns the durable tree. The guard of a copy has that tree: such a
// copy signs it and what continues it, and nothing smaller.
func (l *Log) Snapshot() (Snapshot, error) {
	l.mu.Lock()
	t, cp := l.tree, l.published
	l.mu.Unlock()
	guard, err := encodeRecord(l.cfg.Origin, t, nil)
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot of the log: %w", err)
	}
	state, err := encodeState(t)
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot of the log: %w", err)
	}
	return Snapshot{Size: t.size, Root: t.root, State: state, Guard: guard, Checkpoint: cp}, nil
}
