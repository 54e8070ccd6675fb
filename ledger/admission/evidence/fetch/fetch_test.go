package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/ledger/admission"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// server serves over TLS, as every source must.
func server(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	return s
}

func fetcher(t *testing.T, s *httptest.Server, change func(*Config)) *Fetcher {
	t.Helper()
	cfg := Config{Now: func() time.Time { return now }, Pause: func(context.Context, time.Duration) error { return nil }, Scratch: t.TempDir()}
	if s != nil {
		cfg.Transport = s.Client().Transport
	}
	if change != nil {
		change(&cfg)
	}
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func body(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 31 >> 3)
	}
	return b
}

func wantBlob(t *testing.T, b *Blob, err error, want []byte) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.NewSectionReader(b, 0, b.Size))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read back %d bytes (%v), want %d equal ones", len(got), err, len(want))
	}
	s2, s5 := sha256.Sum256(want), sha512.Sum512(want)
	if b.Digests["sha256"] != hex.EncodeToString(s2[:]) || b.Digests["sha512"] != hex.EncodeToString(s5[:]) || len(b.Digests) != 2 {
		t.Errorf("digests %v do not fit the bytes", b.Digests)
	}
	if !b.At.Equal(now) {
		t.Errorf("read at %s, the clock says %s", b.At, now)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func wantKind(t *testing.T, b *Blob, err error, kind Kind, says string) {
	t.Helper()
	if b != nil {
		t.Errorf("there is a blob")
	}
	if KindOf(err) != kind || !strings.Contains(err.Error(), says) {
		t.Errorf("%v, want %s saying %q", err, kind, says)
	}
}

func TestADM06_LocalFilesAndURLsAreMeasured(t *testing.T) {
	for _, n := range []int{0, 1, 70_000, inMemory, inMemory + 1} {
		want := body(n)
		name := filepath.Join(t.TempDir(), "a.tgz")
		if err := os.WriteFile(name, want, 0o600); err != nil {
			t.Fatal(err)
		}
		s := server(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(n))
			w.Write(want)
		})
		f := fetcher(t, s, nil)
		b, err := f.Get(t.Context(), Request{Locator: name})
		wantBlob(t, b, err, want)
		if _, remote := b.SourceCheck(); remote {
			t.Error("a local file has a host")
		}
		b, err = f.Get(t.Context(), Request{Locator: s.URL + "/a.tgz?token=secret"})
		wantBlob(t, b, err, want)
		if c, _ := b.SourceCheck(); b.Answered != s.URL+"/a.tgz" || c.Expected != c.Got || c.State != admission.CheckPass {
			t.Errorf("answered by %s, %+v", b.Answered, c)
		}
		left, err := os.ReadDir(f.cfg.Scratch)
		if err != nil || len(left) != 0 {
			t.Errorf("%d files are left behind (%v)", len(left), err)
		}
	}
}

func TestADM21_RedirectsAreReportedOrRefused(t *testing.T) {
	other := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("another host was given the credentials")
		}
		io.WriteString(w, "there")
	})
	var to atomic.Value
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			if r.Header.Get("Authorization") != "Bearer x" {
				t.Error("the host itself was not given the credentials")
			}
			io.WriteString(w, "here")
			return
		}
		w.Header().Set("Location", to.Load().(string))
		w.WriteHeader(http.StatusFound)
	})
	pool := s.Client().Transport.(*http.Transport).Clone()
	pool.TLSClientConfig.InsecureSkipVerify = true // two servers, two roots
	get := func(location string, change func(*Config)) (*Blob, error) {
		to.Store(location)
		f := fetcher(t, nil, func(c *Config) {
			c.Transport = pool
			if change != nil {
				change(c)
			}
		})
		return f.Get(t.Context(), Request{Locator: s.URL + "/start", Header: http.Header{"Authorization": {"Bearer x"}}})
	}
	b, err := get("/end#part", nil)
	wantBlob(t, b, err, []byte("here"))
	if b.Answered != s.URL+"/end" || b.Asked != b.Host {
		t.Errorf("answered by %s, asked %s, host %s", b.Answered, b.Asked, b.Host)
	}
	b, err = get(other.URL+"/x?signature=y", nil)
	wantBlob(t, b, err, []byte("there"))
	if c, ok := b.SourceCheck(); !ok || c.Expected != s.Listener.Addr().String() || c.Got != other.Listener.Addr().String() || c.Detail == "" || b.Answered != other.URL+"/x" {
		t.Errorf("the other host is not reported: %+v, %s", c, b.Answered)
	}
	for location, says := range map[string]string{
		"/start":                     "more than the 5 times",
		"http://example.com/x":       "scheme http, expected https",
		"file:///etc/passwd":         `scheme "file"`,
		"https://u:p@example.com/":   "has a user in it",
		"":                           "no URL",
		"https://%zz/":               "no URL",
		"https:///nowhere":           "has no host",
		"data:text/plain,everything": `scheme "data"`,
	} {
		b, err = get(location, nil)
		wantKind(t, b, err, Refused, says)
	}
	b, err = get(other.URL, func(c *Config) { c.SameHost = true })
	wantKind(t, b, err, Refused, "to host")
	b, err = get("/end", func(c *Config) { c.Redirects = -1 })
	wantKind(t, b, err, Refused, "more than the 0 times")
}

