// Package client speaks the ledger's HTTP API.
//
// A [Client] is safe for concurrent use. It never follows a redirect, since
// that would carry the bearer token elsewhere, and it bounds every answer
// before it reads it. Begin and append are idempotent by their source ids, so
// they, and only they, are repeated when the ledger is unavailable for a moment
// or the connection breaks.
//
// Refusals are values of type *[Error]; no answer at all is *[Unreachable].
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"counterfoil/internal/wait"
)

// Bounds of what the client reads and sends, in bytes.
const (
	// MaxRequestBytes is the ledger's bound on a begin or append: 16 MiB of
	// private value, once more for base64 or escapes, and the rest.
	MaxRequestBytes = 24 << 20
	// MaxAnswerBytes bounds one answer: an attempt of 1,024 events of 64 KiB.
	MaxAnswerBytes = 64 << 20
	// MaxBundleBytes bounds a bundle.
	MaxBundleBytes = 256 << 20
	// MaxErrorBytes bounds the body of a refusal.
	MaxErrorBytes = 64 << 10
	// MaxEventBytes bounds a line of the event stream: a leaf of 65,535 bytes
	// with its place, or as much text about why it does not count.
	MaxEventBytes = 256 << 10
)

// Retrying: 5 further tries after 100, 200, 400, 800 and 1,600 ms.
const (
	defaultRetries = 5
	firstPause     = 100 * time.Millisecond
	longestPause   = 5 * time.Second
)

// Config says which ledger to speak to, and how. The zero value of a field is
// its default.
type Config struct {
	// Server is the base URL, like http://127.0.0.1:8480. Required.
	Server string
	// Token is the bearer token; without one only public resources answer.
	Token string
	// Retries is how often a begin or append is repeated; default 5, negative
	// for never.
	Retries int
	// Pause waits between two tries; it returns early with the error of ctx.
	// Default: real time.
	Pause func(ctx context.Context, d time.Duration) error
	// Idle is how long the event stream may stay silent before it is opened
	// anew; default 45 s, three of the ledger's signs of life.
	Idle time.Duration
	// Transport makes the requests; default: one of its own.
	Transport http.RoundTripper
	// UserAgent is sent with every request.
	UserAgent string
}

// Client speaks to one ledger.
type Client struct {
	cfg  Config
	base *url.URL
	http *http.Client
}

// New makes a client. It does not connect.
func New(cfg Config) (*Client, error) {
	if host, _, ok := strings.Cut(cfg.Server, "://"); !ok && host != "" {
		return nil, fmt.Errorf("server %q has no scheme, want one like http://127.0.0.1:8480 or https://ledger.example", cfg.Server)
	}
	base, err := url.Parse(cfg.Server)
	if err != nil {
		return nil, fmt.Errorf("server %q is not a URL: %w", cfg.Server, errors.Unwrap(err))
	}
	if (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("server %q is not like http://127.0.0.1:8480 or https://ledger.example", cfg.Server)
	}
	if strings.ContainsAny(cfg.Token, "\r\n") {
		return nil, errors.New("the token holds a line break")
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	if cfg.Retries == 0 {
		cfg.Retries = defaultRetries
	}
	if cfg.Pause == nil {
		cfg.Pause = wait.For
	}
	if cfg.Idle == 0 {
		cfg.Idle = 45 * time.Second
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			Proxy:                 http.ProxyFromEnvironment, // never for loopback addresses
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: 2 * time.Minute, // longer than a ledger waits for a stage
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       90 * time.Second,
			ForceAttemptHTTP2:     true,
		}
	}
	return &Client{cfg: cfg, base: base, http: &http.Client{
		Transport:     cfg.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Server is the base URL of the ledger.
func (c *Client) Server() string { return c.base.String() }

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request opens one request. The caller closes the body of the answer, whose
// status is 2xx.
func (c *Client) request(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	u := *c.base
	u.RawPath = c.base.EscapedPath() + path
	var err error
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return nil, fmt.Errorf("address %s: %w", path, err)
	}
	u.RawQuery = query.Encode()
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), reader)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	if c.cfg.UserAgent != "" {
		req.Header.Set("User-Agent", c.cfg.UserAgent)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, &Unreachable{Server: c.Server(), Err: err}
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(res.Body, MaxErrorBytes)) // cut off, it is no error document
		return nil, errorOf(res.StatusCode, b)
	}
	return res, nil
}

// read makes one request and reads the whole answer.
func (c *Client) read(ctx context.Context, method, path string, query url.Values, body []byte, limit int64) ([]byte, int, error) {
	res, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		return nil, 0, &Unreachable{Server: c.Server(), Err: fmt.Errorf("the answer breaks off: %w", err)}
	}
	if ctx.Err() != nil { // a server that sees us go may end its answer in good order
		return nil, 0, context.Cause(ctx)
	}
	if int64(len(b)) > limit {
		return nil, 0, fmt.Errorf("%s %s: the answer is over %d bytes", method, path, limit)
	}
	return b, res.StatusCode, nil
}

// repeat makes an idempotent request until it is answered for good, at most
// Retries further times, each pause twice the one before. What needs an operator,
// and a stage that the ledger has waited for in vain, is answer enough.
func (c *Client) repeat(ctx context.Context, do func() error) error {
	wait := firstPause
	for try := 0; ; try++ {
		err := do()
		if err == nil || try >= c.cfg.Retries || !worthRepeating(err) {
			return err
		}
		if perr := c.cfg.Pause(ctx, wait); perr != nil {
			return errors.Join(perr, err)
		}
		wait = min(2*wait, longestPause)
	}
}

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }
