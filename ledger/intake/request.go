package intake

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
)

// MaxBodyBytes bounds a begin or append as a caller sends it: 16 MiB of private
// value, once more for base64 or escapes, and the rest.
const MaxBodyBytes = 24 << 20

// RequestError says which member of a request was refused.
type RequestError struct {
	Path   string // JSON pointer
	Detail string
	Hint   string
	// TooLarge marks a body or value over its bound.
	TooLarge bool
}

func (e *RequestError) Error() string {
	where := e.Path
	if where == "" {
		where = "body"
	}
	if e.Hint != "" {
		return fmt.Sprintf("%s: %s (hint: %s)", where, e.Detail, e.Hint)
	}
	return where + ": " + e.Detail
}

// Hints that fit many members.
const (
	hintMembers = "the members and their types are in docs/spec/http.md"
	hintID      = "an identifier is text of 1 to 255 bytes, without control characters and noncharacters"
	hintEvent   = "what an event may hold is in docs/spec/event.md"
	hintJSON    = "send one JSON document in UTF-8 and nothing after it"
)

func refuse(path, hint, format string, args ...any) *RequestError {
	return &RequestError{Path: path, Detail: fmt.Sprintf(format, args...), Hint: hint}
}

// Begin asks for a new attempt (EVI-06). Private values are JSON in canonical
// form after ParseBegin, or raw bytes.
type Begin struct {
	Source         BeginSource    `json:"source"`
	OccurredAt     string         `json:"occurredAt"`
	TraceID        string         `json:"traceId,omitempty"`
	Action         event.Action   `json:"action"`
	Subject        event.Subject  `json:"subject,omitzero"` // default: tool_action and the action's name
	PrivateInput   jsontext.Value `json:"privateInput,omitzero"`
	PrivateRaw     string         `json:"privateInputRaw,omitempty"` // standard base64
	ExpectedEffect jsontext.Value `json:"expectedEffect,omitzero"`
	KeepBody       bool           `json:"keepBody,omitzero"`
	// Contract is for subjects of kind contract only.
	Contract *event.ContractTerms `json:"contract,omitempty"`

	statement jsontext.Value // notices of the ledger itself only
	canonical []byte
	raw       []byte
}

// BeginSource is the source as the caller names it. Its assurance is not the
// caller's to state.
type BeginSource struct {
	RuntimeID      string `json:"runtimeId"`
	AgentID        string `json:"agentId"`
	InvocationID   string `json:"invocationId"`
	Protocol       string `json:"protocol"`
	Implementation string `json:"implementation"`
}

// Append asks for a further event of an attempt (EVI-07).
type Append struct {
	AttemptID     string            `json:"attemptId"`
	Lifecycle     event.Lifecycle   `json:"lifecycle"`
	SourceEventID string            `json:"sourceEventId"`
	OccurredAt    string            `json:"occurredAt"`
	Status        string            `json:"status,omitempty"` // never on a reconciliation
	PrivateResult jsontext.Value    `json:"privateResult,omitzero"`
	PrivateRaw    string            `json:"privateResultRaw,omitempty"`
	ReasonCodes   []string          `json:"reasonCodes,omitempty"`
	Refs          map[string]string `json:"refs,omitempty"`
	ReadBack      *ReadBack         `json:"readback,omitempty"` // reconciliation only
	Reviewer      string            `json:"reviewer,omitempty"` // review only
	Rubric        string            `json:"rubric,omitempty"`   // review only
	Run           *event.ReviewRun  `json:"run,omitempty"`      // review by a run only
	KeepBody      bool              `json:"keepBody,omitzero"`

	canonical []byte
	raw       []byte
}

// ReadBack is what the caller read back from an authoritative source.
type ReadBack struct {
	Source   string         `json:"source"`
	Observed string         `json:"observed"`
	Count    int64          `json:"count,omitzero"`
	Value    jsontext.Value `json:"value,omitzero"`
}

