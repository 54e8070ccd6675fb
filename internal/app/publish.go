package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"counterfoil/internal/wait"
)

// publisher signs a checkpoint soon after the log has grown, at most once per
// interval, and lets others wait for one.
type publisher struct {
	publish func(ctx context.Context) (size uint64, err error)
	grown   func() <-chan struct{} // closed at the next growth of the log
	size    func() uint64          // durable leaves
	turn    func() (mine bool, changed <-chan struct{})
	every   time.Duration
	now     func() time.Time
	log     *slog.Logger

	mu        sync.Mutex
	published uint64
	waiting   int       // callers of Wait
	at        time.Time // when the newest checkpoint was published
	trouble   error
	ended     bool
	changed   chan struct{}
}

// retryPublish is the pause after a checkpoint that could not be signed.
const retryPublish = 250 * time.Millisecond

func newPublisher(published uint64, now func() time.Time) *publisher {
	return &publisher{published: published, now: now, at: now(), changed: make(chan struct{})}
}

// run publishes until ctx ends, and once more at the end.
func (p *publisher) run(ctx context.Context) {
	for {
		grown := p.grown()
		mine, turn := p.turn()
		if mine && p.size() > p.Size() {
			if !p.step(ctx) && wait.For(ctx, retryPublish) != nil {
				break
			}
			if wait.For(ctx, p.every) != nil {
				break
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-grown:
			continue
		case <-turn:
			continue
		}
		break
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if mine, _ := p.turn(); mine && p.size() > p.Size() {
		p.step(last)
	}
	p.mu.Lock()
	p.ended = true
	p.broadcastLocked()
	p.mu.Unlock()
}

func (p *publisher) step(ctx context.Context) bool {
	size, err := p.publish(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.trouble
	p.trouble = err
	if err != nil {
		if before == nil || before.Error() != err.Error() { // it is tried again four times a second
			p.log.Error("publish a checkpoint", "error", err)
		}
		return false
	}
	p.published, p.at = size, p.now()
	p.broadcastLocked()
	return true
}

// advance takes note of a checkpoint that another node signed.
func (p *publisher) advance(size uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if size > p.published {
		p.published, p.at, p.trouble = size, p.now(), nil
		p.broadcastLocked()
	}
}

func (p *publisher) broadcastLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// publishAgain signs a checkpoint before anything is served if the log has leaves
// beyond the newest one: a crash came between, or the file was lost or is old. The
// guard has said at the opening which tree it must be. What cannot be signed now
// is left to the publisher, and the views wait for it.
func (l *Ledger) publishAgain(ctx context.Context) {
	size := l.tlog.PublishedSize()
	if size >= l.tlog.Size() {
		return
	}
	if _, err := l.publish(ctx); err != nil {
		l.log.Warn("no checkpoint of the whole log could be signed at the start", "published", size, "size", l.tlog.Size(), "error", err)
	}
}

// Size is the size of the newest checkpoint.
func (p *publisher) Size() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.published
}

// At is when the newest checkpoint was published, or the start.
func (p *publisher) At() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// Changed is closed when there is a newer checkpoint.
func (p *publisher) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Trouble says why the last checkpoint was not signed.
func (p *publisher) Trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trouble
}

// Wait blocks until a checkpoint covers size leaves.
func (p *publisher) Wait(ctx context.Context, size uint64) error {
	p.count(1)
	defer p.count(-1)
	for {
		p.mu.Lock()
		ok, ended, changed := p.published >= size, p.ended, p.changed
		p.mu.Unlock()
		if ok {
			return nil
		}
		if ended {
			return errStopping
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (p *publisher) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting += n
}

// Waiting is how many wait for a checkpoint now.
func (p *publisher) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}
