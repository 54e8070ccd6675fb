package tlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"counterfoil/ledger/trust"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

// engine writes batches into the stored tree.
type engine interface {
	// append adds the leaves as one batch, in this order, and waits for its
	// outcome. len(leaves) is one that batchSize returns. It returns the index
	// that each leaf was given. After an error the batch is in the stored tree
	// entirely or not at all; the stored state tells. One call at a time.
	append(leaves [][]byte) ([]uint64, error)
	// close ends the engine's goroutines. No append may be in flight.
	close()
}

const (
	// maxBatch is the largest batch. Larger ones gain nothing: a batch costs
	// about ten flushes plus two for every 256 leaves.
	maxBatch = 1024
	// exactBatches is the size up to which every batch size has its appender;
	// beyond, its multiples do. So no call of n leaves needs more than
	// ⌈n/1024⌉ + 1 batches.
	exactBatches = 64

	// never is longer than any process lives, and what Tessera is told for
	// everything that it must not do by the clock.
	never = time.Duration(math.MaxInt64)
	// collectEvery is the pause between two removals of obsolete partial tiles.
	// Every batch leaves a partial bundle of up to 256 leaves behind, and one
	// removal takes those of at most 100 full bundles: once a second keeps up
	// with 25,000 leaves/s and leaves little on the disk.
	collectEvery = time.Second
)

// Fits is how many of n leaves, n at least 1, Append writes as one batch; for the
// rest it makes more of them, each at the price of a full one.
func Fits(n int) int { return batchSize(n) }

// batchSize is how many of n waiting leaves the next batch takes.
func batchSize(n int) int {
	switch {
	case n >= maxBatch:
		return maxBatch
	case n > exactBatches:
		return n - n%exactBatches
	default:
		return n
	}
}

// tesseraEngine is one POSIX driver with an appender for every batch size that
// was needed so far.
type tesseraEngine struct {
	driver    *posix.Storage
	gate      *gate
	stop      context.CancelFunc
	ctx       context.Context // of the appenders; ended only by close
	appenders map[int]*tessera.Appender
}

// newTessera starts Tessera on the directory and makes the empty log if there
// is none: its state file and a signed checkpoint of size 0. Whether it may is
// decided by the caller.
func newTessera(cfg *Config) (engine, error) {
	redirectKlog(cfg.Logger)
	driver, err := posix.New(context.Background(), posix.Config{Path: cfg.Dir})
	if err != nil {
		return nil, fmt.Errorf("start tessera: %w", err)
	}
	storage, ok := driver.(*posix.Storage)
	if !ok {
		return nil, fmt.Errorf("start tessera: its driver is a %T, expected *posix.Storage", driver)
	}
	e := &tesseraEngine{driver: storage, gate: &gate{Signer: cfg.Signer, origin: cfg.Origin}, appenders: map[int]*tessera.Appender{}}
	// After its context ends, an appender's Add can block for ever. So it gets
	// one that no caller can end.
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.gate.open.Store(true)
	_, err = e.appender(1)
	e.gate.open.Store(false)
	if err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

func (e *tesseraEngine) appender(size int) (*tessera.Appender, error) {
	if a := e.appenders[size]; a != nil {
		return a, nil
	}
	collect := time.Duration(0)
	if len(e.appenders) == 0 { // one collector is enough
		collect = collectEvery
	}
	a, _, err := e.driver.Appender(e.ctx, tessera.NewAppendOptions().
		WithCheckpointSigner(e.gate).
		WithBatching(uint(size), never).
		WithCheckpointInterval(never).
		WithCheckpointRepublishInterval(0).
		WithGarbageCollectionInterval(collect))
	if err != nil {
		return nil, fmt.Errorf("start a tessera appender for batches of %d: %w", size, err)
	}
	e.appenders[size] = a
	return a, nil
}

func (e *tesseraEngine) append(leaves [][]byte) ([]uint64, error) {
	a, err := e.appender(len(leaves))
	if err != nil {
		return nil, err
	}
	futures := make([]tessera.IndexFuture, len(leaves))
	for i, leaf := range leaves {
		futures[i] = a.Add(e.ctx, tessera.NewEntry(leaf))
	}
	indexes := make([]uint64, len(leaves))
	var errs error
	for i, f := range futures {
		index, err := f()
		if err != nil && errs == nil { // they all get the same one
			errs = fmt.Errorf("tessera: %w", err)
		}
		indexes[i] = index.Index
	}
	return indexes, errs
}

func (e *tesseraEngine) close() { e.stop() }

// gate is the signer that Tessera is given. It signs the checkpoint of the
// empty tree while a new log is made, and nothing else, ever.
type gate struct {
	note.Signer
	origin string
	open   atomic.Bool
}

var errGate = errors.New("checkpoints are signed elsewhere")

func (g *gate) Sign(msg []byte) ([]byte, error) {
	if !g.open.Load() || string(msg) != checkpointText(g.origin, emptyTree()) {
		return nil, errGate
	}
	return g.Signer.Sign(msg)
}

func checkpointText(origin string, t tree) string {
	return trust.Checkpoint{Origin: origin, Size: t.size, Root: t.root}.Text()
}
