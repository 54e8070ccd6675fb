package sequencer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWindowSavesWhatItCosts(t *testing.T) {
	for _, c := range []struct {
		name            string
		took            time.Duration
		waiting, coming int
		want            time.Duration
	}{
		{"nobody comes", 10 * time.Millisecond, 5, 0, 0},
		{"one for one", 10 * time.Millisecond, 1, 1, 5 * time.Millisecond},
		{"one for many", 10 * time.Millisecond, 1, 8, 40 * time.Millisecond},
		{"many for one", 10 * time.Millisecond, 20, 1, 250 * time.Microsecond},
		{"a slow disk", time.Second, 1, 20, holdMax},
		{"a crowd", time.Second, 1, crowd, crowdMax},
	} {
		if got := window(c.took, c.waiting, c.coming); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// node runs a sequencer of one of several nodes.
type node struct {
	*Sequencer
	log    *memory
	feed   *feed
	coming atomic.Int64
}

func startNode(t *testing.T, took, patience time.Duration) *node {
	n := &node{log: &memory{took: took}, feed: newFeed()}
	cfg := config(n.log, n.feed)
	cfg.Coming = func() int { return int(n.coming.Load()) }
	cfg.Patience = func() time.Duration { return patience }
	n.Sequencer = New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return n
}

// put is a message of a caller, of this node or another one.
func (n *node) put() uint64 {
	n.feed.mu.Lock()
	defer n.feed.mu.Unlock()
	n.feed.all = append(n.feed.all, Message{Seq: uint64(len(n.feed.all) + 1), Body: []byte("x")})
	close(n.feed.more)
	n.feed.more = make(chan struct{})
	return uint64(len(n.feed.all))
}

// Callers whose way to the stream is longer than a batch are written together all
// the same, and one that is alone is not held (LOG-14).
func TestLOG14_CallersOfANodeShareItsBatches(t *testing.T) {
	const took = 5 * time.Millisecond
	for _, c := range []struct {
		name    string
		callers int
		way     time.Duration // to the stream
		rounds  int
		batches int           // at most; nearly twice or three times as many without a hold
		each    time.Duration // of a caller's call, at most on average
	}{
		{"alone", 1, 20 * time.Millisecond, 20, 20, 20*time.Millisecond + took},
		{"twenty", 20, 20 * time.Millisecond, 50, 170, 45 * time.Millisecond},
		{"a crowd", 300, 100 * time.Millisecond, 5, 60, 190 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := startNode(t, took, 50*time.Millisecond)
				start, done := time.Now(), make(chan error)
				for i := range c.callers {
					go func() {
						var err error
						for round := range c.rounds {
							n.coming.Add(1)
							// Some are quicker, in turn.
							time.Sleep(c.way/2 + c.way*time.Duration((i+round)%c.callers)/time.Duration(c.callers))
							seq := n.put()
							n.coming.Add(-1)
							err = errors.Join(err, n.Wait(t.Context(), seq))
						}
						done <- err
					}()
				}
				for range c.callers {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				each := time.Since(start) / time.Duration(c.rounds)
				if n.log.calls > c.batches {
					t.Errorf("%d batches for %d events, want at most %d", n.log.calls, n.Size(), c.batches)
				}
				if each > c.each {
					t.Errorf("a call took %v, want at most %v", each, c.each)
				}
			})
		})
	}
}

// Messages that nobody here waits for are gathered as long as the node has patience,
// and no longer; a caller that comes ends that.
func TestLOG14_NobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, 5*time.Millisecond, 50*time.Millisecond)
		var last uint64
		for range 10 {
			last = n.put()
			time.Sleep(4 * time.Millisecond)
		}
		start := time.Now()
		if err := n.Follow(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if held := time.Since(start); held > 20*time.Millisecond || n.log.calls != 1 {
			t.Errorf("%d batches, the last after %v", n.log.calls, held)
		}
		n.put()
		time.Sleep(time.Millisecond)
		start = time.Now()
		if err := n.Wait(t.Context(), n.put()); err != nil {
			t.Fatal(err)
		}
		if held := time.Since(start); held > 6*time.Millisecond {
			t.Errorf("a caller waited %v for messages that nobody waits for", held)
		}
	})
}

// What the log would write in a second batch goes with the next one, in its place.
func TestLOG14_TheRestGoesWithTheNextBatch(t *testing.T) {
	for _, several := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, f := &memory{took: 5 * time.Millisecond}, newFeed()
			cfg := config(m, f)
			cfg.Fits = fours
			if several {
				cfg.Coming, cfg.Patience = func() int { return 0 }, func() time.Duration { return 0 }
			}
			s := New(cfg)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			f.add(names(0, 7)...)
			go func() { ended <- s.Run(ctx) }()
			time.Sleep(time.Millisecond)
			f.add(names(7, 9)...) // beside the first four
			if err := s.Wait(ctx, 9); err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(names(0, 9), m.leaves); diff != "" {
				t.Error(diff)
			}
			if m.calls != 3 { // 4, 4 and 1; six if every rest were a batch
				t.Errorf("%d batches, want 3", m.calls)
			}
		})
	}
}

func fours(n int) int {
	if n < 4 {
		return n
	}
	return n - n%4
}

func TestWaiting(t *testing.T) {
	var w waiting
	a, b, again, far := w.add(3), w.add(5), w.add(3), w.add(9)
	if a != again || w.n != 4 || w.upTo(4) != 2 {
		t.Fatalf("%d wait, %d up to 4", w.n, w.upTo(4))
	}
	w.leave(5, b)
	w.reached(2, 5)
	<-a.done
	w.leave(3, a) // after it was woken
	if w.n != 1 {
		t.Errorf("%d wait, want 1", w.n)
	}
	w.end()
	<-far.done
	if w.n != 0 {
		t.Errorf("%d wait, want none", w.n)
	}
}
