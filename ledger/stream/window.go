package stream

import (
	"context"
	"fmt"
	"time"
)

// windowMax is how many publishes of a window wait for their answers at once;
// with the largest bodies it stays below what JetStream queues for a stream
// (128 MiB).
const windowMax = 1024

// window publishes many messages in order, each at a sequence that is known
// before, without waiting for one after the other.
type window struct {
	s       *Stream
	pending []*Future
	want    []uint64
}

func (s *Stream) window() *window { return &window{s: s} }

// put publishes m so that it gets sequence seq, or not at all. A body too large
// for the header of the expectation is sent alone and without: it is then the
// only one on its way.
func (w *window) put(ctx context.Context, m Msg, seq uint64) error {
	e := expectation{last: seq - 1}
	if len(m.Body) > MaxPublish {
		if err := w.flush(ctx); err != nil {
			return err
		}
		e = expectation{none: true}
	}
	if len(w.pending) >= windowMax {
		if err := w.wait(ctx, windowMax/2); err != nil {
			return err
		}
	}
	if err := checkSubject(m.Subject, false); err != nil {
		return err
	}
	f, err := w.s.pub.send(m, e, time.Now().Add(w.s.cfg.AckTimeout))
	if err != nil {
		return err
	}
	w.pending, w.want = append(w.pending, f), append(w.want, seq)
	if e.none {
		return w.flush(ctx)
	}
	return nil
}

// flush waits for all answers.
func (w *window) flush(ctx context.Context) error { return w.wait(ctx, len(w.pending)) }

func (w *window) wait(ctx context.Context, n int) error {
	for i, f := range w.pending[:n] {
		got, err := f.Wait(ctx)
		if err != nil {
			return err
		}
		if got != w.want[i] {
			return fmt.Errorf("message was stored at sequence %d, expected %d: another publisher writes to the stream", got, w.want[i])
		}
	}
	w.pending, w.want = w.pending[n:], w.want[n:]
	return nil
}
