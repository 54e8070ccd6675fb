package tee

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// river is a stream that grows, and any number of sources on it.
type river struct {
	mu    sync.Mutex
	all   []Message
	more  chan struct{}
	opens []uint64 // where sources began
	fails error    // what sources end with, at the end of what there is
}

func newRiver() *river { return &river{more: make(chan struct{})} }

func (r *river) add(n, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range n {
		seq := uint64(len(r.all) + 1)
		r.all = append(r.all, Message{Seq: seq, Subject: "s" + strconv.FormatUint(seq, 10), Body: make([]byte, size)})
	}
	close(r.more)
	r.more = make(chan struct{})
}

func (r *river) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails = err
	close(r.more)
	r.more = make(chan struct{})
}

func (r *river) open(ctx context.Context, from uint64) Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opens = append(r.opens, from)
	return &source{r: r, ctx: ctx, next: from}
}

type source struct {
	r    *river
	ctx  context.Context
	next uint64
}

func (s *source) Next(ctx context.Context, max int) ([]Message, error) {
	for {
		s.r.mu.Lock()
		var out []Message
		if s.next <= uint64(len(s.r.all)) {
			out = s.r.all[s.next-1:]
			out = slices.Clone(out[:min(len(out), max)])
		}
		more, fails := s.r.more, s.r.fails
		s.r.mu.Unlock()
		s.next += uint64(len(out))
		if len(out) > 0 || fails != nil {
			return out, fails
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ctx.Done():
			return nil, s.ctx.Err()
		case <-more:
		}
	}
}

// wants reads messages [from, to] and compares them.
func wants(t *testing.T, r *Reader, from, to uint64, max int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for from <= to {
		max := min(max, int(to-from)+1) // no message is taken from who reads on
		msgs, err := r.Next(ctx, max)
		if err != nil {
			t.Fatalf("at %d: %v", from, err)
		}
		if len(msgs) == 0 || len(msgs) > max {
			t.Fatalf("at %d: %d messages, asked for at most %d", from, len(msgs), max)
		}
		for _, m := range msgs {
			if m.Seq != from || m.Subject != "s"+strconv.FormatUint(from, 10) {
				t.Fatalf("got sequence %d (%s), want %d", m.Seq, m.Subject, from)
			}
			from++
		}
	}
}

func run(t *testing.T, tee *Tee) (ended chan error, stop context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	go func() { ended <- tee.Run(ctx) }()
	t.Cleanup(stop)
	return ended, stop
}

func TestReadersShareOneSource(t *testing.T) {
	r := newRiver()
	r.add(10, 10)
	tee := New(r.open, 11)
	a, b := tee.Reader(t.Context(), 11), tee.Reader(t.Context(), 11)
	run(t, tee)
	r.add(3000, 10)
	wants(t, a, 11, 2000, 10)
	wants(t, b, 11, 3010, 512)
	wants(t, a, 2001, 3010, 1000)
	if len(r.opens) != 1 {
		t.Errorf("sources began at %d, want one", r.opens)
	}
}

// TestAReaderBehindTheWindowReadsByItself: at the start, and when others went
// far ahead; nobody waits for it.
func TestAReaderBehindTheWindowReadsByItself(t *testing.T) {
	r := newRiver()
	r.add(100, 10)
	tee := New(r.open, 101)
	fast, slow := tee.Reader(t.Context(), 101), tee.Reader(t.Context(), 1)
	run(t, tee)
	r.add(3*windowRows, 10)
	end := uint64(100 + 3*windowRows)
	wants(t, fast, 101, end, 1024)
	wants(t, slow, 1, 50, 25)
	wants(t, slow, 51, end, 1024)
	opens := len(r.opens)
	if opens < 2 {
		t.Fatalf("sources began at %d", r.opens)
	}
	r.add(100, 10)
	wants(t, slow, end+1, end+100, 10)
	wants(t, fast, end+1, end+100, 10)
	if slow.own != nil || len(r.opens) != opens {
		t.Errorf("a reader that caught up still reads by itself; sources began at %d", r.opens)
	}
}

func TestTheWindowIsBounded(t *testing.T) {
	for _, size := range []int{1, 64 << 10} {
		r := newRiver()
		tee := New(r.open, 1)
		fast := tee.Reader(t.Context(), 1)
		run(t, tee)
		for i := range uint64(20) {
			r.add(1000, size)
			wants(t, fast, 1+i*1000, (i+1)*1000, 1024)
			tee.mu.Lock()
			rows, bytes, sum := len(tee.window), tee.bytes, 0
			for _, m := range tee.window {
				sum += len(m.Body)
			}
			tee.mu.Unlock()
			if rows > windowRows || bytes > windowBytes || sum != bytes {
				t.Fatalf("window of %d rows and %d bytes (counted %d)", rows, sum, bytes)
			}
			if size > 1 {
				r.mu.Lock()
				for i := range r.all {
					r.all[i].Body = nil // memory of the test
				}
				r.mu.Unlock()
			}
		}
	}
}

func TestReadersEndWithTheSource(t *testing.T) {
	r, broken := newRiver(), errors.New("a hole in the stream")
	tee := New(r.open, 1)
	a := tee.Reader(t.Context(), 1)
	ended, _ := run(t, tee)
	r.add(5, 10)
	wants(t, a, 1, 3, 3)
	r.fail(broken)
	if err := <-ended; !errors.Is(err, broken) {
		t.Errorf("Run ended with %v", err)
	}
	wants(t, a, 4, 5, 10) // what was read before
	if _, err := a.Next(t.Context(), 1); !errors.Is(err, broken) {
		t.Errorf("the reader ends with %v", err)
	}
}

func TestReadersEndWithTheirContext(t *testing.T) {
	r := newRiver()
	tee := New(r.open, 1)
	ctx, cancel := context.WithCancel(t.Context())
	a := tee.Reader(ctx, 1)
	ended, stop := run(t, tee)
	call, end := context.WithCancel(t.Context())
	end()
	if _, err := a.Next(call, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context ended: %v", err)
	}
	r.add(1, 1)
	wants(t, a, 1, 1, 1) // and goes on
	cancel()
	if _, err := a.Next(t.Context(), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader whose context ended: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run ended with %v", err)
	}
}
