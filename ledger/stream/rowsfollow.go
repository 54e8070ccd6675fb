package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// rowsBatch and rowsBytes bound what is on its way to a follower of rows.
const (
	rowsBatch = 512
	rowsBytes = 4 << 20
)

// Follow calls f with every message from sequence from on, in order, one call
// after the other, and waits for more. Messages that were erased are left out, and
// nothing else: each delivery is counted. A lost connection, server or leader costs
// at most some seconds. It returns ErrClosed, or the error of ctx.
func (r *Rows) Follow(ctx context.Context, from uint64, f func(seq uint64, body []byte)) error {
	w := &rowsReader{r: r, f: f, next: max(from, 1)}
	retry := tailRetryMin
	for {
		before := w.next
		err := w.run(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("follow rows: %w", ctx.Err())
		case r.s.ctx.Err() != nil:
			return fmt.Errorf("follow rows: %w", ErrClosed)
		}
		if w.next != before {
			retry = tailRetryMin
		}
		r.s.log.Debug("follower of rows starts again", "stream", r.stream, "next", w.next, "error", err)
		_ = r.s.pause(ctx, retry)
		retry = min(2*retry, tailRetryMax)
	}
}

// rowsReader is one Follow.
type rowsReader struct {
	r    *Rows
	f    func(uint64, []byte)
	next uint64 // least sequence that is still to come
	far  bool   // the next consumer may be anywhere; see Tail

	// Of the present consumer.
	consumer  string
	inbox     string
	delivered uint64 // how many messages it gave us
	pulls     uint64
	missing   int // messages that the present request may still bring
}

// run reads from one consumer until that fails.
func (w *rowsReader) run(ctx context.Context) error {
	s := w.r.s
	_, changed := s.conn.get()
	w.inbox = s.nc.NewInbox()
	ch := make(chan *nats.Msg, 2*rowsBatch+64)
	sub, err := s.nc.ChanSubscribe(w.inbox+".*", ch)
	if err != nil {
		return unavailable("subscribe", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	w.delivered, w.pulls, w.missing = 0, 0, 0
	ask, cancel := context.WithTimeout(ctx, requestAgainAfter)
	n := 0
	w.consumer, err = s.makeConsumer(ask, w.r.stream, w.next, !w.far, func() string {
		n++
		return "rows-" + w.inbox[strings.LastIndexByte(w.inbox, '.')+1:] + "-" + strconv.Itoa(n)
	})
	cancel()
	if err != nil {
		return err
	}
	w.far = !w.far
	defer func() { s.dropConsumer(w.r.stream, w.consumer) }()
	silence := time.NewTimer(pullSilence)
	defer silence.Stop()
	for {
		if w.missing == 0 {
			if err := w.pull(); err != nil {
				return err
			}
		}
		select {
		case m := <-ch:
			if m == nil {
				return errors.New("subscription ended")
			}
			if err := w.take(m); err != nil {
				return err
			}
			silence.Reset(pullSilence)
		case <-silence.C:
			return fmt.Errorf("the consumer is silent for %v", pullSilence)
		case <-changed:
			return errors.New("the connection changed")
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return ErrClosed
		}
	}
}

func (w *rowsReader) pull() error {
	w.pulls++
	body := fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":%d,"idle_heartbeat":%d}`, rowsBatch, rowsBytes, pullExpires, pullHeartbeat)
	err := w.r.s.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+w.r.stream+"."+w.consumer, w.inbox+"."+strconv.FormatUint(w.pulls, 36), body)
	if err != nil {
		return unavailable("ask for rows", err)
	}
	w.missing = rowsBatch
	return nil
}

func (w *rowsReader) take(m *nats.Msg) error {
	if strings.HasPrefix(m.Subject, w.inbox) {
		return w.status(m)
	}
	consumer, seq, ok := parseReply(m.Reply)
	if !ok || consumer != w.consumer {
		return nil
	}
	w.missing--
	// Only the number of the delivery tells a message that was erased from one
	// that was lost on its way.
	if w.delivered++; w.delivered != deliveryOf(m.Reply) {
		return fmt.Errorf("got delivery %d, expected %d", deliveryOf(m.Reply), w.delivered)
	}
	if seq < w.next {
		return nil
	}
	w.f(seq, m.Data)
	w.next = seq + 1
	return nil
}

// status reads what the consumer says instead of a message.
func (w *rowsReader) status(m *nats.Msg) error {
	if m.Subject != w.inbox+"."+strconv.FormatUint(w.pulls, 36) {
		return nil // of an earlier request
	}
	status, text := m.Header.Get(statusHeader), m.Header.Get(descriptionHeader)
	switch {
	case status == "100":
		if n, err := strconv.ParseUint(m.Header.Get("Nats-Last-Consumer"), 10, 64); err == nil && n > w.delivered {
			return fmt.Errorf("%d messages were delivered, %d came", n, w.delivered)
		}
		return nil
	case status == "408", status == "404",
		status == "409" && (strings.Contains(text, "MaxBytes") || strings.Contains(text, "Batch Completed")):
		w.missing = 0
		return nil
	}
	return fmt.Errorf("consumer says %s %s", status, text)
}

// deliveryOf is the consumer's own sequence in the subject of an acknowledgement,
// 0 if there is none; see parseReply.
func deliveryOf(reply string) uint64 {
	tok := strings.Split(reply, ".")
	if len(tok) >= 11 {
		tok = tok[2:]
	}
	if len(tok) < 9 {
		return 0
	}
	n, err := strconv.ParseUint(tok[6], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
