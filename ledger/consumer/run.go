package consumer

import (
	"context"
	"errors"
)

// Run follows a log from the cursor in a store, or from cfg.From if there is
// none yet, and gives each batch to handle. The cursor is saved after handle
// returned without an error, so that each event is handled at least once: after
// a crash in between, the batch comes again. It returns nil at the end with
// cfg.Stop, and else the error of the follower, the store or handle, or the
// cause of ctx.
func Run(ctx context.Context, cfg Config, store Store, handle func(context.Context, *Batch) error) error {
	c, err := Load(store)
	if err != nil {
		return err
	}
	if c != nil {
		cfg.From, cfg.Cursor = 0, c
	}
	f, err := New(cfg)
	if err != nil {
		return err
	}
	for {
		b, err := f.Next(ctx)
		if errors.Is(err, ErrEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := handle(ctx, b); err != nil {
			return err
		}
		if err := store.Save(b.Cursor().Append(nil)); err != nil {
			return err
		}
	}
}
