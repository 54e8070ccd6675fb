package sequencer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// memory is a log in memory that can fail in both ways: a batch that is not
// kept, and one that is kept although it failed.
type memory struct {
	mu     sync.Mutex
	leaves []string
	calls  int
	// fail is asked before every batch.
	fail func(call int) (kept int, err error)
	took time.Duration
}

func (m *memory) Size() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(len(m.leaves))
}

func (m *memory) Append(_ context.Context, leaves [][]byte) (uint64, error) {
	time.Sleep(m.took) // in the bubble's time
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	keep, err := len(leaves), error(nil)
	if m.fail != nil {
		if k, e := m.fail(m.calls); e != nil {
			keep, err = min(k, len(leaves)), e
		}
	}
	for _, l := range leaves[:keep] {
		m.leaves = append(m.leaves, string(l))
	}
	return uint64(len(m.leaves)), err
}

// feed is a stream that grows.
type feed struct {
	mu   sync.Mutex
	all  []Message
	more chan struct{}
	next uint64
}

func newFeed() *feed { return &feed{more: make(chan struct{}), next: 1} }

func (f *feed) add(bodies ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range bodies {
		f.all = append(f.all, Message{Seq: uint64(len(f.all) + 1), Body: []byte(b)})
	}
	close(f.more)
	f.more = make(chan struct{})
}

func (f *feed) Next(ctx context.Context, max int) ([]Message, error) {
	for {
		f.mu.Lock()
		out, more := f.all[f.next-1:], f.more
		n := min(len(out), max)
		out = out[:n:n]
		f.next += uint64(len(out))
		f.mu.Unlock()
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-more:
		}
	}
}

func names(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("leaf %d", i))
	}
	return out
}

func config(m *memory, f *feed) Config {
	return Config{Log: m, Open: func(from uint64) Reader { f.next = from; return f },
		Logger: slog.New(slog.DiscardHandler), RetryEvery: time.Second, Now: time.Now}
}

// TestLOG14_EveryFailureIsTriedAgain: whatever part of a batch a failing log
// kept, the log ends as the stream has it.
func TestLOG14_EveryFailureIsTriedAgain(t *testing.T) {
	broken := errors.New("no space left on device")
	for _, c := range []struct {
		name  string
		kept  int // leaves of a failed batch that are durable all the same
		times int // failures in a row
	}{
		{"failed and not kept", 0, 1},
		{"failed but kept", 99, 1},
		{"failed and kept in part", 2, 1},
		{"failed five times", 0, 5},
		{"kept in part, again and again", 1, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, f := &memory{}, newFeed()
				left := c.times
				m.fail = func(int) (int, error) {
					if left == 0 {
						return 0, nil
					}
					left--
					return c.kept, broken
				}
				cfg := config(m, f)
				s := New(cfg)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _ = s.Run(ctx) }()
				f.add(names(0, 5)...)
				if err := s.Wait(ctx, 5); err != nil {
					t.Fatal(err)
				}
				f.add(names(5, 9)...)
				if err := s.Wait(ctx, 9); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(names(0, 9), m.leaves); d != "" {
					t.Error(d)
				}
				if err := s.Trouble(); err != nil {
					t.Errorf("trouble stays: %v", err)
				}
				cancel()
				synctest.Wait()
				if err := s.Wait(context.Background(), 100); !errors.Is(err, ErrStopped) {
					t.Errorf("waiting on a stopped sequencer: %v", err)
				}
			})
		})
	}
}

// TestLOG04_GoesOnBehindTheLastLeaf: the place to go on is the size of the log,
// never a memory of its own.
func TestLOG04_GoesOnBehindTheLastLeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := &memory{leaves: names(0, 3)}, newFeed()
		f.add(names(0, 7)...)
		s := New(config(m, f))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = s.Run(ctx) }()
		if err := s.Wait(ctx, 7); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if d := cmp.Diff(names(0, 7), m.leaves); d != "" {
			t.Error(d)
		}
	})
}

// gap reads sequence 1 and then sequence 3.
type gap struct{ n int }

func (g *gap) Next(context.Context, int) ([]Message, error) {
	g.n++
	return []Message{{Seq: uint64(2*g.n - 1), Body: []byte("x")}}, nil
}

func TestINV1_AHoleStopsTheSequencer(t *testing.T) {
	m := &memory{}
	cfg := config(m, newFeed())
	cfg.Open = func(uint64) Reader { return &gap{} }
	s := New(cfg)
	if err := s.Run(t.Context()); err == nil {
		t.Fatal("a hole in the stream was bridged")
	}
	if m.Size() != 1 || s.Trouble() == nil {
		t.Errorf("log of %d leaves, trouble %v; want 1 and a reason", m.Size(), s.Trouble())
	}
}

func TestINV1_AnotherWriterStopsTheSequencer(t *testing.T) {
	m, f := &memory{}, newFeed()
	f.add("a")
	m.fail = func(int) (int, error) {
		m.leaves = append(m.leaves, "foreign", "foreign", "foreign")
		return 0, errors.New("batch failed")
	}
	s := New(config(m, f))
	if err := s.Run(t.Context()); err == nil {
		t.Fatal("another writer went unnoticed")
	}
}

// TestBatchesGrowWithLoad: callers that are answered together share a batch.
func TestBatchesGrowWithLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := &memory{took: 10 * time.Millisecond}, newFeed()
		s := New(config(m, f))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = s.Run(ctx) }()
		const clients, each = 32, 20
		var wg sync.WaitGroup
		var mu sync.Mutex
		n := uint64(0)
		for c := range clients {
			wg.Go(func() {
				for range each {
					time.Sleep(time.Duration(c) * 100 * time.Microsecond) // work of its own
					mu.Lock()
					n++
					seq := n
					f.add("x")
					mu.Unlock()
					if err := s.Wait(ctx, seq); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		cancel()
		synctest.Wait()
		if per := clients * each / m.calls; per < clients/2 {
			t.Errorf("%d events in %d batches: %d a batch for %d clients", clients*each, m.calls, per, clients)
		}
	})
}
