package stdio

import (
	"sync"

	"counterfoil/internal/proxy/traffic"
)

// maxGroup bounds the packets that are taken together.
const maxGroup = 64

// queue holds what was read and not yet passed on. It is bounded in bytes: a
// reader that is ahead waits.
type queue struct {
	limit int // bytes; one packet may be above it

	// Under mu.
	mu      sync.Mutex
	changed sync.Cond
	packets []*traffic.Packet
	bytes   int
	closed  bool // no more comes
	aborted bool // nothing is taken any more
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.changed.L = &q.mu
	return q
}

// put parses and adds a line. It returns false if the queue was aborted.
func (q *queue) put(line []byte) bool {
	p := traffic.Read(line) // beside whoever passes on what came before
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.packets) > 0 && q.bytes+len(line) > q.limit && !q.aborted {
		q.changed.Wait()
	}
	if q.aborted {
		return false
	}
	q.packets = append(q.packets, p)
	q.bytes += len(line)
	q.changed.Broadcast()
	return true
}

// take waits for packets and takes those that are there, in order. It returns
// none at the end.
func (q *queue) take() []*traffic.Packet {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.packets) == 0 && !q.closed && !q.aborted {
		q.changed.Wait()
	}
	if q.aborted {
		return nil
	}
	n := min(len(q.packets), maxGroup)
	group := q.packets[:n:n]
	if q.packets = q.packets[n:]; len(q.packets) == 0 {
		q.packets = nil
	}
	for _, p := range group {
		q.bytes -= len(p.Raw)
	}
	q.changed.Broadcast()
	return group
}

// close says that no more comes; what is there is still taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// abort ends the queue with what is in it.
func (q *queue) abort() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.aborted, q.packets = true, nil
	q.changed.Broadcast()
}
