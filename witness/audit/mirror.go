package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// mirror keeps a copy of the log at exactly the paths of tlog-tiles. Only proven
// bytes are written, each file whole and flushed, the checkpoint last. A file that
// is there is never replaced by a different one.
//
// Its methods are safe for concurrent use, but for finish.
type mirror struct {
	dir string
	src tiles.Source // the mirror as a source
	// have is the mirror's own checkpoint; nil before there is one.
	have *Checkpoint

	mu    sync.Mutex
	found []Finding       // files that are not what the log holds
	made  map[string]bool // directories that were made, or were there
	files uint64          // written
}

// openMirror opens a mirror, or makes the directory. It must hold nothing that no
// mirror has, and a checkpoint in it must be one that the log signed.
func openMirror(dir string, key trust.VerifierKey) (*mirror, error) {
	if err := durable.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the mirror: %w", err)
	}
	if err := onlyMirror(dir); err != nil {
		return nil, err
	}
	m := &mirror{dir: dir, src: tiles.Dir(dir), made: map[string]bool{}}
	raw, err := durable.ReadFile(filepath.Join(dir, "checkpoint"), trust.MaxNoteBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the mirror's checkpoint: %w", err)
	}
	c, f, err := ParseCheckpoint(raw, key)
	if err == nil && f != nil {
		err = errors.New(f.Detail)
	}
	if err != nil {
		return nil, fmt.Errorf("the mirror's checkpoint: %w (hint: is %s a mirror of this log? restore it, or name another directory)", err, dir)
	}
	m.have = c
	return m, nil
}

// onlyMirror refuses a directory that holds something else than a mirror: what is
// in it is about to be served, and written to.
func onlyMirror(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the mirror: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		cutOff := strings.HasPrefix(name, ".checkpoint.") && strings.HasSuffix(name, ".tmp") // by a kill
		if name != "checkpoint" && name != "tile" && !cutOff {
			return fmt.Errorf("%s is no mirror: expected checkpoint and tile alone, got %q as well (hint: name a new directory, or one that holds nothing else)", dir, name)
		}
	}
	return nil
}

// size is how many leaves the mirror holds.
func (m *mirror) size() uint64 {
	if m == nil || m.have == nil {
		return 0
	}
	return m.have.Size
}

// mayHold reports whether a unit is worth looking for in the mirror: full ones, also
// beyond its checkpoint, since a run that was cut off has left them there.
func (m *mirror) mayHold(u *unit) bool { return m != nil && u.width == tiles.Width }

// wrong takes a finding about a file of the mirror.
func (m *mirror) wrong(p tiles.Path, detail string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := filepath.Join(m.dir, filepath.FromSlash(p.String()))
	for _, f := range m.found {
		if f.Path == name {
			return
		}
	}
	m.found = append(m.found, about(MirrorDiffers, name, "the bytes that the signed tree has", "other bytes",
		"%s: it is left as it is; move it away and audit again to fetch it anew", detail))
}

// keepUnit stores a bundle whose leaves are proven, and its hash tile.
func (m *mirror) keepUnit(u *unit, s *stored) error {
	hashes := make([]tiles.Hash, u.width)
	for i := range u.leaves {
		hashes[i] = u.leaves[i].hash
	}
	return errors.Join(m.keep(tiles.EntriesPath(u.index, u.width), joinBundle(s.entries)),
		m.keep(tiles.TilePath(0, u.index, u.width), joinTile(hashes)))
}

// keep stores one file, unless it is there. Partial versions of a tile go once the
// full one is durable.
func (m *mirror) keep(p tiles.Path, data []byte) error {
	name := filepath.Join(m.dir, filepath.FromSlash(p.String()))
	have, err := durable.ReadFile(name, int64(len(data)))
	switch {
	case err == nil && bytes.Equal(have, data):
	case errors.Is(err, fs.ErrNotExist):
		if err := m.write(name, data); err != nil {
			return fmt.Errorf("mirror %s: %w", p, err)
		}
	case err == nil:
		m.wrong(p, "a file of the mirror holds something else than the log")
		return nil
	default:
		if fi, serr := os.Lstat(name); serr == nil && fi.Mode().IsRegular() && fi.Size() != int64(len(data)) {
			m.wrong(p, "a file of the mirror is longer than that of the log")
			return nil
		}
		return fmt.Errorf("mirror %s: %w", p, err)
	}
	if !p.Full() {
		return m.compareOlder(p, filepath.Dir(name), data)
	}
	if err := os.RemoveAll(name + ".p"); err != nil { // coming back after a power loss harms nobody
		return fmt.Errorf("mirror: remove partial tiles: %w", err)
	}
	return nil
}

// compareOlder compares the narrower versions of a partial tile or bundle, which
// stay for readers of an older checkpoint: each is a beginning of data.
func (m *mirror) compareOlder(p tiles.Path, dir string, data []byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("mirror %s: %w", p, err)
	}
	for _, e := range entries {
		w, err := strconv.Atoi(e.Name())
		if err != nil || w < 1 || w >= p.Width || strconv.Itoa(w) != e.Name() {
			continue
		}
		old := p
		old.Width = w
		want := data[:beginning(p.Kind, data, w)]
		have, err := durable.ReadFile(filepath.Join(dir, e.Name()), int64(len(data)))
		if err != nil || !bytes.Equal(have, want) {
			m.wrong(old, "a file of the mirror holds something else than the log")
		}
	}
	return nil
}

// beginning is how many bytes the first w hashes or entries take.
func beginning(kind tiles.Kind, data []byte, w int) int {
	if kind == tiles.Tile {
		return w * tiles.HashSize
	}
	at := 0
	for range w {
		at += 2 + int(binary.BigEndian.Uint16(data[at:]))
	}
	return at
}

func (m *mirror) write(name string, data []byte) error {
	dir := filepath.Dir(name)
	m.mu.Lock()
	made := m.made[dir]
	m.mu.Unlock()
	if !made {
		if err := durable.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := durable.WriteFile(name, data, 0o644); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !strings.HasSuffix(dir, ".p") { // those are removed again
		if len(m.made) > 4096 {
			clear(m.made)
		}
		m.made[dir] = true
	}
	m.files++
	return nil
}

// finish stores the edge of the tree and then the checkpoint: from here on the
// mirror holds the tree. It must not be called before every unit is stored.
func (m *mirror) finish(ctx context.Context, p *prover, c *Checkpoint) error {
	for level := 1; level < len(p.edge); level++ {
		if w := len(p.edge[level]); w > 0 {
			if err := m.keep(tiles.TilePath(level, c.Size>>(8*level)/tiles.Width, w), joinTile(p.edge[level])); err != nil {
				return err
			}
		}
	}
	if len(m.found) > 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	note := c.Note.Append(nil)
	name := filepath.Join(m.dir, "checkpoint")
	if have, err := durable.ReadFile(name, trust.MaxNoteBytes); err == nil && bytes.Equal(have, note) {
		return nil
	}
	if err := durable.WriteFile(name, note, 0o644); err != nil {
		return fmt.Errorf("mirror the checkpoint: %w", err)
	}
	m.have = c
	return nil
}
