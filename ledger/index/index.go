// Package index remembers, for ever, which source event became which event: the
// scope of every begin, and the folded state of every attempt.
//
// It is derived from the stream alone and may be deleted at any time. One
// follower applies messages in stream order; what it applied is visible at once
// and written to Badger in batches, rows and cursor in one transaction, so that
// a crash at any moment leaves a state that some prefix of the stream gives.
// Nothing here is synced: after a power loss the index starts from an older
// cursor, and from nothing if its cursor does not fit the stream.
//
// Only what counts is indexed: a message that is no record, that no known key
// signed, or that breaks a lifecycle rule moves the cursor and nothing else.
// The follower of the views judges by the same rules.
package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"

	"counterfoil/internal/badgerdir"
	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

const (
	formatVersion = 1

	// flushEvery bounds how long a row stays in memory only.
	flushEvery = 100 * time.Millisecond
	// flushBytes bounds the dirty rows before a flush; it stays far below the
	// transaction limit of an 8 MiB memtable (15 %).
	flushBytes = 512 << 10
	// nextMax is how many messages are taken from the stream at once.
	nextMax = 512
)

var (
	keyMeta     = []byte("m/state")
	prefixScope = []byte("s/")
	prefixAtt   = []byte("a/")
)

// Message is one stream message.
type Message struct {
	Seq     uint64
	Subject string
	Body    []byte
}

// Reader yields stream messages in order; see stream.Tail.
type Reader interface {
	// Next blocks for at least one message and returns what is there, up to
	// max, contiguous by sequence.
	Next(ctx context.Context, max int) ([]Message, error)
}

// Config says how to open an index.
type Config struct {
	Dir string
	// Tenant and Origin: messages of others do not count.
	Tenant, Origin string
	// Parse reads a leaf; nil stands for event.ParseRecord.
	Parse func(leaf []byte) (*event.Record, error)
	// Check verifies the signatures of a record at a leaf index; the error
	// says why it does not count.
	Check func(rec *event.Record, leaf []byte, leafIndex uint64) error
	// MinFree is the free space in bytes below which nothing is written: Badger
	// writes through a memory map, and a full disk would kill the process. Rows
	// stay in memory meanwhile. 0: no bound.
	MinFree uint64
	Logger  *slog.Logger
}

// Row is an attempt: its folded state and the stream sequence of each event.
type Row struct {
	Seqs  []uint64
	State lifecycle.State
}

// Index is safe for concurrent use.
type Index struct {
	cfg Config
	db  *badger.DB

	// mu guards everything below. Rows in dirty and flushing are immutable
	// once stored: an update stores a new one.
	mu       sync.Mutex
	dirty    layer
	flushing layer
	cursor   uint64               // last sequence applied
	written  uint64               // cursor in Badger
	lastBody []byte               // the message at cursor, if applied since Open
	lastLeaf event.Digest         // else its SHA-256
	shards   [event.Shards]uint64 // last sequence of each shard's subjects
	changed  chan struct{}        // closed and replaced at every step
	clean    *cache               // rows read from Badger
	free     absent[event.Scope]  // scopes that nobody holds
	fresh    absent[string]       // ids of attempts that have not begun
	err      error                // why Run ended
	flushMu  sync.Mutex           // one flush at a time
}

// layer is a set of rows that are not in Badger yet.
type layer struct {
	rows   map[string]*Row
	scopes map[event.Scope]string
	bytes  int
}

func newLayer() layer {
	return layer{rows: map[string]*Row{}, scopes: map[event.Scope]string{}}
}

// Open opens or creates the index. Position tells how far it goes; the caller
// compares that with the stream and calls Reset if it does not fit. Files that
// cannot be read are deleted, with a warning: they are derived. (Some damage to
// a table makes Badger panic in a goroutine of its own; the caller counts
// openings that did not end.)
func Open(cfg Config) (*Index, error) {
	if cfg.Parse == nil {
		cfg.Parse = event.ParseRecord
	}
	x, err := openOnce(cfg)
	if err == nil || !damaged(err) {
		return x, err
	}
	cfg.Logger.Warn("the index cannot be read and is built again from the stream", "dir", cfg.Dir, "error", err)
	if err := os.RemoveAll(cfg.Dir); err != nil {
		return nil, fmt.Errorf("delete the index in %s: %w", cfg.Dir, err)
	}
	return openOnce(cfg)
}

