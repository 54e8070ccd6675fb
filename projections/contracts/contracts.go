// Package contracts keeps the tool contracts: the terms in force, and the latest
// reviews of each.
//
// A contract is an attempt of kind contract with terms; the one at the highest
// leaf index is in force. Reviews of kind contract belong to the contract of the
// same subject id. Two of them are kept: the latest that is enforced, and the
// latest that is report-only, since a report never changes what is enforced
// (OPS-03). A review by a person is enforced. Reviews that come before the first
// terms of their subject are no part of it.
//
//	t ‖ string name         →  terms, place of the event, the two reviews
//	v ‖ string run ‖ index  →  name of the contract that the run reviewed there
package contracts

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/event"
	"counterfoil/projections/kv"
	"counterfoil/projections/receipts"
)

// Row is a contract. Times are milliseconds since 1970 by the ledger's clock,
// digests "sha256:" and hex, events by their event id.
type Row struct {
	Name    string              `json:"-"`
	Terms   event.ContractTerms `json:"terms"`
	Index   uint64              `json:"index"` // leaf index of the terms
	Event   string              `json:"event"`
	Attempt string              `json:"attempt"`
	At      int64               `json:"at"`
	// Enforced and Reported are the latest reviews by mode; nil without one.
	Enforced *Review `json:"enforced,omitempty"`
	Reported *Review `json:"reported,omitempty"`
}

// Digest names the contract that is in force.
func (r *Row) Digest() string { return r.Terms.Digest(r.Name).String() }

// Latest is the newest review of any mode; nil without one.
func (r *Row) Latest() *Review {
	if r.Enforced == nil || r.Reported != nil && r.Reported.Index > r.Enforced.Index {
		return r.Reported
	}
	return r.Enforced
}

// Review is a review of a contract.
type Review struct {
	Index       uint64   `json:"index"` // leaf index
	Event       string   `json:"event"`
	Attempt     string   `json:"attempt"`
	At          int64    `json:"at"`
	Disposition string   `json:"disposition"`
	Reasons     []string `json:"reasons,omitempty"`
	Reviewer    string   `json:"reviewer,omitempty"`
	Rubric      string   `json:"rubric,omitempty"`
	// Run is what a review run says; nil of a person's review.
	Run *event.ReviewRun `json:"run,omitempty"`
	// What was judged. Without a receipt of its own a review is about the one of
	// the terms that were in force.
	Receipt   string `json:"receipt,omitempty"`
	Policy    string `json:"policy,omitempty"`
	Contract  string `json:"contract,omitempty"`
	Recheck   string `json:"recheck,omitempty"`
	Evidence  string `json:"evidence,omitempty"`
	Verifiers string `json:"verifiers,omitempty"`
	// Since is the time of the first review in the unbroken series with this
	// disposition, of this mode and about this receipt.
	Since int64 `json:"since"`
}

// Enforced reports whether the review blocks.
func (r *Review) Enforced() bool { return r.Run == nil || r.Run.Mode == event.ReviewEnforced }

// NewReview takes what a review event says. Since is left at its own time.
func NewReview(index uint64, e *event.Event, digest event.Digest) Review {
	at, _ := event.ParseTime(e.CapturedAt) // valid, since the record parsed
	j, _ := e.Judgement()
	return Review{
		Index: index, Event: digest.EventID(), Attempt: e.AttemptID, At: at.UnixMilli(), Since: at.UnixMilli(),
		Disposition: e.Status, Reasons: e.ReasonCodes, Reviewer: j.Reviewer, Rubric: j.Rubric, Run: j.Run,
		Receipt: e.Refs[event.RefReceipt], Policy: e.Refs[event.RefPolicy], Contract: e.Refs[event.RefContract],
		Recheck: e.Refs[event.RefRecheck], Evidence: e.Refs[event.RefEvidence], Verifiers: e.Refs[event.RefVerifiers],
	}
}

// Prefix is before the name in the keys of contracts.
var Prefix = []byte{'t'}

var runPrefix = []byte{'v'}

// Key is the key of a contract's row.
func Key(name string) []byte { return kv.AppendString(Prefix[:1:1], name) }

// PrefixOfRun is before the index in the keys of what a run reviewed.
func PrefixOfRun(run string) []byte { return kv.AppendString(runPrefix[:1:1], run) }

const version = 1

var errRow = fmt.Errorf("%w: it is no contract", kv.ErrDamaged)

func (r *Row) encode() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode contract %q: %w", r.Name, err)
	}
	return append([]byte{version}, b...), nil
}

