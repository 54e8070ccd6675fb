package tlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
)

// stateFile is where Tessera writes the size and root of the tree as the last
// step of a batch.
var stateFile = filepath.Join(".state", "treeState")

// state is the content of that file.
type state struct {
	size uint64
	root tiles.Hash
	raw  []byte
}

func (s state) String() string { return fmt.Sprintf("size %d root %x", s.size, s.root) }

func (s state) is(t tree) bool { return t.same(s.size, s.root) }

// readState reads it. An error for no state is an fs.ErrNotExist.
func readState(dir string) (state, error) {
	raw, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return state{}, fmt.Errorf("read the log's state: %w", err)
	}
	var s struct {
		Size uint64 `json:"size"`
		Root []byte `json:"root"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return state{}, fmt.Errorf("read the log's state: %s: %w", stateFile, err)
	}
	if len(s.Root) != tiles.HashSize {
		return state{}, fmt.Errorf("read the log's state: %s: root has %d bytes, expected %d", stateFile, len(s.Root), tiles.HashSize)
	}
	return state{s.Size, tiles.Hash(s.Root), raw}, nil
}

// liveState is readState for a log that is in use, where a missing file means
// that somebody took it away.
func (l *Log) liveState() (state, error) {
	st, err := readState(l.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return st, fmt.Errorf("%w: %w", ErrRolledBack, err)
	}
	return st, err
}

// flushState makes the state file durable that is in place now. A batch's tiles
// are flushed before its state is written, so this is all that can be missing.
func (l *Log) flushState(st state) error {
	return l.cfg.files.write(filepath.Join(l.cfg.Dir, stateFile), st.raw, 0o644)
}

func syncStateDir(dir string) error { return durable.SyncDir(filepath.Join(dir, ".state")) }
