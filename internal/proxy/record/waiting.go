package record

import (
	"context"
	"sync"
)

// waiting counts what waits to be recorded.
type waiting struct {
	mu      sync.Mutex
	entries int
	bytes   int
	empty   chan struct{} // closed when entries becomes 0; nil if nobody waits
}

func (w *waiting) add(bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries++
	w.bytes += bytes
}

func (w *waiting) remove(bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries--
	w.bytes -= bytes
	if w.entries == 0 && w.empty != nil {
		close(w.empty)
		w.empty = nil
	}
}

// full reports whether a value of this size is too much beside what waits.
func (w *waiting) full(bytes int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes+bytes > maxWaiting
}

func (w *waiting) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries
}

// idle waits until nothing waits, or ctx ends.
func (w *waiting) idle(ctx context.Context) {
	w.mu.Lock()
	if w.entries == 0 {
		w.mu.Unlock()
		return
	}
	if w.empty == nil {
		w.empty = make(chan struct{})
	}
	empty := w.empty
	w.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}
