package stream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// read takes messages until last, and checks that none is missing or repeated.
func read(t testing.TB, tail *Tail, from, last uint64, max int) {
	t.Helper()
	for next := from; next <= last; {
		msgs, err := tail.Next(t.Context(), max)
		if err != nil {
			t.Fatalf("at %d: %v", next, err)
		}
		if len(msgs) == 0 || len(msgs) > max {
			t.Fatalf("at %d: %d messages, asked for %d", next, len(msgs), max)
		}
		for _, m := range msgs {
			if m.Seq != next {
				t.Fatalf("got sequence %d, expected %d", m.Seq, next)
			}
			next++
		}
	}
}

func TestLOG01_TailFromAnywhere(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	fill(t, s, makeLeaves(3000, 50))
	for _, from := range []uint64{1, 2, 1500, 3000} {
		for _, max := range []int{1, 7, 1024, 100_000} {
			if max == 1 && from < 1500 {
				continue
			}
			ctx, cancel := context.WithCancel(t.Context())
			read(t, s.Tail(ctx, from), from, 3000, max)
			cancel()
		}
	}
	// From beyond the end: what comes next.
	tail := s.Tail(t.Context(), 3001)
	mustPublish(t, s, 1, "next", mustLast(t, s, 1))
	read(t, tail, 3001, 3001, 10)
}

// A tail waits without asking: a publish wakes it.
func TestLOG01_TailWaits(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	tail := s.Tail(t.Context(), 1)
	got := make(chan uint64)
	go func() {
		for range 50 {
			msgs, err := tail.Next(t.Context(), 1)
			if err != nil {
				t.Error(err)
				close(got)
				return
			}
			got <- msgs[0].Seq
		}
	}()
	var last uint64
	for i := range uint64(50) {
		last = mustPublish(t, s, 1, "x", last)
		if n := <-got; n != i+1 {
			t.Fatalf("got %d, expected %d", n, i+1)
		}
	}
}

func TestTailCancel(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	tailCtx, endTail := context.WithCancel(t.Context())
	tail := s.Tail(tailCtx, 1)
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() { _, err := tail.Next(ctx, 1); errs <- err }()
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) {
		t.Errorf("canceled call: %v", err)
	}
	// The tail lives on.
	mustPublish(t, s, 1, "x", 0)
	read(t, tail, 1, 1, 1)
	go func() { _, err := tail.Next(t.Context(), 1); errs <- err }()
	endTail()
	if err := <-errs; !errors.Is(err, ErrClosed) {
		t.Errorf("ended tail: %v", err)
	}
	other := s.Tail(t.Context(), 2)
	go func() { _, err := other.Next(t.Context(), 1); errs <- err }()
	closeStream(t, s)
	if err := <-errs; !errors.Is(err, ErrClosed) {
		t.Errorf("closed stream: %v", err)
	}
	if _, err := other.Next(t.Context(), 0); err == nil {
		t.Error("zero messages asked for and no error")
	}
}

// The reader sleeps while more comes than is on its way at once.
func TestLOG01_SlowReaderMissesNothing(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	tail := s.Tail(t.Context(), 1)
	fill(t, s, makeLeaves(1, 50))
	read(t, tail, 1, 1, 1)
	w := s.window()
	for i := uint64(2); i <= 20_000; i++ {
		must(t, w.put(t.Context(), Msg{subject("a", "b", int(i%256)), []byte("x")}, i))
	}
	must(t, w.flush(t.Context()))
	read(t, tail, 2, 20_000, 300)
}

// A consumer that the server forgot, or that somebody deleted, is made anew.
func TestLOG01_TailSurvivesLossOfItsConsumer(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	tail := s.Tail(t.Context(), 1)
	var last uint64
	for range 20 {
		for range 5 {
			last = mustPublish(t, s, 1, "x", last)
		}
		read(t, tail, last-4, last-2, 1)
		must(t, s.api(t.Context(), "CONSUMER.DELETE."+DefaultName+"."+tail.consumer, nil, nil))
		read(t, tail, last-1, last, 1)
	}
	if _, err := s.nc.Request("$JS.API.CONSUMER.NAMES."+DefaultName, nil, startTimeout); err != nil {
		t.Error(err)
	}
}

// Restarts of the embedded server under load: every tail gets every message
// once, in order; publishes either say what happened or that they do not know.
func TestLOG14_TailAndPublishersSurviveRestarts(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	const shards, each = 8, 150
	var wg sync.WaitGroup
	for shard := range shards {
		wg.Go(func() {
			var last uint64
			for n := 0; n < each; {
				seq, err := s.Publish(t.Context(), Msg{subject("a", "b", shard), fmt.Append(nil, shard, " ", n)}, filter(shard), last)
				var wrong *WrongLastError
				switch {
				case err == nil:
					last = seq
					n++
				case errors.As(err, &wrong):
					last = wrong.Last // it was stored, the answer was lost
					n++
				case errors.Is(err, ErrUnanswered), errors.Is(err, ErrUnavailable):
					s.pause(t.Context(), time.Millisecond)
				default:
					t.Errorf("shard %d: %v", shard, err)
					return
				}
			}
		})
	}
	tails := make([]*Tail, 3)
	counts := make([]map[string]int, len(tails))
	for i := range tails {
		tails[i] = s.Tail(t.Context(), 1)
		counts[i] = map[string]int{}
		wg.Go(func() {
			for next := uint64(1); next <= shards*each; {
				msgs, err := tails[i].Next(t.Context(), 50)
				if err != nil {
					t.Error(err)
					return
				}
				for _, m := range msgs {
					if m.Seq != next {
						t.Errorf("tail %d: got %d, expected %d", i, m.Seq, next)
						return
					}
					counts[i][string(m.Body)]++
					next++
				}
			}
		})
	}
	for k := range 5 {
		tail := s.Tail(t.Context(), 1)
		read(t, tail, 1, uint64(k+1)*shards*each/7, 100)
		s.maintain.Lock()
		s.gate.set(ErrUnavailable)
		err := s.restart()
		s.gate.set(nil)
		s.maintain.Unlock()
		must(t, err)
	}
	wg.Wait()
	for i, c := range counts {
		if len(c) != shards*each {
			t.Errorf("tail %d: %d different messages, expected %d", i, len(c), shards*each)
		}
	}
	until(t, "connected", func() bool { return s.Healthy(t.Context()) == nil })
	if st, err := s.State(t.Context()); err != nil || st != (State{1, shards * each, shards * each, 0}) {
		t.Errorf("state %+v, %v", st, err)
	}
}

