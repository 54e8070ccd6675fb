// Package kv keeps derived rows in Badger: everything in it can be deleted and
// folded from the log again.
//
// # Durability
//
// Nothing is flushed on purpose. A kill leaves what a whole number of batches
// gave; a power loss may go back further. In both cases rows and cursor agree,
// because a batch is one Badger transaction: its records stand together in the
// write-ahead log, and replay drops a transaction whose end is missing. (Badger's
// own WriteBatch splits silently; it is not used.) A batch that outgrows one
// transaction is refused, never split.
//
// # Generations
//
//	DIR/lock          held while the views are open
//	DIR/current       names the generation in use; replaced atomically
//	DIR/opening       counts openings that took the process down
//	DIR/gen-00000001  one Badger database
//
// A rebuild fills the next generation beside the current one and then changes
// DIR/current: the commit point. Whatever a crash leaves beside the current
// generation is removed at the next opening.
//
// # Memory
//
// Three memtables of 8 MiB, an index cache of 16 MiB, no block cache: rows are
// stored uncompressed (they are mostly hashes) and read from the page cache.
// Flushes and compactions take up to about 100 MiB more while rows are written
// fast; Badger gives that back when it is idle. Writers are held up at three
// tables in level 0: at four, Badger may merge them into one and sets aside a
// buffer of 256 MiB for that.
//
// One writer at a time; snapshots are safe for concurrent use with it.
package kv

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/gofrs/flock"

	"counterfoil/internal/badgerdir"
)

// Sizes of the database, in bytes.
const (
	memTable = 8 << 20
	// maxRow bounds one value, so that it stays in the tree: an attempt of
	// 1,024 events takes about 130 KiB.
	maxRow = 512 << 10
	// indexCache holds table indices and Bloom filters, about 2 % of the rows.
	indexCache = 16 << 20
	// defaultMinFree is below the reserve at which the intake stops, so that
	// what was accepted before can still be projected.
	defaultMinFree = 8 << 20
)

// layoutVersion is that of this package: namespaces, cursor and format row.
const layoutVersion = 1

// Keys that are not derived from leaves start below derivedFrom.
const (
	derivedFrom = 0x10
	nsMeta      = 0x00
	nsNote      = 0x01 // see NoteKey
)

var (
	keyFormat = []byte{nsMeta, 'f'}
	keyUnder  = []byte{nsMeta, 'u'}
	keyCursor = []byte{'c'}
)

// NoteKey makes a key whose row is outside of the digest, for wording that may
// differ between two runs over the same leaves.
func NoteKey(key []byte) []byte { return append([]byte{nsNote}, key...) }

// Errors of this package.
var (
	// ErrInUse: another process, or another DB here, has the directory open.
	ErrInUse = errors.New("the views are in use")
	// ErrClosed: the database was closed.
	ErrClosed = errors.New("the views are closed")
	// ErrNotFound: there is no such row.
	ErrNotFound = errors.New("no such row")
	// ErrDiskFull: too little space is free to write; nothing was written. Try
	// again when there is space. Badger writes through memory maps, so a write
	// to a full disk would kill the process instead of failing.
	ErrDiskFull = errors.New("too little disk space for the views")
	// ErrDamaged: the bytes of a row are not those that were written. Rows are
	// derived: stop, and fold them again.
	ErrDamaged = errors.New("a row of the views is damaged")
	// ErrBatchTooLarge: the batch does not fit one transaction; nothing was
	// written.
	ErrBatchTooLarge = errors.New("batch exceeds one transaction")
)

// Config says how to open the views.
type Config struct {
	// Dir is made (0700) if it is missing.
	Dir string
	// Origin and Tenant: rows of another ledger or tenant are dropped.
	Origin, Tenant string
	// Schema is the version of the row layouts above this package: rows of
	// another version are dropped.
	Schema uint32
	// MinFree is the free space in bytes below which batches are refused with
	// ErrDiskFull; 0 stands for 8 MiB.
	MinFree uint64
	// FreeBytes tells how much may still be written below a path; nil asks the
	// file system.
	FreeBytes func(path string) (uint64, error)
	// Logger gets Badger's messages at level debug; nil discards.
	Logger *slog.Logger
}

