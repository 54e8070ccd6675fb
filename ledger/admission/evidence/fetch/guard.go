package fetch

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Guard is a transport that keeps the fetcher's rules for code that makes its own
// requests: no scheme but https, no body above a limit, and what may pass is asked
// again after a pause. It notes which hosts answered. It is safe for concurrent
// use.
type Guard struct {
	f     *Fetcher
	limit int64

	mu    sync.Mutex
	hosts []string
}

// Guard returns a transport. Limit bounds the body of one answer in bytes.
func (f *Fetcher) Guard(limit int64) *Guard { return &Guard{f: f, limit: limit} }

// Timeout is how long one fetch may take.
func (f *Fetcher) Timeout() time.Duration { return f.cfg.Timeout }

// Hosts are the hosts that answered, in the order in which they first did.
func (g *Guard) Hosts() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.hosts)
}

// RoundTrip implements [http.RoundTripper].
func (g *Guard) RoundTrip(req *http.Request) (*http.Response, error) {
	fail := func(kind Kind, detail string, err error) (*http.Response, error) {
		return nil, &Error{Kind: kind, Locator: clean(req.URL), Detail: detail, Err: err}
	}
	if g.f.cfg.Transport == nil {
		return fail(Refused, "no network is given", nil)
	}
	if err := g.f.lawful(req.URL); err != nil {
		return fail(Refused, err.Error(), nil)
	}
	// A request with a body is not repeated: its caller knows whether it may be.
	attempts := 1
	if req.Body == nil || req.Body == http.NoBody {
		attempts = g.f.cfg.Attempts
	}
	wait := firstPause
	for attempt := 1; ; attempt++ {
		res, err := g.f.cfg.Transport.RoundTrip(req)
		after, passing := time.Duration(0), err != nil
		if err == nil {
			passing = res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500
			after = retryAfter(res.Header.Get("Retry-After"), g.f.cfg.Now())
		}
		if !passing || attempt >= attempts || req.Context().Err() != nil || after > longestPause {
			if err != nil {
				return fail(Unavailable, fmt.Sprintf("asked %d times", attempt), err)
			}
			g.note(req.URL.Host)
			if res.ContentLength > g.limit {
				res.Body.Close()
				return fail(TooLarge, fmt.Sprintf("an answer of %d bytes, limit %d", res.ContentLength, g.limit), nil)
			}
			res.Body = &bounded{ReadCloser: res.Body, left: g.limit, over: &Error{Kind: TooLarge, Locator: clean(req.URL), Detail: fmt.Sprintf("an answer of more than %d bytes", g.limit)}}
			return res, nil
		}
		if err == nil {
			_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection can be used again
			res.Body.Close()
		}
		if err := g.f.cfg.Pause(req.Context(), max(wait, after)); err != nil {
			return nil, err
		}
		wait = min(2*wait, longestPause)
	}
}

func (g *Guard) note(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	const most = 16
	if !slices.Contains(g.hosts, host) && len(g.hosts) < most {
		g.hosts = append(g.hosts, host)
	}
}

// bounded ends with an error after so many bytes.
type bounded struct {
	io.ReadCloser
	left int64
	over error
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// One byte more, or the end?
		var one [1]byte
		n, err := b.ReadCloser.Read(one[:])
		if n > 0 {
			return 0, b.over
		}
		return 0, err
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
