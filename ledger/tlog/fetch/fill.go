package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/transparency-dev/merkle/compact"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
)

const (
	filePerm = 0o644 // as Tessera has them
	dirPerm  = 0o755
	// maxFile is the longest file that can be lawful: a bundle of the longest leaves.
	maxFile = tiles.Width * (2 + tiles.MaxEntry)
)

// Fill puts the tiles and bundles into dir that a log of size from lacks, and returns
// the compact range of the whole tree, computed from the leaves: its root is the
// signed one. The first from leaves must be those of the tree, see [Tree.Begins].
//
// When it returns nil everything is durable. Nothing of it counts before the caller
// says so: partial tiles of the old size stay as they are.
func (t *Tree) Fill(ctx context.Context, dir string, from uint64) ([]tiles.Hash, error) {
	if from > t.cfg.Size {
		return nil, fmt.Errorf("a log of size %d is beyond the tree of size %d", from, t.cfg.Size)
	}
	w := &filling{Tree: t, dir: dir, made: map[string]bool{}}
	whole := from / tiles.Width * tiles.Width // the last bundle has to be written anew
	known, err := t.proven.RightEdge(ctx, whole)
	if err != nil {
		return nil, err
	}
	raw := make([][]byte, len(known))
	for i := range known {
		raw[i] = bytes.Clone(known[i][:])
	}
	sum, err := ranges.NewRange(0, whole, raw)
	if err != nil {
		return nil, err
	}
	if err := w.bundles(ctx, sum); err != nil {
		return nil, err
	}
	if err := w.tiles(ctx, from); err != nil {
		return nil, err
	}
	if err := w.flush(); err != nil {
		return nil, err
	}
	edge := hashesOf(sum)
	if root := tiles.EdgeRoot(edge); sum.End() != t.cfg.Size || root != t.cfg.Root {
		return nil, &WrongError{"the tree of all leaves", fmt.Sprintf("size %d root %x", t.cfg.Size, t.cfg.Root), fmt.Sprintf("size %d root %x", sum.End(), root)}
	}
	return edge, nil
}

// filling is one run of Fill.
type filling struct {
	*Tree
	dir string

	mu   sync.Mutex
	made map[string]bool // directories of files that were written or were there
}

// window is how many bundles are finished before the next ones are begun: those under
// one tile of level 1.
const window = tiles.Width

// bundles writes the bundles from the end of sum on, with the hash tiles over them,
// and adds their leaves to sum.
func (w *filling) bundles(ctx context.Context, sum *compact.Range) error {
	last := (w.cfg.Size + tiles.Width - 1) / tiles.Width
	for first := sum.End() / tiles.Width; first < last; {
		end := min(last, (first/window+1)*window)
		parts := make([]*compact.Range, end-first)
		if err := w.each(ctx, len(parts), func(ctx context.Context, i int) (err error) {
			parts[i], err = w.bundleAt(ctx, first+uint64(i))
			return err
		}); err != nil {
			return err
		}
		for _, part := range parts {
			if err := sum.AppendRange(part, nil); err != nil {
				return err
			}
		}
		w.cfg.Progress(sum.End())
		first = end
	}
	return nil
}

// each calls f with 0 to n−1, some at once, and returns the first error.
func (w *filling) each(ctx context.Context, n int, f func(context.Context, int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan int)
	var working sync.WaitGroup
	for range min(n, w.cfg.Workers) {
		working.Go(func() {
			for i := range next {
				if err := f(ctx, i); err != nil {
					stop(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	working.Wait()
	return context.Cause(ctx)
}

// bundleAt sees to it that a bundle and its hash tile are on the disk.
func (w *filling) bundleAt(ctx context.Context, index uint64) (*compact.Range, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p := tiles.EntriesPath(index, 1).In(w.cfg.Size)
	data, hashes, err := w.local(ctx, p)
	if err != nil {
		return nil, err
	}
	if hashes == nil {
		if data, hashes, err = w.bundle(ctx, p); err != nil {
			return nil, err
		}
	}
	if err := w.put(p, data); err != nil {
		return nil, err
	}
	if err := w.put(tiles.TilePath(0, index, p.Width), join(hashes)); err != nil {
		return nil, err
	}
	return rangeOf(index*tiles.Width, hashes)
}

// local reads a bundle that is there already: of the log, or of a run that was cut
// off. One that is not the tree's is as good as none.
func (w *filling) local(ctx context.Context, p tiles.Path) ([]byte, []tiles.Hash, error) {
	data, err := durable.ReadFile(w.name(p), maxFile)
	if err != nil {
		return nil, nil, nil // put says what is wrong, if it is
	}
	hashes, err := w.proveBundle(ctx, p, data)
	if err == nil {
		return data, hashes, nil
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if errors.Is(err, ErrNoPeer) {
		return nil, nil, err
	}
	return nil, nil, nil
}

// tiles writes the hash tiles above level 0.
func (w *filling) tiles(ctx context.Context, from uint64) (err error) {
	tiles.Paths(from, w.cfg.Size, func(p tiles.Path) bool {
		if p.Kind != tiles.Tile || p.Level == 0 {
			return true
		}
		var data []byte
		if data, _, err = (source{w.Tree}).Read(ctx, p); err == nil {
			err = w.put(p, data)
		}
		return err == nil
	})
	return err
}

func (w *filling) name(p tiles.Path) string {
	return filepath.Join(w.dir, filepath.FromSlash(p.String()))
}

// put writes a file, unless it is there with that content.
func (w *filling) put(p tiles.Path, data []byte) error {
	name := w.name(p)
	dir := filepath.Dir(name)
	if have, err := durable.ReadFile(name, int64(len(data))); err == nil && bytes.Equal(have, data) {
		w.mu.Lock()
		w.made[dir] = true
		w.mu.Unlock()
		return nil
	}
	w.mu.Lock()
	made := w.made[dir]
	w.mu.Unlock()
	if !made {
		if err := durable.MkdirAll(dir, dirPerm); err != nil {
			return err
		}
		w.mu.Lock()
		w.made[dir] = true
		w.mu.Unlock()
	}
	if err := w.cfg.Write(name, data, filePerm); err != nil {
		return fmt.Errorf("write %s: %w", p, err)
	}
	return nil
}

// flush makes the names durable of files that a run before this one wrote: it may
// have been killed before it did.
func (w *filling) flush() error {
	for dir := range w.made {
		for ; ; dir = filepath.Dir(dir) {
			if err := durable.SyncDir(dir); err != nil {
				return err
			}
			if dir == w.dir || dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return nil
}
