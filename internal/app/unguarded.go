package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/ledger/stream"
)

// checkUnguarded judges leaves that are in the tree but not in the guard's: the
// last ones before a crash. One that is the stream's message at its place is
// what it should be. Where the stream has none, the leaf must be canonical,
// validly signed and lawful in its chain.
func (l *Ledger) checkUnguarded(ctx context.Context) func(index uint64, leaf []byte) error {
	var f *fold
	return func(index uint64, leaf []byte) error {
		m, err := l.stream.Get(ctx, index+1)
		switch {
		case err == nil && bytes.Equal(m.Body, leaf):
			return nil
		case err == nil:
			return fmt.Errorf("stream and log disagree at leaf %d: the stream's message has digest %s, the leaf %s",
				index, event.DigestOf(m.Body), event.DigestOf(leaf))
		case !errors.Is(err, stream.ErrNotFound):
			return err
		}
		rec, err := event.ParseRecord(leaf)
		if err != nil {
			return err
		}
		if err := l.check.check(rec, leaf, index); err != nil {
			return err
		}
		if f == nil {
			f = newFold(l.id.Origin, l.id.Tenant)
			if err := l.leaves(ctx, 0, index, index, func(_ uint64, leaf []byte) error { f.add(leaf); return nil }); err != nil {
				return fmt.Errorf("read the leaves before %d: %w", index, err)
			}
		}
		if v := f.add(leaf); v != nil {
			return v
		}
		return nil
	}
}

// fold keeps the state of all attempts of a log in memory, for recovery only.
type fold struct {
	origin, tenant string
	attempts       map[string]*lifecycle.State
	scopes         map[event.Scope]string // → attempt
}

func newFold(origin, tenant string) *fold {
	return &fold{origin: origin, tenant: tenant, attempts: map[string]*lifecycle.State{}, scopes: map[event.Scope]string{}}
}

// add applies a leaf; the error says why it does not count.
func (f *fold) add(leaf []byte) error {
	rec, err := event.ParseRecord(leaf)
	if err != nil {
		return err
	}
	e := rec.Event
	if v := lifecycle.Belongs(e, f.origin, f.tenant); v != nil {
		return v
	}
	s := f.attempts[e.AttemptID]
	if s == nil {
		s = &lifecycle.State{}
	}
	scope, v, _ := s.Admit(e, rec.Digest(), func(sc event.Scope) (string, error) { return f.scopes[sc], nil })
	if v != nil {
		return v
	}
	f.attempts[e.AttemptID] = s
	if scope != nil {
		f.scopes[*scope] = e.AttemptID
	}
	return nil
}
