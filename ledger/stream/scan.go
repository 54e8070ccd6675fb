package stream

import (
	"context"
	"errors"
	"sync"
)

// Reading in bulk: scanWindow messages at once, by scanReaders.
const (
	scanWindow  = 1024
	scanReaders = 16
)

// scan calls f for every sequence from first to last, in order, with the
// message or with nil if the stream has none that is readable.
func (s *Stream) scan(ctx context.Context, first, last uint64, f func(seq uint64, m *Message) error) error {
	for from := first; from <= last; {
		n := min(last-from+1, scanWindow)
		got, err := s.getMany(ctx, from, int(n))
		if err != nil {
			return err
		}
		for i, m := range got {
			if err := f(from+uint64(i), m); err != nil {
				return err
			}
		}
		from += n
	}
	return nil
}

// getMany reads n messages from a sequence on; nil where there is none.
func (s *Stream) getMany(ctx context.Context, from uint64, n int) ([]*Message, error) {
	out := make([]*Message, n)
	var (
		mu    sync.Mutex
		next  int
		first error
		wg    sync.WaitGroup
	)
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		if first != nil || next == n {
			return -1
		}
		next++
		return next - 1
	}
	for range min(scanReaders, n) {
		wg.Go(func() {
			for i := take(); i >= 0; i = take() {
				m, err := s.Get(ctx, from+uint64(i))
				switch {
				case err == nil:
					out[i] = &m
				case !errors.Is(err, ErrNotFound):
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return out, first
}