// damaged tells the fault of the files from one of the machine (a full disk, no
// rights) and from a directory that somebody else has open.
func damaged(err error) bool {
	var errno syscall.Errno
	return !errors.As(err, &errno) && !strings.Contains(err.Error(), "Cannot acquire directory lock")
}

func openOnce(cfg Config) (_ *Index, err error) {
	// Badger asserts some of what it reads from its files.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("open index in %s: %v", cfg.Dir, p)
		}
	}()
	opts := badger.DefaultOptions(cfg.Dir).
		WithLogger(nil).
		WithMemTableSize(8 << 20).WithNumMemtables(2).
		WithNumLevelZeroTables(2).WithNumLevelZeroTablesStall(6).
		WithNumCompactors(2).
		WithBlockCacheSize(16 << 20).WithIndexCacheSize(16 << 20).
		WithBaseTableSize(2 << 20).
		WithValueLogFileSize(64 << 20).WithValueThreshold(256 << 10).
		WithSyncWrites(false).WithDetectConflicts(false).WithCompactL0OnClose(false)
	// A compaction sets aside twice the size of each table that it writes: tables that
	// grow with their level would take gigabytes in an index of millions.
	opts.TableSizeMultiplier = 1
	if err := badgerdir.CheckTables(cfg.Dir); err != nil {
		return nil, fmt.Errorf("open index in %s: %w", cfg.Dir, err)
	}
	db, err := badger.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("open index in %s: %w", cfg.Dir, err)
	}
	x := &Index{cfg: cfg, db: db, dirty: newLayer(), flushing: newLayer(), changed: make(chan struct{}), clean: newCache(32 << 10),
		free: newAbsent[event.Scope](), fresh: newAbsent[string]()}
	if err := x.load(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return x, nil
}

func (x *Index) load() error {
	var meta []byte
	err := x.db.View(func(tx *badger.Txn) error {
		it, err := tx.Get(keyMeta)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		meta, err = it.ValueCopy(nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("read index state: %w", err)
	}
	if meta == nil {
		return nil
	}
	if len(meta) != 1+8+32+8*event.Shards || meta[0] != formatVersion {
		return x.Reset() // another format: derived data, so start again
	}
	meta = meta[1:]
	x.cursor = binary.BigEndian.Uint64(meta)
	x.written = x.cursor
	meta = meta[8:]
	meta = meta[copy(x.lastLeaf[:], meta):]
	for i := range x.shards {
		x.shards[i] = binary.BigEndian.Uint64(meta[8*i:])
	}
	return nil
}

// Position returns the last sequence applied and the SHA-256 of its message.
func (x *Index) Position() (seq uint64, leaf event.Digest) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cursor, x.lastLocked()
}

// lastLocked hashes the message at the cursor: on demand, since nobody needs it
// for every message.
func (x *Index) lastLocked() event.Digest {
	if x.lastBody != nil {
		x.lastLeaf, x.lastBody = event.DigestOf(x.lastBody), nil
	}
	return x.lastLeaf
}

// Reset empties the index. It must not run beside Run.
func (x *Index) Reset() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.db.DropAll(); err != nil {
		return fmt.Errorf("empty the index: %w", err)
	}
	x.dirty, x.flushing, x.cursor, x.written = newLayer(), newLayer(), 0, 0
	x.lastBody, x.lastLeaf, x.shards = nil, event.Digest{}, [event.Shards]uint64{}
	x.clean, x.free, x.fresh = newCache(32<<10), newAbsent[event.Scope](), newAbsent[string]()
	return nil
}

// Run applies the stream until ctx ends or the reader fails, and flushes at the
// end. It returns nil after ctx ended.
func (x *Index) Run(ctx context.Context, r Reader) error {
	done := make(chan struct{})
	var flusher sync.WaitGroup
	flusher.Go(func() {
		t := time.NewTicker(flushEvery)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				if err := x.Flush(); err != nil && !errors.Is(err, errNoSpace) {
					x.cfg.Logger.Error("write index", "error", err)
				}
			}
		}
	})
	err := x.follow(ctx, r)
	close(done)
	flusher.Wait()
	if ctx.Err() != nil {
		err = nil
	}
	if ferr := x.Flush(); !errors.Is(ferr, errNoSpace) {
		err = errors.Join(err, ferr)
	}
	x.mu.Lock()
	x.err = err
	x.broadcastLocked()
	x.mu.Unlock()
	return err
}

