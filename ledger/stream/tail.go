package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// pullBatch and pullBytes bound what is on its way to a tail.
	pullBatch = 1024
	pullBytes = 4 << 20
	// pullExpires is how long one request for messages stands.
	pullExpires = 30 * time.Second
	// pullHeartbeat is how often a silent stream must show that it is there,
	// pullSilence after how much silence a tail starts again: a consumer may
	// stay silent for ever after a reconnect.
	pullHeartbeat = 1 * time.Second
	pullSilence   = 3 * time.Second
	// In a cluster a consumer dies with its server.
	clusterHeartbeat = 500 * time.Millisecond
	clusterSilence   = 1500 * time.Millisecond
	// consumerIdle is after how long the stream forgets a consumer that nobody
	// reads from. A tail makes a new one then.
	consumerIdle = time.Minute

	tailRetryMin = 10 * time.Millisecond
	tailRetryMax = 500 * time.Millisecond
)

// Tail reads the stream in order. Its only state is the next sequence: whatever
// happens to the connection, the server or the consumer behind it, it asks
// again for that sequence and compares what comes with it, so it never skips
// and never repeats.
type Tail struct {
	s                  *Stream
	ctx                context.Context
	heartbeat, silence time.Duration

	rewinds uint64 // Stream.rewinds at the start; what was read then counts only while it stays

	mu       sync.Mutex // one Next at a time
	next     uint64     // sequence that comes next
	sub      *nats.Subscription
	ch       chan *nats.Msg
	inbox    string
	consumer string // empty: none
	far      bool   // the next consumer may be anywhere: the last one was to be near, and failed
	gen      uint64 // connection that the consumer was made on
	pulls    uint64
	missing  int           // messages that the current request may still bring
	patience time.Duration // of the last try to make a consumer; 0 after one that was made
	failed   error         // for good
}

// Tail starts reading at sequence from (at least 1). It ends with ctx. A tail
// holds nothing but a consumer in the server's memory.
func (s *Stream) Tail(ctx context.Context, from uint64) *Tail {
	t := &Tail{s: s, ctx: ctx, heartbeat: pullHeartbeat, silence: pullSilence, rewinds: s.rewinds.Load(), next: max(from, 1)}
	if s.cfg.clustered() {
		t.heartbeat, t.silence = clusterHeartbeat, clusterSilence
	}
	context.AfterFunc(ctx, t.end)
	return t
}

// Next blocks until there is at least one message, and returns what is there,
// at most max, in order and contiguous. After an error the next call goes on at
// the same place; *GapError, ErrRewound and ErrClosed stay.
func (t *Tail) Next(ctx context.Context, max int) ([]Message, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if max < 1 {
		return nil, fmt.Errorf("tail at %d: asked for %d messages", t.next, max)
	}
	retry := tailRetryMin
	for {
		if err := t.stopped(ctx); err != nil {
			return nil, err
		}
		gen, changed := t.s.conn.get()
		if t.consumer == "" || gen != t.gen {
			if err := t.open(ctx, gen); err != nil {
				if t.failed != nil || ctx.Err() != nil {
					continue
				}
				t.s.log.Debug("tail cannot read", "next", t.next, "error", err)
				if !t.wait(ctx, changed, retry) {
					continue
				}
				retry = min(2*retry, tailRetryMax)
				continue
			}
		}
		if t.missing == 0 {
			if err := t.pull(); err != nil {
				t.consumer = ""
				continue
			}
		}
		msgs, err := t.receive(ctx, changed, max)
		if len(msgs) > 0 {
			return msgs, nil
		}
		if err != nil {
			t.consumer = ""
			t.s.log.Debug("tail starts again", "next", t.next, "error", err)
			if !t.wait(ctx, changed, retry) {
				continue
			}
			retry = min(2*retry, tailRetryMax)
		}
	}
}

