// Package tee lets several readers follow a stream that is read once.
//
// One source is read to its end all the time, and what it yields is kept in a
// window of the newest messages. A reader within the window is given messages
// from there; one that is behind it reads by a source of its own until it has
// caught up. So readers never wait for one another, and the window bounds what
// a slow one costs in memory.
//
// Every reader yields each message once, in order and contiguous, as its source
// does; bodies are shared and must not be changed.
package tee

import (
	"context"
	"sync"
)

const (
	// windowRows and windowBytes bound the window, by whichever comes first.
	windowRows  = 4096
	windowBytes = 8 << 20
	// nextMax is how many messages are taken from the source at once.
	nextMax = 1024
)

// Message is one message of the stream.
type Message struct {
	Seq     uint64
	Subject string
	Body    []byte
}

// Source yields messages in order, contiguous by sequence. Next blocks for at
// least one message and returns what is there, up to max. Its errors are for
// good, but that of its context.
type Source interface {
	Next(ctx context.Context, max int) ([]Message, error)
}

// Open starts reading the stream at a sequence. The source ends with ctx.
type Open func(ctx context.Context, from uint64) Source

// Tee is safe for concurrent use; Run runs once.
type Tee struct {
	open Open

	mu      sync.Mutex
	first   uint64 // sequence of window[0], or of the message that comes next
	window  []Message
	bytes   int
	err     error // why Run ended
	readers []*Reader
}

// New makes a tee whose common source starts at sequence from: the end of the
// stream, or where the reader that is furthest goes on.
func New(open Open, from uint64) *Tee { return &Tee{open: open, first: from} }

// Run reads the source until ctx ends, which is no error, or the source fails:
// its readers end with the same error, once they have yielded what was read.
func (t *Tee) Run(ctx context.Context) error {
	err := t.run(ctx)
	t.mu.Lock()
	t.err = err
	t.wakeLocked()
	t.mu.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (t *Tee) run(ctx context.Context) error {
	s := t.open(ctx, t.first)
	for {
		msgs, err := s.Next(ctx, nextMax)
		if err != nil {
			return err
		}
		t.mu.Lock()
		t.addLocked(msgs)
		t.wakeLocked()
		t.mu.Unlock()
	}
}

func (t *Tee) addLocked(msgs []Message) {
	for _, m := range msgs {
		t.bytes += len(m.Body)
	}
	t.window = append(t.window, msgs...)
	if len(t.window) <= windowRows && t.bytes <= windowBytes {
		return
	}
	// The older half goes, into a new slice: what is dropped can be freed.
	drop := 0
	for bytes := t.bytes; drop < len(t.window)-1 && (len(t.window)-drop > windowRows/2 || bytes > windowBytes/2); drop++ {
		bytes -= len(t.window[drop].Body)
		t.bytes = bytes
	}
	t.window = append(make([]Message, 0, windowRows+nextMax), t.window[drop:]...)
	t.first += uint64(drop)
}

func (t *Tee) wakeLocked() {
	for _, r := range t.readers {
		select {
		case r.wake <- struct{}{}:
		default: // it will look anyway
		}
	}
}

// Reader is one of the readers of a tee. It is not safe for concurrent use.
type Reader struct {
	t    *Tee
	ctx  context.Context
	next uint64 // sequence that comes next
	wake chan struct{}

	own  Source // while it is behind the window
	stop context.CancelFunc
}

// Reader starts reading at a sequence. It ends with ctx.
func (t *Tee) Reader(ctx context.Context, from uint64) *Reader {
	r := &Reader{t: t, ctx: ctx, next: from, wake: make(chan struct{}, 1)}
	t.mu.Lock()
	t.readers = append(t.readers, r)
	t.mu.Unlock()
	return r
}

// Next blocks until there is at least one message, and returns what is there,
// at most max, in order and contiguous.
func (r *Reader) Next(ctx context.Context, max int) ([]Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		msgs, behind, err := r.look(max)
		switch {
		case behind:
			return r.byItself(ctx, max)
		case len(msgs) > 0 || err != nil:
			return msgs, err
		}
		select {
		case <-ctx.Done():
		case <-r.ctx.Done():
		case <-r.wake:
		}
	}
}

// look takes what the window has for the reader.
func (r *Reader) look(max int) (msgs []Message, behind bool, err error) {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	if r.next < r.t.first {
		return nil, true, nil
	}
	if r.own != nil { // it has caught up
		r.stop()
		r.own = nil
	}
	at := r.next - r.t.first
	if at >= uint64(len(r.t.window)) {
		return nil, false, r.t.err
	}
	msgs = r.t.window[at:]
	msgs = append([]Message(nil), msgs[:min(len(msgs), max)]...)
	r.next += uint64(len(msgs))
	return msgs, false, nil
}

// byItself reads what is no longer in the window, or was before it.
func (r *Reader) byItself(ctx context.Context, max int) ([]Message, error) {
	if r.own == nil {
		var own context.Context
		own, r.stop = context.WithCancel(r.ctx)
		r.own = r.t.open(own, r.next)
	}
	msgs, err := r.own.Next(ctx, max)
	r.next += uint64(len(msgs))
	return msgs, err
}
