package follow

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/transparency-dev/merkle/compact"

	"counterfoil/projections/kv"
	"counterfoil/projections/receipts"
)

// projection is a read model. Apply keeps its changes in memory, Flush writes
// them into the batch, Committed says that the batch is in the database, and
// Discard that memory may differ from it.
type projection interface {
	Apply(b *kv.Batch, f *receipts.Fact) error
	// Pending bounds the rows and bytes that Flush would write.
	Pending() (rows, bytes int)
	Flush(b *kv.Batch) error
	Committed()
	Discard()
}

// writer folds proven leaves into batches. Between two commits it is ahead of
// the database in memory only.
type writer struct {
	f      *Follower
	batch  *kv.Batch
	rng    *compact.Range
	under  uint64 // size of the published tree
	leaves int    // in the batch
}

// apply folds a proven span. It commits as it goes, so that a long span becomes
// visible bit by bit: each bit is a prefix of a tree whose root was compared.
func (f *Follower) apply(ctx context.Context, c kv.Cursor, s *span) error {
	rng, err := rangeOf(c)
	if err != nil {
		return err
	}
	w := &writer{f: f, rng: rng, under: s.size}
	err = w.span(ctx, s)
	if err == nil {
		err = w.commit()
	}
	if err != nil {
		if w.batch != nil {
			w.batch.Discard()
		}
		for _, p := range f.projections {
			p.Discard()
		}
	}
	return err
}

func (w *writer) span(ctx context.Context, s *span) error {
	for at := s.from; at < s.size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		end := s.partEnd(at)
		cs, err := w.f.part(ctx, s, at, end)
		if err != nil {
			return err
		}
		w.f.inspect(cs)
		for i := range cs {
			if err := w.leaf(&cs[i]); err != nil {
				return fmt.Errorf("fold leaf %d: %w", cs[i].index, err)
			}
		}
		at = end
	}
	return nil
}

// part returns the leaves of one part of a span: those that were proven, or the
// same again.
func (f *Follower) part(ctx context.Context, s *span, at, end uint64) ([]candidate, error) {
	cs := make([]candidate, 0, end-at)
	sum := sha256.New()
	add := func(index uint64, leaf []byte) error {
		h := f.hash.leaf(leaf)
		sum.Write(h[:])
		cs = append(cs, candidate{index: index, leaf: leaf, hash: h})
		return nil
	}
	if s.leaves != nil {
		for i := at; i < end; i++ {
			_ = add(i, s.leaves[i-s.from])
			s.leaves[i-s.from] = nil // free it as we go
		}
	} else {
		err := f.read(ctx, at, end, s.size, func(index uint64, leaf []byte) error { return add(index, bytes.Clone(leaf)) })
		if err != nil {
			return nil, err
		}
	}
	if [32]byte(sum.Sum(nil)) != s.part(at) {
		return nil, &ChangedError{From: at, To: end}
	}
	return cs, nil
}

func (w *writer) leaf(c *candidate) error {
	if w.batch == nil {
		b, err := w.f.cfg.DB.Begin()
		if err != nil {
			return err
		}
		w.batch = b
	}
	fact, err := w.f.judge(w.batch, c)
	if err != nil {
		return err
	}
	rows, size := 0, 0
	for _, p := range w.f.projections {
		if err := p.Apply(w.batch, fact); err != nil {
			return err
		}
		r, b := p.Pending()
		rows, size = rows+r, size+b
	}
	if err := w.rng.Append(c.hash[:], nil); err != nil {
		return err
	}
	if w.leaves++; w.leaves >= w.f.cfg.BatchLeaves || rows >= kv.MaxBatchRows || size >= kv.MaxBatchBytes {
		return w.commit()
	}
	return nil
}

// commit makes what was folded visible. From its return on a kill loses nothing:
// rows, parked leaves and cursor are one transaction, and CatchUp goes on at the
// cursor as if the process had started anew.
func (w *writer) commit() error {
	if w.batch == nil {
		return nil
	}
	for _, p := range w.f.projections {
		if err := p.Flush(w.batch); err != nil {
			return err
		}
	}
	c := kv.Cursor{Size: w.rng.End(), Root: rootOf(w.rng), Under: w.under}
	for _, h := range w.rng.Hashes() {
		c.Hashes = append(c.Hashes, [32]byte(h))
	}
	if err := w.batch.Commit(c); err != nil {
		return err
	}
	w.batch, w.leaves = nil, 0
	for _, p := range w.f.projections {
		p.Committed()
	}
	w.f.moved(c.Size)
	return nil
}