// stopped is why the tail cannot go on, nil if it can.
func (t *Tail) stopped(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("tail at %d: %w", t.next, ctx.Err())
	case t.ctx.Err() != nil:
		return fmt.Errorf("tail at %d: %w: %w", t.next, ErrClosed, t.ctx.Err())
	case t.s.ctx.Err() != nil:
		return fmt.Errorf("tail at %d: %w", t.next, ErrClosed)
	}
	if err := t.s.gate.wentBack(); err != nil {
		t.failed = err
	} else if t.rewinds != t.s.rewinds.Load() {
		t.failed = ErrRewound
	}
	if t.failed != nil {
		return fmt.Errorf("tail at %d: %w", t.next, t.failed)
	}
	return nil
}

// wait pauses before the next try; a change of the connection ends it early.
func (t *Tail) wait(ctx context.Context, changed <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-changed:
	case <-ctx.Done():
	case <-t.ctx.Done():
	case <-t.s.ctx.Done():
	}
	return false
}

// open makes a consumer that starts at next. Before, it looks whether the
// stream still has what comes next.
func (t *Tail) open(ctx context.Context, gen uint64) error {
	if err := t.look(ctx); err != nil {
		return err
	}
	return t.create(ctx, gen)
}

// create makes the consumer.
func (t *Tail) create(ctx context.Context, gen uint64) error {
	if t.sub == nil {
		t.inbox = t.s.nc.NewInbox()
		t.ch = make(chan *nats.Msg, 2*pullBatch+64)
		sub, err := t.s.nc.ChanSubscribe(t.inbox+".*", t.ch)
		if err != nil {
			return unavailable("subscribe a tail", err)
		}
		t.sub = sub
	}
	t.drop()
	// A cluster may give the consumer to a server that just died, and none answers
	// for it then: the next try is under another name, for another server.
	if t.s.cfg.clustered() {
		t.patience = min(max(2*t.patience, resendAfter), requestAgainAfter)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.patience)
		defer cancel()
	}
	name, err := t.s.makeConsumer(ctx, t.s.cfg.Name, t.next, !t.far, func() string {
		t.pulls++
		return "tail-" + t.inbox[strings.LastIndexByte(t.inbox, '.')+1:] + "-" + strconv.FormatUint(t.pulls, 36)
	})
	if err != nil {
		return fmt.Errorf("consumer at %d: %w", t.next, err)
	}
	t.far = !t.far
	t.consumer, t.gen, t.missing, t.patience = name, gen, 0, 0
	return nil
}

// look reports a hole at next, or a stream that went back behind it.
func (t *Tail) look(ctx context.Context) error {
	st, err := t.s.State(ctx)
	if err != nil {
		return err
	}
	switch {
	case st.Last < t.next-1 && t.s.cfg.clustered():
		t.s.suspect()
		return unavailable("read", fmt.Errorf("a server says that the stream ends at %d, %d was read", st.Last, t.next-1))
	case st.Last < t.next-1 && t.next-1 <= t.s.LastSeen():
		t.s.rewound(st.Last, t.s.LastSeen())
		return ErrRewound
	case st.Last < t.next:
		return nil
	case st.First > t.next:
		t.failed = &GapError{From: t.next, To: st.First - 1}
		return t.failed
	}
	_, err = t.s.Get(ctx, t.next)
	if errors.Is(err, ErrNotFound) {
		t.failed = &GapError{From: t.next, To: t.endOfGap(ctx, st.Last)}
		return t.failed
	}
	return err
}

// endOfGap is the last missing sequence of the hole at next.
func (t *Tail) endOfGap(ctx context.Context, last uint64) uint64 {
	m, err := t.s.getFromLeader(ctx, messageRequest{Seq: t.next, NextFor: ">"})
	switch {
	case err == nil && m.Seq > t.next:
		return m.Seq - 1
	case errors.Is(err, ErrNotFound):
		return last
	}
	return t.next
}

// pull asks for the next messages.
func (t *Tail) pull() error {
	t.pulls++
	body := fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":%d,"idle_heartbeat":%d}`, pullBatch, pullBytes, pullExpires, t.heartbeat)
	err := t.s.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+t.s.cfg.Name+"."+t.consumer, t.inbox+"."+strconv.FormatUint(t.pulls, 36), body)
	if err != nil {
		return unavailable("ask for messages", err)
	}
	t.missing = pullBatch
	return nil
}

