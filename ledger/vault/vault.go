// Package vault keeps what must not be in the log: the key of every attempt,
// from which its salts and tags derive, the private bodies that commitments were
// made of, and objects: bodies of evidence by their digest. Everything lies sealed
// in a Badger store. An attempt is active, redacted or purged, one way: a redaction
// destroys its bodies and its references to objects, a purge its key as well, and
// leaves a tombstone.
//
// # What is durable when
//
// [Vault.Put], [Vault.PutBody], [Vault.PutObject] and [Vault.ChangeRef] return when
// the write is in the hands of the operating system: it survives the death of the
// process (kill −9), not a power loss. [Vault.Sync] makes everything durable whose
// Put returned before Sync was called; concurrent callers share one flush.
// [Vault.Lower] and [Vault.Erase] are durable when they return. Nothing is retried
// inside.
//
// With a log that the vaults of several nodes share ([Options.Replica]) a write
// returns when it is in the log and here, and is as durable as the log is: Sync has
// nothing to wait for. What another node wrote is found as soon as its call returned;
// that another node erased something is heard when it comes with the log.
// docs/decisions/0016-vault-stream.md has the reasons.
//
// A caller that publishes a commitment calls Put, then Sync, then publishes:
// after a crash there may be a key that nothing refers to, never a commitment
// whose key is lost.
//
// # What lies on disk
//
// Ten kinds of rows; object.go has the five of objects, and change.go and attach.go
// two more of a vault with a log. A is HMAC-SHA256(name key,
// attempt id), so that no id can be read and none can be guessed without the seal
// key:
//
//	m                        fingerprint of the seal key
//	k ‖ A                    live or redacted and the attempt's key, or the tombstone
//	b ‖ A ‖ HMAC(slot,name)  head of a body: encoding, size, digest, slot, name,
//	                         and the body itself up to 64 KiB
//	c ‖ A ‖ id ‖ number      64 KiB of a larger body
//	p ‖ A                    an erasure that is under way
//
// All keys derive from the seal key by HKDF-SHA256 under one label each. Rows
// are sealed with XChaCha20-Poly1305 under random 24-byte nonces, which need no
// bound on their number; the name of the row is associated data, so a row moved
// to another place does not open. Bodies are sealed under a key that derives
// from the attempt's own key as well: without its k row a body stays shut even
// for whoever has the seal key. Visible to anyone with the files are the number
// of attempts, the number and sizes of bodies of each, and when they were
// written. A thief who can write the files can put an old copy of a row back.
//
// # What erasure does not do
//
// Badger is a log-structured store: it writes the tombstone and the deletions
// beside the old rows. The old, sealed rows stay in its write-ahead log (at most
// about 8 MiB of later writes) and then in its tables until a compaction merges
// them, which may be long for rows that nothing overlaps, and file system or
// disk may keep blocks after that. Whoever has both the seal key and such
// leftovers, or an older copy of the directory, can still open them. The vault
// answers [ErrErased] from the moment of erasure and for ever; it does not
// promise that the bytes are gone from the medium. From a shared log the messages
// with what was erased are deleted as well, overwritten, before Lower returns.
//
// # Bounds
//
// Bodies up to 16 MiB, objects as their caller bounds them, attempt ids up to 128
// bytes, slots up to 1 KiB, names up to 128 bytes. Memory, mostly the buffers in which Badger builds tables, which
// it gives back after seconds of rest: about 200 MiB at 2,000 attempts a second
// with bodies of 1 KiB, up to 500 MiB while tens of MiB a second come in, and
// about 200 bytes a cached key. Disk: about 120 bytes an attempt; a body takes
// its own size, about 200 bytes, and 110 more for every 64 KiB of a large one.
package vault

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"counterfoil/internal/durable"

	"github.com/dgraph-io/badger/v4"
	lru "github.com/hashicorp/golang-lru/v2"
)