// DB is an open generation.
type DB struct {
	cfg   Config
	name  string // of the generation
	db    *badger.DB
	lock  *flock.Flock // nil for a generation that is being built
	fresh string

	writer sync.Mutex // held from Begin to Commit or Discard
	under  atomic.Uint64

	// mu guards the count of users, so that Close never unmaps what a snapshot
	// reads.
	mu      sync.Mutex
	idle    *sync.Cond
	users   int
	closing bool
}

// Open opens the current generation, or starts an empty one: at first start,
// if format, origin or tenant differ, and if Badger cannot read its files (rows
// are derived, so there is nothing to rescue). Fresh tells why.
func Open(cfg Config) (*DB, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	db, err := openCurrent(cfg)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	db.lock = lock
	return db, nil
}

func lockDir(dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the views directory: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the views in %s: %w", dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s (hint: stop the server that has them open)", ErrInUse, dir)
	}
	return lock, nil
}

func openCurrent(cfg Config) (*DB, error) {
	name, err := currentGeneration(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := removeOthers(cfg.Dir, name); err != nil {
		return nil, err
	}
	reason := "first start"
	if name != "" {
		db, why, err := tryGeneration(cfg, name)
		if err != nil {
			return nil, err
		}
		if why == "" {
			return db, nil
		}
		reason = why
		cfg.Logger.Warn("views start again from the log", "reason", reason, "dir", cfg.Dir)
	}
	next := nextGeneration(name)
	db, err := createGeneration(cfg, next)
	if err != nil {
		return nil, err
	}
	db.fresh = reason
	if err := setCurrent(cfg.Dir, next); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, removeOthers(cfg.Dir, next)
}

// tryGeneration is openGeneration, unless that has ended the process too often.
func tryGeneration(cfg Config, name string) (db *DB, why string, err error) {
	failed, err := startOpening(cfg.Dir)
	if err != nil {
		return nil, "", err
	}
	if failed >= openingTries {
		return nil, fmt.Sprintf("damaged files: the process ended %d times while it opened them", failed), endOpening(cfg.Dir)
	}
	db, why, err = openGeneration(cfg, name)
	if err := endOpening(cfg.Dir); err != nil {
		cfg.Logger.Warn("views", "error", err) // costs a rebuild at worst
	}
	return db, why, err
}

// openGeneration opens an existing generation; why says that it cannot be used.
func openGeneration(cfg Config, name string) (db *DB, why string, err error) {
	db, err = openBadger(cfg, name)
	if err != nil {
		var errno syscall.Errno
		if errors.As(err, &errno) {
			return nil, "", err // the machine's trouble, not the rows'
		}
		return nil, "damaged files: " + err.Error(), nil
	}
	same, err := db.checkFormat()
	if err == nil && same {
		return db, "", nil
	}
	if cerr := db.Close(); cerr != nil {
		cfg.Logger.Warn("close unusable views", "error", cerr)
	}
	if err != nil {
		return nil, "damaged rows: " + err.Error(), nil
	}
	return nil, "other format, origin or tenant", nil
}

func createGeneration(cfg Config, name string) (*DB, error) {
	if err := os.RemoveAll(filepath.Join(cfg.Dir, name)); err != nil {
		return nil, fmt.Errorf("remove a leftover generation: %w", err)
	}
	db, err := openBadger(cfg, name)
	if err != nil {
		return nil, err
	}
	if _, err := db.checkFormat(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func openBadger(cfg Config, name string) (db *DB, err error) {
	if cfg.MinFree == 0 {
		cfg.MinFree = defaultMinFree
	}
	if err := checkFree(cfg); err != nil {
		return nil, err // opening writes, too
	}
	dir := filepath.Join(cfg.Dir, name)
	// Badger asserts some of what it reads from its files.
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("open views in %s: %v", dir, p)
		}
	}()
	opts := badger.DefaultOptions(dir).
		WithLogger(badgerLog{cfg.Logger}).WithMetricsEnabled(false).
		WithMemTableSize(memTable).WithNumMemtables(2).
		WithNumLevelZeroTables(2).WithNumLevelZeroTablesStall(3).
		WithNumCompactors(2).WithBaseTableSize(2 << 20).
		WithCompression(options.None).WithBlockCacheSize(0).WithIndexCacheSize(indexCache).
		WithValueLogFileSize(1 << 20).WithValueThreshold(1 << 20).
		WithSyncWrites(false).WithDetectConflicts(false).WithCompactL0OnClose(false)
	opts.TableSizeMultiplier = 1
	if err := badgerdir.CheckTables(dir); err != nil {
		return nil, fmt.Errorf("open views in %s: %w", dir, err)
	}
	b, err := badger.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("open views in %s: %w", dir, err)
	}
	db = &DB{cfg: cfg, name: name, db: b}
	db.idle = sync.NewCond(&db.mu)
	return db, nil
}

