package audit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"

	"counterfoil/internal/badgerdir"
	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
)

// Sizes of the fold's database, in bytes.
const (
	memTable   = 8 << 20
	indexCache = 16 << 20
	// minFree is left free: Badger writes through memory maps, so a full disk
	// would kill the process.
	minFree = 64 << 20
	// A batch ends at these; one leaf more (an attempt row of 140 KiB) still
	// fits into a transaction, which takes 15 % of a memtable.
	maxBatchRows  = 8000
	maxBatchBytes = 1400 << 10
)

// The namespaces of rows.
const (
	nsMeta    = 'm'
	nsAttempt = 'a' // attempt id, 16 bytes: its state
	nsScope   = 's' // scope, 32 bytes: attempt id
	nsFirst   = 'i' // first leaf index of an attempt, 8 bytes: attempt id
	nsSubject = 'd' // kind, 0, subject id: latest disposition
	nsFinding = 'f' // number, 8 bytes: a finding about a leaf that was folded
	nsRun     = 'r' // number, 8 bytes: any other finding of the newest run
)

var keyPosition = []byte{nsMeta, 'p'}

// Errors of the store.
var (
	// ErrInUse: another audit uses the state.
	ErrInUse = errors.New("the audit state is in use")
	// errStoreDamaged: the fold cannot be read. It is derived and can be made anew.
	errStoreDamaged = errors.New("the fold of the audit state is damaged")
	// ErrDiskFull: too little space to go on; nothing was written.
	ErrDiskFull = errors.New("too little disk space for the audit state")
)

// position is how far the fold goes. It is a row of its own, written in the same
// transaction as the rows that it covers.
type position struct {
	Version int    `json:"version"`
	Origin  string `json:"origin"`
	Tenant  string `json:"tenant"` // "" until an event said it
	From    uint64 `json:"from"`   // first leaf that was folded
	Size    uint64 `json:"size"`   // first leaf that was not
	// Range is the compact range of the first Size leaves, with Under: the signed
	// checkpoint under which the newest of them were proven.
	Range []tiles.Hash `json:"range"`
	Under string       `json:"under"`
	// Findings is the number of rows in nsFinding.
	Findings uint64 `json:"findings"`
	Counts   counts `json:"counts"`
}

const positionVersion = 1

// store is the database of a fold. It is used by one goroutine.
type store struct {
	dir  string
	db   *badger.DB
	lock *flock.Flock
	txn  *badger.Txn // reads and changes since the last commit
	runs uint64      // findings of this run
	free func(string) (uint64, error)
}

// openStore opens the database in dir, which is made if it is missing.
func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the audit state: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the audit state: %w", err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s (hint: let the other audit end)", ErrInUse, dir)
	}
	s := &store{dir: dir, lock: lock, free: durable.FreeBytes}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return s, nil
}

func (s *store) open() (err error) {
	if err := s.checkFree(); err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "db")
	defer func() { // Badger asserts some of what it reads from its files
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errStoreDamaged, p)
		}
	}()
	opts := badger.DefaultOptions(dir).WithLogger(nil).WithMetricsEnabled(false).
		WithMemTableSize(memTable).WithNumMemtables(2).
		WithNumLevelZeroTables(2).WithNumLevelZeroTablesStall(3).
		WithNumCompactors(2).WithBaseTableSize(4 << 20).
		WithCompression(options.None).WithBlockCacheSize(0).WithIndexCacheSize(indexCache).
		WithValueLogFileSize(1 << 20).WithValueThreshold(1 << 20).
		WithSyncWrites(false).WithDetectConflicts(false).WithCompactL0OnClose(false)
	opts.TableSizeMultiplier = 1
	if err := badgerdir.CheckTables(dir); err != nil {
		return fmt.Errorf("%w: %w", errStoreDamaged, err)
	}
	if s.db, err = badger.Open(opts); err != nil {
		if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("open the audit state: %w", err)
		}
		return fmt.Errorf("%w: %w", errStoreDamaged, err)
	}
	s.txn = s.db.NewTransaction(true)
	return nil
}

// reset forgets changes that were not committed.
func (s *store) reset() error {
	if s.db == nil { // it could not be opened the last time
		return s.open()
	}
	s.txn.Discard()
	s.txn = s.db.NewTransaction(true)
	return nil
}

