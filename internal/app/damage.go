package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"sync"
	"sync/atomic"

	"counterfoil/ledger/tiles"
)

// logReader reads the tiles, and remembers the first read that met a file that
// is damaged or missing until the same read succeeds. It is safe for concurrent
// use.
type logReader struct {
	src tiles.Source
	now atomic.Pointer[tiles.Reader]

	mu     sync.Mutex
	damage *damage
}

// damage is what a read met, and that read.
type damage struct {
	err   error
	again func(context.Context, *tiles.Reader) error
}

func newLogReader(dir string) *logReader {
	r := &logReader{src: whole{tiles.Dir(dir)}}
	r.now.Store(r.fresh())
	return r
}

func (r *logReader) fresh() *tiles.Reader { return tiles.NewReader(r.src, tiles.Options{}) }

// Trouble says which file of the log is damaged, as far as reads have met one.
// Once that is put right, what was kept of the files is forgotten.
func (r *logReader) Trouble(ctx context.Context) error {
	r.mu.Lock()
	d := r.damage
	r.mu.Unlock()
	if d == nil {
		return nil
	}
	fresh := r.fresh()
	if err := d.again(ctx, fresh); err != nil {
		return d.err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.damage == d {
		r.now.Store(fresh)
		r.damage = nil
	}
	return nil
}

func (r *logReader) note(err error, again func(context.Context, *tiles.Reader) error) {
	var bad *tiles.DamageError
	if !errors.As(err, &bad) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.damage == nil {
		r.damage = &damage{err, again}
	}
}

// whole is a log of which every file is there: one that is not is damage. A tree
// is read only where it was published.
type whole struct{ tiles.Source }

// Read implements [tiles.Source].
func (w whole) Read(ctx context.Context, p tiles.Path) ([]byte, tiles.Path, error) {
	data, got, err := w.Source.Read(ctx, p)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", &tiles.DamageError{Path: p, Problem: "the file is missing"}, err)
	}
	return data, got, err
}

// noted makes a read and remembers what it met.
func noted[T any](ctx context.Context, r *logReader, read func(context.Context, *tiles.Reader) (T, error)) (T, error) {
	out, err := read(ctx, r.now.Load())
	if err != nil {
		r.note(err, func(ctx context.Context, now *tiles.Reader) error { _, err := read(ctx, now); return err })
	}
	return out, err
}

// Leaf is that of [tiles.Reader].
func (r *logReader) Leaf(ctx context.Context, index, size uint64) (tiles.Leaf, error) {
	return noted(ctx, r, func(ctx context.Context, now *tiles.Reader) (tiles.Leaf, error) { return now.Leaf(ctx, index, size) })
}

// Leaves is that of [tiles.Reader].
func (r *logReader) Leaves(ctx context.Context, from, to, size uint64) iter.Seq2[tiles.Leaf, error] {
	return func(yield func(tiles.Leaf, error) bool) {
		next := from
		for leaf, err := range r.now.Load().Leaves(ctx, from, to, size) {
			if err != nil {
				at := next
				r.note(err, func(ctx context.Context, now *tiles.Reader) error { _, err := now.Leaf(ctx, at, size); return err })
			}
			next++
			if !yield(leaf, err) {
				return
			}
		}
	}
}

// Inclusion is that of [tiles.Reader].
func (r *logReader) Inclusion(ctx context.Context, index, size uint64) ([][]byte, error) {
	return noted(ctx, r, func(ctx context.Context, now *tiles.Reader) ([][]byte, error) { return now.Inclusion(ctx, index, size) })
}

// Consistency is that of [tiles.Reader].
func (r *logReader) Consistency(ctx context.Context, a, b uint64) ([][]byte, error) {
	return noted(ctx, r, func(ctx context.Context, now *tiles.Reader) ([][]byte, error) { return now.Consistency(ctx, a, b) })
}

// Root is that of [tiles.Reader].
func (r *logReader) Root(ctx context.Context, size uint64) (tiles.Hash, error) {
	return noted(ctx, r, func(ctx context.Context, now *tiles.Reader) (tiles.Hash, error) { return now.Root(ctx, size) })
}
