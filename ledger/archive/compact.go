package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
	"counterfoil/ledger/vault"
)

// Roles that a compaction reads and never drops, and those that it writes.
const (
	RoleReceipt     = "receipt"
	RoleSpanningSet = "spanning_set"
	RoleDecision    = "policy_decision"
	RoleAudit       = "field_audit"
	RoleSummary     = "summary"
)

// records are the roles whose bodies the field audit looks into.
var records = []string{RoleReceipt, RoleSpanningSet, RoleDecision, "registry_snapshot", "artifact_binding", "evidence_bundle"}

// never are the roles that no compaction drops.
var never = []string{RoleReceipt, RoleSpanningSet, RoleDecision, RoleAudit, RoleSummary}

// SummarySchema is the schema of a Summary.
const SummarySchema = "counterfoil.archive-summary.v1"

// maxRecord bounds a record that is read whole: a receipt with its signatures.
const maxRecord = 4 * admission.MaxRecordBytes

// Summary stands for what a compaction dropped. With the receipt it still shows
// that each dropped body which the receipt binds was part of the admission
// (ARC-09): see [Summary.Check].
type Summary struct {
	Schema      string          `json:"schema"`
	Receipt     string          `json:"receipt"`     // digest of the sealed receipt
	SpanningSet jsontext.Value  `json:"spanningSet"` // the whole set, canonical
	Audit       string          `json:"audit"`       // digest of the field audit
	Dropped     []Dropped       `json:"dropped"`
	Absent      []AbsentSummary `json:"absent,omitempty"`
	At          string          `json:"at"` // event.TimeLayout
}

