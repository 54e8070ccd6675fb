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

// After a failure a witness is left alone for longer and longer, for as long as
// it asks for, and never for ever.
func TestBackOff(t *testing.T) {
	for _, c := range []struct {
		name        string
		answer      http.HandlerFunc
		class       string
		least, most int // requests within ten minutes
	}{
		{"503", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 503) }, "5xx", 14, 40},
		{"429 without a time", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 429) }, "429", 14, 40},
		{"429 for two minutes", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			http.Error(w, "no", 429)
		}, "429", 5, 5},
		{"503 until a date", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", time.Now().Add(2*time.Minute).UTC().Format(http.TimeFormat))
			http.Error(w, "no", 503)
		}, "5xx", 5, 6},
		{"429 for a year", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "31536000")
			http.Error(w, "no", 429)
		}, "429", 1, 1},
		{"404", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 404) }, "4xx", 14, 40},
		{"403", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 403) }, "4xx", 14, 40},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://A/prefix/add-checkpoint", 307)
		}, "3xx", 14, 40},
		{"no answer", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "timeout", 8, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLog(t, origin, 60, 60, "")
				a := newWitness(t, "A", l)
				defer a.store.Close()
				a.misbehave(c.answer)
				k := gather(t, t.TempDir(), l, 1, a)
				k.offer(1)
				k.start()
				defer k.stop()
				for size := uint64(2); size <= 60; size++ { // growing is no reason to ask earlier
					time.Sleep(10 * time.Second)
					k.offer(size)
				}
				time.Sleep(8 * time.Second)
				if n := len(a.asked()); n < c.least || n > c.most {
					t.Errorf("asked %d times within ten minutes, want %d to %d", n, c.least, c.most)
				}
				if s := k.witness("A"); int(s.Failures[c.class]) < c.least || s.Trouble == nil || s.Incidents != 0 {
					t.Errorf("%+v", s)
				}
				if n := strings.Count(k.logs.String(), "did not cosign"); n > 3 {
					t.Errorf("the same trouble was logged %d times", n)
				}
				a.misbehave(nil)
				time.Sleep(time.Hour + time.Minute)
				settle()
				if !k.over(59).Witnessed || k.witness("A").Trouble != nil {
					t.Errorf("it does not come back: %+v", k.Status())
				}
			})
		})
	}
}

// What is not exactly an answer of the protocol, and of that witness, counts for
// nothing.
func TestAnswersThatDoNotCount(t *testing.T) {
	l := newLog(t, origin, 60, 60, "")
	other := newLog(t, "example.com/other", 60, 60, "")
	a, b := newWitness(t, "A", l, other), newWitness(t, "B", l)
	defer a.store.Close()
	defer b.store.Close()
	line := func(w *testWitness, l *testLog, size uint64) string {
		rec := httptest.NewRecorder()
		w.srv.ServeHTTP(rec, httptest.NewRequest("POST", "/add-checkpoint", strings.NewReader(string(l.request(t, 0, size)))))
		if rec.Code != 200 {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		return rec.Body.String()
	}
	good, theirs, foreign := line(a, l, 60), line(b, l, 60), line(a, other, 60)
	at := strings.LastIndex(good, " ") + 1
	for name, body := range map[string]string{
		"nothing":                     "",
		"an empty line":               "\n",
		"a text":                      "ok\n",
		"no line end":                 strings.TrimSuffix(good, "\n"),
		"CR LF":                       strings.TrimSuffix(good, "\n") + "\r\n",
		"an empty line behind":        good + "\n",
		"an empty line before":        "\n" + good,
		"a text before":               "hello\n" + good,
		"a whole note":                string(l.checkpoint(t, 60)) + good,
		"only another witness's":      theirs,
		"of another checkpoint":       foreign,
		"a flipped bit":               good[:at+20] + string('A'+(good[at+20]-'A'+1)%26) + good[at+21:],
		"a good one and a bad one":    good + good[:at+30] + "AAAA" + good[at+34:],
		"no padding":                  strings.Replace(good, "==\n", "\n", 1),
		"more than the bound":         good + strings.Repeat(theirs, maxAnswer/len(theirs)+1),
		"a thousand lines":            good + strings.Repeat(theirs, 1000),
		"a hyphen in place of a dash": "- " + strings.TrimPrefix(good, "— "),
	} {
		if _, _, err := cosignatureOf([]byte(body), string(l.checkpoint(t, 60))[:strings.Index(string(l.checkpoint(t, 60)), "\n\n")+1], a.key.Verifier()); err == nil {
			if name != "more than the bound" { // that is for the reader
				t.Errorf("%s counts", name)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWitness(t, "A", l)
			defer w.store.Close()
			w.misbehave(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, body) })
			k := gather(t, t.TempDir(), l, 1, w)
			k.offer(60)
			k.start()
			settle()
			if c := k.over(0); c.Have != 0 || c.Witnessed {
				t.Errorf("%s counts: %+v", name, c)
			}
			if s := k.witness("A"); s.Failures["malformed"] != 1 {
				t.Errorf("%s: %+v", name, s)
			}
			k.stop()
		})
	}
	// Lines of others are ignored.
	text := string(l.checkpoint(t, 60))
	text = text[:strings.Index(text, "\n\n")+1]
	if s, _, err := cosignatureOf([]byte(theirs+good+theirs), text, a.key.Verifier()); err != nil || string(s.Append(nil)) != good {
		t.Errorf("among others: %v", err)
	}
}

// Other statuses that the protocol does not have, and sizes that cannot be.
func TestConflictsThatDoNotHelp(t *testing.T) {
	conflict := func(typ, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", typ)
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, body)
		}
	}
	n := 0
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		class  string
		asks   int
	}{
		"the size that was sent":  {conflict(sizeType, "0\n"), "409", 1},
		"leading zero":            {conflict(sizeType, "01\n"), "malformed", 1},
		"no line end":             {conflict(sizeType, "1"), "malformed", 1},
		"negative":                {conflict(sizeType, "-1\n"), "malformed", 1},
		"too large for a size":    {conflict(sizeType, "18446744073709551616\n"), "malformed", 1},
		"a new size every time":   {func(w http.ResponseWriter, r *http.Request) { n++; conflict(sizeType, fmt.Sprint(n, "\n"))(w, r) }, "409", maxTries},
		"204":                     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "malformed", 1},
		"a size and a parameter":  {conflict(sizeType+"; charset=utf-8", "0\n"), "409", 1},
		"an error without a text": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "5xx", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLog(t, origin, 60, 60, "")
				a := newWitness(t, "A", l)
				defer a.store.Close()
				a.misbehave(c.answer)
				k := gather(t, t.TempDir(), l, 1, a)
				k.offer(60)
				k.start()
				defer k.stop()
				settle()
				if s := k.witness("A"); s.Failures[c.class] != 1 || s.Incidents != 0 {
					t.Errorf("%+v", s)
				}
				if got := len(a.asked()); got != c.asks {
					t.Errorf("asked %d times at once, want %d", got, c.asks)
				}
			})
		})
	}
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