// ParseBegin reads and checks the body of a begin.
func ParseBegin(body []byte) (*Begin, error) {
	b := new(Begin)
	if err := decode(body, b); err != nil {
		return nil, err
	}
	return b, b.prepare()
}

// prepare brings private values into canonical form and checks every member.
func (b *Begin) prepare() error {
	if b.Subject == (event.Subject{}) {
		b.Subject = event.Subject{Kind: event.ToolAction, ID: b.Action.Name}
	}
	for _, f := range []struct{ path, value string }{
		{"/source/runtimeId", b.Source.RuntimeID}, {"/source/agentId", b.Source.AgentID},
		{"/source/invocationId", b.Source.InvocationID}, {"/source/protocol", b.Source.Protocol},
		{"/source/implementation", b.Source.Implementation},
		{"/action/name", b.Action.Name}, {"/action/effectKind", b.Action.EffectKind}, {"/action/effectMode", b.Action.EffectMode},
		{"/subject/id", b.Subject.ID},
	} {
		if err := checkID(f.path, f.value); err != nil {
			return err
		}
	}
	if b.TraceID != "" {
		if err := checkID("/traceId", b.TraceID); err != nil {
			return err
		}
	}
	if !event.KnownKind(b.Subject.Kind) {
		return refuse("/subject/kind", "the subject kinds are in docs/spec/event.md", "unknown kind %q", b.Subject.Kind)
	}
	if b.Subject.Kind == event.Ledger && b.statement == nil {
		return refuse("/subject/kind", "use the kind that the action is about", "only the ledger speaks about itself")
	}
	if err := b.checkContract(); err != nil {
		return err
	}
	if err := checkTime(b.OccurredAt); err != nil {
		return err
	}
	var err error
	if b.raw, err = privateValue("/privateInput", &b.PrivateInput, b.PrivateRaw); err != nil {
		return err
	}
	if _, err = privateValue("/expectedEffect", &b.ExpectedEffect, ""); err != nil {
		return err
	}
	b.canonical, err = canonicalRequest(b)
	return err
}

func (b *Begin) checkContract() error {
	if b.Contract == nil {
		return nil
	}
	if b.Subject.Kind != event.Contract {
		return refuse("/contract", "leave it out, or begin an attempt of kind contract", "an attempt of kind %s sets no contract", b.Subject.Kind)
	}
	var ee *event.Error
	if errors.As(b.Contract.Validate(), &ee) {
		return refuse("/contract"+ee.Path, "the members are in docs/spec/review.md", "%s", ee.Detail)
	}
	b.statement = b.Contract.Value()
	return nil
}

// ParseAppend reads and checks the body of an append. attemptID is the one of
// the request's path, "" where there is none; the body may leave its own out.
func ParseAppend(body []byte, attemptID string) (*Append, error) {
	a := new(Append)
	if err := decode(body, a); err != nil {
		return nil, err
	}
	switch {
	case a.AttemptID == "":
		a.AttemptID = attemptID
	case attemptID != "" && a.AttemptID != attemptID:
		return nil, refuse("/attemptId", "name the same attempt in path and body, or in the path alone",
			"%q in the body, %q in the path", a.AttemptID, attemptID)
	}
	return a, a.prepare()
}

