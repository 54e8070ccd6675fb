package query

import (
	"context"

	"counterfoil/ledger/event"
	"counterfoil/projections/dispositions"
	"counterfoil/projections/kv"
	"counterfoil/projections/receipts"
)

// ParkedAnswer is a page of leaves that do not count.
type ParkedAnswer struct {
	TreeSize uint64
	Parked   []receipts.Parked
	Next     string // token of the next page, "" at the end
}

// Parked returns a page of the parked leaves in leaf-index order.
func (v *Views) Parked(ctx context.Context, p Page) (*ParkedAnswer, error) {
	s, err := v.db.Snapshot()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out := &ParkedAnswer{TreeSize: s.Cursor().Size}
	bound := binding(v.db, "parked", p.Newest)
	from, to, err := p.openIndex(bound, out.TreeSize)
	if err != nil || from >= to {
		return out, err
	}
	start := from
	if p.Newest {
		start = to - 1
	}
	it := s.Iter(receipts.ParkedPrefix, p.Newest)
	for ok := it.Seek(kv.AppendUint64(nil, start)); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		index, _, _ := kv.CutUint64(it.Key())
		if len(out.Parked) == p.Limit {
			out.Next = token(bound, kv.AppendUint64(nil, out.Parked[p.Limit-1].Index))
			break
		}
		b, err := it.Value()
		if err != nil {
			return nil, err
		}
		parked, err := receipts.ParseParked(index, b)
		if err != nil {
			return nil, err
		}
		parked.Detail = receipts.ReadDetail(s, index)
		out.Parked = append(out.Parked, parked)
	}
	return out, nil
}

// DispositionFilter selects dispositions; empty members select all.
type DispositionFilter struct {
	Kind   event.SubjectKind // contract or admission
	Status string            // continue, re_admit, quarantine or retire
}

// DispositionsAnswer is a page of subjects, ordered by kind and subject id.
type DispositionsAnswer struct {
	TreeSize     uint64
	Dispositions []dispositions.Disposition
	Next         string // token of the next page, "" at the end
}

// Dispositions returns a page of the latest dispositions, by kind and subject id
// whatever Page.Newest says.
func (v *Views) Dispositions(ctx context.Context, f DispositionFilter, p Page) (*DispositionsAnswer, error) {
	if err := oneOf("disposition", f.Status, event.Statuses(event.Review, event.Contract)); err != nil {
		return nil, err
	}
	if err := oneOf("kind", string(f.Kind), []string{string(event.Contract), string(event.Admission)}); err != nil {
		return nil, err
	}
	list := keyedList[dispositions.Disposition]{bound: binding(v.db, "dispositions", false, string(f.Kind), f.Status), prefix: dispositions.Prefix,
		read: func(_ *kv.Snapshot, key, value []byte) (dispositions.Disposition, verdict, error) {
			d, err := dispositions.Parse(key, value)
			switch {
			case err != nil:
				return d, 0, err
			case f.Kind != "" && d.Kind != f.Kind:
				return d, beyond, nil // the rows of a kind stand together
			case f.Status != "" && d.Status != f.Status:
				return d, leftOut, nil
			}
			return d, taken, nil
		}}
	if f.Kind != "" {
		list.start = kv.AppendString(nil, string(f.Kind))
	}
	rows, size, next, err := list.page(ctx, v.db, p)
	if err != nil {
		return nil, err
	}
	return &DispositionsAnswer{TreeSize: size, Dispositions: rows, Next: next}, nil
}