// errAgain ends a request for messages without anything wrong.
var errAgain = errors.New("request ended")

// receive blocks for the first message and takes what else is there. No message
// and no error: ask again.
func (t *Tail) receive(ctx context.Context, changed <-chan struct{}, max int) (msgs []Message, err error) {
	silence := time.NewTimer(t.silence)
	defer silence.Stop()
	for len(msgs) < max {
		var m *nats.Msg
		if len(msgs) > 0 {
			select {
			case m = <-t.ch:
			default:
				return msgs, nil
			}
		} else {
			select {
			case m = <-t.ch:
			case <-silence.C:
				return nil, fmt.Errorf("the stream is silent for %v", t.silence)
			case <-changed:
				return nil, nil
			case <-ctx.Done():
				return nil, nil
			case <-t.ctx.Done():
				return nil, nil
			case <-t.s.ctx.Done():
				return nil, nil
			}
		}
		if m == nil {
			return msgs, errors.New("subscription ended")
		}
		silence.Reset(t.silence)
		got, err := t.take(m)
		switch {
		case errors.Is(err, errAgain):
			t.missing = 0
			return msgs, nil
		case err != nil:
			return msgs, err
		case got.Seq != 0:
			msgs = append(msgs, got)
			if t.missing == 0 {
				return msgs, nil
			}
		}
	}
	return msgs, nil
}

// take judges one delivery: a message, nothing of interest (Seq 0), or an error
// after which the consumer is made anew.
func (t *Tail) take(m *nats.Msg) (Message, error) {
	if strings.HasPrefix(m.Subject, t.inbox) {
		return Message{}, t.status(m)
	}
	consumer, seq, ok := parseReply(m.Reply)
	if !ok || consumer != t.consumer {
		return Message{}, nil
	}
	t.missing--
	switch {
	case seq < t.next:
		return Message{}, nil
	case seq > t.next:
		return Message{}, fmt.Errorf("got sequence %d, expected %d", seq, t.next)
	}
	t.next++
	t.s.see(seq)
	return Message{Seq: seq, Subject: m.Subject, Body: m.Data}, nil
}

// status reads what a consumer says instead of a message.
func (t *Tail) status(m *nats.Msg) error {
	if m.Subject != t.inbox+"."+strconv.FormatUint(t.pulls, 36) {
		return nil // of an earlier request
	}
	status, text := m.Header.Get(statusHeader), m.Header.Get(descriptionHeader)
	switch {
	case status == "100":
		// The consumer has nothing to give. A message that is known to be
		// there is then not readable, or it is just behind.
		if t.s.LastSeen() >= t.next {
			return fmt.Errorf("the consumer is idle at %d, the stream ends at %d", t.next, t.s.LastSeen())
		}
		return nil
	case status == "408", status == "404",
		status == "409" && (strings.Contains(text, "MaxBytes") || strings.Contains(text, "Batch Completed")):
		return errAgain
	}
	return fmt.Errorf("consumer says %s %s", status, text)
}

// parseReply reads consumer and stream sequence from the subject that an
// acknowledgement would go to:
// $JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<consumer sequence>.<time>.<pending>
// with a domain and an account before the stream on some servers.
func parseReply(reply string) (consumer string, seq uint64, ok bool) {
	tok := strings.Split(reply, ".")
	if len(tok) < 9 || tok[0] != "$JS" || tok[1] != "ACK" {
		return "", 0, false
	}
	if len(tok) >= 11 {
		tok = tok[2:]
	}
	seq, err := strconv.ParseUint(tok[5], 10, 64)
	return tok[3], seq, err == nil
}

// drop deletes the consumer.
func (t *Tail) drop() {
	if t.consumer != "" {
		t.s.dropConsumer(t.s.cfg.Name, t.consumer)
		t.consumer = ""
	}
}

// end gives back what the tail holds.
func (t *Tail) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop()
	if t.sub != nil {
		_ = t.sub.Unsubscribe()
		t.sub = nil
	}
}