// checkFormat compares the format row, or writes it into an empty database. (The
// row is not flushed: after a power loss a generation can be empty again.)
func (d *DB) checkFormat() (same bool, err error) {
	want := d.formatRow()
	err = d.db.Update(func(tx *badger.Txn) error {
		item, err := tx.Get(keyFormat)
		if errors.Is(err, badger.ErrKeyNotFound) {
			it := tx.NewIterator(badger.IteratorOptions{})
			it.Rewind()
			empty := !it.Valid()
			it.Close()
			if empty {
				same = true
				return tx.Set(keyFormat, seal(keyFormat, want))
			}
			return nil
		}
		if err != nil {
			return err
		}
		got, err := unseal(item)
		same = bytes.Equal(got, want)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read the format of the views: %w", err)
	}
	if !same {
		return false, nil
	}
	c, err := d.Cursor()
	d.under.Store(c.Under)
	return true, err
}

func (d *DB) formatRow() []byte {
	row := []byte{layoutVersion}
	row = AppendUint64(row, uint64(d.cfg.Schema))
	row = AppendString(row, d.cfg.Origin)
	return AppendString(row, d.cfg.Tenant)
}

// Fresh tells why the database was started empty by Open, "" if it was not.
func (d *DB) Fresh() string { return d.fresh }

// Origin and Tenant are those of the ledger whose rows these are.
func (d *DB) Origin() string { return d.cfg.Origin }

// Tenant is the tenant whose rows these are.
func (d *DB) Tenant() string { return d.cfg.Tenant }

// Cursor returns how far the rows go.
func (d *DB) Cursor() (Cursor, error) {
	s, err := d.Snapshot()
	if err != nil {
		return Cursor{}, err
	}
	defer s.Close()
	return s.Cursor(), nil
}

// Under returns the size of a published tree that covers all rows; see Cursor.
func (d *DB) Under() uint64 { return d.under.Load() }

func (d *DB) use() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return ErrClosed
	}
	d.users++
	return nil
}

func (d *DB) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users == 0 {
		d.idle.Broadcast()
	}
}

// Close waits for snapshots and batches to end, then closes the database. What
// was committed is on disk after it.
func (d *DB) Close() error {
	d.mu.Lock()
	if d.closing {
		d.mu.Unlock()
		return ErrClosed
	}
	d.closing = true
	for d.users > 0 {
		d.idle.Wait()
	}
	d.mu.Unlock()
	err := d.db.Close()
	if err != nil {
		err = fmt.Errorf("close the views: %w", err)
	}
	if d.lock != nil {
		err = errors.Join(err, d.lock.Unlock())
	}
	return err
}

// Verify reads every table and compares Badger's checksums, about 1 GB a second.
// It finds rows that went missing with a damaged block, which reading does not.
func (d *DB) Verify() error {
	if err := d.use(); err != nil {
		return err
	}
	defer d.release()
	if err := d.db.VerifyChecksum(); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// checkFree refuses to write into the last bytes of a file system.
func checkFree(cfg Config) error {
	look := cfg.FreeBytes
	if look == nil {
		look = freeBytes
	}
	free, err := look(cfg.Dir)
	if err != nil {
		return err
	}
	if free < cfg.MinFree {
		return fmt.Errorf("%w: %d bytes free in %s, want %d", ErrDiskFull, free, cfg.Dir, cfg.MinFree)
	}
	return nil
}
