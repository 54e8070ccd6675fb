// Package query answers questions from the views.
//
// Each answer is read from one snapshot and states the tree size that it
// reflects (TreeSize): the answer is what leaves 0 … TreeSize−1 give, and says
// nothing about later ones. Lists are in leaf-index order, oldest first unless
// Page.Newest asks for the other way.
//
// Rows are as good as the disk that holds them. What is shown as evidence is
// read from the log with Load or LoadAttempt, which compare every member of the
// row with the leaf and return a *[TamperedError] that names event and leaf if
// they differ. A row that is missing altogether shows only in the view digest.
package query

import (
	"context"
	"errors"
	"fmt"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/projections/dispositions"
	"counterfoil/projections/kv"
	"counterfoil/projections/receipts"
	"counterfoil/projections/stats"
)

// ErrNotFound: the views hold no such event, attempt or subject at their size.
var ErrNotFound = errors.New("not found in the views")

// InvalidError refuses a question.
type InvalidError struct {
	// Field is the name of the parameter.
	Field  string
	Detail string
	Hint   string // may be empty
}

func (e *InvalidError) Error() string {
	if e.Hint != "" {
		return fmt.Sprintf("%s: %s (hint: %s)", e.Field, e.Detail, e.Hint)
	}
	return e.Field + ": " + e.Detail
}

// LeafReader reads leaves of the published log.
type LeafReader interface {
	// Leaf returns the bytes of a leaf in the tree of a size.
	Leaf(ctx context.Context, index, size uint64) ([]byte, error)
}

// Views answers questions. It is safe for concurrent use.
type Views struct {
	db     *kv.DB
	leaves LeafReader
}

// New makes a Views; leaves is used by Load and LoadAttempt only.
func New(db *kv.DB, leaves LeafReader) *Views { return &Views{db: db, leaves: leaves} }

// Attempt is an attempt in the words of the views.
type Attempt struct {
	ID string
	lifecycle.Summary
	Revision int64
	Indices  []uint64     // leaf index of each event that counts
	First    receipts.Row // the attempt event: tool, agent, subject, occurredAt

	state lifecycle.State
}

// FirstIndex is the leaf index of the attempt event.
func (a *Attempt) FirstIndex() uint64 { return a.Indices[0] }

// LastIndex is the leaf index of the newest event.
func (a *Attempt) LastIndex() uint64 { return a.Indices[len(a.Indices)-1] }

// ReceiptAnswer is the row of one event.
type ReceiptAnswer struct {
	TreeSize uint64
	Receipt  receipts.Row
}

// AttemptAnswer is one attempt with the rows of its events.
type AttemptAnswer struct {
	TreeSize uint64
	Attempt  Attempt
	Receipts []receipts.Row
}

// Size returns the tree size that the views reflect now.
func (v *Views) Size() (uint64, error) {
	c, err := v.db.Cursor()
	return c.Size, err
}

// Receipt returns the row of an event that counts.
func (v *Views) Receipt(_ context.Context, eventID string) (*ReceiptAnswer, error) {
	digest, ok := event.ParseEventID(eventID)
	if !ok {
		return nil, &InvalidError{Field: "eventId", Detail: `not "evt_" and 64 lower-case hex digits`}
	}
	s, err := v.db.Snapshot()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	row, err := receipts.ReadEvent(s, digest)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, fmt.Errorf("event %s: %w", eventID, ErrNotFound)
	}
	if err != nil {
		return nil, damaged(err, TamperedError{EventID: eventID, Index: row.Index})
	}
	if row.Digest != digest {
		return nil, &TamperedError{EventID: eventID, Index: row.Index, Detail: "its key leads to the row of " + row.EventID()}
	}
	return &ReceiptAnswer{TreeSize: s.Cursor().Size, Receipt: row}, nil
}

// Attempt returns an attempt and the rows of its events.
func (v *Views) Attempt(_ context.Context, attemptID string) (*AttemptAnswer, error) {
	if _, ok := event.ShardOfAttempt(attemptID); !ok {
		return nil, &InvalidError{Field: "attemptId", Detail: `not "att_" and 32 lower-case hex digits`}
	}
	s, err := v.db.Snapshot()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	a, err := readAttempt(s, attemptID)
	if err != nil {
		return nil, err
	}
	out := &AttemptAnswer{TreeSize: s.Cursor().Size, Attempt: *a}
	for _, i := range a.Indices {
		row, err := readRow(s, i)
		if err != nil {
			return nil, err
		}
		out.Receipts = append(out.Receipts, row)
	}
	return out, nil
}

func readAttempt(s *kv.Snapshot, id string) (*Attempt, error) {
	a, err := receipts.ReadAttempt(s, id)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, fmt.Errorf("attempt %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, damaged(err, TamperedError{AttemptID: id})
	}
	out := &Attempt{ID: id, Summary: a.State.Summary(), Revision: a.State.Revision(), Indices: a.Indices, state: a.State}
	out.First, err = readRow(s, a.First())
	return out, err
}

// readRow reads a row that another row speaks of.
func readRow(s *kv.Snapshot, index uint64) (receipts.Row, error) {
	row, err := receipts.ReadRow(s, index)
	if errors.Is(err, kv.ErrNotFound) {
		return row, &TamperedError{Index: index, Detail: "its row is missing"}
	}
	return row, damaged(err, TamperedError{Index: index})
}

// CountsAnswer is the counts.
type CountsAnswer struct {
	TreeSize uint64
	stats.Counts
}

// Counts returns the counts.
func (v *Views) Counts(context.Context) (*CountsAnswer, error) {
	s, err := v.db.Snapshot()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	c, err := stats.Read(s)
	if err != nil {
		return nil, err
	}
	return &CountsAnswer{TreeSize: s.Cursor().Size, Counts: *c}, nil
}

// DispositionAnswer is the latest disposition of one subject.
type DispositionAnswer struct {
	TreeSize    uint64
	Disposition dispositions.Disposition
}

// Disposition returns the latest disposition of a contract or an admission.
func (v *Views) Disposition(_ context.Context, kind event.SubjectKind, subject string) (*DispositionAnswer, error) {
	s, err := v.db.Snapshot()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	d, err := dispositions.Read(s, kind, subject)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, fmt.Errorf("disposition of %s %q: %w", kind, subject, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return &DispositionAnswer{TreeSize: s.Cursor().Size, Disposition: d}, nil
}

// Digest returns the view digest at a size, which must be that of the views now
// (*kv.SizeError if not).
func (v *Views) Digest(ctx context.Context, size uint64) ([32]byte, error) {
	s, err := v.db.Snapshot()
	if err != nil {
		return [32]byte{}, err
	}
	defer s.Close()
	return s.Digest(ctx, size)
}
