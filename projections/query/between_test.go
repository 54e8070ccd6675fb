package query_test

import (
	"context"
	"errors"
	"testing"

	"counterfoil/ledger/event"
	"counterfoil/projections/follow"
	"counterfoil/projections/leaftest"
	"counterfoil/projections/query"
)

// strict is a log that has trees of published sizes only, as a log of tiles does.
type strict struct {
	*leaftest.Log
	size uint64
}

func (s strict) Leaf(ctx context.Context, index, size uint64) ([]byte, error) {
	if size != s.size {
		return nil, errors.New("no tree of that size was published")
	}
	return s.Log.Leaf(ctx, index, size)
}

// TestLOG06_ViewsBetweenTwoCheckpoints stops the follower within a long span: the
// views are then at a size that no checkpoint has, and what they show must still
// be readable from the log, also after a restart.
func TestLOG06_ViewsBetweenTwoCheckpoints(t *testing.T) {
	leaves := leaftest.History(71, 900)
	f := fold(t, nil)
	f.log.Append(leaves...)
	f.log.Publish(900)
	ctx, cancel := context.WithCancel(t.Context())
	fl, err := follow.New(follow.Config{DB: f.db, Source: f.log, BatchLeaves: 100,
		Check: func(rec *event.Record, leaf []byte, index uint64) error {
			if index == 300 {
				cancel()
			}
			return leaftest.Check(rec, leaf, index)
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := fl.CatchUp(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for range 2 {
		f.views = query.New(f.db, strict{f.log, 900})
		a, err := f.views.Receipts(t.Context(), query.ReceiptFilter{}, query.Page{Newest: true, Limit: 256})
		if err != nil || a.TreeSize != 500 || len(a.Receipts) != 256 {
			t.Fatalf("%d receipts at size %d, %v", len(a.Receipts), a.TreeSize, err)
		}
		for _, r := range a.Receipts {
			if _, _, err := f.views.Load(t.Context(), r, a.TreeSize); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.db.Close(); err != nil {
			t.Fatal(err)
		}
		f.open(t)
	}
	f.publish(t, 900)
	if size, err := f.views.Size(); err != nil || size != 900 {
		t.Errorf("size %d, %v", size, err)
	}
}
