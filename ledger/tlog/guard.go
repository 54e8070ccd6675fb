package tlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
)

const (
	guardFile    = "record.json"
	guardVersion = 1
	// maxGuard bounds the record: 64 hashes of 46 bytes in JSON, an origin of at
	// most a few hundred bytes, and some names.
	maxGuard = 16 << 10
)

// guard keeps the record of the newest tree that may be signed. It is used by
// one goroutine at a time.
type guard struct {
	dir    string
	origin string
	files  *files

	tree    tree   // of the record stored last
	stored  []byte // that record's bytes
	unsure  []byte // a record whose storing failed and which may be there all the same; nil if none
	unsureT tree
}

// record is the file. Hashes are base64. The record is written without blanks,
// members in this order, and one newline at the end.
type record struct {
	Version int      `json:"version"`
	Origin  string   `json:"origin"`
	Size    uint64   `json:"size"`
	Root    []byte   `json:"root"`
	Range   [][]byte `json:"range"`
	// Replaces names the record that was there before; absent in the first.
	Replaces *replaced `json:"replaces,omitempty"`
}

type replaced struct {
	Size uint64 `json:"size"`
	Root []byte `json:"root"`
}

func encodeRecord(origin string, t tree, before *tree) ([]byte, error) {
	r := record{Version: guardVersion, Origin: origin, Size: t.size, Root: t.root[:], Range: [][]byte{}}
	for i := range t.edge {
		r.Range = append(r.Range, t.edge[i][:])
	}
	if before != nil {
		r.Replaces = &replaced{before.size, before.root[:]}
	}
	b, err := json.Marshal(r)
	return append(b, '\n'), err
}

// parseRecord accepts what encodeRecord writes and nothing else. That a size is
// the wrong one of those with as many complete subtrees shows only in the
// comparison with the tiles.
func parseRecord(data []byte) (origin string, t tree, err error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return "", tree{}, err
	}
	if r.Version != guardVersion {
		return "", tree{}, fmt.Errorf("version %d, this program knows %d", r.Version, guardVersion)
	}
	edge := make([]tiles.Hash, len(r.Range))
	for i, h := range r.Range {
		if len(h) != tiles.HashSize {
			return "", tree{}, fmt.Errorf("hash %d of the range has %d bytes, expected %d", i, len(h), tiles.HashSize)
		}
		edge[i] = tiles.Hash(h)
	}
	if t, err = treeOf(r.Size, edge); err != nil {
		return "", tree{}, err
	}
	if !bytes.Equal(t.root[:], r.Root) {
		return "", tree{}, fmt.Errorf("root is %x, its range gives %x", r.Root, t.root)
	}
	var before *tree
	if r.Replaces != nil {
		if len(r.Replaces.Root) != tiles.HashSize {
			return "", tree{}, fmt.Errorf("root of the record it replaces has %d bytes, expected %d", len(r.Replaces.Root), tiles.HashSize)
		}
		before = &tree{size: r.Replaces.Size, root: tiles.Hash(r.Replaces.Root)}
	}
	again, err := encodeRecord(r.Origin, t, before)
	if err != nil {
		return "", tree{}, err
	}
	if !bytes.Equal(again, data) {
		return "", tree{}, errors.New("it is not in the one spelling of a guard record")
	}
	return r.Origin, t, nil
}

func (g *guard) path() string { return filepath.Join(g.dir, guardFile) }

func (g *guard) read() ([]byte, error) { return durable.ReadFile(g.path(), maxGuard) }

// load reads the record at the start. An error for no record is fs.ErrNotExist.
func (g *guard) load() error {
	b, err := g.read()
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGuard, err)
	}
	origin, t, err := parseRecord(b)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrGuard, g.path(), err)
	}
	if origin != g.origin {
		return fmt.Errorf("%w: %s is for the log %q, expected %q", ErrGuard, g.path(), origin, g.origin)
	}
	g.tree, g.stored = t, b
	return nil
}

// create stores the first record, of the empty tree. It never replaces one.
func (g *guard) create() error {
	if err := durable.MkdirAll(g.dir, 0o700); err != nil {
		return err
	}
	b, err := encodeRecord(g.origin, emptyTree(), nil)
	if err != nil {
		return err
	}
	if err := g.files.create(g.path(), b, 0o600); err != nil {
		return fmt.Errorf("store the first guard record: %w", err)
	}
	g.tree, g.stored = emptyTree(), b
	return nil
}

// store makes t the guard's tree, durably, if the record on disk is still the
// one stored last. t must be at least as large. When it returns nil the record
// survives a power loss. After another error than ErrGuardChanged or
// ErrDisagrees the old record or the new one is in place; store may be called
// again, also with a larger tree.
func (g *guard) store(t tree) error {
	onDisk, err := g.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("compare the guard record: %w", err)
	}
	switch {
	case err == nil && bytes.Equal(onDisk, g.stored):
	case err == nil && g.unsure != nil && bytes.Equal(onDisk, g.unsure):
		g.tree, g.stored = g.unsureT, g.unsure
	default:
		return fmt.Errorf("%w: %s is not the record of %s that was stored last", ErrGuardChanged, g.path(), g.tree)
	}
	switch {
	case t.size < g.tree.size:
		return fmt.Errorf("%w: the guard has %s, offered %s", ErrRolledBack, g.tree, t)
	case t.size == g.tree.size && t.root != g.tree.root:
		return fmt.Errorf("%w: the guard has %s, offered %s", ErrDisagrees, g.tree, t)
	case t.size == g.tree.size && g.unsure == nil:
		return nil
	}
	// A record that may not have been flushed is written once more, even for
	// the same tree.
	b := g.stored
	if t.size > g.tree.size {
		if b, err = encodeRecord(g.origin, t, &g.tree); err != nil {
			return err
		}
	}
	g.unsure, g.unsureT = b, t
	if err := g.files.write(g.path(), b, 0o600); err != nil {
		return fmt.Errorf("store the guard record of %s: %w", t, err)
	}
	g.tree, g.stored, g.unsure = t, b, nil
	return nil
}
