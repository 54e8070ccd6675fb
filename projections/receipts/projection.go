package receipts

import (
	"errors"
	"fmt"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/projections/kv"
)

// Fact is what one leaf turned out to be: either a row, with its attempt before
// and after it, or parked.
type Fact struct {
	Row     *Row
	Event   *event.Event      // of Row; it must not be changed
	Attempt *Attempt          // with the event applied
	Before  lifecycle.Summary // zero at the attempt's first event
	After   lifecycle.Summary

	Parked *Parked
}

// Projection writes the rows of this package. It keeps attempts decoded between
// batches, bounded by cacheBytes. It is not safe for concurrent use.
type Projection struct {
	dirty  map[string]*Attempt
	scopes map[event.Scope]string
	rows   []Row
	parked []Parked
	bytes  int

	// Two generations of attempts that are as in the database.
	young, old map[string]*Attempt
	youngBytes int
}

// cacheBytes bounds each of the two generations of decoded attempts.
const cacheBytes = 8 << 20

// New makes an empty projection.
func New() *Projection {
	p := &Projection{}
	p.Discard()
	return p
}

// Attempt returns the attempt as the batch leaves it so far, nil if it has not
// begun. The projection keeps it: only a lawful event may change it, and Apply
// must follow.
func (p *Projection) Attempt(b *kv.Batch, id string) (*Attempt, error) {
	if a := p.dirty[id]; a != nil {
		return a, nil
	}
	if a := p.young[id]; a != nil {
		return a, nil
	}
	if a := p.old[id]; a != nil {
		p.remember(a)
		return a, nil
	}
	a, err := ReadAttempt(b, id)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p.remember(a)
	return a, nil
}

// ScopeHolder returns the attempt that holds a sameness scope, "" if it is free.
func (p *Projection) ScopeHolder(b *kv.Batch, s event.Scope) (string, error) {
	if id, ok := p.scopes[s]; ok {
		return id, nil
	}
	v, err := b.Get(scopeKey(s))
	if errors.Is(err, kv.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	d := decoder{b: v}
	id := d.attemptID()
	if err := d.end(); err != nil {
		return "", fmt.Errorf("scope row: %w", err)
	}
	return id, nil
}

// Begin takes a scope for a new attempt.
func (p *Projection) Begin(s event.Scope, id string) { p.scopes[s] = id }

// Apply takes over what a leaf turned out to be.
func (p *Projection) Apply(_ *kv.Batch, f *Fact) error {
	if f.Parked != nil {
		p.parked = append(p.parked, *f.Parked)
		p.bytes += 512
		return nil
	}
	p.rows = append(p.rows, *f.Row)
	p.bytes += 160 + len(f.Row.Subject) + len(f.Row.Tool) + len(f.Row.Agent) + len(f.Row.Runtime) + 100
	if p.dirty[f.Attempt.ID] == nil {
		p.dirty[f.Attempt.ID] = f.Attempt
		p.bytes += f.Attempt.size()
	} else {
		p.bytes += 160
	}
	return nil
}

// Pending is how many rows and bytes Flush would write, never less.
func (p *Projection) Pending() (rows, bytes int) {
	return 2*len(p.rows) + len(p.dirty) + len(p.scopes) + 2*len(p.parked), p.bytes + 80*len(p.scopes)
}

// Flush writes what is pending.
func (p *Projection) Flush(b *kv.Batch) error {
	for i := range p.rows {
		r := &p.rows[i]
		if err := b.Set(RowKey(r.Index), r.Append(make([]byte, 0, 256))); err != nil {
			return err
		}
		if err := b.Set(EventKey(r.Digest), kv.AppendUint64(nil, r.Index)); err != nil {
			return err
		}
	}
	for id, a := range p.dirty {
		if err := b.Set(attemptKey(id), a.append(make([]byte, 0, a.size()))); err != nil {
			return err
		}
	}
	for s, id := range p.scopes {
		if err := b.Set(scopeKey(s), appendAttemptID(nil, id)); err != nil {
			return err
		}
	}
	for i := range p.parked {
		k := parkedKey(p.parked[i].Index)
		if err := b.Set(k, p.parked[i].append(nil)); err != nil {
			return err
		}
		if err := b.Set(kv.NoteKey(k), []byte(clip(p.parked[i].Detail))); err != nil {
			return err
		}
	}
	return nil
}

// Committed tells that what Flush wrote is in the database.
func (p *Projection) Committed() {
	for _, a := range p.dirty {
		p.remember(a)
	}
	clear(p.dirty)
	clear(p.scopes)
	p.rows, p.parked, p.bytes = p.rows[:0], p.parked[:0], 0
}

// Discard forgets everything that is not in the database.
func (p *Projection) Discard() {
	*p = Projection{dirty: map[string]*Attempt{}, scopes: map[event.Scope]string{}, young: map[string]*Attempt{}, old: map[string]*Attempt{}}
}

func (p *Projection) remember(a *Attempt) {
	if p.youngBytes >= cacheBytes {
		p.young, p.old, p.youngBytes = map[string]*Attempt{}, p.young, 0
	}
	if p.young[a.ID] == nil {
		p.youngBytes += 256 + 2*a.size()
	}
	p.young[a.ID] = a
}
