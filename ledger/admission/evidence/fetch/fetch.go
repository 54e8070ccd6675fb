// Package fetch reads one file from a URL or a disk, with bounds.
//
// A fetch has one source. It asks again at the same URL where that may help, and
// goes on where it was cut if the server's strong entity tag shows that the bytes
// are the same. It never turns to another place by itself: a redirect is followed
// as the server's own word, up to a limit, never to another scheme, and the host
// that answered is reported. Digests are computed from the bytes as they arrive.
//
// Bytes are kept in memory up to a bound and then in a file that has no name any
// more, so nothing is left behind. Archives are never unpacked.
//
// Sources: requirements ADM-21, ADM-31; RFC 9110 (ranges, validators, Retry-After).
package fetch

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/excerpt"

	"counterfoil/internal/wait"
)

// Defaults of [Config].
const (
	DefaultMaxBytes  = 256 << 20
	DefaultTimeout   = 5 * time.Minute
	DefaultAttempts  = 4
	DefaultRedirects = 5
)

// Pauses between attempts: doubling from the first, at most the longest. A server
// that asks for more with Retry-After is not asked again.
const (
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
)

// Config says how files are read. Zero values mean the defaults.
type Config struct {
	// Transport makes the requests. Without one every URL is refused and only
	// local files are read.
	Transport http.RoundTripper
	// Now is the clock, for the time of retrieval and dates in Retry-After. It is
	// required.
	Now func() time.Time
	// MaxBytes bounds a file whose request states no bound.
	MaxBytes int64
	// Timeout bounds one fetch with its attempts, pauses and body.
	Timeout time.Duration
	// Attempts is how often one URL is asked that fails in a way that may pass:
	// no connection, a body cut short, 429, 5xx.
	Attempts int
	// Redirects is how many are followed; a negative number means none.
	Redirects int
	// SameHost refuses redirects to another host.
	SameHost bool
	// PlainHTTP allows http:// URLs. Without it only https:// is asked.
	PlainHTTP bool
	// Scratch is the folder for bytes that do not fit into memory. Default:
	// [os.TempDir].
	Scratch string
	// UserAgent names the client. Default: counterfoil.
	UserAgent string
	// Pause waits between attempts; nil waits for real.
	Pause func(ctx context.Context, d time.Duration) error
}

// Fetcher reads files. It is safe for concurrent use.
type Fetcher struct{ cfg Config }

// New returns a fetcher.
func New(cfg Config) (*Fetcher, error) {
	if cfg.Now == nil {
		return nil, fmt.Errorf("fetch: no clock")
	}
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, DefaultMaxBytes)
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.Attempts = cmp.Or(cfg.Attempts, DefaultAttempts)
	cfg.Redirects = cmp.Or(cfg.Redirects, DefaultRedirects)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "counterfoil")
	if cfg.Pause == nil {
		cfg.Pause = wait.For
	}
	return &Fetcher{cfg}, nil
}

// Now is the fetcher's clock.
func (f *Fetcher) Now() time.Time { return f.cfg.Now() }

// Transport is what makes the requests, nil for none.
func (f *Fetcher) Transport() http.RoundTripper { return f.cfg.Transport }

// Request is what to read.
type Request struct {
	// Locator is an http or https URL, or the name of a local file.
	Locator string
	// MaxBytes bounds the file; 0 is the fetcher's bound.
	MaxBytes int64
	// Accept is the Accept header; empty for any type.
	Accept string
	// Header goes to the host of Locator, and to no other that a redirect names.
	Header http.Header
}

// IsURL reports whether a locator is a URL: it has a scheme of at least two
// letters and "://".
func IsURL(locator string) bool {
	scheme, _, ok := strings.Cut(locator, "://")
	if !ok || len(scheme) < 2 {
		return false
	}
	for _, c := range scheme {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// Get reads a file whole. The caller closes the blob. Errors are of type *[Error],
// or what ended ctx.
func (f *Fetcher) Get(ctx context.Context, r Request) (*Blob, error) {
	limit := cmp.Or(r.MaxBytes, f.cfg.MaxBytes)
	if n := len(r.Locator); n > admission.MaxLocatorBytes {
		return nil, &Error{Kind: Refused, Locator: Clip(Redact(r.Locator)), Detail: fmt.Sprintf("a locator of %d bytes, limit %d", n, admission.MaxLocatorBytes)}
	}
	blob := &Blob{Locator: r.Locator, Answered: r.Locator, spool: spool{dir: f.cfg.Scratch}}
	inner, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	var err error
	if IsURL(r.Locator) {
		err = f.remote(inner, blob, r, limit)
	} else {
		err = f.local(inner, blob, limit)
	}
	if err == nil {
		blob.Digests, blob.Size, blob.At = blob.sums.set(), blob.spool.n, f.cfg.Now()
		return blob, nil
	}
	blob.Close()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case inner.Err() != nil:
		return nil, &Error{Kind: TimedOut, Locator: Redact(r.Locator), Detail: "not read within " + f.cfg.Timeout.String(), Err: err}
	}
	return nil, err
}

// Bytes reads a small file whole into memory.
func (f *Fetcher) Bytes(ctx context.Context, r Request) ([]byte, *Blob, error) {
	blob, err := f.Get(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	defer blob.Close()
	b := make([]byte, blob.Size)
	if _, err := io.ReadFull(io.NewSectionReader(blob, 0, blob.Size), b); err != nil {
		return nil, nil, &Error{Kind: Unavailable, Locator: Redact(r.Locator), Detail: "cannot be read back", Err: err}
	}
	return b, blob, nil
}

// local copies a file: what was digested is then what is looked into, whoever
// writes to the file meanwhile.
func (f *Fetcher) local(ctx context.Context, blob *Blob, limit int64) error {
	fail := func(kind Kind, detail string, err error) error {
		return &Error{Kind: kind, Locator: Redact(blob.Locator), Detail: detail, Err: err}
	}
	// A pipe would block in Open, so the kind is asked first.
	info, err := os.Stat(blob.Locator)
	switch {
	case os.IsNotExist(err):
		return fail(NotFound, "no such file", nil)
	case os.IsPermission(err):
		return fail(Denied, "not readable", err)
	case err != nil:
		return fail(Unavailable, "not readable", err)
	case !info.Mode().IsRegular():
		return fail(Refused, fmt.Sprintf("is %s, expected a regular file", info.Mode().Type()), nil)
	case info.Size() > limit:
		return fail(TooLarge, fmt.Sprintf("has %d bytes, limit %d", info.Size(), limit), nil)
	}
	file, err := os.Open(blob.Locator)
	if err != nil {
		return fail(Denied, "not readable", err)
	}
	defer file.Close()
	if err := blob.copy(ctx, file, limit); err != nil {
		return located(err, blob.Locator)
	}
	return nil
}

// Redact makes a locator fit for records: it removes from a URL what may be
// secret, user, query and fragment, and control characters from a file's name.
func Redact(locator string) string {
	if !IsURL(locator) {
		return excerpt.Printable(locator)
	}
	u, err := url.Parse(locator)
	if err != nil {
		return excerpt.Printable(locator[:strings.Index(locator, "://")]) + "://(unreadable)"
	}
	return clean(u)
}

func clean(u *url.URL) string {
	c := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return c.String()
}
