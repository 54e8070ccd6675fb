package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A copy of the log that is older than what a witness has seen signs nothing
// more, prints both checkpoints, and stays stopped, until an operator decides.
func TestYesterdaysCopy(t *testing.T) {
	for name, c := range map[string]struct {
		offered uint64 // 0: a log that has published nothing
		fork    int    // from where its leaves are others than those that were witnessed
		verdict Verdict
	}{
		"smaller":             {40, 60, VerdictSetBack},
		"nothing published":   {0, 60, VerdictSetBack},
		"grown past it since": {80, 40, VerdictForked},
		"grown to its size":   {60, 40, VerdictForked},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				today := newLog(t, origin, 60, 60, "")
				a, b := newWitness(t, "A", today).knows(t, today, 60), newWitness(t, "B", today)
				defer a.store.Close()
				defer b.store.Close()
				old := newLog(t, origin, 100, c.fork, "another ")
				old.has(c.offered, c.offered)
				dir := t.TempDir()
				k := gather(t, dir, old, 1, a, b)
				if c.offered > 0 {
					k.offer(c.offered)
				}
				k.start()
				k.AskedOnce(t.Context())
				settle()
				err := k.Permit(t.Context())
				var stopped *StoppedError
				if !errors.As(err, &stopped) || stopped.Incident.Verdict != c.verdict {
					t.Fatalf("%v", err)
				}
				for _, want := range []string{string(today.checkpoint(t, 60))[:60], "runbooks", "stopped.json"} {
					if !strings.Contains(err.Error(), strings.ReplaceAll(want, "\n", `\n`)) {
						t.Errorf("the error lacks %q: %v", want, err)
					}
				}
				list := k.incidentFiles()
				if len(list) != 1 || list[0].Witness != "A" || list[0].OurSize != c.offered || list[0].TheirSize != 60 || !strings.Contains(list[0].Theirs, "\n60\n") ||
					(c.offered > 0) != strings.Contains(list[0].Ours, fmt.Sprintf("\n%d\n", c.offered)) {
					t.Errorf("incidents: %+v", list)
				}
				if !strings.Contains(k.logs.String(), "log_") {
					t.Errorf("nothing is logged: %s", k.logs)
				}
				asked := len(a.asked()) + len(b.asked())
				time.Sleep(3 * time.Hour)
				settle()
				if n := len(a.asked()) + len(b.asked()); n != asked {
					t.Errorf("%d requests after the end", n-asked)
				}
				k.stop()

				// A new start, with the newest log even: an operator decides.
				again := gather(t, dir, today, 1, a, b)
				if again.Stopped() == nil || again.Permit(t.Context()) == nil {
					t.Error("a new start signs again")
				}
				again.start()
				settle()
				again.stop()
				if err := os.Remove(filepath.Join(dir, "stopped.json")); err != nil {
					t.Fatal(err)
				}
				after := gather(t, dir, today, 1, a)
				after.offer(60)
				if s := after.witness("A"); s.Open == nil || s.Incidents != 1 {
					t.Errorf("the incident is forgotten: %+v", s)
				}
				after.start()
				defer after.stop()
				if err := after.Wait(t.Context(), 60); err != nil || after.Permit(t.Context()) != nil {
					t.Errorf("%v %v", err, after.Permit(t.Context()))
				}
				if s := after.witness("A"); s.Open != nil || s.Incidents != 1 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// A stop file that cannot be understood stops all the same.
func TestDamagedStopFileStops(t *testing.T) {
	l := newLog(t, origin, 60, 60, "")
	dir := t.TempDir()
	for _, content := range []string{"", "{", "null"} {
		if err := os.WriteFile(filepath.Join(dir, "stopped.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if k := gather(t, dir, l, 0); k.Permit(t.Context()) == nil {
			t.Errorf("%q: it signs", content)
		}
	}
}

// A log that was restored beside a whole stream grows to what it was: it signs
// nothing before, and goes on after.
func TestRestoredLogCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 80, 80, "")
		a := newWitness(t, "A", l).knows(t, l, 60)
		defer a.store.Close()
		l.has(40, 60)
		k := gather(t, t.TempDir(), l, 1, a)
		k.offer(40)
		k.start()
		defer k.stop()
		k.AskedOnce(t.Context())
		settle()
		var stopped *StoppedError
		if err := k.Permit(t.Context()); err == nil || errors.As(err, &stopped) {
			t.Fatalf("at 40 of 60: %v", err)
		}
		l.fault = errors.New("disk")
		if err := k.Permit(t.Context()); !errors.Is(err, l.fault) {
			t.Errorf("while the log cannot be read: %v", err)
		}
		l.fault = nil
		l.has(60, 60)
		if err := k.Permit(t.Context()); err != nil {
			t.Fatalf("at 60: %v", err)
		}
		k.offer(60)
		if err := k.Wait(t.Context(), 60); err != nil || len(k.incidentFiles()) != 0 || k.witness("A").Open != nil {
			t.Errorf("%v, %+v", err, k.incidentFiles())
		}
	})
}

