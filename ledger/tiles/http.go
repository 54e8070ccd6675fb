package tiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"counterfoil/internal/wait"
)

// maxCheckpoint bounds a checkpoint that is read: a note with 100 ML-DSA-44
// cosignatures takes about 330 KB.
const maxCheckpoint = 1 << 20

// HTTPConfig says how a remote log is read. Zero values mean the defaults.
type HTTPConfig struct {
	// Client makes the requests. Default: [http.DefaultClient].
	Client *http.Client
	// Timeout bounds one request with its body. Default 30 s: a bundle of the
	// longest entries has 16 MiB.
	Timeout time.Duration
	// Attempts is how often a request is made that fails in a way that may pass:
	// no connection, a body cut short, 429, 5xx. Default 4.
	Attempts int
	// Pause waits between attempts; nil waits for real.
	Pause func(ctx context.Context, d time.Duration) error
}

// Pauses between attempts: doubling from the first, at most the longest, which
// also bounds what a server asks for with Retry-After.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 10 * time.Second
)

// StatusError is an answer of a remote log that is neither 200 nor 404.
type StatusError struct {
	URL    string
	Status int
	Detail string // first line of the body, clipped

	after time.Duration
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("GET %s: status %d (%s), expected 200", e.URL, e.Status, e.Detail)
}

// passing reports whether asking again may help.
func (e *StatusError) passing() bool {
	return e.Status == http.StatusTooManyRequests || e.Status >= 500
}

// HTTP is the source that reads a log served over HTTP: base is the prefix to
// which "checkpoint" and "tile/…" are added, with or without a slash at its end.
// Where a partial tile is gone, the full one is asked for. Nothing that a server
// sends is read beyond the longest lawful length, also after gzip.
func HTTP(base string, cfg HTTPConfig) (Source, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, fmt.Errorf("log URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("log URL %q: expected http:// or https:// and a host", base)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("log URL %q: expected no user, query or fragment", u.Redacted())
	}
	if cfg.Client == nil {
		cfg.Client = http.DefaultClient
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Attempts == 0 {
		cfg.Attempts = 4
	}
	if cfg.Pause == nil {
		cfg.Pause = wait.For
	}
	return &httpSource{base: strings.TrimSuffix(u.String(), "/") + "/", cfg: cfg}, nil
}

type httpSource struct {
	base string
	cfg  HTTPConfig
}

func (h *httpSource) Read(ctx context.Context, p Path) ([]byte, Path, error) {
	data, err := h.get(ctx, p)
	if err == nil || p.Full() || p.Kind == Checkpoint || !errors.Is(err, fs.ErrNotExist) {
		return data, p, err
	}
	full := p.with(Width)
	if data, fullErr := h.get(ctx, full); fullErr == nil {
		return data, full, nil
	} else if !errors.Is(fullErr, fs.ErrNotExist) {
		return nil, p, fullErr
	}
	return nil, p, err
}

// get asks until there is an answer that will not change by asking again.
func (h *httpSource) get(ctx context.Context, p Path) ([]byte, error) {
	wait := firstPause
	for attempt := 1; ; attempt++ {
		data, err := h.once(ctx, p)
		var damage *DamageError
		var status *StatusError
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist), errors.As(err, &damage):
			return data, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.As(err, &status) && !status.passing():
			return nil, err
		case attempt >= h.cfg.Attempts:
			return nil, fmt.Errorf("%w (asked %d times)", err, attempt)
		}
		pause := wait
		if status != nil {
			pause = max(pause, min(status.after, longestPause))
		}
		if err := h.cfg.Pause(ctx, pause); err != nil {
			return nil, err
		}
		wait = min(2*wait, longestPause)
	}
}

func (h *httpSource) once(ctx context.Context, p Path) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.cfg.Timeout, fmt.Errorf("no whole answer within %s", h.cfg.Timeout))
	defer cancel()
	name := h.base + p.String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, name, nil)
	if err != nil {
		return nil, err
	}
	res, err := h.cfg.Client.Do(req)
	if err != nil {
		return nil, withCause(ctx, err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return nil, fmt.Errorf("GET %s: status %d: %w", name, res.StatusCode, fs.ErrNotExist)
	default:
		detail, _ := io.ReadAll(io.LimitReader(res.Body, 200)) // what came is enough
		line, _, _ := strings.Cut(strings.ToValidUTF8(string(detail), "?"), "\n")
		seconds, _ := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 16) // a date counts as none
		return nil, &StatusError{URL: name, Status: res.StatusCode, Detail: line, after: time.Duration(seconds) * time.Second}
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, p.most()+1))
	if err == nil {
		// A server that sees us go may end its answer in good order, and that end
		// may still arrive.
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("GET %s: body: %w", name, withCause(ctx, err))
	}
	if int64(len(data)) > p.most() {
		return nil, &DamageError{Path: p, Problem: fmt.Sprintf("the answer has over %d bytes, more than is lawful", p.most())}
	}
	return data, nil
}

// withCause says which limit ended a request.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
