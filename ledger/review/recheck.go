package review

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
)

// RecheckSchema is the schema of a [Recheck].
const RecheckSchema = "counterfoil.evidence-recheck.v1"

// Recheck is the record of how the evidence of a receipt did under today's
// policy. It is kept in the archive by its digest. It names the evidence of then
// and never stands in its place (REV-24), and it has no logs of verifiers
// (REV-25).
type Recheck struct {
	Schema string `json:"schema"`
	// Receipt, Contract and EvidenceBundle are what was looked at. The bundle is
	// absent if the receipt could not be read.
	Receipt        string `json:"receipt"`
	Contract       string `json:"contract"`
	EvidenceBundle string `json:"evidenceBundle,omitempty"`
	// Policy is today's; AdmittedUnder the digest of that of then.
	Policy        admission.PolicyRef `json:"policy"`
	AdmittedUnder string              `json:"admittedUnder,omitempty"`
	// Class is the class by which it was judged.
	Class string `json:"class,omitempty"`
	// State is one of event.RecheckStates. Causes say why it is not pass.
	State      string   `json:"state"`
	Incomplete bool     `json:"incomplete,omitzero"`
	Causes     []string `json:"causes,omitempty"`
	// Gaps are what could not be read.
	Gaps []Gap `json:"gaps,omitempty"`
	// Findings are what the verifiers of today say, in the order of the evidence.
	Findings []Rechecked `json:"findings,omitempty"`
	// Failed are the questions that the policy of today answers with fail or error.
	Failed []FailedVerdict `json:"failed,omitempty"`
	// Verifiers are today's.
	Verifiers []admission.VerifierInfo `json:"verifiers,omitempty"`
	// Live is what the live registry says. It decides nothing (REV-19).
	Live      []Note `json:"live,omitempty"`
	CheckedAt string `json:"checkedAt"` // event.TimeLayout
}

// Rechecked is a finding in short.
type Rechecked struct {
	Evidence      string                 `json:"evidence"`
	Verifier      string                 `json:"verifier"`
	PredicateType string                 `json:"predicateType,omitempty"`
	State         admission.FindingState `json:"state"`
	Code          admission.Code         `json:"code,omitempty"`
}

// FailedVerdict is a verdict in short.
type FailedVerdict struct {
	Gate  admission.Gate   `json:"gate"`
	ID    string           `json:"id"`
	Codes []admission.Code `json:"codes"`
}

// Note is a difference between the live registry and what was recorded.
type Note struct {
	What string `json:"what"` // status, version, metadata, attestations, registry …
	Then string `json:"then,omitempty"`
	Now  string `json:"now,omitempty"`
}

// Bounds of a recheck.
const (
	maxGaps     = 64
	maxLive     = 16
	maxNoteText = 255
)

// ParseRecheck reads a recheck from its canonical bytes.
func ParseRecheck(b []byte) (*Recheck, error) {
	if len(b) > admission.MaxRecordBytes {
		return nil, fmt.Errorf("recheck of %d bytes, limit %d", len(b), admission.MaxRecordBytes)
	}
	r := new(Recheck)
	if err := json.Unmarshal(b, r, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("recheck: %w", err)
	}
	got, err := admission.Encode(r)
	if err != nil {
		return nil, fmt.Errorf("recheck: %w", err)
	}
	if !bytes.Equal(got, b) {
		return nil, fmt.Errorf("recheck: not the one accepted spelling")
	}
	return r, nil
}

// Validate implements [admission.Record].
func (r *Recheck) Validate() error {
	bad := func(path, format string, args ...any) error {
		return &admission.Error{Path: path, Detail: fmt.Sprintf(format, args...)}
	}
	if r.Schema != RecheckSchema {
		return bad("/schema", "is %q, want %s", r.Schema, RecheckSchema)
	}
	for _, d := range []struct {
		path, digest string
		optional     bool
	}{
		{"/receipt", r.Receipt, false}, {"/contract", r.Contract, false}, {"/policy/digest", r.Policy.Digest, false},
		{"/evidenceBundle", r.EvidenceBundle, true}, {"/admittedUnder", r.AdmittedUnder, true},
	} {
		if !admission.ValidDigest(d.digest) && !(d.optional && d.digest == "") {
			return bad(d.path, "is %q, want sha256: and 64 hex digits", d.digest)
		}
	}
	if !slices.Contains(event.RecheckStates, r.State) {
		return bad("/state", "is %q, want one of %v", r.State, event.RecheckStates)
	}
	if (r.State == event.RecheckPass) != (len(r.Causes) == 0) {
		return bad("/causes", "%d causes with state %s", len(r.Causes), r.State)
	}
	if r.Incomplete && r.State != event.RecheckUnavailable {
		return bad("/incomplete", "is true with state %s", r.State)
	}
	if (r.State == event.RecheckPass) && len(r.Gaps)+len(r.Failed) > 0 {
		return bad("/gaps", "a recheck that passes has no gaps and no failed verdicts")
	}
	if len(r.Causes) > event.MaxReviewCauses || len(r.Gaps) > maxGaps || len(r.Findings) > admission.MaxFindings ||
		len(r.Failed) > admission.MaxVerdicts || len(r.Live) > maxLive {
		return bad("", "more causes, gaps, findings, verdicts or notes than one may have")
	}
	for i, c := range r.Causes {
		if !event.ValidReasonCode(c) || slices.Contains(r.Causes[:i], c) {
			return bad("/causes", "%q is no reason code, or is there twice", c)
		}
	}
	for i, n := range r.Live {
		if n.What == "" || len(n.What) > maxNoteText || len(n.Then) > maxNoteText || len(n.Now) > maxNoteText {
			return bad(fmt.Sprintf("/live/%d", i), "has no name, or a text over %d bytes", maxNoteText)
		}
	}
	if _, ok := event.ParseTime(r.CheckedAt); !ok {
		return bad("/checkedAt", "is %q, want a time like 2026-01-31T12:00:00.000Z", r.CheckedAt)
	}
	return nil
}