func (a *Append) prepare() error {
	if _, ok := event.ShardOfAttempt(a.AttemptID); !ok {
		return refuse("/attemptId", "use the attemptId that begin answered with", `%q is not "att_" and 32 lower-case hex digits`, a.AttemptID)
	}
	switch a.Lifecycle {
	case event.Outcome, event.Reversal, event.Reconciliation, event.Review:
	case event.Attempt:
		return refuse("/lifecycle", "begin a new attempt instead", "an attempt cannot be appended")
	default:
		return refuse("/lifecycle", "the lifecycles are in docs/spec/lifecycle.md", "%q is not outcome, reversal, reconciliation or review", a.Lifecycle)
	}
	if err := checkID("/sourceEventId", a.SourceEventID); err != nil {
		return err
	}
	if err := checkTime(a.OccurredAt); err != nil {
		return err
	}
	if err := a.checkStatus(); err != nil {
		return err
	}
	if (a.Lifecycle == event.Review) != (a.Reviewer != "" || a.Rubric != "") {
		return refuse("/reviewer", "a review names one of them or both, other lifecycles none", "a review, and only a review, names a reviewer or a rubric")
	}
	for _, f := range []struct{ path, value string }{{"/reviewer", a.Reviewer}, {"/rubric", a.Rubric}} {
		if f.value == "" {
			continue
		}
		if err := checkID(f.path, f.value); err != nil {
			return err
		}
	}
	if a.Run != nil && a.Lifecycle != event.Review {
		return refuse("/run", "leave it out, or append a review", "only a review is made by a run")
	}
	if err := a.checkReasons(true); err != nil {
		return err
	}
	var err error
	if a.raw, err = privateValue("/privateResult", &a.PrivateResult, a.PrivateRaw); err != nil {
		return err
	}
	if a.ReadBack != nil {
		if _, err = privateValue("/readback/value", &a.ReadBack.Value, ""); err != nil {
			return err
		}
	}
	a.canonical, err = canonicalRequest(a)
	return err
}

// checkReasons checks the reason codes. Those of an admission are for events of
// subject kind admission only, which is known when the attempt has been read.
func (a *Append) checkReasons(admissions bool) error {
	for i, c := range a.ReasonCodes {
		if _, ok := event.ReasonCodeMeaning(c); ok {
			continue
		}
		if _, ok := admission.Code(c).Info(); ok && admissions {
			continue
		}
		return refuse(fmt.Sprintf("/reasonCodes/%d", i), "see docs/spec/registries.md; those of docs/spec/admission.md are for attempts of kind admission",
			"%q is not a registered reason code", c)
	}
	return nil
}

func (a *Append) checkStatus() error {
	if a.Lifecycle != event.Reconciliation {
		if a.ReadBack != nil {
			return refuse("/readback", "leave it out, or append a reconciliation", "only a reconciliation carries a read-back")
		}
		if a.Status == "" {
			return refuse("/status", "the words of each lifecycle are in docs/spec/event.md", "missing")
		}
		return nil // the words depend on the subject kind: the event is validated later
	}
	if a.Status != "" {
		return refuse("/status", "leave it out: it is derived from the read-back", "a caller cannot state the result of a reconciliation")
	}
	rb := a.ReadBack
	if rb == nil {
		return refuse("/readback", `send {"source":…,"observed":"present"|"absent"|"unreachable"}`, "missing: a reconciliation needs what an authoritative source showed")
	}
	if err := checkID("/readback/source", rb.Source); err != nil {
		return err
	}
	switch rb.Observed {
	case event.ObservedPresent, event.ObservedAbsent, event.ObservedUnreachable:
	default:
		return refuse("/readback/observed", "say what the source showed", "%q is not present, absent or unreachable", rb.Observed)
	}
	if rb.Count < 0 || rb.Count > canon.MaxSafeInteger || rb.Count > 0 && rb.Observed != event.ObservedPresent {
		return refuse("/readback/count", "leave it out, or say how many were present", "%d: a count is 1 to 2^53-1 and comes with observed %q", rb.Count, event.ObservedPresent)
	}
	if rb.Observed != event.ObservedPresent && len(rb.Value) > 0 {
		return refuse("/readback/value", "leave the value out, or state what was present", "a value comes with observed %q", event.ObservedPresent)
	}
	if len(a.PrivateResult) > 0 || a.PrivateRaw != "" {
		return refuse("/privateResult", "put what was read into readback.value", "a reconciliation has no result of its own")
	}
	return nil
}

