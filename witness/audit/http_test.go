package audit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/ledger/tiles"
	"counterfoil/witness/audit"
)

// serve serves the log's directory; in front may answer first.
func serve(t *testing.T, l *ledgerLog, front func(w http.ResponseWriter, r *http.Request) bool) func(*audit.Config) {
	t.Helper()
	static := http.FileServer(http.Dir(l.dir))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if front == nil || !front(w, r) {
			static.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	return from(t, srv.URL, time.Minute)
}

func from(t *testing.T, url string, timeout time.Duration) func(*audit.Config) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	src, err := tiles.HTTP(url, tiles.HTTPConfig{Client: client, Timeout: timeout, Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *audit.Config) { c.Source = src }
}

func TestLOG11_AuditOverHTTP(t *testing.T) {
	l := newLog(t).add(story(3000)...)
	verified(t, l.config(serve(t, l, nil)))
}

func TestConnectionsThatBreakAreTriedAgain(t *testing.T) {
	l := newLog(t).add(story(3000)...)
	var n atomic.Int64
	var asked sync.Map // a path is cut once at most: what never comes through is another matter
	r := verified(t, l.config(serve(t, l, func(w http.ResponseWriter, r *http.Request) bool {
		if _, again := asked.LoadOrStore(r.URL.Path, true); again || n.Add(1)%3 != 0 {
			return false
		}
		// A body that is cut in the middle.
		b, err := os.ReadFile(filepath.Join(l.dir, filepath.FromSlash(r.URL.Path)))
		if err != nil {
			return false
		}
		w.Header().Set("Content-Length", "100000000")
		_, _ = w.Write(b[:len(b)/2])
		panic(http.ErrAbortHandler)
	})))
	if r.Leaves.Folded != 3000 {
		t.Errorf("%s", text(r))
	}
}

// A server that never comes to an end with an answer ends the audit: nothing is
// judged, and the message says what was waited for.
func TestServersThatStallEndTheAudit(t *testing.T) {
	l := newLog(t).add(story(600)...)
	for name, c := range map[string]struct {
		stall    string
		deadline time.Duration
	}{
		"checkpoint": {"/checkpoint", 0}, "bundle": {"/tile/entries/001", 0}, "tile": {"/tile/0/001", 0}, "deadline": {"/tile/entries/001", 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			stop := make(chan struct{})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.URL.Path, c.stall) {
					http.FileServer(http.Dir(l.dir)).ServeHTTP(w, r)
					return
				}
				_, _ = w.Write([]byte("x")) // and then no more
				w.(http.Flusher).Flush()
				select {
				case <-stop:
				case <-r.Context().Done():
				}
			}))
			defer srv.Close()
			defer close(stop)
			ctx, timeout, want := t.Context(), 20*time.Millisecond, "no whole answer within 20ms"
			if c.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, c.deadline, errors.New("the deadline is over"))
				defer cancel()
				timeout, want = time.Hour, "the deadline is over"
			}
			r, err := audit.Run(ctx, l.config(from(t, srv.URL, timeout)))
			if r.ExitCode() != 2 || err == nil || !strings.Contains(r.Error, want) {
				t.Errorf("%v %s", err, text(r))
			}
		})
	}
}

func TestGarbageInPlaceOfALog(t *testing.T) {
	l := newLog(t).add(story(300)...)
	for _, body := range []string{"<html>not found</html>", "", strings.Repeat("x", 2<<20)} {
		r := run(t, l.config(serve(t, l, func(w http.ResponseWriter, _ *http.Request) bool { _, _ = io.WriteString(w, body); return true })))
		if r.ExitCode() != 2 || !strings.Contains(r.Error, "no checkpoint that can be read") {
			t.Errorf("%.20q: %s", body, text(r))
		}
	}
	r := run(t, l.config(serve(t, l, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "entries/000") {
			return false
		}
		_, _ = io.WriteString(w, "<html>a proxy says hello</html>")
		return true
	})))
	if r.ExitCode() != 1 || r.Leaves.Damaged != 256 {
		t.Errorf("%s", text(r))
	}
	r = run(t, l.config(serve(t, l, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "entries/000") {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})))
	if r.ExitCode() != 2 || !strings.Contains(r.Error, "status 500") {
		t.Errorf("%s", text(r))
	}
}

// The log grows and deletes its partial tiles between the checkpoint and the tiles.
func TestLogThatGrowsDuringTheAudit(t *testing.T) {
	leaves := story(2000)
	l := newLog(t).add(leaves[:300]...)
	grown := false
	r := verified(t, l.config(serve(t, l, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/checkpoint" && !grown {
			grown = true
			l.add(leaves[300:]...)
			for _, p := range []tiles.Path{tiles.EntriesPath(1, 300-256), tiles.TilePath(0, 1, 300-256)} {
				if err := os.RemoveAll(filepath.Dir(l.file(p))); err != nil {
					t.Error(err)
				}
			}
		}
		return false
	})))
	if r.Size != 300 || r.Leaves.Folded != 300 {
		t.Errorf("%s", text(r))
	}
}
