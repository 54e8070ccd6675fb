package fetch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestADM31_AGuardedTransportKeepsTheRules(t *testing.T) {
	var asked atomic.Int32
	var busy atomic.Int32
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if busy.Add(-1) >= 0 {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		var n int
		fmt.Sscan(r.URL.Query().Get("n"), &n)
		if r.URL.Path == "/declared" {
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		for range n {
			w.Write([]byte("x"))
			w.(http.Flusher).Flush()
		}
	})
	var pauses []time.Duration
	f := fetcher(t, s, func(c *Config) {
		c.Pause = func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }
	})
	g := f.Guard(10)
	do := func(method, url string, body io.Reader) (string, error) {
		asked.Store(0)
		pauses = nil
		req, err := http.NewRequestWithContext(t.Context(), method, url, body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := (&http.Client{Transport: g}).Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return fmt.Sprint(res.StatusCode, " ", string(b)), err
	}
	for _, path := range []string{"/declared", "/streamed"} {
		if got, err := do("GET", s.URL+path+"?n=10", nil); err != nil || got != "200 xxxxxxxxxx" {
			t.Errorf("%s: %q, %v", path, got, err)
		}
		if _, err := do("GET", s.URL+path+"?n=11", nil); KindOf(err) != TooLarge || asked.Load() != 1 {
			t.Errorf("%s: %v after %d requests", path, err, asked.Load())
		}
	}
	busy.Store(2)
	if got, err := do("GET", s.URL+"/streamed?n=1", nil); err != nil || got != "200 x" || fmt.Sprint(pauses) != "[2s 2s]" {
		t.Errorf("%q, %v after %v", got, err, pauses)
	}
	busy.Store(9)
	if got, err := do("GET", s.URL+"/streamed?n=1", nil); err != nil || !strings.HasPrefix(got, "429") || asked.Load() != 4 {
		t.Errorf("%q, %v after %d requests", got, err, asked.Load())
	}
	// What has a body may have been carried out: its sender decides.
	busy.Store(1)
	if got, err := do("POST", s.URL+"/streamed?n=1", strings.NewReader("x")); err != nil || !strings.HasPrefix(got, "429") || asked.Load() != 1 {
		t.Errorf("%q, %v after %d requests", got, err, asked.Load())
	}
	if _, err := do("GET", strings.Replace(s.URL, "https", "http", 1), nil); KindOf(err) != Refused {
		t.Errorf("plain http: %v", err)
	}
	if hosts := g.Hosts(); len(hosts) != 1 || hosts[0] != s.Listener.Addr().String() {
		t.Errorf("%q answered", hosts)
	}
	s.Close()
	if _, err := do("GET", s.URL, nil); KindOf(err) != Unavailable || !strings.Contains(err.Error(), "asked 4 times") {
		t.Errorf("nobody there: %v", err)
	}
	g = fetcher(t, nil, nil).Guard(10)
	if _, err := do("GET", s.URL, nil); KindOf(err) != Refused {
		t.Errorf("no network: %v", err)
	}
}
