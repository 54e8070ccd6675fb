package sequencer

import (
	"context"
	"time"
)

const (
	// fast is a batch that is not worth waiting for.
	fast = 2 * time.Millisecond
	// lookFor is how long messages that a batch had no place for wait for those that
	// came meanwhile, which are there at once if there are any.
	lookFor = time.Millisecond
	// gatherMax bounds the wait on a slow disk.
	gatherMax = 20 * time.Millisecond
	// skipMin and skipMax are how many batches are not waited for after waits in
	// vain: the first, and any number of them in a row.
	skipMin, skipMax = 8, 256
)

// pace says how long a batch is worth waiting for, and for how many messages.
//
// A batch takes its time whatever its size, and a good part of that is processor
// time. Callers wait for their batch and come back once they were answered: as
// many as the last batch held, and as many as came while it was written. If all
// of them are here soon, one batch for all of them costs half of what two halves
// cost that take turns, and no caller waits for the batch of the others. If they
// take longer than a batch and a half, the disk would idle for too long: better to
// start at once. Whether they come is found by waiting; after a wait in vain the
// next batches are not waited for.
type pace struct {
	took    time.Duration // of the last batch
	callers int           // who was in it, or waits behind it
	skip    int           // batches that are not waited for from here on
	vain    int           // the last number of them, 0 after a wait that paid
}

// batch learns from a batch that was written; behind is how many messages came
// meanwhile.
func (p *pace) batch(size, behind int, took time.Duration) {
	p.took, p.callers = took, min(size+behind, batchMax)
}

// window is how long to wait until all callers are here, of which some are; 0 is
// not at all.
func (p *pace) window(here int) time.Duration {
	switch {
	case p.took < fast || here >= p.callers:
		return 0
	case p.skip > 0:
		p.skip--
		return 0
	}
	return min(p.took*3/2, gatherMax)
}

// waited learns from a wait: at its end, n messages were here.
func (p *pace) waited(n int) {
	if 4*n >= 3*p.callers {
		p.vain = 0
		return
	}
	p.vain = min(max(2*p.vain, skipMin), skipMax)
	p.skip = p.vain
}

// gather takes what is there, and waits for those who are expected as long as
// that pays. What the log would write in a second batch is left for the next one.
func (s *Sequencer) gather(ctx context.Context, r Reader) ([]Message, error) {
	msgs, err := s.first(ctx, r)
	if err != nil {
		return nil, err
	}
	if s.cfg.Coming != nil {
		msgs, err = s.hold(ctx, r, msgs)
	} else {
		msgs, err = s.expect(ctx, r, msgs)
	}
	if err != nil {
		return nil, err
	}
	n := len(msgs)
	if s.cfg.Fits != nil {
		n = s.cfg.Fits(n)
	}
	s.rest = msgs[n:]
	return msgs[:n:n], nil
}

// first blocks until there is something, and takes what is there.
func (s *Sequencer) first(ctx context.Context, r Reader) ([]Message, error) {
	if len(s.rest) == 0 {
		return r.Next(ctx, batchMax)
	}
	rest := s.rest
	if len(rest) >= batchMax {
		return rest, nil
	}
	wait, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	more, err := r.Next(wait, batchMax-len(rest))
	if err != nil && (wait.Err() == nil || ctx.Err() != nil) {
		return nil, err
	}
	return append(rest, more...), nil
}

// expect waits for those who were in the last batch, or came beside it.
func (s *Sequencer) expect(ctx context.Context, r Reader, msgs []Message) ([]Message, error) {
	window := s.pace.window(len(msgs))
	if window == 0 {
		return msgs, nil
	}
	wait, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	for len(msgs) < s.pace.callers {
		more, err := r.Next(wait, batchMax-len(msgs))
		if err != nil {
			if wait.Err() != nil && ctx.Err() == nil {
				break // the others did not come
			}
			return nil, err
		}
		msgs = append(msgs, more...)
	}
	s.pace.waited(len(msgs))
	return msgs, nil
}

// behind is how many messages of the stream are not in the log yet.
func (s *Sequencer) behind(size uint64) int {
	if s.cfg.Last == nil {
		return 0
	}
	last := s.cfg.Last()
	return int(min(last-min(last, size), batchMax))
}
