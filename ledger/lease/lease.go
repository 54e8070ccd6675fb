package lease

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"time"
)

// Lease is one node's part in who signs. Its methods may be called concurrently.
type Lease struct {
	cfg  Config
	seed [instanceBytes]byte // random, of this Lease

	// writing is held (one token) by whoever writes the register.
	writing chan struct{}

	mu       sync.Mutex
	instance string // names this process in its records
	renamed  uint64 // how often it got another instance
	last     view
	held     bool // as Changed has told it last
	released bool // Release was called: no more taking over
	trouble  error
	changed  chan struct{} // closed and replaced when last.record, held or trouble change
}

// view is what this node knows of the register.
type view struct {
	known    bool   // anything at all
	record   Record // zero while the register has none that is usable
	revision uint64
	empty    bool      // the register has no record
	bad      error     // the register has something else
	seen     time.Time // when this revision was first seen
	began    time.Time // when the last write began that is known to be stored
	unsure   bool      // a write has no answer: read before the next one
	instance string    // ours
}

// New makes a lease that is not held. It reads and writes nothing; Run does.
func New(cfg Config) (*Lease, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	l := &Lease{cfg: cfg, writing: make(chan struct{}, 1), changed: make(chan struct{})}
	if _, err := io.ReadFull(cfg.Random, l.seed[:]); err != nil {
		return nil, fmt.Errorf("name this process: %w", err)
	}
	l.renameLocked()
	return l, nil
}

// renameLocked gives this process another instance, so that none of its records so
// far counts as its own any more.
func (l *Lease) renameLocked() {
	name := sha256.Sum256(binary.BigEndian.AppendUint64(l.seed[:], l.renamed))
	l.instance = hex.EncodeToString(name[:instanceBytes])
	l.renamed++
}

// Held reports whether this node holds the lease as far as it knows: its last
// successful write began less than TTL − Margin ago. It is for deciding what is
// worth trying; what may be signed is decided by Reserve and Publish.
func (l *Lease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heldLocked()
}

func (l *Lease) heldLocked() bool {
	return l.oursLocked() && !l.released && l.cfg.now().Sub(l.last.began) < l.cfg.TTL-l.cfg.Margin
}

// oursLocked reports whether the newest record that was seen is one of this
// process.
func (l *Lease) oursLocked() bool { return l.last.record.Instance == l.instance }

// Changed is closed when Record, Held or Trouble are about to say something new.
// Ask for it before reading them, and again after it was closed. It tells of a
// lease that ran out only while Run runs.
func (l *Lease) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Record is the newest record that was seen, and its revision. It is the zero
// record while there is none. Its notes are not to be changed.
func (l *Lease) Record() (Record, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.record, l.last.revision
}

// Trouble says why the register could not be read, written or used the last time
// that Run tried; nil while all is well, also for a node that does not hold the
// lease.
func (l *Lease) Trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

func (l *Lease) setTrouble(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if (err == nil) != (l.trouble == nil) {
		l.broadcastLocked()
	}
	l.trouble = err
}

func (l *Lease) view() (v view, ours bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v = l.last
	v.instance = l.instance
	return v, l.oursLocked()
}

// observe takes what Watch shows. Older revisions than the known one come late and
// are left out; that a register went back is believed of Get alone.
func (l *Lease) observe(value []byte, revision uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.known || revision > l.last.revision {
		l.takeLocked(value, revision)
	}
}

// read asks the register. The caller holds l.writing.
func (l *Lease) read(ctx context.Context) error {
	l.mu.Lock()
	before := l.last.revision
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Beat)
	defer cancel()
	value, revision, err := l.cfg.Register.Get(ctx)
	if err != nil {
		return fmt.Errorf("%w: read it: %w", ErrUnavailable, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last.unsure = false
	switch {
	case !l.last.known, revision < before, revision > l.last.revision:
		l.takeLocked(value, revision)
	}
	return nil
}

// takeLocked makes a value that was read the known one.
func (l *Lease) takeLocked(value []byte, revision uint64) {
	before, from := l.last.record, l.last.revision
	l.last.known, l.last.revision, l.last.seen = true, revision, l.cfg.now()
	l.last.record, l.last.bad = Record{}, nil
	if l.last.empty = len(value) == 0; !l.last.empty {
		r, err := Parse(value)
		if err == nil && r.Origin != l.cfg.Origin {
			err = fmt.Errorf("%w: it is of the log %q, expected %q", ErrRecord, r.Origin, l.cfg.Origin)
		}
		if err != nil {
			l.last.bad = fmt.Errorf("revision %d: %w", revision, err)
		} else {
			l.last.record = r
		}
	}
	if r := l.last.record; revision < from || r.Epoch < before.Epoch || r.Epoch == before.Epoch && r.Beat < before.Beat {
		// Lost, or put back from an old copy. It may name us and yet not know what
		// we signed: we hold nothing before we have taken it over again, which
		// raises its guard to ours.
		l.cfg.Logger.Warn("the register went back", "revision", revision, "epoch", r.Epoch, "beat", r.Beat,
			"beforeRevision", from, "beforeEpoch", before.Epoch, "beforeBeat", before.Beat)
		l.renameLocked()
	}
	l.tellLocked(before)
}

// stored notes that a write of this node is in the register, unless something
// newer was seen meanwhile.
func (l *Lease) stored(r Record, revision uint64, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.last.record
	l.last.began, l.last.unsure = began, false
	if !l.last.known || revision >= l.last.revision {
		l.last.known, l.last.revision, l.last.seen = true, revision, l.cfg.now()
		l.last.record, l.last.empty, l.last.bad = r, false, nil
	}
	l.tellLocked(before)
}

// tellLocked wakes who waits for a change, and says who holds the lease now.
func (l *Lease) tellLocked(before Record) {
	if r := l.last.record; r.Epoch != before.Epoch || r.Instance != before.Instance {
		l.cfg.Logger.Info("the lease", "holder", r.Node, "epoch", r.Epoch, "ours", l.oursLocked(), "revision", l.last.revision, "guard", r.Guard.Size)
	}
	l.held = l.heldLocked()
	l.broadcastLocked()
}

func (l *Lease) broadcastLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}
