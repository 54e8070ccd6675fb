package sequencer

import (
	"context"
	"time"
)

const (
	// quiet is how long nothing must come for a batch to be closed.
	quiet = 1500 * time.Microsecond
	// gatherMax bounds the wait on a slow disk.
	gatherMax = 20 * time.Millisecond
	// paceMin is how many messages a measurement of the pace needs.
	paceMin = 8
)

// pace estimates whether a batch is worth waiting for.
//
// A batch takes its time whatever its size. Callers that were answered together
// come back over the time that their work takes on this machine. If that is
// shorter than a batch, the first to come would get a batch of their own and the
// others would wait for all of it: better to wait until all are here. If it is
// longer, the disk would idle while callers work: better to start at once, so
// that one half works while the other half is being flushed.
//
// With N callers, w of work for each and a batch of length L, all together take
// L + N·w a round and two halves max(2L, N·w), so waiting pays while N·w < L.
type pace struct {
	took time.Duration // of the last batch
	size int           // the larger of the last two batches: about N
	last int           // of the last batch
	each time.Duration // between two messages of busy callers: about w
}

// batch learns from a batch that was written.
func (p *pace) batch(size int, took time.Duration) {
	p.took, p.size, p.last = took, max(size, p.last), size
}

// came learns from n messages that came within d.
func (p *pace) came(n int, d time.Duration) {
	if n < paceMin {
		return
	}
	if each := d / time.Duration(n); p.each == 0 {
		p.each = each
	} else {
		p.each += (each - p.each) / 8
	}
}

// window is how long to wait for more messages; 0 is not at all.
func (p *pace) window() time.Duration {
	if p.took < 2*quiet || time.Duration(p.size)*p.each >= p.took {
		return 0
	}
	return min(p.took, gatherMax)
}

// gather takes what is there, and waits for more as long as that pays and
// messages keep coming.
func (s *Sequencer) gather(ctx context.Context, r Reader) ([]Message, error) {
	msgs, err := r.Next(ctx, batchMax)
	if err != nil {
		return nil, err
	}
	if s.pace.took > 0 {
		s.pace.came(len(msgs), s.pace.took) // they came while a batch was being written
	}
	window := s.pace.window()
	if window == 0 {
		return msgs, nil
	}
	start := s.cfg.Now()
	all, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	first := len(msgs)
	for len(msgs) < batchMax {
		pause, cancel := context.WithTimeout(all, quiet)
		more, err := r.Next(pause, batchMax-len(msgs))
		cancel()
		if err != nil {
			if pause.Err() != nil && ctx.Err() == nil {
				break // nobody came
			}
			return nil, err
		}
		msgs = append(msgs, more...)
		s.pace.came(len(msgs)-first, s.cfg.Now().Sub(start))
	}
	return msgs, nil
}
