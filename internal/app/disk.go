package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"counterfoil/internal/api"
	"counterfoil/internal/durable"
)

// diskWatch keeps a reserve free on the file system of the data directory: below
// it no new event is taken, so that what was accepted can still be logged and
// published. It lifts by itself.
type diskWatch struct {
	dir     string
	reserve uint64
	free    atomic.Uint64
	full    atomic.Bool
}

// diskEvery is how often the free space is read: at 10,000 events of 2 KB in
// all files together, 2 MB in between, well within the reserve.
const diskEvery = 100 * time.Millisecond

func newDiskWatch(dir string, reserve uint64) (*diskWatch, error) {
	w := &diskWatch{dir: dir, reserve: reserve}
	return w, w.look()
}

func (w *diskWatch) look() error {
	free, err := durable.FreeBytes(w.dir)
	if err != nil {
		return fmt.Errorf("free space of %s: %w", w.dir, err)
	}
	w.free.Store(free)
	w.full.Store(free < w.reserve)
	return nil
}

func (w *diskWatch) run(ctx context.Context) {
	for pause(ctx, diskEvery) {
		_ = w.look() // a file system that cannot be asked fails elsewhere
	}
}

// admit refuses new events while the reserve is touched.
func (w *diskWatch) admit() error {
	if !w.full.Load() {
		return nil
	}
	return &api.Unavailable{Reason: "disk_full", Message: fmt.Sprintf("%d bytes free in the data directory, %d are kept in reserve", w.free.Load(), w.reserve)}
}
