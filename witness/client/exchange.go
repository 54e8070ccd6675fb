package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
)

const (
	// sizeType is the content type of a 409 that states a size (tlog-witness).
	sizeType = "text/x.tlog.size"
	// maxAnswer bounds what is read of an answer to add-checkpoint: its lines are
	// at most 3.3 kB each, and a witness has few keys.
	maxAnswer = 64 << 10
	// maxClip bounds what is kept of an answer that was no success.
	maxClip = 1 << 10
	// maxRetryAfter bounds the wait that a witness can ask for.
	maxRetryAfter = time.Hour
)

// Classes of failed requests, for metrics.
const (
	classNetwork   = "network"   // no answer: connection, TLS, name
	classTimeout   = "timeout"   // no answer within the limit
	classMalformed = "malformed" // an answer that is not what the protocol says
	classRedirect  = "3xx"
	classRefused   = "4xx" // other than 409, 422 and 429
	classConflict  = "409" // a size that cannot be, or one after the other
	classUnproven  = "422" // or a 409 without a size: another root
	classLimited   = "429"
	classServer    = "5xx"
	classAhead     = "ahead"  // a larger size than the newest that we published
	classBehind    = "behind" // it has a checkpoint of ours that the log has to grow to first
	classLocal     = "local"  // the log could not make the proof

	classAgain = "" // no failure: another checkpoint is to be chosen
)

// failure is why a witness did not cosign.
type failure struct {
	class string
	retry time.Duration // that it asked for, bounded; 0 for none
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failed(class, format string, args ...any) *failure {
	return &failure{class: class, err: fmt.Errorf(format, args...)}
}

// answer is what a witness said.
type answer struct {
	status int
	typ    string // media type, without parameters
	body   []byte
	retry  time.Duration
}

// clip is the body as it may be shown and kept.
func (a answer) clip() string {
	b := a.body[:min(len(a.body), maxClip)]
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD"))
}

// exchange speaks to witnesses.
type exchange struct {
	http  *http.Client
	agent string
	now   func() time.Time
}

func newExchange(t http.RoundTripper, agent string, now func() time.Time) *exchange {
	if t == nil {
		t = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        2 * time.Minute,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // an answer is as long as it looks
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	return &exchange{http: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, agent: agent, now: now}
}

// checkURL refuses what cannot be a submission prefix.
func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return err
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("%q is not http://HOST… or https://HOST…", s)
	case u.User != nil, u.RawQuery != "", u.Fragment != "", u.ForceQuery:
		return fmt.Errorf("%q has more than host and path", u.Redacted())
	}
	return nil
}

// add sends one add-checkpoint request. A failure is of the connection alone.
func (x *exchange) add(ctx context.Context, prefix string, r *rule.Request) (answer, *failure) {
	return x.do(ctx, http.MethodPost, strings.TrimSuffix(prefix, "/")+"/add-checkpoint", r.Append(nil), maxAnswer)
}

// latest fetches the latest checkpoint that a witness cosigned of an origin.
func (x *exchange) latest(ctx context.Context, prefix, origin string) (answer, *failure) {
	h := sha256.Sum256([]byte(origin))
	return x.do(ctx, http.MethodGet, strings.TrimSuffix(prefix, "/")+"/"+hex.EncodeToString(h[:])+"/checkpoint", nil, trust.MaxNoteBytes)
}

func (x *exchange) do(ctx context.Context, method, to string, body []byte, limit int64) (answer, *failure) {
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return answer{}, failed(classLocal, "%w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	req.Header.Set("User-Agent", x.agent)
	res, err := x.http.Do(req)
	if err != nil {
		return answer{}, connection(err)
	}
	defer res.Body.Close()
	a := answer{status: res.StatusCode, retry: x.retryAfter(res.Header.Get("Retry-After"))}
	if t, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err == nil {
		a.typ = t
	}
	if a.body, err = io.ReadAll(io.LimitReader(res.Body, limit+1)); err != nil {
		return answer{}, connection(err)
	}
	if int64(len(a.body)) > limit {
		return answer{}, failed(classMalformed, "status %d with a body of more than %d bytes", a.status, limit)
	}
	return a, nil
}

func connection(err error) *failure {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the URL is known
	}
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return failed(classTimeout, "no answer in time: %w", err)
	}
	return failed(classNetwork, "no answer: %w", err)
}

// retryAfter reads seconds or a date.
func (x *exchange) retryAfter(v string) time.Duration {
	var d time.Duration
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		d = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(v); err == nil {
		d = t.Sub(x.now())
	}
	return min(max(d, 0), maxRetryAfter)
}

// sizeOf reads the body of a 409: the size in decimal and a newline, in the type
// that says so. It is false for everything else.
func sizeOf(a answer) (uint64, bool) {
	digits, ok := bytes.CutSuffix(a.body, []byte("\n"))
	n, err := strconv.ParseUint(string(digits), 10, 64)
	return n, ok && err == nil && a.typ == sizeType && strconv.FormatUint(n, 10) == string(digits)
}

// cosignatureOf reads the body of a 200: signature lines and nothing else, of
// which the line of the key with the latest time counts. It refuses a line of
// the key that does not verify, and one without a time.
func cosignatureOf(body []byte, text string, key trust.VerifierKey) (trust.NoteSignature, uint64, error) {
	none := trust.NoteSignature{}
	n, err := trust.ParseNote(append([]byte(text+"\n"), body...))
	if err != nil {
		return none, 0, err
	}
	if n.Text != text {
		return none, 0, errors.New("the answer is not signature lines alone")
	}
	v, err := n.VerifyBy(key)
	switch {
	case err != nil:
		return none, 0, err
	case v.Lines == 0:
		return none, 0, fmt.Errorf("no line of the witness's key %s+%08x", key.Name, key.ID)
	case v.Timestamp == 0:
		return none, 0, errors.New("the cosignature states no time")
	}
	for _, s := range n.Signatures {
		if s.Name == key.Name && s.ID == key.ID {
			if t, ok := key.Verify(text, s.Sig); ok && t == v.Timestamp {
				return s, t, nil
			}
		}
	}
	return none, 0, errors.New("the cosignature cannot be found again")
}
