package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"counterfoil/ledger/admission"
)

func TestADM31_WhatMayPassIsAskedAgainWithinBounds(t *testing.T) {
	tests := []struct {
		status int
		after  string
		kind   Kind
		pauses []time.Duration
	}{
		{429, "3", "", []time.Duration{3 * time.Second}},
		{503, "", "", []time.Duration{500 * time.Millisecond}},
		{503, now.Add(7 * time.Second).Format(http.TimeFormat), "", []time.Duration{7 * time.Second}},
		{503, now.Add(-time.Hour).Format(http.TimeFormat), "", []time.Duration{500 * time.Millisecond}},
		{429, "31", Throttled, nil},
		{429, "99999999999999999999", "", []time.Duration{500 * time.Millisecond}},
		{404, "", NotFound, nil},
		{410, "", NotFound, nil},
		{401, "", Denied, nil},
		{403, "", Denied, nil},
		{206, "", Unavailable, nil},
		{204, "", Unavailable, nil},
		{418, "", Unavailable, nil},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status, tt.after), func(t *testing.T) {
			asked := 0
			s := server(t, func(w http.ResponseWriter, _ *http.Request) {
				if asked++; asked == 1 {
					if tt.after != "" {
						w.Header().Set("Retry-After", tt.after)
					}
					w.WriteHeader(tt.status)
					return
				}
				io.WriteString(w, "ok")
			})
			var pauses []time.Duration
			f := fetcher(t, s, func(c *Config) {
				c.Pause = func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }
			})
			b, err := f.Get(t.Context(), Request{Locator: s.URL})
			if tt.kind != "" {
				wantKind(t, b, err, tt.kind, "")
			} else {
				wantBlob(t, b, err, []byte("ok"))
			}
			if fmt.Sprint(pauses) != fmt.Sprint(tt.pauses) {
				t.Errorf("pauses %v, want %v", pauses, tt.pauses)
			}
		})
	}
	t.Run("always", func(t *testing.T) {
		asked := 0
		s := server(t, func(w http.ResponseWriter, _ *http.Request) { asked++; w.WriteHeader(500) })
		b, err := fetcher(t, s, nil).Get(t.Context(), Request{Locator: s.URL})
		wantKind(t, b, err, Unavailable, "asked 4 times: status 500")
		if asked != 4 {
			t.Errorf("asked %d times", asked)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		s := server(t, func(http.ResponseWriter, *http.Request) {})
		f, at := fetcher(t, s, nil), s.URL
		s.Close()
		b, err := f.Get(t.Context(), Request{Locator: at})
		wantKind(t, b, err, Unavailable, "refused")
	})
	t.Run("somebody else", func(t *testing.T) {
		asked := 0
		s := server(t, func(http.ResponseWriter, *http.Request) { asked++ })
		s.Config.ErrorLog = nil
		f := fetcher(t, nil, func(c *Config) { c.Transport = &http.Transport{} })
		b, err := f.Get(t.Context(), Request{Locator: s.URL})
		wantKind(t, b, err, Denied, "who answers is not who was asked")
	})
}

func TestADM31_EveryFetchIsBounded(t *testing.T) {
	var asked atomic.Int32
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/declared":
			w.Header().Set("Content-Length", "101")
			w.Write(make([]byte, 101))
		case "/streamed":
			for range 200 {
				w.Write(make([]byte, 1))
				w.(http.Flusher).Flush()
			}
		case "/coded":
			w.Header().Set("Content-Encoding", "gzip")
			w.Write([]byte("x"))
		case "/endless":
			w.Write([]byte("x"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/unmarked":
			conn, out, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(out, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of it")
			out.Flush()
		case "/exact":
			w.Write(make([]byte, 100))
		}
	})
	f := fetcher(t, s, func(c *Config) { c.MaxBytes = 100 })
	for path, want := range map[string]struct {
		kind Kind
		says string
	}{
		"/declared": {TooLarge, "101 bytes, limit 100"},
		"/streamed": {TooLarge, "more than 100 bytes"},
		"/coded":    {Refused, "content coding"},
		"/unmarked": {Refused, "without a length"},
	} {
		asked.Store(0)
		b, err := f.Get(t.Context(), Request{Locator: s.URL + path})
		wantKind(t, b, err, want.kind, want.says)
		if asked.Load() != 1 {
			t.Errorf("%s: asked %d times", path, asked.Load())
		}
	}
	b, err := f.Get(t.Context(), Request{Locator: s.URL + "/exact"})
	wantBlob(t, b, err, make([]byte, 100))

	slow := fetcher(t, s, func(c *Config) { c.Timeout = time.Millisecond })
	b, err = slow.Get(t.Context(), Request{Locator: s.URL + "/endless"})
	wantKind(t, b, err, TimedOut, "not read within 1ms")
	if fail, err := Failure(err); err != nil || fail.Code != admission.ArtifactUnresolved {
		t.Errorf("%+v, %v", fail, err)
	}

	cause := errors.New("the operator went home")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	b, err = f.Get(ctx, Request{Locator: s.URL + "/exact"})
	if _, failed := Failure(err); b != nil || !errors.Is(err, cause) || !errors.Is(failed, cause) {
		t.Errorf("%v, want the cause of the end, and no finding", err)
	}
}

func TestADM21_WhatIsNoLawfulSourceIsRefused(t *testing.T) {
	dir := t.TempDir()
	big, pipe, secret := filepath.Join(dir, "big"), filepath.Join(dir, "pipe"), "https://u:hunter2@example.com/x?token=hunter2"
	if err := os.WriteFile(big, make([]byte, 101), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	s := server(t, func(http.ResponseWriter, *http.Request) {})
	f := fetcher(t, s, func(c *Config) { c.MaxBytes = 100 })
	for locator, want := range map[string]struct {
		kind Kind
		says string
	}{
		filepath.Join(dir, "none"): {NotFound, "no such file"},
		dir:                        {Refused, "expected a regular file"},
		pipe:                       {Refused, "expected a regular file"},
		big:                        {TooLarge, "101 bytes, limit 100"},
		"http://example.com/x":     {Refused, "scheme http, expected https"},
		"ftp://example.com/x":      {Refused, `scheme "ftp"`},
		"https:///x":               {Refused, "no host"},
		"https://exa mple.com/x":   {Refused, "cannot be read as a URL"},
		secret:                     {Refused, "has a user in it"},
		"a\x00\x1b[2J":             {Unavailable, "a  [2J: unavailable: not readable"},
		strings.Repeat("a", 2049):  {Refused, "a locator of 2049 bytes"},
	} {
		b, err := f.Get(t.Context(), Request{Locator: locator})
		wantKind(t, b, err, want.kind, want.says)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a secret is in %v", err)
		}
	}
	b, err := fetcher(t, nil, nil).Get(t.Context(), Request{Locator: s.URL})
	wantKind(t, b, err, Refused, "no network is given")
	if _, err := New(Config{}); err == nil {
		t.Error("a fetcher without a clock")
	}
}

func FuzzContentRange(f *testing.F) {
	f.Add("bytes 5-9/10")
	f.Add("bytes */10")
	f.Fuzz(func(t *testing.T, s string) {
		if start, total, ok := contentRange(s); ok && (start < 0 || start >= total) {
			t.Errorf("%q starts at %d of %d", s, start, total)
		}
	})
}
