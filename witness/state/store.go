package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/gofrs/flock"

	"counterfoil/ledger/trust"
)

var (
	// ErrUnknownLog: the origin is not that of a log of this witness.
	ErrUnknownLog = errors.New("unknown log")
	// ErrRegress: an update that would take a log back, or give it a second
	// root for one size. It is a fault of the caller; nothing was stored.
	ErrRegress = errors.New("update refused")
	// ErrStopped: the store takes no updates, because it was closed or because
	// writing failed; then a new start is needed.
	ErrStopped = errors.New("the witness state takes no updates")
)

// Config says where the state is.
type Config struct {
	// Dir is the state directory; made with mode 0700 if it is missing.
	Dir string
	// GuardDir holds the high-water file; default Dir/guard. On another disk,
	// or outside of what is backed up, it notices that Dir was set back.
	GuardDir string
	// Markers are files, one beside each key, that name the state the key signs
	// with. They notice that the state was lost.
	Markers []string
	// Witness is the verifier key; a state belongs to one key.
	Witness trust.VerifierKey
	// Logger receives what the start finds; nil for none.
	Logger *slog.Logger
}

// Latest is the latest cosigned checkpoint of a log. The zero Latest means that
// there is none.
type Latest struct {
	Checkpoint trust.Checkpoint
	// Note is Checkpoint as a signed note: the log's signatures, then the
	// witness's cosignature.
	Note string
	// Timestamp is the time of that cosignature, in seconds since 1970.
	Timestamp uint64
}

// Store is the state of one witness. It is safe for concurrent use.
type Store struct {
	cfg  Config
	lock *flock.Flock

	mu   sync.RWMutex
	logs map[string]*known // by origin; only ever grows
	hash map[string]*known // the same by OriginHash

	// closing excludes the end of ops while an operation is being handed over.
	closing sync.RWMutex
	closed  bool
	ops     chan *op
	stopped chan struct{} // closed when run has ended

	failure  atomic.Pointer[error]
	failOnce sync.Once
	failed   chan struct{}

	journal  *journal // of run alone
	evidence evidence
}

// known is one log.
type known struct {
	log    Log
	turn   chan struct{} // holds one token; who has it may update latest
	latest atomic.Pointer[Latest]
}

func newKnown(l Log) *known {
	k := &known{log: l, turn: make(chan struct{}, 1)}
	k.turn <- struct{}{}
	return k
}

// Log returns a log by its origin.
func (s *Store) Log(origin string) (Log, bool) {
	k := s.known(origin)
	if k == nil {
		return Log{}, false
	}
	return k.log, true
}

// Latest returns the latest cosigned checkpoint of a log; false if there is
// none.
func (s *Store) Latest(origin string) (Latest, bool) {
	k := s.known(origin)
	if k == nil {
		return Latest{}, false
	}
	l := k.latest.Load()
	if l == nil {
		return Latest{}, false
	}
	return *l, true
}

// addLocked makes a log known, unless it is already: two imports may run at once.
func (s *Store) addLocked(l Log) {
	if s.logs[l.Origin] != nil {
		return
	}
	k := newKnown(l)
	s.logs[l.Origin], s.hash[OriginHash(l.Origin)] = k, k
}

// LatestByHash is Latest for the [OriginHash] of a log.
func (s *Store) LatestByHash(hash string) (Latest, bool) {
	s.mu.RLock()
	k := s.hash[hash]
	s.mu.RUnlock()
	if k == nil {
		return Latest{}, false
	}
	return s.Latest(k.log.Origin)
}

// Origins are the origins of all logs, in no order.
func (s *Store) Origins() []string {
	var out []string
	for _, k := range s.all() {
		out = append(out, k.log.Origin)
	}
	return out
}

func (s *Store) known(origin string) *known {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.logs[origin]
}

func (s *Store) all() []*known {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*known, 0, len(s.logs))
	for _, k := range s.logs {
		out = append(out, k)
	}
	return out
}

