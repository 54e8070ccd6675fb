package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// After a failure a witness is left alone for longer and longer, for as long as
// it asks for, and never for ever.
func TestBackOff(t *testing.T) {
	for _, c := range []struct {
		name        string
		answer      http.HandlerFunc
		class       string
		least, most int // requests within ten minutes
	}{
		{"503", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) }, "5xx", 14, 40},
		{"429 without a time", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTooManyRequests) }, "429", 14, 40},
		{"429 for two minutes", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			http.Error(w, "no", http.StatusTooManyRequests)
		}, "429", 5, 5},
		{"503 until a date", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", time.Now().Add(2*time.Minute).UTC().Format(http.TimeFormat))
			http.Error(w, "no", http.StatusServiceUnavailable)
		}, "5xx", 5, 6},
		{"429 for a year", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "31536000")
			http.Error(w, "no", http.StatusTooManyRequests)
		}, "429", 1, 1},
		{"404", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotFound) }, "4xx", 14, 40},
		{"403", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, "4xx", 14, 40},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://A/prefix/add-checkpoint", http.StatusTemporaryRedirect)
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
