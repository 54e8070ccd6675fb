package sequencer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPaceWaitsForThoseWhoAreExpected(t *testing.T) {
	for _, c := range []struct {
		name         string
		took         time.Duration
		size, behind int
		here         int
		want         time.Duration
	}{
		{"nothing known", 0, 0, 0, 1, 0},
		{"fast disk: not worth it", time.Millisecond, 64, 0, 1, 0},
		{"one caller alone", 5 * time.Millisecond, 1, 0, 1, 0},
		{"two callers, in turn", 5 * time.Millisecond, 1, 1, 1, 7500 * time.Microsecond},
		{"callers in two halves", 8 * time.Millisecond, 32, 32, 32, 12 * time.Millisecond},
		{"all are here", 8 * time.Millisecond, 32, 32, 64, 0},
		{"more than expected", 8 * time.Millisecond, 3, 0, 10, 0},
		{"very slow disk", 300 * time.Millisecond, 64, 0, 1, gatherMax},
		{"a queue: one batch is the most", 8 * time.Millisecond, batchMax, batchMax, batchMax, 0},
	} {
		var p pace
		p.batch(c.size, c.behind, c.took)
		if got := p.window(c.here); got != c.want {
			t.Errorf("%s: window %v, want %v", c.name, got, c.want)
		}
	}
}

// TestPaceStopsWaitingInVain: after a wait in vain the next batches are not
// waited for, and more of them each time; a wait that paid ends that.
func TestPaceStopsWaitingInVain(t *testing.T) {
	var p pace
	skipped := func() (n int) {
		for p.window(1) == 0 {
			if n++; n > 2*skipMax {
				t.Fatal("it never waits again")
			}
		}
		return n
	}
	p.batch(50, 50, 10*time.Millisecond)
	for _, want := range []int{0, 8, 16, 32, 64, 128, 256, 256} {
		if n := skipped(); n != want {
			t.Errorf("%d batches were not waited for, want %d", n, want)
		}
		p.waited(74)
	}
	if n := skipped(); n != skipMax {
		t.Errorf("%d batches were not waited for, want %d", n, skipMax)
	}
	p.waited(75)
	if n := skipped(); n != 0 {
		t.Errorf("%d batches were not waited for after a wait that paid", n)
	}
}

// TestCallersShareTheirBatches: callers that come back within a batch's time are
// written together, and those who stay away cost a few waits.
func TestCallersShareTheirBatches(t *testing.T) {
	for _, c := range []struct {
		name    string
		callers int
		work    time.Duration // of one, between answer and next call
		rounds  int
		most    int // batches
	}{
		{"quick callers", 64, 2 * time.Millisecond, 50, 50 + 2},
		{"one caller", 1, 2 * time.Millisecond, 50, 50},
		{"slow callers", 8, 200 * time.Millisecond, 20, 8 * 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, f := &memory{took: 5 * time.Millisecond}, newFeed()
				cfg := config(m, f)
				cfg.Last = func() uint64 {
					f.mu.Lock()
					defer f.mu.Unlock()
					return uint64(len(f.all))
				}
				s := New(cfg)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx) }()
				done := make(chan struct{})
				start := time.Now()
				for i := range c.callers {
					go func() {
						for range c.rounds {
							// Callers are not in step with one another.
							time.Sleep(c.work * time.Duration(i+1) / time.Duration(c.callers))
							f.mu.Lock()
							f.all = append(f.all, Message{Seq: uint64(len(f.all) + 1), Body: []byte("x")})
							seq := uint64(len(f.all))
							close(f.more)
							f.more = make(chan struct{})
							f.mu.Unlock()
							if err := s.Wait(ctx, seq); err != nil {
								t.Error(err)
							}
						}
						done <- struct{}{}
					}()
				}
				for range c.callers {
					<-done
				}
				// Never slower than if nobody waited for anybody, but for the waits in vain.
				if took, most := time.Since(start), time.Duration(c.rounds)*(c.work+2*m.took)+100*time.Millisecond; took > most {
					t.Errorf("it took %v, want at most %v", took, most)
				}
				if m.calls > c.most {
					t.Errorf("%d batches for %d events of %d callers, want at most %d", m.calls, m.Size(), c.callers, c.most)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
