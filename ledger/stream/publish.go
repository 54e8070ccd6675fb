package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Msg is a message to publish: its subject and its body, the leaf. The body
// must not change until the publish has ended.
type Msg struct {
	Subject string
	Body    []byte
}

// Publish stores m if the last message that matches filter is the one at
// sequence expectLast (0: there is none), and returns its sequence. Every
// writer must use the same filter string for the same shard: a cluster compares
// the strings of writes in flight.
//
// It waits for the answer until ctx ends, AckTimeout at most; in a cluster it
// sends again what got no answer, so that a new leader is a pause and no error.
// The errors are
// *WrongLastError, ErrTooLarge and ErrUnavailable, after which nothing was
// stored, and ErrUnanswered.
func (s *Stream) Publish(ctx context.Context, m Msg, filter string, expectLast uint64) (uint64, error) {
	f, err := s.PublishAsync(m, filter, expectLast)
	if err != nil {
		return 0, err
	}
	return f.Wait(ctx)
}

// PublishAsync is Publish in two steps: this one sends, and the future waits.
// Messages are stored in the order of the calls of one goroutine.
func (s *Stream) PublishAsync(m Msg, filter string, expectLast uint64) (*Future, error) {
	if err := checkSubject(m.Subject, false); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	if err := checkSubject(filter, true); err != nil {
		return nil, fmt.Errorf("publish, filter: %w", err)
	}
	if len(m.Body) > MaxPublish {
		return nil, fmt.Errorf("body of %d bytes, at most %d: %w", len(m.Body), MaxPublish, ErrTooLarge)
	}
	if err := s.gate.check(); err != nil {
		return nil, err
	}
	e, until := expectation{filter: filter, last: expectLast}, time.Now().Add(s.cfg.AckTimeout)
	f, err := s.pub.send(m, e, until)
	if err != nil && s.cfg.clustered() && s.ctx.Err() == nil {
		f, err = s.pub.failed(m, e, until, err), nil // Wait sends it again
	}
	if err != nil {
		return nil, err
	}
	f.gated = true
	return f, nil
}

// expectation of a publish: the last sequence under a filter, or of the whole
// stream if the filter is empty.
type expectation struct {
	filter string
	last   uint64
	none   bool // no expectation, and so no header
}

func (e expectation) header() nats.Header {
	n := strconv.FormatUint(e.last, 10)
	switch {
	case e.none:
		return nil
	case e.filter == "":
		return nats.Header{headerExpectLast: {n}}
	}
	return nats.Header{headerExpectShardLast: {n}, headerExpectShardUnder: {e.filter}}
}

// Future is a publish that waits for its answer.
type Future struct {
	p      *publisher
	msg    Msg
	expect expectation
	seen   uint64 // Stream.LastSeen when it was sent
	gated  bool   // the gate ends it; what Heal publishes passes
	token  uint64
	until  time.Time // when it counts as unanswered
	// elected is closed by an election after it was sent.
	elected <-chan struct{}

	done chan struct{} // closed once seq and err are set
	seq  uint64
	err  error
}

// Done is closed once Wait does not block any more.
func (f *Future) Done() <-chan struct{} { return f.done }

// retryBusy is the first pause before a publish is sent again that the stream
// refused because it was busy; it doubles with each.
const retryBusy = 2 * time.Millisecond

// Wait returns what Publish returns.
func (f *Future) Wait(ctx context.Context) (uint64, error) {
	if f.p.s.cfg.clustered() {
		return f.persist(ctx)
	}
	pause := retryBusy
	for {
		select {
		case <-f.done:
		case <-ctx.Done():
			if f.p.forget(f) {
				return 0, fmt.Errorf("publish to %s: %w: %w", f.msg.Subject, ErrUnanswered, ctx.Err())
			}
			<-f.done // it is being answered just now
		case <-f.p.s.ctx.Done():
			if f.p.forget(f) {
				return 0, fmt.Errorf("publish to %s: %w: %w", f.msg.Subject, ErrUnanswered, ErrClosed)
			}
			<-f.done
		}
		var busy *busyError
		if !errors.As(f.err, &busy) {
			return f.seq, f.err
		}
		// The stream refused without a decision, so the same is sent again.
		if time.Now().Add(pause).After(f.until) || !f.p.s.pause(ctx, pause) {
			return 0, unavailable("publish to "+f.msg.Subject, busy)
		}
		pause = min(2*pause, 100*time.Millisecond)
		again, err := f.p.send(f.msg, f.expect, f.until)
		if err != nil {
			return 0, err
		}
		f = again
	}
}

// busyError: the stream refused a publish for a reason that passes.
type busyError struct{ apiError }

// publisher sends publishes and hands their answers to whoever waits. It has
// one subscription for all answers; the last token of an answer's subject says
// whose it is.
type publisher struct {
	s      *Stream
	prefix string // of the subjects of answers, with the dot
	ackOK  []byte // how a good answer begins

	mu      sync.Mutex
	next    uint64
	pending map[uint64]*Future
}

func newPublisher(s *Stream) *publisher {
	return &publisher{s: s, pending: map[uint64]*Future{}, ackOK: []byte(`{"stream":"` + s.cfg.Name + `","seq":`)}
}

// start subscribes to answers once there is a connection.
func (p *publisher) start() error {
	p.prefix = p.s.nc.NewInbox() + "."
	sub, err := p.s.nc.Subscribe(p.prefix+"*", p.answer)
	if err != nil {
		return unavailable("subscribe to answers", err)
	}
	// An answer must not be dropped because many came at once.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return fmt.Errorf("subscribe to answers: %w", err)
	}
	p.s.running.Go(p.sweep)
	return nil
}

