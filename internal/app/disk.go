package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"counterfoil/internal/api"
	"counterfoil/internal/durable"
	"counterfoil/internal/wait"
	"counterfoil/ledger/vault"
)

// diskWatch keeps a reserve free on the file system of the data directory: below
// it no new event is taken, so that what was accepted can still be logged and
// published. It lifts by itself.
type diskWatch struct {
	dir     string
	reserve uint64
	stores  []diskStore
	free    atomic.Uint64
	rewrite atomic.Uint64 // what the stores may write again by themselves
}

// diskStore is a directory of a database that writes again what is there, at
// most limit bytes of it at a time, before it deletes it.
type diskStore struct {
	dir   string
	limit uint64
}

// maxRewrite bounds what index and views write again at once: fewer and as small
// tables as in the vault, see [vault.MaxRewrite].
const maxRewrite = 128 << 20

// eventCost is what an accepted event may still take on the disk in log, vault,
// index and views together, leaves of the usual size. It is set aside for every
// event that waits to be logged.
const eventCost = 4 << 10

// diskEvery is how often the free space is read for status and metrics.
const diskEvery = 100 * time.Millisecond

func (l *Ledger) openDisk(context.Context) (err error) {
	l.disk, err = newDiskWatch(l.cfg.Dir, l.cfg.DiskReserve, diskStore{l.paths.vault(), vault.MaxRewrite},
		diskStore{l.paths.index(), maxRewrite}, diskStore{l.paths.views(), maxRewrite})
	return err
}

// newDiskWatch refuses a disk on which nothing can be opened: the databases
// write through memory maps when they open, and a full disk would kill the
// process in the middle of it.
func newDiskWatch(dir string, reserve uint64, stores ...diskStore) (*diskWatch, error) {
	free, size, err := durable.Space(dir)
	if err != nil {
		return nil, err
	}
	w := &diskWatch{dir: dir, reserve: min(reserve, size/4), stores: stores}
	w.free.Store(free)
	w.measure()
	if free < w.toWrite() {
		return nil, fmt.Errorf("%d bytes free on the file system of %s, a start needs %d (hint: free some space and start again; nothing is lost)", free, dir, w.toWrite())
	}
	return w, nil
}

// measure looks what the stores may write again. It reads directories, which is
// too slow for every call; the vault, which grows fastest, looks by itself for
// every MiB that it writes.
func (w *diskWatch) measure() {
	var sum uint64
	for _, s := range w.stores {
		n, err := durable.Occupied(s.dir, s.limit)
		if err != nil {
			return // what was measured before is kept
		}
		sum += n
	}
	w.rewrite.Store(sum)
}

// toWrite is the free space below which the databases do not write any more,
// not even what was accepted.
func (w *diskWatch) toWrite() uint64 { return w.reserve / 2 }

func (w *diskWatch) look() error {
	free, err := durable.FreeBytes(w.dir)
	if err == nil {
		w.free.Store(free)
	}
	return err
}

func (w *diskWatch) run(ctx context.Context) {
	for wait.For(ctx, diskEvery) == nil {
		_ = w.look() // a file system that cannot be asked fails elsewhere
		w.measure()
	}
}

// keep is the free space below which no new event is taken: the reserve, what
// the waiting events need, and what the databases write again by themselves,
// since a compaction writes its input anew before it deletes it.
func (w *diskWatch) keep(waiting uint64) uint64 {
	return w.reserve + w.rewrite.Load() + waiting*eventCost
}

// admit refuses new events while less is free than what is kept. It looks anew
// for every call, which takes a microsecond: every batch of the log writes its last
// tiles again, hundreds of KiB whatever the size of the batch, so within diskEvery a
// busy log can take most of the reserve.
func (w *diskWatch) admit(waiting uint64) error {
	_ = w.look() // a file system that cannot be asked fails elsewhere
	free, keep := w.free.Load(), w.keep(waiting)
	if free >= keep {
		return nil
	}
	return &api.Unavailable{Reason: reasonDiskFull, Message: fmt.Sprintf("%d bytes free on the file system of the data directory, %d are kept in reserve", free, keep)}
}

const reasonDiskFull = "disk_full"
