// Package sequencer carries the stream into the log: the message at sequence n
// becomes the leaf at index n−1, always.
//
// It is the only writer of the log. Where it goes on is never remembered, it is
// the size of the tree: after any crash the next message to append is the one
// behind the last leaf. One batch is in flight at a time. A batch that fails is
// tried again until it is in; nothing is skipped, so trouble with the disk
// shows as a log that does not grow, never as a hole.
package sequencer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// batchMax is the largest batch that is appended at once.
const batchMax = 1024

// Message is one stream message.
type Message struct {
	Seq  uint64
	Body []byte
}

// Reader yields stream messages in order, contiguous by sequence.
type Reader interface {
	Next(ctx context.Context, max int) ([]Message, error)
}

// Log is the log as the sequencer needs it.
type Log interface {
	// Size is the number of durable leaves.
	Size() uint64
	// Append makes the leaves durable at Size, Size+1, … and returns the new
	// size. After an error none, some leading or all of them may be durable:
	// Size tells.
	Append(ctx context.Context, leaves [][]byte) (uint64, error)
}

// Config holds what a sequencer is made of.
type Config struct {
	Log Log
	// Open starts reading the stream at a sequence.
	Open func(from uint64) Reader
	// Last is the newest sequence of the stream that is known of: what is beyond
	// the log waits for the next batch. Nil: nothing is.
	Last func() uint64
	// Fits is how many of n messages, from 1 on, the log writes in one batch. The rest
	// goes with the next one. Nil: all of them.
	Fits func(n int) int
	// Coming is how many callers in this process are about to put a message on the
	// stream, most of whom will Wait for it. Nil: that says nothing of those who
	// will wait, or nobody counts them.
	Coming func() int
	// Patience is how long messages may be held that nobody here waits for. It is
	// required with Coming.
	Patience func() time.Duration
	Logger   *slog.Logger
	// RetryEvery is the first pause after a failed batch; it doubles up to 5 s.
	RetryEvery time.Duration
	Now        func() time.Time
}

// Sequencer is safe for concurrent use; Run runs once.
type Sequencer struct {
	cfg Config

	// Owned by Run.
	pace    pace
	took    time.Duration // of the last batch
	callers int           // who waited or came when it began
	rest    []Message     // read, and left for the next batch

	mu      sync.Mutex
	waiting waiting       // callers of Wait
	waits   func()        // called when one more waits, unless nil
	size    uint64        // durable leaves
	trouble error         // why the last batch failed, nil after one that did not
	ended   error         // why Run ended
	changed chan struct{} // closed and replaced at every step
}

// New makes a sequencer.
func New(cfg Config) *Sequencer {
	return &Sequencer{cfg: cfg, size: cfg.Log.Size(), changed: make(chan struct{})}
}

// ErrStopped is what waiters get once Run has ended.
var ErrStopped = errors.New("the sequencer stopped")

// Run appends until ctx ends (then it returns nil, with no batch in flight) or
// until the stream and the log cannot both be right.
func (s *Sequencer) Run(ctx context.Context) error {
	err := s.run(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	s.mu.Lock()
	s.ended = errors.Join(ErrStopped, err)
	s.waiting.end()
	s.broadcastLocked()
	s.mu.Unlock()
	return err
}

func (s *Sequencer) run(ctx context.Context) error {
	next := s.cfg.Log.Size() + 1
	r := s.cfg.Open(next)
	for {
		msgs, err := s.gather(ctx, r)
		if err != nil {
			return fmt.Errorf("sequencer reads the stream: %w", err)
		}
		leaves := make([][]byte, len(msgs))
		for i, m := range msgs {
			if m.Seq != next+uint64(i) {
				return fmt.Errorf("sequencer expects sequence %d, got %d: leaf index must be stream sequence − 1", next+uint64(i), m.Seq)
			}
			leaves[i] = m.Body
		}
		if err := s.append(ctx, next-1, leaves); err != nil {
			return err
		}
		next += uint64(len(leaves))
	}
}

// retryMax bounds the pause after failed batches.
const retryMax = 5 * time.Second

// append puts the leaves at index first, trying until they are durable.
func (s *Sequencer) append(ctx context.Context, first uint64, leaves [][]byte) error {
	want := first + uint64(len(leaves))
	began, retry := s.cfg.Now(), s.cfg.RetryEvery
	for {
		var err error
		if done := s.cfg.Log.Size() - first; done < uint64(len(leaves)) {
			_, err = s.cfg.Log.Append(ctx, leaves[done:])
		}
		size := s.cfg.Log.Size()
		if size < first || size > want {
			return fmt.Errorf("the log has %d leaves while %d to %d are being appended: another writer", size, first, want)
		}
		// From here on a crash loses nothing of what is below Size: the next
		// start goes on behind the last leaf, in this same loop.
		s.mu.Lock()
		s.waiting.reached(s.size, size)
		s.size, s.trouble = size, err
		s.broadcastLocked()
		s.mu.Unlock()
		if err == nil && size == want {
			s.took = s.cfg.Now().Sub(began)
			s.pace.batch(len(leaves), s.behind(size), s.took)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.cfg.Logger.Error("append to the log", "index", size, "error", err)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(retry):
			}
			retry = min(2*retry, retryMax)
		}
	}
}

func (s *Sequencer) broadcastLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Size is the number of durable leaves.
func (s *Sequencer) Size() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// Trouble says why the log does not grow, nil if it does.
func (s *Sequencer) Trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.trouble, s.ended)
}

// Wait blocks until the message at sequence seq is a durable leaf. Batches are made
// for those who wait.
func (s *Sequencer) Wait(ctx context.Context, seq uint64) error {
	s.mu.Lock()
	if s.size >= seq || s.ended != nil {
		defer s.mu.Unlock()
		return s.reachedLocked(seq)
	}
	w := s.waiting.add(seq)
	if s.waits != nil {
		s.waits()
	}
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting.leave(seq, w)
		return ctx.Err()
	case <-w.done:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.reachedLocked(seq)
	}
}

// reachedLocked is nil if the leaf is there, and else why it will not be.
func (s *Sequencer) reachedLocked(seq uint64) error {
	if s.size >= seq {
		return nil
	}
	return s.ended
}

// Follow is Wait for one who is in no hurry: no batch is made for it.
func (s *Sequencer) Follow(ctx context.Context, seq uint64) error {
	for {
		s.mu.Lock()
		size, ended, changed := s.size, s.ended, s.changed
		s.mu.Unlock()
		if size >= seq {
			return nil
		}
		if ended != nil {
			return ended
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Changed is closed when Size may have grown.
func (s *Sequencer) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
