package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// conflict answers add-checkpoint with a status and everything else honestly.
func (w *testWitness) conflict(status int, typ, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.srv.ServeHTTP(rw, r)
			return
		}
		rw.Header().Set("Content-Type", typ)
		rw.WriteHeader(status)
		fmt.Fprint(rw, body)
	}
}

func (k *kit) incidentFiles() (list []Incident) {
	k.t.Helper()
	files, err := filepath.Glob(filepath.Join(k.cfg.Dir, "incidents", "*.json"))
	if err != nil {
		k.t.Fatal(err)
	}
	for _, f := range files {
		var i Incident
		if err := json.Unmarshal([]byte(readFile(k.t, f)), &i); err != nil {
			k.t.Fatal(err)
		}
		list = append(list, i)
	}
	return list
}

// A witness that is alone with what it says stops nothing: the incident is kept
// and shown, and the others go on.
func TestLyingWitnessStopsNothing(t *testing.T) {
	const other = "example.com/other"
	for name, c := range map[string]struct {
		kind  Kind
		class string
		lie   func(a *testWitness, l *testLog) http.HandlerFunc
	}{
		"a larger size": {KindAhead, "ahead", func(a *testWitness, _ *testLog) http.HandlerFunc { return a.conflict(409, sizeType, "1000\n") }},
		"the largest size": {KindAhead, "ahead", func(a *testWitness, _ *testLog) http.HandlerFunc {
			return a.conflict(409, sizeType, "18446744073709551615\n")
		}},
		"a root mismatch":            {KindUnproven, "422", func(a *testWitness, _ *testLog) http.HandlerFunc { return a.conflict(422, "text/plain", "no") }},
		"a root mismatch of the tag": {KindUnproven, "422", func(a *testWitness, _ *testLog) http.HandlerFunc { return a.conflict(409, "text/plain", "no") }},
		"without a content type":     {KindUnproven, "422", func(a *testWitness, _ *testLog) http.HandlerFunc { return a.conflict(409, "", "70\n") }},
		"a text that is much too long": {KindUnproven, "422", func(a *testWitness, _ *testLog) http.HandlerFunc {
			return a.conflict(422, "text/plain", strings.Repeat("\xff\x00x", 3000))
		}},
		"a larger tree of its own key": {KindAhead, "ahead", func(a *testWitness, _ *testLog) http.HandlerFunc {
			return a.shows(t, a.conflict(409, sizeType, "90\n"), newLog(t, other, 100, 100, ""), 90)
		}},
		"a forged signature of the log": {KindAhead, "ahead", func(a *testWitness, l *testLog) http.HandlerFunc {
			forged := strings.Replace(string(newLog(t, origin, 100, 0, "x").checkpoint(t, 90)), "\n90\n", "\n91\n", 1)
			return a.showsBytes(a.conflict(409, sizeType, "91\n"), forged)
		}},
		"another origin under our key": {KindAhead, "ahead", func(a *testWitness, l *testLog) http.HandlerFunc {
			return a.showsBytes(a.conflict(409, sizeType, "91\n"), "nonsense")
		}},
		"an error for its checkpoint": {KindAhead, "ahead", func(a *testWitness, _ *testLog) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					a.conflict(409, sizeType, "91\n")(w, r)
					return
				}
				http.Error(w, "no", 500)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLog(t, origin, 60, 60, "")
				a, b := newWitness(t, "A", l).knows(t, l, 30), newWitness(t, "B", l)
				defer a.store.Close()
				defer b.store.Close()
				a.misbehave(c.lie(a, l))
				k := gather(t, t.TempDir(), l, 1, a, b)
				for size := uint64(31); size <= 60; size++ {
					if k.offer(size); size == 31 {
						k.start()
					}
					settle()
					if c := k.over(size - 1); !c.Witnessed {
						t.Fatalf("size %d: %+v", size, c)
					}
				}
				if err := k.Permit(t.Context()); err != nil {
					t.Errorf("a liar stops the log: %v", err)
				}
				time.Sleep(10 * time.Minute)
				settle()
				s := k.witness("A")
				if s.Incidents < 1 || s.Open == nil || s.Open.Kind != c.kind || s.Open.Verdict != VerdictUnproven || s.Failures[c.class] < 5 {
					t.Errorf("%+v %+v", s, s.Open)
				}
				if n := len(a.asked()); n > 25 {
					t.Errorf("asked %d times", n)
				}
				list := k.incidentFiles()
				if len(list) != 1 || list[0].URL != "http://A/prefix/" || list[0].VKey != a.key.Verifier().String() || list[0].Status == 0 || len(list[0].Body) > 3*maxClip || list[0].Ours == "" {
					t.Errorf("kept: %+v", list)
				}
				a.misbehave(nil)
				time.Sleep(2 * time.Minute)
				settle()
				if s := k.witness("A"); s.Open != nil || s.Incidents != 1 || s.Size != 60 {
					t.Errorf("after it cosigned: %+v", s)
				}
				k.stop()
			})
		})
	}
}

// shows lets the witness show a checkpoint in place of its own.
func (w *testWitness) shows(t testing.TB, post http.HandlerFunc, l *testLog, size uint64) http.HandlerFunc {
	return w.showsBytes(post, string(l.checkpoint(t, size)))
}

func (w *testWitness) showsBytes(post http.HandlerFunc, note string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			post(rw, r)
		case r.URL.Path == "/"+hash(origin)+"/checkpoint":
			fmt.Fprint(rw, note)
		default:
			panic(r.URL.Path)
		}
	}
}

// Not more incidents of one witness are kept than the disk should hold.
func TestIncidentsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 60, 60, "")
		a := newWitness(t, "A", l)
		defer a.store.Close()
		n := 1000
		a.misbehave(func(w http.ResponseWriter, r *http.Request) {
			n++
			a.conflict(409, sizeType, fmt.Sprint(n, "\n"))(w, r)
		})
		k := gather(t, t.TempDir(), l, 1, a)
		k.offer(60)
		k.start()
		time.Sleep(2 * time.Hour)
		k.stop()
		if got := len(k.incidentFiles()); got != maxIncidents || k.witness("A").Incidents != maxIncidents || n < 1100 {
			t.Errorf("%d are kept, of %d", got, n-1000)
		}
	})
}

// A witness that has forgotten is noted, and cosigns on.
func TestWitnessThatForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 60, 60, "")
		a, fresh := newWitness(t, "A", l), newWitness(t, "A", l)
		defer a.store.Close()
		defer fresh.store.Close()
		k := gather(t, t.TempDir(), l, 1, a)
		k.offer(50)
		k.start()
		defer k.stop()
		if err := k.Wait(t.Context(), 50); err != nil {
			t.Fatal(err)
		}
		a.misbehave(fresh.srv.ServeHTTP)
		k.offer(60)
		if err := k.Wait(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		list := k.incidentFiles()
		if len(list) != 1 || list[0].Kind != KindForgot || list[0].TheirSize != 0 || k.witness("A").Incidents != 1 || k.Permit(t.Context()) != nil {
			t.Errorf("%+v", list)
		}
	})
}