var (
	// ErrNotFound: the vault has no such attempt, or the attempt no such body.
	ErrNotFound = errors.New("not in the vault")
	// ErrErased: the attempt was erased. It stays so for ever.
	ErrErased = errors.New("content erased")
	// ErrRedacted: the bodies of the attempt were erased, and none can be added.
	ErrRedacted = errors.New("content redacted")
	// ErrConflict: there is another key or body in this place; it is kept.
	ErrConflict = errors.New("the vault holds something else here")
	// ErrTooLarge: a body, id, slot or name beyond its bound.
	ErrTooLarge = errors.New("too large for the vault")
	// ErrInvalid: an argument that cannot be stored.
	ErrInvalid = errors.New("not storable in the vault")
	// ErrSealKey: the directory was sealed with another key. Only Open.
	ErrSealKey = errors.New("vault is sealed with another key")
	// ErrInUse: another process, or another Vault, has the directory open. Only Open.
	ErrInUse = errors.New("vault directory is in use")
	// ErrCorrupt: a row does not open or does not fit together.
	ErrCorrupt = errors.New("vault is damaged")
	// ErrNoSpace: the disk is nearly full; nothing was written.
	ErrNoSpace = errors.New("too little disk space for the vault")
	// ErrFailed: an earlier write or flush failed, so what the disk holds is
	// unknown; every call fails until the vault is opened again.
	ErrFailed = errors.New("vault has failed")
	// ErrClosed: the vault was closed.
	ErrClosed = errors.New("vault is closed")
)

// Options are the knobs of a vault. The zero value is good.
type Options struct {
	// CacheKeys bounds the attempt keys kept in memory. 0: 16,384.
	CacheKeys int
	// MinFree is the disk space below which writes are refused with
	// [ErrNoSpace]; erasing is not. Beside it stays free what the files of the
	// vault take, at most [MaxRewrite], since a compaction writes them again. Badger writes through a memory map: on a
	// full disk it would not return an error but kill the process. The space
	// is looked at every MiB written. 0: 64 MiB.
	MinFree uint64
	// Random gives nonces and body ids, to several goroutines at once.
	// nil: crypto/rand.Reader.
	Random io.Reader
	// Replica is the log that this vault shares with those of other nodes, sealed
	// with the same key; nil: it is alone.
	Replica Replica
	// patience is how long calls wait for the log, in tests; 0: publishWait and
	// readWait.
	patience time.Duration
	// Log receives warnings and errors of Badger's background work, which has
	// nobody to return them to. They name files, never contents. nil: none.
	Log *slog.Logger
}

// Vault is open on one directory. All methods are safe for concurrent use.
type Vault struct {
	seal *sealer
	db   *badger.DB
	opt  Options
	dir  string

	// closing is held shared by every call in progress and exclusively by
	// Close; it guards closed, the sending ends of ops and flushes, and db
	// against being closed under a reader.
	closing sync.RWMutex
	closed  bool

	ops     chan *op        // to the committer, the only writer of db
	flushes chan chan error // to the flusher
	workers sync.WaitGroup
	failure atomic.Pointer[error]

	shared *shared // nil without a log

	wal   *walFlusher // owned by the flusher
	space spaceCheck  // owned by the committer

	// cacheMu orders additions to cache against erasures; see remember.
	cacheMu  sync.Mutex
	cache    *lru.Cache[string, [KeySize]byte]
	erasures uint64
}

