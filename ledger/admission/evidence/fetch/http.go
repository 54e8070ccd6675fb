package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// remote asks one URL until there is an answer that will not change by asking
// again.
func (f *Fetcher) remote(ctx context.Context, blob *Blob, r Request, limit int64) error {
	refuse := func(detail string, err error) error {
		return &Error{Kind: Refused, Locator: Redact(r.Locator), Detail: detail, Err: err}
	}
	u, err := url.Parse(r.Locator)
	switch {
	case err != nil:
		return refuse("cannot be read as a URL", nil) // the error would repeat the URL
	case f.cfg.Transport == nil:
		return refuse("no network is given, only local files are read", nil)
	}
	if err := f.lawful(u); err != nil {
		return refuse(err.Error(), nil)
	}
	d := &download{f: f, blob: blob, r: r, limit: limit, start: u}
	wait := firstPause
	for attempt := 1; ; attempt++ {
		err := d.once(ctx)
		var p *passing
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil || !errors.As(err, &p):
			return located(err, r.Locator)
		case p.after > longestPause:
			return &Error{Kind: Throttled, Locator: Redact(r.Locator), Detail: fmt.Sprintf("asks to come back in %s, we wait at most %s", p.after, longestPause), Err: p.err}
		case attempt >= f.cfg.Attempts:
			return &Error{Kind: p.kind, Locator: Redact(r.Locator), Detail: fmt.Sprintf("asked %d times", attempt), Err: p.err}
		}
		if err := f.cfg.Pause(ctx, max(wait, p.after)); err != nil {
			return err
		}
		wait = min(2*wait, longestPause)
	}
}

// lawful reports why a URL is not asked.
func (f *Fetcher) lawful(u *url.URL) error {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("has scheme %q, expected https", u.Scheme)
	case u.Scheme == "http" && !f.cfg.PlainHTTP:
		return errors.New("has scheme http, expected https")
	case u.Hostname() == "":
		return errors.New("has no host")
	case u.User != nil:
		return errors.New("has a user in it, expected none: it would be kept in records")
	}
	return nil
}

// passing is a failure that may pass.
type passing struct {
	kind  Kind
	after time.Duration // that the server asks for
	err   error
}

func (p *passing) Error() string { return p.err.Error() }
func (p *passing) Unwrap() error { return p.err }

// download is one file on its way. What is in the blob has the entity tag, which
// is empty if it may not be continued.
type download struct {
	f     *Fetcher
	blob  *Blob
	r     Request
	limit int64
	start *url.URL
	etag  string
	total int64 // what the last partial answer said; 0 for a whole one
}

// once asks once, through redirects, for what is not there yet.
func (d *download) once(ctx context.Context) error {
	if d.etag == "" {
		if err := d.blob.restart(); err != nil {
			return &Error{Kind: Unavailable, Detail: "no room for it", Err: err}
		}
	}
	res, at, err := d.follow(ctx)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := d.accept(res); err != nil {
		return err
	}
	d.blob.Answered, d.blob.Asked, d.blob.Host = clean(at), d.start.Host, at.Host
	d.blob.MediaType = res.Header.Get("Content-Type")
	err = d.blob.copy(ctx, res.Body, d.limit)
	var own *Error
	switch {
	case err == nil && d.total > 0 && d.total != d.blob.spool.n:
		d.etag, err = "", fmt.Errorf("expected %d bytes", d.total)
	case err == nil:
		return nil
	case errors.As(err, &own), ctx.Err() != nil:
		return err
	}
	return &passing{kind: Truncated, err: fmt.Errorf("the body ended after %d bytes: %w", d.blob.spool.n, err)}
}

// follow makes the request and follows redirects.
func (d *download) follow(ctx context.Context) (*http.Response, *url.URL, error) {
	at := d.start
	for hops := 0; ; hops++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		if err != nil {
			return nil, nil, &Error{Kind: Refused, Detail: "cannot be asked for", Err: err}
		}
		if at.Host == d.start.Host {
			for name, values := range d.r.Header {
				req.Header[name] = values
			}
		}
		req.Header.Set("User-Agent", d.f.cfg.UserAgent)
		// The bytes count, not what a coding of the transfer makes of them.
		req.Header.Set("Accept-Encoding", "identity")
		if d.r.Accept != "" {
			req.Header.Set("Accept", d.r.Accept)
		}
		if d.etag != "" && d.blob.spool.n > 0 {
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.blob.spool.n))
			req.Header.Set("If-Range", d.etag)
		}
		res, err := d.f.cfg.Transport.RoundTrip(req)
		var certificate *tls.CertificateVerificationError
		switch {
		case errors.As(err, &certificate):
			return nil, nil, &Error{Kind: Denied, Detail: "who answers is not who was asked", Err: err}
		case err != nil:
			return nil, nil, &passing{kind: Unavailable, err: err}
		}
		switch res.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
			res.Body.Close()
			if at, err = d.redirect(at, res.Header.Get("Location"), hops); err != nil {
				return nil, nil, err
			}
		default:
			return res, at, nil
		}
	}
}