// Dropped is a body that is not kept any more.
type Dropped struct {
	Role   string `json:"role"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	// Fields are the members of its JSON object that are gone with it.
	Fields []string `json:"fields,omitempty"`
	// Bound is whether the receipt names its digest.
	Bound bool `json:"bound,omitzero"`
}

// AbsentSummary is what was never there.
type AbsentSummary struct {
	Role   string `json:"role"`
	Reason string `json:"reason"`
}

// Compaction is what to compact.
type Compaction struct {
	Owner string
	// Drop are roles whose bodies go, such as verifier_log.
	Drop []string
	// Required are further fields that must stay, beside [ReplayFields].
	Required []string
	// Retention is that of audit and summary.
	Retention Retention
	At        time.Time
}

// ErrHeld: a legal hold is on the owner.
var ErrHeld = errors.New("a legal hold is on it")

// Compact drops bodies of an admission and leaves a summary. The order is: field
// audit, audit and summary durable, and only then the first tombstone. A crash in
// between leaves bodies that the summary says are dropped; the same call again
// finishes. Errors: *[MissingFields], [ErrHeld], *[Failure], and that of a record
// which cannot be read; after them nothing was dropped.
func (a *Archive) Compact(ctx context.Context, c Compaction, held Held) (*Summary, Entry, error) {
	if held.on(c.Owner) {
		return nil, Entry{}, fmt.Errorf("compact %s: %w", clip(c.Owner), ErrHeld)
	}
	for _, role := range c.Drop {
		if slices.Contains(never, role) {
			return nil, Entry{}, fmt.Errorf("compact %s: %s is never dropped", clip(c.Owner), clip(role))
		}
	}
	entries, err := a.List(ctx, c.Owner)
	if err != nil {
		return nil, Entry{}, err
	}
	var drop, before []Entry // before: by an earlier call, whose summary has their fields
	stay, s := map[string]jsontext.Value{}, &Summary{Schema: SummarySchema, At: event.FormatTime(c.At)}
	for _, e := range entries {
		switch {
		case e.State == Absent:
			s.Absent = append(s.Absent, AbsentSummary{e.Role, e.Reason})
		case e.State == Compacted:
			before = append(before, e)
		case e.State != Kept:
		case slices.Contains(c.Drop, e.Role):
			drop = append(drop, e)
		case slices.Contains(records, e.Role):
			b, err := a.small(ctx, e.Digest)
			if err != nil {
				return nil, Entry{}, err
			}
			stay[e.Role] = b
			if e.Role == RoleReceipt {
				s.Receipt = e.Digest
			}
		}
	}
	required := slices.Sorted(slices.Values(slices.Concat(ReplayFields, c.Required)))
	if gone := missing(stay, slices.Compact(required)); len(gone) > 0 {
		return nil, Entry{}, &MissingFields{gone}
	}
	s.SpanningSet = stay[RoleSpanningSet]
	receipt, _, err := admission.Open(stay[RoleReceipt], nil)
	if err != nil {
		return nil, Entry{}, fmt.Errorf("compact %s: receipt: %w", c.Owner, err)
	}
	if s.Dropped, err = a.dropped(ctx, drop, receipt); err != nil {
		return nil, Entry{}, err
	}
	for _, e := range before {
		s.Dropped = append(s.Dropped, Dropped{Role: e.Role, Digest: e.Digest, Size: e.Size, Bound: binds(receipt, e.Digest)})
	}
	audit := &FieldAudit{Schema: AuditSchema, Required: slices.Compact(required), At: s.At}
	kept, err := a.keepJSON(ctx, c, RoleAudit, audit)
	if err != nil {
		return nil, Entry{}, err
	}
	s.Audit = kept.Digest
	if err := s.Check(stay[RoleReceipt]); err != nil {
		return nil, Entry{}, fmt.Errorf("compact %s: %w", c.Owner, err)
	}
	if kept, err = a.keepJSON(ctx, c, RoleSummary, s); err != nil {
		return nil, Entry{}, err
	}
	if err := a.Sync(ctx); err != nil {
		return nil, Entry{}, err
	}
	// From here on a crash loses nothing that the summary does not stand for.
	for _, e := range drop {
		if err := a.end(e, vault.ObjectCompacted); err != nil {
			return nil, Entry{}, err
		}
	}
	return s, kept, a.Sync(ctx)
}

// dropped says what goes.
func (a *Archive) dropped(ctx context.Context, drop []Entry, r *admission.ArchiveReceipt) ([]Dropped, error) {
	out := []Dropped{}
	for _, e := range drop {
		d := Dropped{Role: e.Role, Digest: e.Digest, Size: e.Size, Bound: binds(r, e.Digest)}
		if e.Size <= maxRecord {
			b, err := a.small(ctx, e.Digest)
			if err != nil {
				return nil, err
			}
			d.Fields = members(b)
		}
		out = append(out, d)
	}
	return out, nil
}

// binds reports whether a receipt names a digest.
func binds(r *admission.ArchiveReceipt, digest string) bool {
	k := r.Records
	return slices.Contains([]string{k.RegistrySnapshot, k.ArtifactBinding, k.EvidenceBundle, k.PolicyDecision, r.SpanningSet}, digest) ||
		slices.ContainsFunc(r.Externals, func(e admission.External) bool { return e.Digest == digest })
}

// Check compares a summary with the sealed receipt that it is about: the receipt
// has the digest that the summary names, the spanning set inside the summary is the
// one that the receipt binds, and every dropped body that is called bound is named
// by the receipt. The receipt's own place in the log, its signature and its proof
// are not looked at: see [admission.Open] and docs/spec/bundle.md. It does no I/O.
func (s *Summary) Check(sealed []byte) error {
	if s.Schema != SummarySchema {
		return fmt.Errorf("summary: schema %q, expected %s", clip(s.Schema), SummarySchema)
	}
	if got := admission.Digest(sealed); got != s.Receipt {
		return fmt.Errorf("summary: it is about receipt %s, got %s", clip(s.Receipt), got)
	}
	r, _, err := admission.Open(sealed, nil)
	if err != nil {
		return fmt.Errorf("summary: receipt: %w", err)
	}
	if got := admission.Digest(s.SpanningSet); got != r.SpanningSet {
		return fmt.Errorf("summary: %w", &admission.Mismatch{Record: RoleSpanningSet, Expected: r.SpanningSet, Got: got})
	}
	for _, d := range s.Dropped {
		if d.Bound != binds(r, d.Digest) {
			return fmt.Errorf("summary: %s %s: bound is %t, the receipt says otherwise", clip(d.Role), clip(d.Digest), d.Bound)
		}
	}
	return nil
}

// ParseSummary reads a summary as it is kept.
func ParseSummary(b []byte) (*Summary, error) {
	s := new(Summary)
	if err := json.Unmarshal(b, s, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("summary: %w", err)
	}
	return s, nil
}

func (a *Archive) keepJSON(ctx context.Context, c Compaction, role string, doc any) (Entry, error) {
	b, err := json.Marshal(doc)
	if err != nil {
		return Entry{}, fmt.Errorf("%s of %s: %w", role, c.Owner, err)
	}
	v := jsontext.Value(b)
	if err := v.Canonicalize(); err != nil {
		return Entry{}, fmt.Errorf("%s of %s: %w", role, c.Owner, err)
	}
	return a.Put(ctx, Item{Owner: c.Owner, Role: role, Retention: c.Retention, At: c.At}, bytes.NewReader(v))
}

// small reads a body that is no larger than a record.
func (a *Archive) small(ctx context.Context, digest string) ([]byte, error) {
	r, err := a.Open(ctx, digest)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxRecord+1))
	if err == nil && len(b) > maxRecord {
		err = fmt.Errorf("%s: over %d bytes", digest, maxRecord)
	}
	return b, err
}

// end ends a reference.
func (a *Archive) end(e Entry, state vault.ObjectState) error {
	ref, err := refOf(e)
	if err != nil {
		return err
	}
	return fail("compact "+e.Digest, a.v.ChangeRef(ref, func(r *vault.Ref) bool { r.State = state; return true }))
}
