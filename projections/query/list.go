package query

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/projections/kv"
	"counterfoil/projections/receipts"
	"counterfoil/projections/search"
)

// ReceiptFilter selects events; empty members select all.
type ReceiptFilter struct {
	Tool, Agent, Runtime    string
	Status, Lifecycle, Kind string
	From, To                time.Time // occurredAt, From included, To not
}

// AttemptFilter selects attempts; empty members select all.
type AttemptFilter struct {
	State                string
	Tool, Agent, Runtime string
	From, To             time.Time // occurredAt of the attempt event, From included, To not
}

// ReceiptsAnswer is a page of events.
type ReceiptsAnswer struct {
	TreeSize uint64
	Receipts []receipts.Row
	Next     string // token of the next page, "" at the end
}

// AttemptsAnswer is a page of attempts, ordered by the leaf index of their
// attempt event. An attempt whose state changes between two pages is found, or
// not, by the state that it has when its page is read.
type AttemptsAnswer struct {
	TreeSize uint64
	Attempts []Attempt
	Next     string // token of the next page, "" at the end
}

var (
	allLifecycles = []string{string(event.Attempt), string(event.Outcome), string(event.Reversal), string(event.Reconciliation), string(event.Review)}
	allKinds      = []string{string(event.ToolAction), string(event.Admission), string(event.Contract), string(event.Retrieval),
		string(event.Citation), string(event.Key), string(event.Policy), string(event.Ledger)}
	allStatuses = statuses()
	// allStates are the words that lifecycle.Summary gives.
	allStates = []string{lifecycle.Open, event.StatusSucceeded, event.StatusFailed, event.StatusNotStarted, event.StatusUnknown,
		event.StatusConfirmedCommitted, event.StatusConfirmedAbsent, event.StatusContradicted, event.StatusReversed}
)