func (d *download) redirect(from *url.URL, location string, hops int) (*url.URL, error) {
	refuse := func(format string, args ...any) (*url.URL, error) {
		return nil, &Error{Kind: Refused, Detail: "redirected by " + clean(from) + " " + fmt.Sprintf(format, args...)}
	}
	if hops >= max(d.f.cfg.Redirects, 0) {
		return refuse("once more than the %d times that are followed", max(d.f.cfg.Redirects, 0))
	}
	to, err := from.Parse(location)
	if err != nil || location == "" {
		return refuse("to something that is no URL")
	}
	if err := d.f.lawful(to); err != nil {
		return refuse("to a URL that %s", err.Error())
	}
	if to.Scheme != from.Scheme {
		return refuse("to scheme %s, expected %s", to.Scheme, from.Scheme)
	}
	if d.f.cfg.SameHost && to.Host != d.start.Host {
		return refuse("to host %s, expected %s", to.Host, d.start.Host)
	}
	to.Fragment, to.RawFragment = "", ""
	return to, nil
}

// accept decides whether an answer's body is the file, or its rest, and prepares
// the blob for it.
func (d *download) accept(res *http.Response) error {
	if err := d.status(res); err != nil {
		return err
	}
	if c := res.Header.Get("Content-Encoding"); c != "" && !strings.EqualFold(c, "identity") {
		return &Error{Kind: Refused, Detail: fmt.Sprintf("is sent with content coding %q, which was not asked for: which bytes count is unclear", c)}
	}
	etag := res.Header.Get("Etag")
	if strings.HasPrefix(etag, "W/") || len(etag) < 3 || len(etag) > 256 {
		etag = ""
	}
	have := d.blob.spool.n
	start, total, ok := int64(0), int64(0), false
	if res.StatusCode == http.StatusPartialContent {
		start, total, ok = contentRange(res.Header.Get("Content-Range"))
		if !ok || start != have || etag != d.etag || total > d.limit {
			d.etag = "" // from the start, then
			return &passing{kind: Truncated, err: fmt.Errorf("the rest after %d bytes came as range %q of entity %q", have, res.Header.Get("Content-Range"), etag)}
		}
	} else {
		if err := d.blob.restart(); err != nil {
			return &Error{Kind: Unavailable, Detail: "no room for it", Err: err}
		}
		d.etag, have, total = etag, 0, 0
	}
	d.total = total
	switch {
	case res.ContentLength > d.limit-have:
		return &Error{Kind: TooLarge, Detail: fmt.Sprintf("has %d bytes, limit %d", have+res.ContentLength, d.limit)}
	case res.ContentLength < 0 && res.ProtoMajor == 1 && len(res.TransferEncoding) == 0:
		return &Error{Kind: Refused, Detail: "is sent without a length: a whole body cannot be told from a cut one"}
	}
	return nil
}

func (d *download) status(res *http.Response) error {
	switch code := res.StatusCode; {
	case code == http.StatusOK, code == http.StatusPartialContent && d.etag != "" && d.blob.spool.n > 0:
		return nil
	case code == http.StatusNotFound, code == http.StatusGone:
		return &Error{Kind: NotFound, Detail: "status " + strconv.Itoa(code)}
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return &Error{Kind: Denied, Detail: "status " + strconv.Itoa(code)}
	case code == http.StatusRequestedRangeNotSatisfiable:
		d.etag = ""
		return &passing{kind: Unavailable, err: errors.New("status 416")}
	case code == http.StatusTooManyRequests, code >= 500:
		after := retryAfter(res.Header.Get("Retry-After"), d.f.cfg.Now())
		_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection can be used again
		return &passing{kind: Unavailable, after: after, err: fmt.Errorf("status %d", code)}
	default:
		return &Error{Kind: Unavailable, Detail: fmt.Sprintf("status %d, expected 200", code)}
	}
}

// contentRange reads "bytes FIRST-LAST/TOTAL", where the range ends with the
// file.
func contentRange(s string) (start, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	if !ok {
		return 0, 0, false
	}
	span, all, ok1 := strings.Cut(s, "/")
	first, last, ok2 := strings.Cut(span, "-")
	if !ok1 || !ok2 {
		return 0, 0, false
	}
	a, err1 := strconv.ParseInt(first, 10, 64)
	b, err2 := strconv.ParseInt(last, 10, 64)
	t, err3 := strconv.ParseInt(all, 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || a < 0 || b != t-1 || a > b {
		return 0, 0, false
	}
	return a, t, true
}

// retryAfter reads seconds or a date; 0 for none.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
