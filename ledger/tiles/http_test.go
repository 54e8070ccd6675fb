package tiles

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHTTPSource(t *testing.T) {
	full := bytes.Repeat([]byte{7}, maxTile)
	var asked []string
	answers := map[string]http.HandlerFunc{
		"/log/tile/0/000": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(full) },
		"/log/tile/0/001": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(append(full, 0)) },
		"/log/tile/0/002": func(w http.ResponseWriter, _ *http.Request) {
			if len(asked) < 3 {
				w.Header().Set("Retry-After", "3")
				http.Error(w, "busy", http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write(full)
		},
		"/log/tile/0/003": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no entry", http.StatusForbidden) },
		"/log/tile/0/004": func(w http.ResponseWriter, _ *http.Request) { // cut short
			w.Header().Set("Content-Length", "8192")
			_, _ = w.Write(full[:100])
		},
		"/log/tile/0/005": func(w http.ResponseWriter, _ *http.Request) { // a small body that grows
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 50<<20))
			_ = z.Close()
		},
		"/log/checkpoint": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("note")) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if h := answers[r.URL.Path]; h != nil {
			h(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	defer server.Close()

	var pauses []time.Duration
	for _, base := range []string{server.URL + "/log", server.URL + "/log/"} {
		for _, test := range []struct {
			name   string
			path   Path
			got    Path // of a good answer
			asked  int
			pauses []time.Duration
			check  func(error) bool
		}{
			{"full", TilePath(0, 0, Width), TilePath(0, 0, Width), 1, nil, nil},
			{"checkpoint", Path{Kind: Checkpoint}, Path{Kind: Checkpoint}, 1, nil, nil},
			{"partial that is gone", TilePath(0, 0, 9), TilePath(0, 0, Width), 2, nil, nil},
			{"neither is there", TilePath(0, 9, 9), Path{}, 2, nil, func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
			{"too long", TilePath(0, 1, Width), Path{}, 1, nil, isDamage},
			{"too long after gzip", TilePath(0, 5, Width), Path{}, 1, nil, isDamage},
			{"busy twice", TilePath(0, 2, Width), TilePath(0, 2, Width), 3, []time.Duration{3 * time.Second, 3 * time.Second}, nil},
			{"refused", TilePath(0, 3, Width), Path{}, 1, nil, func(err error) bool {
				var s *StatusError
				return errors.As(err, &s) && s.Status == 403 && s.Detail == "no entry"
			}},
			{"cut short", TilePath(0, 4, Width), Path{}, 4, []time.Duration{firstPause, 2 * firstPause, 4 * firstPause},
				func(err error) bool { return strings.Contains(err.Error(), "unexpected EOF") }},
		} {
			t.Run(test.name, func(t *testing.T) {
				asked, pauses = nil, nil
				src, err := HTTP(base, HTTPConfig{Pause: func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }})
				if err != nil {
					t.Fatal(err)
				}
				_, got, err := src.Read(t.Context(), test.path)
				switch {
				case test.check == nil && (err != nil || got != test.got):
					t.Errorf("%v, %v; want %v", got, err, test.got)
				case test.check != nil && (err == nil || !test.check(err)):
					t.Errorf("error %v", err)
				}
				if len(asked) != test.asked {
					t.Errorf("asked for %q, want %d requests", asked, test.asked)
				}
				if len(pauses) != len(test.pauses) {
					t.Fatalf("pauses %v, want %v", pauses, test.pauses)
				}
				for i, d := range test.pauses {
					if pauses[i] != d {
						t.Errorf("pauses %v, want %v", pauses, test.pauses)
					}
				}
			})
		}
	}
}

func isDamage(err error) bool {
	var d *DamageError
	return errors.As(err, &d)
}

// A server that says nothing more ends a request by its time limit.
func TestHTTPSourceNeverHangs(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	src, err := HTTP(server.URL, HTTPConfig{Timeout: 50 * time.Millisecond, Attempts: 2, Pause: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = src.Read(t.Context(), TilePath(0, 0, Width)); err == nil || !strings.Contains(err.Error(), "no whole answer within 50ms") {
		t.Errorf("error %v", err)
	}
}

func TestHTTPSourceRefusesBases(t *testing.T) {
	for _, base := range []string{"", "log", "ftp://x/", "http://", "http://a/?x", "http://a/#x", "http://u:p@a/", "http://a b/"} {
		if _, err := HTTP(base, HTTPConfig{}); err == nil {
			t.Errorf("%q was accepted", base)
		} else if strings.Contains(err.Error(), ":p@") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}
