package toolresult

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// AuditSchema is the value of the audit's member schema.
const AuditSchema = "counterfoil.tool-audit.v1"

// ErrProtected is the error of whoever marshals a ProtectedAudit as a part of
// something else.
var ErrProtected = errors.New("a protected audit is not a part of an answer: write it with AppendProtected where no model reads")

// ProtectedAudit is the evidence behind a ModelResult: the attempt, its events and
// the digest of the result. It is for auditors and never for a model (TRS-01): no
// ModelResult holds one, it refuses to be marshalled, and it prints nothing of
// itself. It is a value and never changes.
type ProtectedAudit struct {
	attemptID string
	state     string
	events    []lifecycle.Entry
	result    [sha256.Size]byte
}

// Project gives both projections of a call from the fold of its attempt: what a
// model may have, and what is kept from it. told is as in [Of]; data is the tool's
// own value, nil if there is none at hand. It keeps neither s nor data. Errors are
// of type *[Error].
func Project(attemptID string, s *lifecycle.State, told Delivery, data []byte) (ModelResult, ProtectedAudit, error) {
	if _, ok := event.ShardOfAttempt(attemptID); !ok {
		return ModelResult{}, ProtectedAudit{}, bad("/attemptId", `want "att_" and 32 lower-case hex digits`)
	}
	if s.Revision() == 0 {
		return ModelResult{}, ProtectedAudit{}, bad("/events", "an attempt that has not begun has no result")
	}
	sum := s.Summary()
	m, err := Of(sum, told)
	if err != nil {
		return ModelResult{}, ProtectedAudit{}, err
	}
	if data != nil {
		if m, err = m.WithData(data); err != nil {
			return ModelResult{}, ProtectedAudit{}, err
		}
	}
	a := ProtectedAudit{attemptID: attemptID, state: sum.State, events: append([]lifecycle.Entry(nil), s.Entries...), result: sha256.Sum256(m.Append(nil))}
	return m, a, nil
}

// AppendProtected adds the canonical bytes of the audit to dst:
//
//	{
//	  "attemptId": "att_…",
//	  "events": [{"eventId": "evt_…", "lifecycle": "attempt", "status": "requested"}],
//	  "resultSha256": "<64 hex digits>",        of the bytes of the ModelResult
//	  "schema": "counterfoil.tool-audit.v1",
//	  "state": "open"
//	}
//
// It is for stores and readers that no model reaches.
func (a ProtectedAudit) AppendProtected(dst []byte) []byte {
	dst = append(dst, `{"attemptId":"`+a.attemptID+`","events":[`...)
	for i, e := range a.events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"eventId":"`+e.Digest.EventID()+`","lifecycle":"`+string(e.Lifecycle)+`","status":"`+e.Status+`"}`...)
	}
	dst = append(dst, `],"resultSha256":"`+hex.EncodeToString(a.result[:])+`","schema":"`+AuditSchema+`","state":"`+a.state+`"}`...)
	return dst
}

// MarshalJSON refuses: a member of this type cannot get into an answer by
// accident.
func (ProtectedAudit) MarshalJSON() ([]byte, error) { return nil, ErrProtected }

// Format writes no member, whatever the verb.
func (ProtectedAudit) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "protected audit") }