// startOver deletes all rows: the fold is derived from the log.
func (s *store) startOver() error {
	if s.db != nil {
		s.txn.Discard()
		_ = s.db.Close() // it is damaged
		s.db = nil
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "db")); err != nil {
		return fmt.Errorf("delete the damaged fold: %w", err)
	}
	return s.open()
}

func (s *store) close() error {
	if s.db == nil {
		return s.lock.Unlock()
	}
	s.txn.Discard()
	return errors.Join(s.db.Close(), s.lock.Unlock())
}

func (s *store) checkFree() error {
	free, err := s.free(s.dir)
	if err != nil {
		return err
	}
	if free < minFree {
		return fmt.Errorf("%w: %d bytes free in %s, want %d", ErrDiskFull, free, s.dir, minFree)
	}
	return nil
}

// get returns a row, nil if there is none. The bytes are valid until the next
// commit.
func (s *store) get(key []byte) ([]byte, error) {
	item, err := s.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: read a row: %w", errStoreDamaged, err)
	}
	return unseal(item)
}

// set changes a row as part of the next commit. Key and value are the store's from
// here on.
func (s *store) set(key, value []byte) error {
	if err := s.txn.Set(key, seal(key, value)); err != nil {
		return fmt.Errorf("change a row of the audit state: %w", err)
	}
	return nil
}

// commit makes the changes visible together with the position. From here on a kill
// loses nothing up to it; a power loss may go back by whole batches until sync.
func (s *store) commit(p *position) error {
	if err := s.checkFree(); err != nil {
		return err
	}
	row, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode the position of the audit: %w", err)
	}
	if err := s.set(keyPosition, row); err != nil {
		return err
	}
	return s.flush()
}

// flush makes changes visible that are no part of the fold.
func (s *store) flush() error {
	err := s.txn.Commit()
	s.txn = s.db.NewTransaction(true)
	if err != nil {
		return fmt.Errorf("store the audit state: %w", err)
	}
	return nil
}

// sync makes what was committed survive a power loss.
func (s *store) sync() error {
	if err := s.db.Sync(); err != nil {
		return fmt.Errorf("flush the audit state: %w", err)
	}
	return nil
}

// position reads how far the fold goes; nil of an empty database.
func (s *store) position() (*position, error) {
	row, err := s.get(keyPosition)
	if err != nil || row == nil {
		return nil, err
	}
	p := new(position)
	if err := json.Unmarshal(row, p); err != nil {
		return nil, fmt.Errorf("%w: %w", errStoreDamaged, err)
	}
	if p.Version != positionVersion {
		return nil, fmt.Errorf("%w: it has version %d, this program writes %d", errStoreDamaged, p.Version, positionVersion)
	}
	return p, nil
}

// each calls do with the rows of a namespace in the order of their keys, the
// namespace cut off.
func (s *store) each(ns byte, do func(key, value []byte) error) error {
	it := s.txn.NewIterator(badger.IteratorOptions{Prefix: []byte{ns}, PrefetchValues: true, PrefetchSize: 64})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		item := it.Item()
		v, err := unseal(item)
		if err != nil {
			return err
		}
		if err := do(item.Key()[1:], v); err != nil {
			return err
		}
	}
	return nil
}

// wipe deletes all rows of a namespace.
func (s *store) wipe(ns byte) error {
	for {
		var keys [][]byte
		it := s.txn.NewIterator(badger.IteratorOptions{Prefix: []byte{ns}})
		for it.Rewind(); it.Valid() && len(keys) < maxBatchRows/2; it.Next() {
			keys = append(keys, it.Item().KeyCopy(nil))
		}
		it.Close()
		for _, k := range keys {
			if err := s.txn.Delete(k); err != nil {
				return fmt.Errorf("delete a row of the audit state: %w", err)
			}
		}
		if len(keys) == 0 {
			return nil
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal adds a checksum over key and value.
func seal(key, value []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
	return binary.BigEndian.AppendUint32(value, sum)
}

func unseal(item *badger.Item) ([]byte, error) {
	v, err := item.ValueCopy(nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStoreDamaged, err)
	}
	n := len(v) - 4
	if n < 0 || !bytes.Equal(v[n:], seal(item.Key(), bytes.Clone(v[:n]))[n:]) {
		return nil, fmt.Errorf("%w: a row has another checksum", errStoreDamaged)
	}
	return v[:n:n], nil
}

func indexKey(ns byte, n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{ns}, n) }
