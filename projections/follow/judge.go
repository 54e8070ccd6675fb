package follow

import (
	"errors"
	"runtime"
	"sync"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/projections/kv"
	"counterfoil/projections/receipts"
)

// candidate is a leaf with everything that can be said of it by itself.
type candidate struct {
	index  uint64
	leaf   []byte
	hash   [32]byte
	rec    *event.Record
	digest event.Digest
	parked *receipts.Parked
}

// inspect parses leaves and checks their signatures, on all processors: it is
// most of the work and needs no order.
func (f *Follower) inspect(cs []candidate) {
	workers := min(runtime.GOMAXPROCS(0), len(cs)/16)
	if workers < 2 {
		for i := range cs {
			f.inspectOne(&cs[i])
		}
		return
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(cs); i += workers {
				f.inspectOne(&cs[i])
			}
		})
	}
	wg.Wait()
}

func (f *Follower) inspectOne(c *candidate) {
	rec, err := f.cfg.Parse(c.leaf)
	if err != nil {
		c.park(receipts.Unparseable, "", err.Error())
		return
	}
	if v := lifecycle.Belongs(rec.Event, f.cfg.DB.Origin(), f.cfg.DB.Tenant()); v != nil {
		c.park(v.Code, "", v.Detail)
		return
	}
	if err := f.cfg.Check(rec, c.leaf, c.index); err != nil {
		var coded interface{ Code() string }
		code := ""
		if errors.As(err, &coded) {
			code = coded.Code()
		}
		c.park(receipts.BadSignature, code, err.Error())
		return
	}
	c.rec, c.digest = rec, rec.Digest()
}

func (c *candidate) park(reason, code, detail string) {
	c.parked = &receipts.Parked{Index: c.index, LeafHash: c.hash, Size: uint64(len(c.leaf)), Reason: reason, Code: code, Detail: detail}
}

// judge decides in log order whether a candidate counts.
func (f *Follower) judge(b *kv.Batch, c *candidate) (*receipts.Fact, error) {
	if c.parked != nil {
		return &receipts.Fact{Parked: c.parked}, nil
	}
	e := c.rec.Event
	a, err := f.receipts.Attempt(b, e.AttemptID)
	if err != nil {
		return nil, err
	}
	fact := &receipts.Fact{Attempt: a}
	if a != nil {
		fact.Before = a.State.Summary()
	} else {
		fact.Attempt = &receipts.Attempt{ID: e.AttemptID}
	}
	holder := func(scope event.Scope) (string, error) { return f.receipts.ScopeHolder(b, scope) }
	scope, v, err := fact.Attempt.State.Admit(e, c.digest, holder)
	if err != nil {
		return nil, err
	}
	if v != nil {
		reason, code := receipts.Unlawful, v.Code
		if v.Code == lifecycle.DuplicateLeaf {
			reason, code = receipts.DuplicateLeaf, ""
		}
		c.park(reason, code, v.Detail)
		return &receipts.Fact{Parked: c.parked}, nil
	}
	if scope != nil {
		f.receipts.Begin(*scope, e.AttemptID)
	}
	fact.Attempt.Indices = append(fact.Attempt.Indices, c.index)
	fact.After = fact.Attempt.State.Summary()
	row := receipts.NewRow(c.index, c.hash, c.rec, c.digest)
	fact.Row, fact.Event = &row, e
	return fact, nil
}
