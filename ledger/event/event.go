// Package event holds the five events of an attempt's life: their fields, ids,
// limits and registries, and the record that a leaf of the log is made of.
//
// An event is canonical JSON (package canon, profile Restricted) with the
// members of [Event], empty optional members absent. A [Record] is an event
// with its signatures; the canonical bytes of a record are one leaf. Both have
// exactly one accepted spelling: [Parse] and [ParseRecord] re-encode what they
// read and refuse bytes that differ.
//
// The package is pure (no I/O, no clock) and safe for concurrent use.
package event

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Schema is the value of the member schema.
const Schema = "counterfoil.event.v1"

// TimeLayout is the only spelling of a time: RFC 3339, UTC, milliseconds.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// Bounds, in bytes unless said otherwise. They keep a record far below the
// 65,535 bytes of a tlog-tiles entry.
const (
	MaxEventBytes  = 32 << 10
	MaxLeafBytes   = 65535
	MaxIDBytes     = 255 // every identifier that a source chooses
	MaxTenantBytes = 32  // a tenant is a subject token
	MaxReasonCodes = 16
	MaxReasonBytes = 128 // ATT-12
	MaxMapMembers  = 16  // commitments, tags, refs
	MaxNameBytes   = 64  // a name in commitments, tags, refs
	MaxSignatures  = 64  // ATT-12
	MaxSigBytes    = 8 << 10
	MaxRevision    = 1024 // events of one attempt
)

// Lifecycle is the kind of statement that an event makes.
type Lifecycle string

// The five lifecycles.
const (
	Attempt        Lifecycle = "attempt"
	Outcome        Lifecycle = "outcome"
	Reversal       Lifecycle = "reversal"
	Reconciliation Lifecycle = "reconciliation"
	Review         Lifecycle = "review"
)

// SubjectKind says what an attempt is about.
type SubjectKind string

// The eight subject kinds.
const (
	ToolAction SubjectKind = "tool_action"
	Admission  SubjectKind = "admission"
	Contract   SubjectKind = "contract"
	Retrieval  SubjectKind = "retrieval"
	Citation   SubjectKind = "citation"
	Key        SubjectKind = "key"
	Policy     SubjectKind = "policy"
	Ledger     SubjectKind = "ledger"
)

