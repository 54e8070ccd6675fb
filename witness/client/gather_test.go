package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLOG10_WitnessesThatAreBehind: one is at 40, one at 20, and nobody
// remembers: the public protocol is enough to bring both to 60.
func TestLOG10_WitnessesThatAreBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 60, 60, "")
		a, b := newWitness(t, "A", l).knows(t, l, 40), newWitness(t, "B", l).knows(t, l, 20)
		defer a.store.Close()
		defer b.store.Close()
		k := gather(t, t.TempDir(), l, 2, a, b)
		k.offer(60)
		k.start()
		defer k.stop()
		if err := k.Wait(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		if a.size() != 60 || b.size() != 60 {
			t.Errorf("A is at %d, B at %d", a.size(), b.size())
		}
		c := k.over(59)
		if !c.Witnessed || c.Have != 2 || c.Need != 2 || c.Size != 60 {
			t.Errorf("%+v", c)
		}
		k.verify(c, a, b)
		for _, w := range []*testWitness{a, b} {
			if n := len(w.asked()); n != 2 {
				t.Errorf("%s was asked %d times, want once and once more with its size", w.name, n)
			}
			if s := k.witness(w.name); s.Trouble != nil || len(s.Failures) > 0 || s.Incidents > 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}

// A cosignature that was lost on the way comes later, also after a new start.
func TestLostAnswerComesLater(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLog(t, origin, 60, 60, "")
				a, b := newWitness(t, "A", l), newWitness(t, "B", l)
				defer a.store.Close()
				defer b.store.Close()
				a.misbehave(func(w http.ResponseWriter, r *http.Request) {
					a.srv.ServeHTTP(httptest.NewRecorder(), r) // it has signed
					http.Error(w, "bad gateway", http.StatusBadGateway)
				})
				dir := t.TempDir()
				k := gather(t, dir, l, 2, a, b)
				k.offer(60)
				k.start()
				settle()
				if c := k.over(0); c.Witnessed || c.Have != 1 || a.size() != 60 {
					t.Fatalf("%+v, A is at %d", c, a.size())
				}
				if s := k.witness("A"); s.Failures["5xx"] != 1 || s.Trouble == nil || s.Size != 0 {
					t.Errorf("%+v", s)
				}
				if restart {
					k.stop()
					k = gather(t, dir, l, 2, a, b)
					if c := k.over(0); c.Have != 1 {
						t.Errorf("the cosignature of B was not kept: %+v", c)
					}
					k.offer(60)
					k.start()
				}
				defer func() { k.stop() }()
				a.misbehave(nil)
				if err := k.Wait(t.Context(), 60); err != nil {
					t.Fatal(err)
				}
				k.verify(k.over(0), a, b)
			})
		})
	}
}

// A witness that takes ten seconds delays nobody, and counts when it answers.
func TestSlowWitnessDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 400, 400, "")
		a, b, slow := newWitness(t, "A", l), newWitness(t, "B", l), newWitness(t, "slow", l)
		for _, w := range []*testWitness{a, b, slow} {
			defer w.store.Close()
		}
		slow.misbehave(slow.later(10 * time.Second))
		k := gather(t, t.TempDir(), l, 2, a, b, slow)
		k.offer(1)
		start := time.Now()
		k.start()
		defer k.stop()
		for size := uint64(2); size <= 200; size++ {
			k.offer(size)
			settle()
			if c := k.over(size - 1); !c.Witnessed || c.Size != size || c.Have != 2 {
				t.Fatalf("size %d: %+v", size, c)
			}
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("200 checkpoints took %s", d)
		}
		if n := len(slow.asked()); n != 1 {
			t.Errorf("the slow one was asked %d times at once", n)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		settle()
		if s := k.witness("slow"); s.Size == 0 || s.Trouble != nil {
			t.Errorf("its answer does not count: %+v", s)
		}
		time.Sleep(10 * time.Second)
		settle()
		if k.verify(k.over(0), a, b, slow); k.over(0).Size != 200 {
			t.Errorf("%+v", k.over(0))
		}
	})
}