func checkTime(s string) error {
	if _, ok := event.ParseTime(s); !ok {
		return refuse("/occurredAt", "write it like 2026-07-28T00:00:00.000Z", "missing, or not RFC 3339 in UTC with milliseconds")
	}
	return nil
}

// privateValue brings *v into canonical form, or decodes the raw one.
func privateValue(path string, v *jsontext.Value, rawBase64 string) (raw []byte, err error) {
	if rawBase64 != "" {
		if len(*v) > 0 {
			return nil, refuse(path, "send one of the two", "given as JSON and as raw bytes")
		}
		// The decoder skips line breaks, which would be a second spelling.
		raw, err := base64.StdEncoding.Strict().DecodeString(rawBase64)
		if err != nil || strings.ContainsAny(rawBase64, "\r\n") {
			return nil, refuse(path+"Raw", "use the standard alphabet, padding, no line breaks", "not standard base64 with padding")
		}
		if len(raw) > canon.Private.MaxBytes {
			return nil, tooLarge(path+"Raw", len(raw), canon.Private.MaxBytes)
		}
		return raw, nil
	}
	if len(*v) == 0 {
		return nil, nil
	}
	out, err := canon.Private.Canonical(*v)
	if err != nil {
		var ce *canon.Error
		if errors.As(err, &ce) {
			re := refuse(path+ce.Path, cmp.Or(ce.Hint, hintJSON), "%s: %s", ce.Reason, ce.Detail)
			re.TooLarge = ce.Reason == canon.ReasonTooLarge
			return nil, re
		}
		return nil, err
	}
	*v = out
	return nil, nil
}

func tooLarge(path string, size, limit int) *RequestError {
	return &RequestError{Path: path, Detail: fmt.Sprintf("%d bytes, limit %d", size, limit), TooLarge: true,
		Hint: "send a digest or a reference instead of the whole value"}
}

func fromEvent(err error) error {
	var ee *event.Error
	if errors.As(err, &ee) {
		return &RequestError{Path: ee.Path, Detail: ee.Detail, Hint: cmp.Or(ee.Hint, hintEvent)}
	}
	return err
}

func checkID(path, s string) error {
	err := event.CheckID(path, s)
	if err == nil {
		return nil
	}
	var ee *event.Error
	if errors.As(err, &ee) {
		return refuse(path, cmp.Or(ee.Hint, hintID), "%s", ee.Detail)
	}
	return nil
}

// decode reads a request strictly: known members only, each once, valid UTF-8.
// null for an optional public member is the same as leaving it out.
func decode(body []byte, v any) error {
	if len(body) > MaxBodyBytes {
		return tooLarge("", len(body), MaxBodyBytes)
	}
	err := json.Unmarshal(body, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	// The private profile names the commonest faults better than the decoder.
	var ce *canon.Error
	if cerr := canon.Private.Check(body); errors.As(cerr, &ce) && len(body) <= canon.Private.MaxBytes {
		return refuse(ce.Path, cmp.Or(ce.Hint, hintJSON), "%s: %s", ce.Reason, ce.Detail)
	}
	var se *json.SemanticError
	if errors.As(err, &se) {
		detail := "wrong type"
		if se.Err != nil {
			detail = se.Err.Error()
		}
		return refuse(string(se.JSONPointer), hintMembers, "%s", detail)
	}
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		ce := canon.Syntax(syn)
		return refuse(ce.Path, cmp.Or(ce.Hint, hintJSON), "%s: %s", ce.Reason, ce.Detail)
	}
	return refuse("", hintJSON, "%v", err)
}

// canonicalRequest is what sameness is decided on: the request as it was sent,
// private values included, in canonical form, defaults filled in.
func canonicalRequest(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write the request in canonical form: %w", err)
	}
	out := jsontext.Value(b)
	if err := out.Canonicalize(); err != nil {
		return nil, fmt.Errorf("write the request in canonical form: %w", err)
	}
	return out, nil
}