// Open opens or makes the vault in dir (0700). sealKey opens and seals
// everything in it; a directory that was made with another one is [ErrSealKey].
// Erasures that a crash interrupted are finished before Open returns.
func Open(dir string, sealKey [32]byte, opt Options) (*Vault, error) {
	if opt.CacheKeys <= 0 {
		opt.CacheKeys = 16 << 10
	}
	if opt.MinFree == 0 {
		opt.MinFree = 64 << 20
	}
	if opt.Random == nil {
		opt.Random = rand.Reader
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	seal, err := newSealer(sealKey, opt.Random)
	if err != nil {
		return nil, fmt.Errorf("open vault %s: %w", dir, err)
	}
	cache, err := lru.New[string, [KeySize]byte](opt.CacheKeys)
	if err != nil {
		return nil, fmt.Errorf("open vault %s: %w", dir, err)
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open vault: %w", err)
	}
	db, err := openStore(dir, opt.Log)
	if err != nil {
		return nil, fmt.Errorf("open vault %s: %w", dir, err)
	}
	wal, err := newWALFlusher(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open vault %s: %w", dir, err), db.Close())
	}
	v := &Vault{
		seal: seal, db: db, opt: opt, dir: dir, cache: cache, wal: wal,
		ops: make(chan *op, maxGroupOps), flushes: make(chan chan error, 64),
		space: spaceCheck{dir: dir, min: opt.MinFree, free: durable.FreeBytes, rewrite: durable.Occupied},
	}
	if opt.Replica != nil {
		v.shared = newShared(opt.Replica)
		v.workers.Go(v.commitShared)
	} else {
		v.workers.Go(v.commitOps)
	}
	v.workers.Go(v.flushAll)
	if err := v.checkFingerprint(); err != nil {
		return nil, errors.Join(fmt.Errorf("open vault %s: %w", dir, err), v.Close())
	}
	if v.shared != nil {
		if err := v.attach(); err != nil {
			return nil, errors.Join(fmt.Errorf("open vault %s: follow its log: %w", dir, err), v.Close())
		}
	}
	if err := v.finishErasures(); err != nil {
		return nil, errors.Join(fmt.Errorf("open vault %s: finish an erasure: %w", dir, err), v.Close())
	}
	if err := v.dropLoose(true); err != nil {
		return nil, errors.Join(fmt.Errorf("open vault %s: delete what belongs to nothing: %w", dir, err), v.Close())
	}
	return v, nil
}

// Close waits for calls in progress, writes everything out durably and releases
// the directory. Calls after it are [ErrClosed]; closing again does nothing.
func (v *Vault) Close() error {
	v.closing.Lock()
	if v.closed {
		v.closing.Unlock()
		return nil
	}
	v.closed = true
	close(v.ops)
	close(v.flushes)
	v.closing.Unlock()
	var noteErr error
	if s := v.shared; s != nil {
		<-s.ended
		s.stop()
		v.workers.Wait()
		if at := s.applied.Load(); at > 0 && v.failed() == nil && v.wal.flush() == nil {
			noteErr = v.db.Update(func(txn *badger.Txn) error { return set(txn, flushedAt(at)) })
		}
	}
	v.workers.Wait()
	if err := errors.Join(noteErr, v.db.Close(), v.wal.close()); err != nil {
		return fmt.Errorf("close vault %s: %w", v.dir, err)
	}
	return nil
}

// enter begins a call: nil means that the vault stays open until leave.
func (v *Vault) enter() error {
	v.closing.RLock()
	err := v.failed()
	if v.closed {
		err = ErrClosed
	}
	if err != nil {
		v.closing.RUnlock()
	}
	return err
}

func (v *Vault) leave() { v.closing.RUnlock() }

// fail makes the vault refuse everything from now on, for the first reason.
func (v *Vault) fail(doing string, cause error) error {
	err := fmt.Errorf("%w: %s: %w; hint: restart, and check the disk", ErrFailed, doing, cause)
	v.failure.CompareAndSwap(nil, &err)
	return v.failed()
}

func (v *Vault) failed() error {
	if p := v.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// view reads from one consistent state of the store. With a log, what is not found
// is looked for again in the newest state: read is then called twice.
func (v *Vault) view(read func(txn *badger.Txn) error) error {
	err := v.look(read)
	if v.shared == nil || !stale(err) {
		return err
	}
	if newest := v.newest(v.shared.ctx); newest != nil {
		return newest
	}
	return v.look(read)
}

func (v *Vault) look(read func(txn *badger.Txn) error) error {
	if err := v.enter(); err != nil {
		return err
	}
	defer v.leave()
	return v.db.View(read)
}