// Witnesses of any speed meet on one tree, again and again, though a new
// checkpoint is there every 50 ms and the quorum asks for all of them.
func TestWitnessesOfDifferentSpeedMeet(t *testing.T) {
	for _, speeds := range [][]time.Duration{
		{10 * time.Millisecond, 20 * time.Millisecond}, {70 * time.Millisecond, 80 * time.Millisecond}, {time.Millisecond, 5 * time.Second},
		{3 * time.Second, 5 * time.Second}, {3 * time.Second, 5 * time.Second, 7 * time.Second}, {40 * time.Millisecond, 130 * time.Millisecond, 900 * time.Millisecond, time.Second},
	} {
		t.Run(fmt.Sprint(speeds), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLog(t, origin, 2000, 2000, "")
				var ws []*testWitness
				for i, d := range speeds {
					w := newWitness(t, string(rune('A'+i)), l)
					defer w.store.Close()
					w.misbehave(w.later(d))
					ws = append(ws, w)
				}
				slowest := slices.Max(speeds)
				k := gather(t, t.TempDir(), l, len(ws), ws...)
				k.offer(1)
				k.start()
				defer k.stop()
				behind, end := time.Duration(0), max(100, uint64(12*slowest/(50*time.Millisecond)))
				for size := uint64(2); size <= end; size++ {
					time.Sleep(50 * time.Millisecond)
					k.offer(size)
					if size > end/2 {
						behind = max(behind, time.Duration(size-k.Status().Witnessed)*50*time.Millisecond)
					}
				}
				// Two requests after the other, and as much for the next to begin.
				if limit := 4*slowest + 200*time.Millisecond; behind > limit {
					t.Errorf("what is witnessed was up to %s behind, want at most %s", behind, limit)
				}
			})
		})
	}
}

// An idle log is cosigned again, and the checkpoint is the same.
func TestIdleLogIsCosignedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 60, 60, "")
		a := newWitness(t, "A", l)
		defer a.store.Close()
		k := gather(t, t.TempDir(), l, 1, a)
		k.cfg.RecosignEvery = time.Hour
		k.offer(60)
		k.start()
		defer k.stop()
		if err := k.Wait(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		first := k.over(0)
		time.Sleep(59 * time.Minute)
		settle()
		if n := len(a.asked()); n != 1 {
			t.Errorf("asked %d times within the hour", n)
		}
		time.Sleep(2 * time.Minute)
		settle()
		again := k.over(0)
		k.verify(again, a)
		if r := a.asked(); len(r) != 2 || r[1].Old != 60 || len(r[1].Proof) != 0 || r[1].Checkpoint.Size != 60 {
			t.Errorf("asked: %+v", r)
		}
		if string(first.Note) == string(again.Note) || !again.Witnessed {
			t.Errorf("no newer cosignature: %+v", again)
		}
	})
}

// Cosignatures that cannot be stored do not count as witnessed, and do once they
// can.
func TestNothingIsWitnessedBeforeItIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 60, 60, "")
		a := newWitness(t, "A", l)
		defer a.store.Close()
		dir := filepath.Join(t.TempDir(), "w")
		k := gather(t, dir, l, 1, a)
		if err := os.Rename(dir, dir+".gone"); err != nil {
			t.Fatal(err)
		}
		k.offer(60)
		k.start()
		defer k.stop()
		time.Sleep(time.Minute)
		settle()
		if c := k.over(0); c.Have != 1 || c.Witnessed || k.Status().Unsaved == nil {
			t.Errorf("%+v %+v", c, k.Status())
		}
		if n := strings.Count(k.logs.String(), "store cosignatures"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := k.Wait(ctx, 60); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: %v", err)
		}
		if err := os.Rename(dir+".gone", dir); err != nil {
			t.Fatal(err)
		}
		if err := k.Wait(t.Context(), 60); err != nil || k.Status().Unsaved != nil {
			t.Errorf("%v %+v", err, k.Status())
		}
	})
}

// Witnesses that grant few requests are asked no more often than they are meant
// to be, and still meet on one tree.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 1300, 1300, "")
		a, b := newWitness(t, "A", l), newWitness(t, "B", l)
		defer a.store.Close()
		defer b.store.Close()
		b.misbehave(b.later(300 * time.Millisecond))
		k := gather(t, t.TempDir(), l, 2, a, b)
		k.cfg.AskEvery = 2 * time.Second
		k.offer(1)
		k.start()
		defer k.stop()
		behind := time.Duration(0)
		for size := uint64(2); size <= 1200; size++ { // one minute
			time.Sleep(50 * time.Millisecond)
			k.offer(size)
			if size > 600 {
				behind = max(behind, time.Duration(size-k.Status().Witnessed)*50*time.Millisecond)
			}
		}
		if n := len(a.asked()); n < 29 || n > 31 {
			t.Errorf("A was asked %d times within a minute", n)
		}
		if behind > 5*time.Second {
			t.Errorf("what is witnessed was up to %s behind", behind)
		}
	})
}