// Update replaces the latest checkpoint of a log by what next makes of it, with
// no other update of the log in between. When it returns nil the new one is
// durable and may be shown; next may have signed it before, but nothing of it
// may leave the process earlier.
//
// An error of next is returned as it is, and nothing has changed. ErrRegress is
// returned for a smaller size, for another root of the same size, and for an
// earlier time. After ErrStopped the old or the new checkpoint is on the disk.
// ctx bounds the wait for other updates of the log only, not the writing.
func (s *Store) Update(ctx context.Context, origin string, next func(now Latest) (Latest, error)) error {
	k := s.known(origin)
	if k == nil {
		return fmt.Errorf("%w: %q", ErrUnknownLog, origin)
	}
	select {
	case <-k.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { k.turn <- struct{}{} }()
	if err := s.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	var before Latest
	if l := k.latest.Load(); l != nil {
		before = *l
	}
	after, err := next(before)
	if err != nil {
		return err
	}
	if err := follows(origin, before, after); err != nil {
		return err
	}
	return s.store(&op{
		entries: []entry{{Checkpoint: &checkEntry{after.Note, after.Timestamp}}},
		apply:   func() { k.latest.Store(&after) },
	})
}

// follows is the last wall, whoever decided: no log goes back, and no size has
// two roots.
func follows(origin string, before, after Latest) error {
	again, err := (&checkEntry{after.Note, after.Timestamp}).latest()
	switch {
	case err != nil:
		return fmt.Errorf("%w: the note of the new checkpoint: %w", ErrRegress, err)
	case again.Checkpoint != after.Checkpoint || after.Checkpoint.Origin != origin:
		return fmt.Errorf("%w: the note is not that of the new checkpoint of %q", ErrRegress, origin)
	case before.Note == "":
		return nil
	case after.Checkpoint.Size < before.Checkpoint.Size:
		return fmt.Errorf("%w: %q from size %d to %d", ErrRegress, origin, before.Checkpoint.Size, after.Checkpoint.Size)
	case after.Checkpoint.Size == before.Checkpoint.Size && after.Checkpoint.Root != before.Checkpoint.Root:
		return fmt.Errorf("%w: %q has root %x at size %d, offered %x", ErrRegress, origin, before.Checkpoint.Root, before.Checkpoint.Size, after.Checkpoint.Root)
	case after.Timestamp < before.Timestamp:
		return fmt.Errorf("%w: %q from time %d to %d", ErrRegress, origin, before.Timestamp, after.Timestamp)
	}
	return nil
}

// store hands an operation to run and waits until it is durable.
func (s *Store) store(o *op) error {
	o.done = make(chan error, 1)
	s.closing.RLock()
	if s.closed {
		s.closing.RUnlock()
		return fmt.Errorf("%w: it is closed", ErrStopped)
	}
	s.ops <- o
	s.closing.RUnlock()
	return <-o.done
}

// Imported says what came of a list.
type Imported struct {
	Added, Known int
	// Ignored are the origins that the list describes otherwise than the state
	// does. The state stays: a list adds logs, it changes and removes none.
	Ignored []string
}

// Import adds the logs of a list that are not known yet, durably. Logs that are
// known stay as they are, and logs that the list lacks stay too.
func (s *Store) Import(list []Log) (Imported, error) {
	var done Imported
	var fresh []Log
	seen := map[string]bool{}
	for _, l := range list {
		if seen[l.Origin] {
			return done, fmt.Errorf("%w: origin %q twice", ErrList, l.Origin)
		}
		seen[l.Origin] = true
		had, ok := s.Log(l.Origin)
		switch {
		case !ok:
			fresh = append(fresh, l)
		case had.Key.String() == l.Key.String() && had.QPD == l.QPD:
			done.Known++
		default:
			done.Ignored = append(done.Ignored, l.Origin)
		}
	}
	for len(fresh) > 0 {
		part := fresh[:min(len(fresh), maxOp)]
		fresh = fresh[len(part):]
		o := &op{apply: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, l := range part {
				s.addLocked(l)
			}
		}}
		for _, l := range part {
			o.entries = append(o.entries, entry{Log: newLogEntry(l)})
		}
		if err := s.store(o); err != nil {
			return done, fmt.Errorf("store %d logs: %w", len(part), err)
		}
		done.Added += len(part)
	}
	return done, nil
}

// Err is why the store takes no updates; nil while it does.
func (s *Store) Err() error {
	if e := s.failure.Load(); e != nil {
		return *e
	}
	return nil
}

// Failed is closed when writing has failed. Nothing more is stored then.
func (s *Store) Failed() <-chan struct{} { return s.failed }

func (s *Store) fail(err error) {
	s.failOnce.Do(func() {
		s.failure.Store(&err)
		close(s.failed)
	})
}

// Close waits for operations in flight and gives the state free. It does not
// lose anything that was answered, and need not be called for that.
func (s *Store) Close() error {
	s.closing.Lock()
	if s.closed {
		s.closing.Unlock()
		return nil
	}
	s.closed = true
	close(s.ops)
	s.closing.Unlock()
	<-s.stopped
	return errors.Join(s.journal.file.Close(), s.journal.guard.Close(), s.lock.Unlock())
}
