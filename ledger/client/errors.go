package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Error is the ledger's refusal, as it worded it.
type Error struct {
	// Status is the HTTP status.
	Status int `json:"-"`
	// Code is one of invalid_request, unauthorized, not_found, conflict,
	// unlawful, content_erased, too_large, unavailable …; "" if the answer was
	// no error document of a ledger.
	Code    string `json:"code"`
	Message string `json:"message"`
	Path    string `json:"path,omitempty"` // JSON pointer into the request
	Hint    string `json:"hint,omitempty"`
	Reason  string `json:"reason,omitempty"` // of unlawful and unavailable
	EventID string `json:"eventId,omitempty"`
	Stored  string `json:"stored,omitempty"`  // keyed tag of the stored content
	Offered string `json:"offered,omitempty"` // keyed tag of the offered content
	State   string `json:"state,omitempty"`
	// Raw is the whole answer if it was an error document.
	Raw []byte `json:"-"`
}

// Error words the refusal in one line, without the hint.
func (e *Error) Error() string {
	var b strings.Builder
	code := e.Code
	if code == "" {
		code = fmt.Sprintf("http status %d", e.Status)
	}
	b.WriteString(code)
	if e.Reason != "" {
		fmt.Fprintf(&b, " (%s)", e.Reason)
	}
	if e.Path != "" {
		fmt.Fprintf(&b, " at %s", e.Path)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.Stored != "" || e.Offered != "" {
		fmt.Fprintf(&b, "; stored %s, offered %s", e.Stored, e.Offered)
	}
	if e.State != "" {
		fmt.Fprintf(&b, "; the attempt is %s", e.State)
	}
	return b.String()
}

// Unreachable says that no answer of the ledger arrived. A begin or append may
// have been recorded all the same: sending it again tells.
type Unreachable struct {
	Server string
	Err    error
}

func (e *Unreachable) Error() string {
	return fmt.Sprintf("no answer from %s: %v", e.Server, cause(e.Err))
}
func (e *Unreachable) Unwrap() error { return e.Err }

// cause strips the method and address that net/http puts before an error.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// errorOf reads the error document of an answer.
func errorOf(status int, body []byte) *Error {
	var doc struct {
		Error *Error `json:"error"`
	}
	if err := json.Unmarshal(body, &doc, jsontext.AllowDuplicateNames(true)); err != nil || doc.Error == nil || doc.Error.Code == "" {
		hint := "check that --server is the address of a counterfoil ledger"
		if status == http.StatusRequestURITooLong || status == http.StatusRequestHeaderFieldsTooLarge {
			hint = "name fewer attempts at once"
		}
		return &Error{Status: status, Message: strings.ToLower(http.StatusText(status)) + ", and no error document of a ledger", Hint: hint}
	}
	doc.Error.Status, doc.Error.Raw = status, body
	return doc.Error
}

// needOperator are the reasons of unavailable that do not pass by themselves.
var needOperator = []string{"log_disagrees", "log_set_back", "vault_unavailable", "key_missing"}

// worthRepeating reports whether a begin or append is sent again at once. A stage
// that was not reached in time is not: the ledger has waited for it already, and
// would wait as long for each try.
func worthRepeating(err error) bool {
	var e *Error
	if errors.As(err, &e) && e.Reason == "timeout" {
		return false
	}
	return passing(err)
}

// passing reports whether the same request may do better in a moment: the
// ledger says unavailable or that this caller asks too often, or the connection failed. A request that was sent
// may have been carried out, so only what is idempotent is repeated.
func passing(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable && !slices.Contains(needOperator, e.Reason)
	}
	var u *Unreachable
	if !errors.As(err, &u) {
		return false
	}
	for _, target := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(u.Err, target) {
			return true
		}
	}
	return false
}