// Event is one immutable statement about an attempt. Times are in TimeLayout;
// OccurredAt is the source's claim, CapturedAt the ledger's clock, and neither
// orders anything: the leaf index does.
type Event struct {
	Schema        string            `json:"schema"`
	Ledger        string            `json:"ledger"` // origin of the log
	Tenant        string            `json:"tenant"`
	AttemptID     string            `json:"attemptId"`
	Revision      int64             `json:"revision"`           // 1, 2, 3 … within the attempt
	Previous      string            `json:"previous,omitempty"` // digest of the event before; absent at revision 1
	Lifecycle     Lifecycle         `json:"lifecycle"`
	Subject       Subject           `json:"subject"`
	OccurredAt    string            `json:"occurredAt"`
	CapturedAt    string            `json:"capturedAt"`
	Source        Source            `json:"source"`
	TraceID       string            `json:"traceId,omitempty"`
	Action        Action            `json:"action"`
	Status        string            `json:"status"`
	ReasonCodes   []string          `json:"reasonCodes,omitempty"`
	Commitments   map[string]string `json:"commitments,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
	Refs          map[string]string `json:"refs,omitempty"`
	Statement     jsontext.Value    `json:"statement,omitempty"` // canonical JSON object, typed by kind and lifecycle
	ClaimBoundary string            `json:"claimBoundary"`
}

// Subject is what the attempt is about.
type Subject struct {
	Kind SubjectKind `json:"kind"`
	ID   string      `json:"id"`
}

// Source says who reported the event. EventID is the source's own id of an
// appended event; an attempt has none, since it is known by its invocation.
type Source struct {
	RuntimeID      string    `json:"runtimeId"`
	AgentID        string    `json:"agentId"`
	InvocationID   string    `json:"invocationId"`
	Protocol       string    `json:"protocol"`
	Implementation string    `json:"implementation"`
	EventID        string    `json:"eventId,omitempty"`
	Assurance      Assurance `json:"assurance"`
}

// Assurance says how far the source has been checked (EVI-15). The ledger never
// raises it by itself.
type Assurance struct {
	Level  string `json:"level"`
	Status string `json:"status"`
}

// SelfAsserted is the assurance of every source that nobody vouched for.
var SelfAsserted = Assurance{Level: "self_asserted", Status: "unverified"}

// Action names what was attempted. EffectKind and EffectMode are the source's
// own words.
type Action struct {
	Name       string `json:"name"`
	EffectKind string `json:"effectKind"`
	EffectMode string `json:"effectMode"`
}

// Digest is the SHA-256 of an event's canonical bytes.
type Digest [sha256.Size]byte

// DigestOf hashes canonical event bytes.
func DigestOf(canonical []byte) Digest { return sha256.Sum256(canonical) }

// String is the form used in previous and refs: "sha256:" and 64 hex digits.
func (d Digest) String() string { return d.spell("sha256:") }

// EventID is the public name of the event: "evt_" and the same 64 hex digits.
// It is derived, never stored inside the event.
func (d Digest) EventID() string { return d.spell("evt_") }

func (d Digest) spell(prefix string) string {
	var buf [len("sha256:") + 2*sha256.Size]byte
	return string(hex.AppendEncode(append(buf[:0], prefix...), d[:]))
}

// ParseEventID reads the form that EventID writes, and nothing else.
func ParseEventID(s string) (Digest, bool) { return parseHex32("evt_", s) }

// ParseDigest reads the form that String writes, and nothing else.
func ParseDigest(s string) (Digest, bool) { return parseHex32("sha256:", s) }

func parseHex32(prefix, s string) (d Digest, ok bool) {
	if len(s) != len(prefix)+2*sha256.Size || s[:len(prefix)] != prefix || !lowerHex(s[len(prefix):]) {
		return d, false
	}
	for i, s := 0, s[len(prefix):]; i < len(d); i++ {
		d[i] = nibble(s[2*i])<<4 | nibble(s[2*i+1])
	}
	return d, true
}

// nibble is the value of a lower-case hex digit.
func nibble(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// FormatTime writes t in the only accepted spelling.
func FormatTime(t time.Time) string { return t.UTC().Format(TimeLayout) }

// ParseTime reads the only accepted spelling.
func ParseTime(s string) (time.Time, bool) {
	if len(s) != len(TimeLayout) || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' || s[19] != '.' || s[23] != 'Z' {
		return time.Time{}, false
	}
	ok := true
	number := func(from, to, least, most int) int {
		n := 0
		for _, c := range []byte(s[from:to]) {
			ok = ok && c >= '0' && c <= '9'
			n = n*10 + int(c-'0')
		}
		ok = ok && n >= least && n <= most
		return n
	}
	year, month, day := number(0, 4, 0, 9999), number(5, 7, 1, 12), number(8, 10, 1, 31)
	hour, minute, second, milli := number(11, 13, 0, 23), number(14, 16, 0, 59), number(17, 19, 0, 59), number(20, 23, 0, 999)
	if !ok {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, milli*int(time.Millisecond), time.UTC)
	return t, t.Day() == day // else the month has fewer days
}

// Append adds the canonical bytes of the event to dst. It does not validate.
func (e *Event) Append(dst []byte) []byte {
	dst = append(dst, `{"action":{"effectKind":`...)
	dst = quote(dst, e.Action.EffectKind)
	dst = append(dst, `,"effectMode":`...)
	dst = quote(dst, e.Action.EffectMode)
	dst = append(dst, `,"name":`...)
	dst = quote(dst, e.Action.Name)
	dst = append(dst, `},"attemptId":`...)
	dst = quote(dst, e.AttemptID)
	dst = append(dst, `,"capturedAt":`...)
	dst = quote(dst, e.CapturedAt)
	dst = append(dst, `,"claimBoundary":`...)
	dst = quote(dst, e.ClaimBoundary)
	dst = appendMap(dst, `,"commitments":`, e.Commitments)
	dst = append(dst, `,"ledger":`...)
	dst = quote(dst, e.Ledger)
	dst = append(dst, `,"lifecycle":`...)
	dst = quote(dst, string(e.Lifecycle))
	dst = append(dst, `,"occurredAt":`...)
	dst = quote(dst, e.OccurredAt)
	dst = appendOptional(dst, `,"previous":`, e.Previous)
	if len(e.ReasonCodes) > 0 {
		dst = append(dst, `,"reasonCodes":[`...)
		for i, c := range e.ReasonCodes {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = quote(dst, c)
		}
		dst = append(dst, ']')
	}
	dst = appendMap(dst, `,"refs":`, e.Refs)
	dst = append(dst, `,"revision":`...)
	dst = strconv.AppendInt(dst, e.Revision, 10)
	dst = append(dst, `,"schema":`...)
	dst = quote(dst, e.Schema)
	dst = append(dst, `,"source":{"agentId":`...)
	dst = quote(dst, e.Source.AgentID)
	dst = append(dst, `,"assurance":{"level":`...)
	dst = quote(dst, e.Source.Assurance.Level)
	dst = append(dst, `,"status":`...)
	dst = quote(dst, e.Source.Assurance.Status)
	dst = append(dst, '}')
	dst = appendOptional(dst, `,"eventId":`, e.Source.EventID)
	dst = append(dst, `,"implementation":`...)
	dst = quote(dst, e.Source.Implementation)
	dst = append(dst, `,"invocationId":`...)
	dst = quote(dst, e.Source.InvocationID)
	dst = append(dst, `,"protocol":`...)
	dst = quote(dst, e.Source.Protocol)
	dst = append(dst, `,"runtimeId":`...)
	dst = quote(dst, e.Source.RuntimeID)
	dst = append(dst, '}')
	if len(e.Statement) > 0 {
		dst = append(dst, `,"statement":`...)
		dst = append(dst, e.Statement...)
	}
	dst = append(dst, `,"status":`...)
	dst = quote(dst, e.Status)
	dst = append(dst, `,"subject":{"id":`...)
	dst = quote(dst, e.Subject.ID)
	dst = append(dst, `,"kind":`...)
	dst = quote(dst, string(e.Subject.Kind))
	dst = append(dst, '}')
	dst = appendMap(dst, `,"tags":`, e.Tags)
	dst = append(dst, `,"tenant":`...)
	dst = quote(dst, e.Tenant)
	dst = appendOptional(dst, `,"traceId":`, e.TraceID)
	return append(dst, '}')
}

// quote appends an RFC 8785 string. Validation has refused invalid UTF-8
// before, or the round trip after parsing will.
func quote(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			out, _ := jsontext.AppendQuote(nil, s) // not to dst, which would then always be on the heap
			return append(dst, out...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

func appendOptional(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return quote(append(dst, name...), value)
}

func appendMap(dst []byte, name string, m map[string]string) []byte {
	if len(m) == 0 {
		return dst
	}
	dst = append(dst, name...)
	sep := byte('{')
	var few [MaxMapMembers]string
	names := few[:0]
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names { // names are ASCII, so byte order is UTF-16 order
		dst = append(dst, sep)
		dst = quote(dst, k)
		dst = append(dst, ':')
		dst = quote(dst, m[k])
		sep = ','
	}
	return append(dst, '}')
}