func statuses() (all []string) {
	for _, l := range allLifecycles {
		for _, k := range allKinds {
			for _, s := range event.Statuses(event.Lifecycle(l), event.SubjectKind(k)) {
				if !slices.Contains(all, s) {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

func oneOf(field, value string, words []string) error {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return &InvalidError{Field: field, Detail: "unknown word", Hint: "one of " + strings.Join(words, ", ")}
}

func checkRange(from, to time.Time) error {
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		return &InvalidError{Field: "to", Detail: "before from"}
	}
	return nil
}

func (f *ReceiptFilter) check() error {
	return errors.Join(oneOf("status", f.Status, allStatuses), oneOf("lifecycle", f.Lifecycle, allLifecycles),
		oneOf("kind", f.Kind, allKinds), checkRange(f.From, f.To))
}

func (f *AttemptFilter) check() error {
	return errors.Join(oneOf("state", f.State, allStates), checkRange(f.From, f.To))
}

func terms(ts ...search.Term) []search.Term {
	return slices.DeleteFunc(ts, func(t search.Term) bool { return t.Value == "" })
}

func bound(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Receipts returns a page of the events that count and that a filter selects.
func (v *Views) Receipts(ctx context.Context, f ReceiptFilter, p Page) (*ReceiptsAnswer, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	l := list{
		bound: binding(v.db, "receipts", p.Newest, f.Tool, f.Agent, f.Runtime, f.Status, f.Lifecycle, f.Kind, bound(f.From), bound(f.To)),
		terms: terms(search.Term{Field: search.Tool, Value: f.Tool}, search.Term{Field: search.Agent, Value: f.Agent},
			search.Term{Field: search.Runtime, Value: f.Runtime}, search.Term{Field: search.Status, Value: f.Status},
			search.Term{Field: search.Lifecycle, Value: f.Lifecycle}, search.Term{Field: search.Kind, Value: f.Kind}),
		rng: search.Range{From: f.From, To: f.To},
	}
	out := &ReceiptsAnswer{}
	var err error
	out.TreeSize, out.Next, err = v.walk(ctx, l, p, func(_ *kv.Snapshot, row receipts.Row) error {
		out.Receipts = append(out.Receipts, row)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Attempts returns a page of the attempts that a filter selects.
func (v *Views) Attempts(ctx context.Context, f AttemptFilter, p Page) (*AttemptsAnswer, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	l := list{
		bound: binding(v.db, "attempts", p.Newest, f.State, f.Tool, f.Agent, f.Runtime, bound(f.From), bound(f.To)),
		terms: terms(search.Term{Field: search.State, Value: f.State}, search.Term{Field: search.Tool, Value: f.Tool},
			search.Term{Field: search.Agent, Value: f.Agent}, search.Term{Field: search.Runtime, Value: f.Runtime},
			search.Term{Field: search.Lifecycle, Value: string(event.Attempt)}),
		rng: search.Range{From: f.From, To: f.To},
	}
	out := &AttemptsAnswer{}
	var err error
	out.TreeSize, out.Next, err = v.walk(ctx, l, p, func(s *kv.Snapshot, row receipts.Row) error {
		a, err := readAttempt(s, row.AttemptID)
		if errors.Is(err, ErrNotFound) {
			return &TamperedError{AttemptID: row.AttemptID, Index: row.Index, Detail: "its row is missing"}
		}
		if err != nil {
			return err
		}
		out.Attempts = append(out.Attempts, *a)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// list is a question by leaf index.
type list struct {
	bound []byte
	terms []search.Term
	rng   search.Range
}

// walk takes the rows of one page, and looks for one row more to learn whether
// another page follows.
func (v *Views) walk(ctx context.Context, l list, p Page, take func(s *kv.Snapshot, row receipts.Row) error) (size uint64, next string, err error) {
	s, err := v.db.Snapshot()
	if err != nil {
		return 0, "", err
	}
	defer s.Close()
	size = s.Cursor().Size
	from, to, err := p.openIndex(l.bound, size)
	if err != nil || from >= to {
		return size, "", err
	}
	start := from
	if p.Newest {
		start = to - 1
	}
	j := search.NewJoin(s, l.terms, l.rng, start, p.Newest)
	rows := newRows(s, p.Newest)
	taken, last, more := 0, uint64(0), false
	for !more {
		chunk, bits, ok, err := j.Next(ctx)
		if err != nil {
			return 0, "", err
		}
		if !ok {
			break
		}
		bits.Clip(chunk, from, to)
		bits.Each(chunk, p.Newest, func(index uint64) bool {
			var row receipts.Row
			var found bool
			if row, found, err = rows.at(index, len(l.terms) > 0); err != nil || !found || !l.rng.Contains(row.OccurredAt) {
				return err == nil
			}
			if taken == p.Limit {
				more = true
				return false
			}
			taken, last = taken+1, index
			err = take(s, row)
			return err == nil
		})
		if err != nil {
			return 0, "", err
		}
	}
	if more {
		next = token(l.bound, kv.AppendUint64(nil, last))
	}
	return size, next, nil
}

// rows reads receipt rows in the order of a walk. Neighbours cost a step of an
// iterator, not a look-up.
type rows struct {
	it      *kv.Iter
	reverse bool
	started bool
}

func newRows(s *kv.Snapshot, reverse bool) *rows {
	return &rows{it: s.Iter(receipts.RowPrefix, reverse), reverse: reverse}
}

// at returns the row of an index. A row that a posting names must be there; a
// leaf that no posting was asked about may be parked.
func (r *rows) at(index uint64, must bool) (row receipts.Row, found bool, err error) {
	if r.started && r.it.Valid() {
		if at, _, _ := kv.CutUint64(r.it.Key()); r.reverse == (at > index) && at != index {
			r.it.Next() // often the one after the last
		}
	}
	if !r.started || !r.isAt(index) {
		r.it.Seek(kv.AppendUint64(nil, index))
		r.started = true
	}
	if !r.isAt(index) {
		if must {
			return row, false, &TamperedError{Index: index, Detail: "its row is missing"}
		}
		return row, false, nil
	}
	b, err := r.it.Value()
	if err == nil {
		row, err = receipts.ParseRow(index, b)
	}
	if err != nil {
		return row, false, damaged(err, TamperedError{Index: index})
	}
	return row, true, nil
}

func (r *rows) isAt(index uint64) bool {
	if !r.it.Valid() {
		return false
	}
	at, rest, ok := kv.CutUint64(r.it.Key())
	return ok && len(rest) == 0 && at == index
}
