package app

import (
	"context"
	"runtime"
	"sync"

	"counterfoil/ledger/event"
	"counterfoil/ledger/index"
	"counterfoil/ledger/tiles"
)

// leavesThenStream is what the index reads: the leaves of the log first, which are the
// stream's messages in bundles of 256, and then the stream. It is used by one
// goroutine.
type leavesThenStream struct {
	l    *Ledger
	next uint64 // leaf
	size uint64 // of the log at the start
	then index.Reader
}

// indexSource is where the index goes on: at sequence from.
func (l *Ledger) indexSource(from uint64, stream func(from uint64) index.Reader) index.Reader {
	size := l.tlog.Size()
	if from > size {
		return stream(from)
	}
	return &leavesThenStream{l: l, next: from - 1, size: size, then: stream(size + 1)}
}

func (r *leavesThenStream) Next(ctx context.Context, max int) ([]index.Message, error) {
	if r.next >= r.size {
		return r.then.Next(ctx, max)
	}
	end := min(r.size, r.next+uint64(max))
	if whole := end / tiles.Width * tiles.Width; end < r.size && whole > r.next { // no bundle is read twice
		end = whole
	}
	msgs := make([]index.Message, 0, end-r.next)
	err := r.l.leaves(ctx, r.next, end, r.size, func(i uint64, leaf []byte) error {
		msgs = append(msgs, index.Message{Seq: i + 1, Body: leaf})
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.ahead(msgs)
	r.next = end
	return msgs, nil
}

// ahead parses and verifies messages side by side, which is most of what they cost the
// index; the checker remembers what came of it. It names their subjects: under which
// one another writer published what is no event of ours only the stream knows, and says
// when it matters.
func (r *leavesThenStream) ahead(msgs []index.Message) {
	n := runtime.GOMAXPROCS(0)
	var working sync.WaitGroup
	for first := range n {
		working.Go(func() {
			for i := first; i < len(msgs); i += n {
				m := &msgs[i]
				rec, err := r.l.check.parse(m.Body)
				if err != nil {
					m.Subject = event.UnparsedSubject
					continue
				}
				m.Subject = rec.Event.StreamSubject()
				_ = r.l.check.check(rec, m.Body, m.Seq-1) // the index asks again
			}
		})
	}
	working.Wait()
}