// A hole is an error with its bounds, and stays one.
func TestLOG13_TailReportsHoles(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		from   uint64
		good   uint64 // last message before the hole
		want   GapError
	}{
		{"at the front", func(t *testing.T, dir string) { must(t, os.Remove(blocks(t, dir)[0])) }, 1, 0, GapError{1, 139}},
		{"in the middle", func(t *testing.T, dir string) { must(t, os.Remove(blocks(t, dir)[1])) }, 1, 139, GapError{140, 278}},
		{"from inside it", func(t *testing.T, dir string) { must(t, os.Remove(blocks(t, dir)[1])) }, 200, 199, GapError{200, 278}},
		{"at the end", func(t *testing.T, dir string) { must(t, os.Remove(blocks(t, dir)[2])) }, 1, 278, GapError{279, 300}},
		{"one message", func(t *testing.T, dir string) { truncateBy(t, blocks(t, dir)[1], 100) }, 1, 277, GapError{278, 278}},
		{"one byte", func(t *testing.T, dir string) {
			f, err := os.OpenFile(blocks(t, dir)[1], os.O_RDWR, 0)
			must(t, err)
			_, err = f.WriteAt([]byte("X"), 100_000)
			must(t, errors.Join(err, f.Close()))
		}, 1, 140, GapError{141, 141}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filledBig(t)
			tc.damage(t, dir)
			s := open(t, testConfig(dir))
			tail := s.Tail(t.Context(), tc.from)
			if tc.good >= tc.from {
				read(t, tail, tc.from, tc.good, 100)
			}
			for range 2 {
				_, err := tail.Next(t.Context(), 100)
				var gap *GapError
				if !errors.As(err, &gap) || *gap != tc.want {
					t.Fatalf("got %v, expected %v", err, &tc.want)
				}
			}
		})
	}
}

// A stream that went back behind what was read would give sequences to other
// messages: nothing is read or published any more until it was healed.
func TestDUR_RewoundStreamIsNoticed(t *testing.T) {
	all := makeLeaves(50, 100)
	dir := t.TempDir()
	cfg := testConfig(filepath.Join(dir, "stream"))
	s := open(t, cfg)
	fill(t, s, all[:30])
	old := filepath.Join(dir, "old")
	// A copy of the store as it is on the disk after a stop.
	closeStream(t, s)
	must(t, os.CopyFS(old, os.DirFS(cfg.Dir)))
	s = open(t, cfg)
	w := s.window()
	for i, b := range all[30:] {
		must(t, w.put(t.Context(), Msg{leafSubject(b), b}, uint64(31+i)))
	}
	must(t, w.flush(t.Context()))
	tail := s.Tail(t.Context(), 1)
	read(t, tail, 1, 50, 100)

	idle := s.Tail(t.Context(), 1)
	read(t, idle, 1, 40, 40)

	// The store goes back under the running stream.
	s.maintain.Lock()
	shutdown(s.emb.take())
	must(t, errors.Join(os.RemoveAll(cfg.Dir), os.CopyFS(cfg.Dir, os.DirFS(old))))
	must(t, s.restart())
	s.maintain.Unlock()

	if _, err := s.Publish(t.Context(), Msg{subject("a", "b", 1), []byte("x")}, filter(1), 0); !errors.Is(err, ErrRewound) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("publish: %v", err)
	}
	if err := s.Healthy(t.Context()); !errors.Is(err, ErrRewound) {
		t.Errorf("healthy: %v", err)
	}
	if _, err := tail.Next(t.Context(), 1); !errors.Is(err, ErrRewound) {
		t.Errorf("tail: %v", err)
	}
	must(t, s.awaitConnection(t.Context()))
	r := mustHeal(t, s, healConfig(all, t.TempDir()))
	if r.Action != Refilled || r.Republished != 20 {
		t.Errorf("report %+v", r)
	}
	mustHold(t, s, all)
	must(t, s.Healthy(t.Context()))
	// Who read the old stream stays out, whether it noticed or not.
	for _, old := range []*Tail{tail, idle} {
		if _, err := old.Next(t.Context(), 1); !errors.Is(err, ErrRewound) {
			t.Errorf("old tail: %v", err)
		}
	}
	mustPublish(t, s, 200, "c8|x", 0)
	read(t, s.Tail(t.Context(), 1), 1, 51, 100)
}

// Even if nobody noticed the way back, an acknowledgement below what was seen
// gives it away.
func TestDUR_RewindShowsInAcknowledgement(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	mustPublish(t, s, 1, "x", 0)
	s.see(10)
	if _, err := s.Publish(t.Context(), Msg{subject("a", "b", 1), []byte("x")}, filter(1), 1); !errors.Is(err, ErrRewound) {
		t.Errorf("publish: %v", err)
	}
	if err := s.gate.check(); !errors.Is(err, ErrRewound) {
		t.Errorf("gate: %v", err)
	}
}