func (p *publisher) send(m Msg, e expectation, until time.Time) (*Future, error) {
	if err := p.s.checked(); err != nil {
		return nil, err
	}
	f := &Future{p: p, msg: m, expect: e, seen: p.s.seen.Load(), until: until, elected: p.s.elected.wait(), done: make(chan struct{})}
	p.mu.Lock()
	p.next++
	f.token = p.next
	p.pending[f.token] = f
	p.mu.Unlock()
	err := p.s.nc.PublishMsg(&nats.Msg{
		Subject: m.Subject, Reply: p.prefix + strconv.FormatUint(f.token, 36), Header: e.header(), Data: m.Body,
	})
	if err != nil {
		if p.forget(f) {
			return nil, unavailable("publish to "+m.Subject, errors.Join(err, p.s.conn.reason()))
		}
		// It was sent, or the loss of the connection has ended it already.
	}
	return f, nil
}

// forget takes a future out of the pending ones; false if it was out.
func (p *publisher) forget(f *Future) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.pending[f.token]
	delete(p.pending, f.token)
	return ok
}

// answer is called for one answer after another.
func (p *publisher) answer(m *nats.Msg) {
	token, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, p.prefix), 36, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	f := p.pending[token]
	delete(p.pending, token)
	p.mu.Unlock()
	if f == nil {
		return
	}
	f.seq, f.err = p.judge(f, m)
	close(f.done)
}

func (p *publisher) judge(f *Future, m *nats.Msg) (uint64, error) {
	seq, err := p.parse(f, m)
	if err != nil {
		return 0, err
	}
	if seq <= f.seen {
		p.s.rewound(seq-1, f.seen)
		return 0, fmt.Errorf("publish to %s was stored at sequence %d after %d had been seen: %w", f.msg.Subject, seq, f.seen, ErrRewound)
	}
	p.s.see(seq)
	return seq, nil
}

// parse reads an answer: {"stream":…,"seq":…} or {"error":…}.
func (p *publisher) parse(f *Future, m *nats.Msg) (uint64, error) {
	if rest, ok := bytes.CutPrefix(m.Data, p.ackOK); ok && bytes.HasSuffix(rest, []byte("}")) {
		if seq, err := strconv.ParseUint(string(rest[:len(rest)-1]), 10, 64); err == nil && seq > 0 {
			return seq, nil
		}
	}
	if len(m.Data) == 0 && m.Header.Get(statusHeader) == statusNoResponders {
		return 0, unavailable("publish to "+f.msg.Subject, errNoStream)
	}
	var ack struct {
		Stream string    `json:"stream"`
		Seq    uint64    `json:"seq"`
		Error  *apiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return 0, fmt.Errorf("publish to %s: unreadable answer %.100q: %w", f.msg.Subject, m.Data, ErrUnanswered)
	}
	switch e := ack.Error; {
	case e == nil && ack.Stream == p.s.cfg.Name && ack.Seq > 0:
		return ack.Seq, nil
	case e == nil:
		return 0, fmt.Errorf("publish to %s was stored in stream %q at sequence %d, expected stream %q", f.msg.Subject, ack.Stream, ack.Seq, p.s.cfg.Name)
	case e.ErrCode == codeWrongLast:
		return 0, p.wrongLast(f, e)
	case e.ErrCode == codeWrongLastInFlight, e.ErrCode == codeExpectedNotReady, e.ErrCode == codeTooManyRequests:
		return 0, &busyError{*e}
	case e.ErrCode == codeMessageTooLarge:
		return 0, fmt.Errorf("body of %d bytes with its headers: %w", len(f.msg.Body), ErrTooLarge)
	default:
		return 0, unavailable("publish to "+f.msg.Subject, e)
	}
}

var errNoStream = errors.New("no stream listens to the subject")

// wrongLast reads "wrong last sequence: N". An N below the expectation is no
// lost race: the stream cannot read its last message, is stopping, or lost it. In
// a cluster the one who answered may just be behind, and the publish is sent
// again.
func (p *publisher) wrongLast(f *Future, e *apiError) error {
	last := wrongLastOf(e)
	if last < f.expect.last {
		p.s.suspect()
		return unavailable("publish to "+f.msg.Subject, fmt.Errorf("the stream says that the last sequence is %d, expected %d: it lost or cannot read messages", last, f.expect.last))
	}
	return &WrongLastError{Filter: f.expect.filter, Expected: f.expect.last, Last: last}
}

// failAll ends what is pending: it may be stored or not.
func (p *publisher) failAll(cause error) {
	p.mu.Lock()
	pending := p.pending
	p.pending = map[uint64]*Future{}
	p.mu.Unlock()
	for _, f := range pending {
		f.err = fmt.Errorf("publish to %s: %w: %w", f.msg.Subject, ErrUnanswered, cause)
		close(f.done)
	}
}

// sweepEvery is how exactly AckTimeout is kept.
const sweepEvery = 100 * time.Millisecond

var errNoAnswer = errors.New("no answer in time")

// sweep ends what waits for too long. A stream that cannot write does not
// answer, so silence is a reason to look after the server.
func (p *publisher) sweep() {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-p.s.ctx.Done():
			return
		case now := <-t.C:
			var late []*Future
			p.mu.Lock()
			for token, f := range p.pending {
				if now.After(f.until) {
					late = append(late, f)
					delete(p.pending, token)
				}
			}
			p.mu.Unlock()
			for _, f := range late {
				f.err = fmt.Errorf("publish to %s: %w: %w", f.msg.Subject, ErrUnanswered, errNoAnswer)
				close(f.done)
			}
			if len(late) > 0 {
				p.s.suspect()
			}
		}
	}
}