func (x *Index) follow(ctx context.Context, r Reader) error {
	for {
		msgs, err := r.Next(ctx, nextMax)
		if err != nil {
			return fmt.Errorf("index follows the stream: %w", err)
		}
		for _, m := range msgs {
			full, err := x.apply(m)
			if err != nil {
				return err
			}
			if full {
				if err := x.Flush(); err != nil && !errors.Is(err, errNoSpace) {
					return err
				}
			}
		}
		x.mu.Lock()
		x.broadcastLocked()
		x.mu.Unlock()
	}
}

func (x *Index) broadcastLocked() {
	close(x.changed)
	x.changed = make(chan struct{})
}

// apply folds one message; full says that a flush is due.
func (x *Index) apply(m Message) (full bool, err error) {
	x.mu.Lock()
	cursor := x.cursor
	x.mu.Unlock()
	if m.Seq != cursor+1 {
		return false, fmt.Errorf("index expects sequence %d, got %d", cursor+1, m.Seq)
	}
	id, row, scope, err := x.judge(m)
	if err != nil {
		return false, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if row != nil {
		x.dirty.rows[id] = row
		x.fresh.drop(id)
		x.dirty.bytes += 64 + 110*len(row.Seqs)
		if scope != nil {
			x.dirty.scopes[*scope] = id
			x.free.drop(*scope)
			x.dirty.bytes += 80
		}
	}
	x.cursor, x.lastBody = m.Seq, m.Body
	if shard, ok := shardOfSubject(m.Subject, x.cfg.Tenant); ok {
		x.shards[shard] = m.Seq
	}
	return x.dirty.bytes > flushBytes, nil
}

// judge decides whether a message counts; row is nil if not. Only storage
// trouble is an error.
func (x *Index) judge(m Message) (id string, row *Row, scope *event.Scope, err error) {
	rec, perr := x.cfg.Parse(m.Body)
	if perr != nil || lifecycle.Belongs(rec.Event, x.cfg.Origin, x.cfg.Tenant) != nil {
		return "", nil, nil, nil
	}
	if x.cfg.Check(rec, m.Body, m.Seq-1) != nil {
		return "", nil, nil, nil
	}
	old, err := x.Attempt(rec.Event.AttemptID)
	if err != nil {
		return "", nil, nil, err
	}
	next := &Row{}
	if old != nil {
		next.Seqs = append(make([]uint64, 0, len(old.Seqs)+1), old.Seqs...)
		next.State = old.State
		next.State.Entries = append(make([]lifecycle.Entry, 0, len(old.State.Entries)+1), old.State.Entries...)
	}
	scope, v, err := next.State.Admit(rec.Event, rec.Digest(), x.Scope)
	if v != nil || err != nil {
		return "", nil, nil, err
	}
	next.Seqs = append(next.Seqs, m.Seq)
	return rec.Event.AttemptID, next, scope, nil
}

// shardOfSubject tells which shard filter of the tenant a subject falls under.
func shardOfSubject(subject, tenant string) (int, bool) {
	prefix, n := "counterfoil.v1."+tenant+".", len(subject)
	if n < len(prefix)+3 || subject[:len(prefix)] != prefix || subject[n-3] != '.' {
		return 0, false
	}
	hi, lo := hexDigit(subject[n-2]), hexDigit(subject[n-1])
	if hi < 0 || lo < 0 {
		return 0, false
	}
	return hi<<4 | lo, true
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

// WaitFor blocks until sequence seq has been applied.
func (x *Index) WaitFor(ctx context.Context, seq uint64) error {
	for {
		x.mu.Lock()
		ok, err, changed := x.cursor >= seq, x.err, x.changed
		x.mu.Unlock()
		if ok {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the index stopped: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("index waits for sequence %d: %w", seq, ctx.Err())
		case <-changed:
		}
	}
}

// ShardLast is the last sequence applied on a shard's subjects: the expectation
// under which a decision from this index may be published.
func (x *Index) ShardLast(shard int) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shards[shard]
}

// SetShardLast takes over what the stream says is the last sequence of a
// shard, if the index has applied that much. A rebuilt stream may hold a
// message under another subject than before.
func (x *Index) SetShardLast(shard int, seq uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if seq <= x.cursor {
		x.shards[shard] = seq
	}
}

// Close flushes and closes the database. Run must have ended. On a full disk
// the rows that are not written are dropped: the next Run applies them again.
func (x *Index) Close() error {
	err := x.Flush()
	if errors.Is(err, errNoSpace) {
		err = nil
	}
	return errors.Join(err, x.db.Close())
}
