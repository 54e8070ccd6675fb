package sequencer

import (
	"context"
	"time"
)

const (
	// holdMax bounds how long a caller's message waits for those of others; crowdMax
	// does if there is a crowd of them, who wait for much else before.
	holdMax  = 50 * time.Millisecond
	crowdMax = 100 * time.Millisecond
	crowd    = 64
)

// window is how long the messages of so many callers that wait are held for those of
// callers that are on their way, if a batch takes took.
//
// On a node of several it is known who comes, and a caller's way to the log, over two
// logs that most nodes flush, takes longer than a batch. Who comes while a batch is
// written waits for the rest of it, half of its time: that is what a hold saves those
// who come, and what it may cost those who wait, all of them together. It takes no time
// from anybody on average, and a batch's fixed price is paid once for all of them.
func window(took time.Duration, waiting, coming int) time.Duration {
	most := holdMax
	if coming >= crowd {
		most = crowdMax
	}
	return min(took*time.Duration(coming)/time.Duration(2*max(waiting, 1)), most)
}

// whole tells whether enough of those who are out are here.
func whole(waiting, coming int) bool { return waiting > 0 && waiting >= 8*coming }

// hold gathers a batch on a node of several; msgs are here already. Messages that
// nobody here waits for come along with those of callers, or are held as long as the
// node has patience.
func (s *Sequencer) hold(ctx context.Context, r Reader, msgs []Message) ([]Message, error) {
	began := s.cfg.Now()
	var since time.Time // when somebody was seen to wait
	for len(msgs) < batchMax {
		last := msgs[len(msgs)-1].Seq
		s.mu.Lock()
		waiting := s.waiting.upTo(last)
		coming := s.comingLocked(waiting)
		s.mu.Unlock()
		now := s.cfg.Now()
		var left time.Duration
		switch {
		case whole(waiting, coming):
		case waiting == 0:
			left = s.cfg.Patience() - now.Sub(began)
		default:
			if since.IsZero() {
				since = now
			}
			left = window(s.took, waiting, coming) - now.Sub(since)
		}
		if left <= 0 {
			break
		}
		more, err := s.nextWithin(ctx, r, left, batchMax-len(msgs), last)
		if err != nil {
			return nil, err
		}
		msgs = append(msgs, more...)
	}
	s.mu.Lock()
	s.callers = s.waiting.n + s.cfg.Coming()
	s.mu.Unlock()
	return msgs, nil
}

// comingLocked is how many are expected beside so many that wait for what is here:
// those whose messages are on the stream and not here yet, those who are known to be
// on their way to it, and in all as many as there were at the last batch, since a
// caller that was answered comes back soon.
func (s *Sequencer) comingLocked(waiting int) int {
	return max(s.waiting.n+s.cfg.Coming(), s.callers) - waiting
}

// wholeLocked tells whether a batch that ends at last has enough of what is waited for.
func (s *Sequencer) wholeLocked(last uint64) bool {
	if all := s.waiting.n; !whole(all, s.comingLocked(all)) {
		return false
	}
	waiting := s.waiting.upTo(last)
	return whole(waiting, s.comingLocked(waiting))
}

// nextWithin reads on for a time, or until those who wait need not be held any more;
// nothing and no error: so it is.
func (s *Sequencer) nextWithin(ctx context.Context, r Reader, d time.Duration, max int, last uint64) ([]Message, error) {
	wait, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	s.mu.Lock()
	first := s.waiting.n == 0
	s.waits = func() {
		if first || s.wholeLocked(last) {
			cancel()
		}
	}
	ready := s.wholeLocked(last)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.waits = nil
		s.mu.Unlock()
	}()
	if ready {
		return nil, nil
	}
	msgs, err := r.Next(wait, max)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return nil, nil
	}
	return msgs, err
}