// While it cannot be said whether the log holds what a witness has, nothing is
// signed.
func TestUndecidedSignsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 80, 80, "")
		a := newWitness(t, "A", l).knows(t, l, 60)
		defer a.store.Close()
		l.has(40, 40)
		k := gather(t, t.TempDir(), l, 1, a)
		k.offer(40)
		a.misbehave(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				l.mu.Lock()
				l.fault = errors.New("disk")
				l.mu.Unlock()
			}
			a.srv.ServeHTTP(w, r)
		})
		k.start()
		defer k.stop()
		settle()
		var stopped *StoppedError
		if err := k.Permit(t.Context()); err == nil || errors.As(err, &stopped) {
			t.Errorf("%v", err)
		}
		l.mu.Lock()
		l.fault = nil
		l.mu.Unlock()
		if err := k.Permit(t.Context()); !errors.As(err, &stopped) {
			t.Errorf("%v", err)
		}
	})
}

// A checkpoint of a witness that is in our own files says as much as one that it
// shows.
func TestStoredCheckpointBeyondTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 60, 60, "")
		a := newWitness(t, "A", l)
		defer a.store.Close()
		dir := t.TempDir()
		k := gather(t, dir, l, 1, a)
		k.offer(60)
		k.start()
		if err := k.Wait(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		k.stop()
		old := newLog(t, origin, 40, 40, "")
		again := gather(t, dir, old, 1, a)
		var stopped *StoppedError
		if err := again.Permit(context.Background()); !errors.As(err, &stopped) || stopped.Incident.Verdict != VerdictSetBack {
			t.Errorf("%v", err)
		}
	})
}

// Cosignatures of a tree that the log has yet to grow to again are not lost.
func TestCosignaturesOfALaterTreeStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 60, 60, "")
		a, b := newWitness(t, "A", l), newWitness(t, "B", l)
		defer a.store.Close()
		defer b.store.Close()
		dir := t.TempDir()
		k := gather(t, dir, l, 1, a, b)
		k.offer(60)
		k.start()
		if err := k.Wait(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		settle()
		k.stop()
		a.misbehave(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
		c := newWitness(t, "C", l)
		defer c.store.Close()
		l.has(40, 60)
		k = gather(t, dir, l, 1, a, b, c)
		if err := k.Permit(t.Context()); err == nil {
			t.Error("it signs before it has grown to what was cosigned")
		}
		k.offer(40)
		k.start()
		settle()
		k.stop() // C has cosigned 40, and that was stored
		l.has(60, 60)
		k = gather(t, dir, l, 1, a, b, c)
		k.verify(k.over(59), a, b)
		if c := k.over(0); c.Size != 60 || !c.Witnessed {
			t.Errorf("%+v", c)
		}
	})
}