// Parse reads a row; key is without Prefix.
func Parse(key, b []byte) (*Row, error) {
	name, rest, ok := kv.CutString(key)
	if !ok || len(rest) != 0 || len(b) == 0 || b[0] != version {
		return nil, errRow
	}
	r := &Row{Name: name}
	if err := json.Unmarshal(b[1:], r, json.RejectUnknownMembers(true)); err != nil {
		return nil, errRow
	}
	return r, nil
}

// Read returns a contract, or kv.ErrNotFound.
func Read(r receipts.Reader, name string) (*Row, error) {
	k := Key(name)
	b, err := r.Get(k)
	if err != nil {
		return nil, err
	}
	row, err := Parse(k[len(Prefix):], b)
	if err != nil {
		return nil, fmt.Errorf("contract %q: %w", name, err)
	}
	return row, nil
}

// ParseRun reads a row of what a run reviewed; key is without the run.
func ParseRun(key, b []byte) (index uint64, name string, err error) {
	index, rest, ok := kv.CutUint64(key)
	name, more, ok2 := kv.CutString(b)
	if !ok || !ok2 || len(rest)+len(more) != 0 {
		return 0, "", errRow
	}
	return index, name, nil
}

// Projection writes the rows of this package. It is not safe for concurrent use.
type Projection struct {
	dirty map[string]*Row
	runs  map[string]string // name of the contract by key
	bytes int
}

// New makes an empty projection.
func New() *Projection { return &Projection{dirty: map[string]*Row{}, runs: map[string]string{}} }

// Apply takes over what a leaf turned out to be.
func (p *Projection) Apply(b *kv.Batch, f *receipts.Fact) error {
	r := f.Row
	if r == nil || r.Kind != event.Contract {
		return nil
	}
	switch r.Lifecycle {
	case event.Attempt:
		if terms, ok := f.Event.ContractTerms(); ok {
			return p.set(b, r, terms)
		}
	case event.Review:
		return p.review(b, r, f.Event)
	}
	return nil
}

func (p *Projection) row(b *kv.Batch, name string) (*Row, error) {
	if row := p.dirty[name]; row != nil {
		return row, nil
	}
	row, err := Read(b, name)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	return row, err
}

func (p *Projection) set(b *kv.Batch, r *receipts.Row, terms event.ContractTerms) error {
	row, err := p.row(b, r.Subject)
	if err != nil {
		return err
	}
	if row == nil {
		row = &Row{Name: r.Subject}
	}
	row.Terms, row.Index, row.Event, row.Attempt, row.At = terms, r.Index, r.EventID(), r.AttemptID, r.CapturedAt.UnixMilli()
	p.keep(row)
	return nil
}

func (p *Projection) review(b *kv.Batch, r *receipts.Row, e *event.Event) error {
	row, err := p.row(b, r.Subject)
	if err != nil || row == nil {
		return err
	}
	rev := NewReview(r.Index, e, r.Digest)
	if rev.Receipt == "" {
		rev.Receipt = row.Terms.Receipt
	}
	slot := &row.Reported
	if rev.Enforced() {
		slot = &row.Enforced
	}
	if before := *slot; before != nil && before.Disposition == rev.Disposition && before.Receipt == rev.Receipt {
		rev.Since = before.Since
	}
	*slot = &rev
	p.keep(row)
	if rev.Run != nil {
		key := kv.AppendUint64(PrefixOfRun(rev.Run.ID), r.Index)
		p.runs[string(key)] = row.Name
		p.bytes += len(key) + len(row.Name) + 2
	}
	return nil
}

// rowBytes bounds a row: two reviews with 16 reason codes and 8 causes each.
const rowBytes = 16 << 10

func (p *Projection) keep(row *Row) {
	if p.dirty[row.Name] == nil {
		p.bytes += rowBytes
	}
	p.dirty[row.Name] = row
}

// Pending is how many rows and bytes Flush would write, never less.
func (p *Projection) Pending() (rows, bytes int) { return len(p.dirty) + len(p.runs), p.bytes }

// Flush writes what is pending.
func (p *Projection) Flush(b *kv.Batch) error {
	for _, name := range slices.Sorted(maps.Keys(p.dirty)) {
		v, err := p.dirty[name].encode()
		if err != nil {
			return err
		}
		if err := b.Set(Key(name), v); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.runs)) {
		if err := b.Set([]byte(key), kv.AppendString(nil, p.runs[key])); err != nil {
			return err
		}
	}
	return nil
}

// Committed tells that what Flush wrote is in the database.
func (p *Projection) Committed() { *p = *New() }

// Discard forgets everything that is not in the database.
func (p *Projection) Discard() { *p = *New() }
