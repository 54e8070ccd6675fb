package query

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/transparency-dev/merkle/rfc6962"

	"counterfoil/ledger/event"
	"counterfoil/projections/contracts"
	"counterfoil/projections/kv"
	"counterfoil/projections/receipts"
)

// ContractAnswer is one contract.
type ContractAnswer struct {
	TreeSize uint64
	Contract *contracts.Row
}

// ContractsAnswer is a page of contracts, ordered by name.
type ContractsAnswer struct {
	TreeSize  uint64
	Contracts []*contracts.Row
	Next      string // token of the next page, "" at the end
}

// Contract returns a contract by its name. The row is compared with its leaves.
func (v *Views) Contract(ctx context.Context, name string) (*ContractAnswer, error) {
	if err := event.CheckID("contract", name); err != nil {
		return nil, &InvalidError{Field: "contract", Detail: "not 1 to 255 bytes of text"}
	}
	s, err := v.db.Snapshot()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	row, err := contracts.Read(s, name)
	if errors.Is(err, kv.ErrNotFound) {
		return &ContractAnswer{TreeSize: s.Cursor().Size}, fmt.Errorf("contract %q: %w", name, ErrNotFound)
	}
	if err != nil {
		return nil, damaged(err, TamperedError{Detail: err.Error()})
	}
	out := &ContractAnswer{TreeSize: s.Cursor().Size, Contract: row}
	return out, v.checkContract(ctx, row, out.TreeSize)
}

// Contracts returns a page of the contracts, by name whatever Page.Newest says.
// Each row is compared with its leaves.
func (v *Views) Contracts(ctx context.Context, p Page) (*ContractsAnswer, error) {
	list := keyedList[*contracts.Row]{bound: binding(v.db, "contracts", false), prefix: contracts.Prefix,
		read: func(_ *kv.Snapshot, key, value []byte) (*contracts.Row, verdict, error) {
			row, err := contracts.Parse(key, value)
			if err != nil {
				return nil, 0, damaged(err, TamperedError{Detail: err.Error()})
			}
			return row, taken, nil
		}}
	rows, size, next, err := list.page(ctx, v.db, p)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if err := v.checkContract(ctx, row, size); err != nil {
			return nil, err
		}
	}
	return &ContractsAnswer{TreeSize: size, Contracts: rows, Next: next}, nil
}

// checkContract compares a row with the leaves that it was folded from. That no
// later leaf was left out shows only in the view digest.
func (v *Views) checkContract(ctx context.Context, row *contracts.Row, size uint64) error {
	e, digest, err := v.leafEvent(ctx, row.Index, size)
	if err != nil {
		return err
	}
	tampered := func(index uint64, id, detail string) error {
		return &TamperedError{EventID: id, Index: index, Detail: "contract " + row.Name + ": " + detail}
	}
	terms, ok := e.ContractTerms()
	at, _ := event.ParseTime(e.CapturedAt)
	if !ok || e.Subject.ID != row.Name || terms != row.Terms || digest.EventID() != row.Event || e.AttemptID != row.Attempt || at.UnixMilli() != row.At {
		return tampered(row.Index, row.Event, "its terms are not those of the leaf")
	}
	for _, rev := range []*contracts.Review{row.Enforced, row.Reported} {
		if rev == nil {
			continue
		}
		e, digest, err := v.leafEvent(ctx, rev.Index, size)
		if err != nil {
			return err
		}
		want := contracts.NewReview(rev.Index, e, digest)
		want.Since = rev.Since
		if want.Receipt == "" {
			want.Receipt = rev.Receipt
		}
		if e.Lifecycle != event.Review || e.Subject != (event.Subject{Kind: event.Contract, ID: row.Name}) || !reflect.DeepEqual(want, *rev) {
			return tampered(rev.Index, rev.Event, "its review is not that of the leaf")
		}
	}
	return nil
}

func (v *Views) leafEvent(ctx context.Context, index, size uint64) (*event.Event, event.Digest, error) {
	leaf, err := v.leaves.Leaf(ctx, index, max(size, v.db.Under()))
	if err != nil {
		return nil, event.Digest{}, fmt.Errorf("read leaf %d: %w", index, err)
	}
	rec, err := event.ParseRecord(leaf)
	if err != nil {
		return nil, event.Digest{}, &TamperedError{Index: index, Detail: fmt.Sprintf("leaf %x is no record: %v", rfc6962.DefaultHasher.HashLeaf(leaf), err)}
	}
	return rec.Event, rec.Digest(), nil
}

// ReviewedAnswer is a page of what a review run reviewed, in leaf order.
type ReviewedAnswer struct {
	TreeSize uint64
	Reviews  []RunReview
	Next     string // token of the next page, "" at the end
}

// RunReview is a review of a run.
type RunReview struct {
	Contract string
	Receipt  receipts.Row
}

// Reviewed returns a page of the reviews that a run made.
func (v *Views) Reviewed(ctx context.Context, run string, p Page) (*ReviewedAnswer, error) {
	if err := event.CheckID("run", run); err != nil {
		return nil, &InvalidError{Field: "run", Detail: "not 1 to 255 bytes of text"}
	}
	list := keyedList[RunReview]{bound: binding(v.db, "reviewed", false, run), prefix: contracts.PrefixOfRun(run),
		read: func(s *kv.Snapshot, key, value []byte) (RunReview, verdict, error) {
			index, name, err := contracts.ParseRun(key, value)
			if err != nil {
				return RunReview{}, 0, damaged(err, TamperedError{Detail: err.Error()})
			}
			row, err := readRow(s, index)
			return RunReview{Contract: name, Receipt: row}, taken, err
		}}
	rows, size, next, err := list.page(ctx, v.db, p)
	if err != nil {
		return nil, err
	}
	return &ReviewedAnswer{TreeSize: size, Reviews: rows, Next: next}, nil
}