// cutting serves a file and ends the first answers early.
type cutting struct {
	file  []byte
	etags []string // one an answer; the last one stays
	cuts  int
	asked []string // the Range headers
}

func (c *cutting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	etag := c.etags[min(len(c.asked), len(c.etags)-1)]
	c.asked = append(c.asked, r.Header.Get("Range"))
	start := 0
	if n, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok && etag == r.Header.Get("If-Range") {
		start, _ = strconv.Atoi(strings.TrimSuffix(n, "-"))
	}
	w.Header().Set("Etag", etag)
	w.Header().Set("Content-Length", strconv.Itoa(len(c.file)-start))
	if start > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(c.file)-1, len(c.file)))
		w.WriteHeader(http.StatusPartialContent)
	}
	if len(c.asked) <= c.cuts {
		w.Write(c.file[start : start+(len(c.file)-start)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	w.Write(c.file[start:])
}

func TestADM31_ACutBodyIsContinued(t *testing.T) {
	file := body(100_000)
	tests := []struct {
		name  string
		etags []string
		cuts  int
		asked []string
		kind  Kind
	}{
		{"continued", []string{`"a"`}, 2, []string{"", "bytes=50000-", "bytes=75000-"}, ""},
		{"no entity tag", []string{""}, 1, []string{"", ""}, ""},
		{"weak entity tag", []string{`W/"a"`}, 1, []string{"", ""}, ""},
		{"another entity meanwhile", []string{`"a"`, `"b"`}, 1, []string{"", "bytes=50000-"}, ""},
		{"always cut", []string{`"a"`}, 9, []string{"", "bytes=50000-", "bytes=75000-", "bytes=87500-"}, Truncated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &cutting{file: file, etags: tt.etags, cuts: tt.cuts}
			s := server(t, c.ServeHTTP)
			b, err := fetcher(t, s, nil).Get(t.Context(), Request{Locator: s.URL})
			if tt.kind != "" {
				wantKind(t, b, err, tt.kind, "asked 4 times")
			} else {
				wantBlob(t, b, err, file)
			}
			if fmt.Sprint(c.asked) != fmt.Sprint(tt.asked) {
				t.Errorf("asked for %q, want %q", c.asked, tt.asked)
			}
		})
	}
}

// A server that answers a request for the rest with something else gets asked
// from the start, and never has two files mixed.
func TestADM21_ARestThatDoesNotFitIsNotJoined(t *testing.T) {
	file := body(1000)
	for name, lie := range map[string]func(w http.ResponseWriter){
		"another start": func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 400-999/1000") },
		"another end":   func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 500-998/1000") },
		"no range":      func(w http.ResponseWriter) {},
		"another total": func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 500-1000/1001") },
		"another entity": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 500-999/1000")
			w.Header().Set("Etag", `"b"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			s := server(t, func(w http.ResponseWriter, r *http.Request) {
				asked++
				w.Header().Set("Etag", `"a"`)
				switch asked {
				case 1:
					w.Header().Set("Content-Length", "1000")
					w.Write(file[:500])
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				case 2:
					lie(w)
					w.WriteHeader(http.StatusPartialContent)
					w.Write(bytes.Repeat([]byte("x"), 500))
				default:
					if r.Header.Get("Range") != "" {
						t.Error("asked for a rest again")
					}
					w.Write(file)
				}
			})
			b, err := fetcher(t, s, nil).Get(t.Context(), Request{Locator: s.URL})
			wantBlob(t, b, err, file)
		})
	}
}
