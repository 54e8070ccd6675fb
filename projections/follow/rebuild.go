package follow

import (
	"context"
	"errors"

	"counterfoil/projections/kv"
)

// Rebuilt is what a rebuild made.
type Rebuilt struct {
	Size   uint64
	Root   [32]byte
	Digest [32]byte // view digest at Size
}

// Rebuild folds the newest published tree into a fresh database beside the one
// in views.Dir and then swaps the two. Until the swap, which is atomic, and
// after any error or crash before it, the old views stay as they are. It fails
// with kv.ErrInUse while a server has the views open. cfg.DB is not used.
func Rebuild(ctx context.Context, views kv.Config, cfg Config) (*Rebuilt, error) {
	views.Schema = Schema
	b, err := kv.Build(views)
	if err != nil {
		return nil, err
	}
	out, err := fill(ctx, b.DB, cfg)
	if err != nil {
		return nil, errors.Join(err, b.Abandon())
	}
	if err := b.Swap(); err != nil {
		return nil, err
	}
	return out, nil
}

func fill(ctx context.Context, db *kv.DB, cfg Config) (*Rebuilt, error) {
	cfg.DB = db
	f, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if err := f.CatchUp(ctx); err != nil {
		return nil, err
	}
	s, err := db.Snapshot()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out := &Rebuilt{Size: s.Cursor().Size, Root: s.Cursor().Root}
	out.Digest, err = s.Digest(ctx, out.Size)
	if err != nil {
		return nil, err
	}
	return out, nil
}
