package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"counterfoil/internal/wait"
)

// Views is a live server's list of attempts, ordered by the leaf index of their
// first event.
type Views interface {
	// Page returns a page; the token is "" for the first one, and then what the
	// page before gave as Next.
	Page(ctx context.Context, token string) (ViewPage, error)
}

// ViewPage is a part of the list.
type ViewPage struct {
	TreeSize uint64 // that the page reflects
	Attempts []ViewAttempt
	Next     string // "" on the last page
}

// ViewAttempt is an attempt as the server shows it.
type ViewAttempt struct {
	ID                    string
	State, Review         string
	InDoubt, Corrected    bool
	Revision              int64
	FirstIndex, LastIndex uint64
}

func (a *ViewAttempt) String() string {
	s := fmt.Sprintf("state %s, revision %d, last leaf %d", a.State, a.Revision, a.LastIndex)
	if a.Review != "" {
		s += ", review " + a.Review
	}
	if a.InDoubt {
		s += ", in doubt"
	}
	if a.Corrected {
		s += ", corrected"
	}
	return s
}

// ViewsReport says what the comparison covered.
type ViewsReport struct {
	// Compared attempts were in the server's list and in the log; Newer have events
	// behind the audited tree, and NotJudged began before the first judged leaf, so
	// they were not compared.
	Compared  uint64 `json:"compared"`
	Newer     uint64 `json:"newer"`
	NotJudged uint64 `json:"notJudged"`
}

// patience is how often, and pause after how long, the first page is asked for
// again while the views are behind the audited tree.
const (
	patience = 20
	pause    = 500 * time.Millisecond
)

// compare walks the server's list and the attempts of the fold side by side, both
// in the order of first leaves.
func (r *run) compare(ctx context.Context) error {
	page, err := r.firstPage(ctx)
	if err != nil {
		return err
	}
	c := &comparison{run: r, report: &ViewsReport{}}
	r.report.Views = c.report
	// A transaction of its own: findings are written while it is read.
	txn := r.store.db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{nsFirst}, PrefetchValues: true, PrefetchSize: 64})
	defer it.Close()
	it.Rewind()
	before, first := uint64(0), true
	for {
		for i := range page.Attempts {
			a := &page.Attempts[i]
			if a.FirstIndex >= r.now.Size {
				c.report.Newer++
				return c.rest(it, r.now.Size)
			}
			if !first && a.FirstIndex <= before {
				return fmt.Errorf("the server's list is not in the order of first leaves: leaf %d after leaf %d", a.FirstIndex, before)
			}
			before, first = a.FirstIndex, false
			if err := c.attempt(it, a); err != nil {
				return err
			}
			if r.fold.full() {
				if err := r.commit(); err != nil {
					return err
				}
			}
		}
		if page.Next == "" {
			return c.rest(it, r.now.Size)
		}
		if page, err = r.cfg.Views.Page(ctx, page.Next); err != nil {
			return fmt.Errorf("the server's views: %w", err)
		}
	}
}

// firstPage waits for views that reflect the audited tree.
func (r *run) firstPage(ctx context.Context) (ViewPage, error) {
	for try := 1; ; try++ {
		page, err := r.cfg.Views.Page(ctx, "")
		if err != nil {
			return page, fmt.Errorf("the server's views: %w", err)
		}
		if page.TreeSize >= r.now.Size {
			return page, nil
		}
		if try == patience {
			return page, fmt.Errorf("the server's views reflect %d leaves of %d (hint: is it the server of this log? counterfoil doctor shows its lag)", page.TreeSize, r.now.Size)
		}
		if err := wait.For(ctx, pause); err != nil {
			return page, err
		}
	}
}

type comparison struct {
	run    *run
	report *ViewsReport
}

// attempt compares one attempt that the server shows.
func (c *comparison) attempt(it *badger.Iterator, shown *ViewAttempt) error {
	if shown.FirstIndex < c.run.fold.pos.From {
		c.report.NotJudged++
		return nil
	}
	if err := c.rest(it, shown.FirstIndex); err != nil {
		return err
	}
	finding := func(k Kind, expected, got, detail string) {
		f := atLeaf(k, shown.FirstIndex, expected, got, detail)
		f.AttemptID = clip(shown.ID)
		c.run.found(f)
	}
	index, id, ok, err := current(it)
	if err != nil {
		return err
	}
	if !ok || index != shown.FirstIndex {
		finding(ViewExtra, "no attempt that begins at this leaf", shown.String(), fmt.Sprintf("the server shows an attempt that begins at leaf %d; the log has none", shown.FirstIndex))
		return nil
	}
	it.Next()
	if id.String() != shown.ID {
		finding(ViewDiffers, "attempt "+id.String(), "attempt "+shown.ID, fmt.Sprintf("another attempt begins at leaf %d", shown.FirstIndex))
		return nil
	}
	a, err := c.run.fold.attempts.get(id)
	if err != nil {
		return err
	}
	if a == nil || a.unjudged || len(a.indices) == 0 {
		return fmt.Errorf("%w: attempt %s has no row", errStoreDamaged, id)
	}
	if shown.LastIndex >= c.run.now.Size {
		c.report.Newer++
		return nil
	}
	sum := a.state.Summary()
	want := ViewAttempt{ID: shown.ID, State: sum.State, Review: sum.Review, InDoubt: sum.InDoubt, Corrected: sum.Corrected,
		Revision: a.state.Revision(), FirstIndex: index, LastIndex: a.indices[len(a.indices)-1]}
	c.report.Compared++
	if want != *shown {
		finding(ViewDiffers, want.String(), shown.String(), fmt.Sprintf("the server shows %s otherwise than its leaves say", shown.ID))
	}
	return nil
}

// rest reports the attempts of the log before a leaf that the server did not show.
func (c *comparison) rest(it *badger.Iterator, before uint64) error {
	for {
		index, id, ok, err := current(it)
		if err != nil || !ok || index >= before {
			return err
		}
		f := atLeaf(ViewMissing, index, "attempt "+id.String(), "nothing", fmt.Sprintf("the server does not show the attempt that begins at leaf %d", index))
		f.AttemptID = id.String()
		c.run.found(f)
		it.Next()
		if c.run.fold.full() {
			if err := c.run.commit(); err != nil {
				return err
			}
		}
	}
}

// current is the row at which the iterator stands.
func current(it *badger.Iterator) (index uint64, id attemptID, ok bool, err error) {
	if !it.Valid() {
		return 0, id, false, nil
	}
	v, err := unseal(it.Item())
	if err != nil {
		return 0, id, false, err
	}
	key := it.Item().Key()
	if len(key) != 9 || len(v) != len(id) {
		return 0, id, false, errors.Join(errStoreDamaged, errors.New("a row names no attempt"))
	}
	for _, b := range key[1:] {
		index = index<<8 | uint64(b)
	}
	return index, attemptID(v), true, nil
}
