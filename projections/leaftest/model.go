package leaftest

import (
	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

func lawful(chain []*event.Event, e *event.Event) bool {
	var s lifecycle.State
	for _, c := range chain {
		s.Apply(c, Digest(c))
	}
	return s.Check(e, Digest(e)) == nil
}

// Model is the plain fold of a history, against which views are compared. It
// shares nothing with them but the formats and the lifecycle rules.
type Model struct {
	Events   []Counted // in leaf order
	Attempts map[string]*lifecycle.State
	Parked   map[uint64]string // reason by leaf index
}

// Counted is an event that counts.
type Counted struct {
	Index uint64
	Event *event.Event
}

// Fold makes the model of leaves.
func Fold(leaves [][]byte) *Model {
	m := &Model{Attempts: map[string]*lifecycle.State{}, Parked: map[uint64]string{}}
	scopes := map[event.Scope]bool{}
	for i, leaf := range leaves {
		index := uint64(i)
		rec, err := event.ParseRecord(leaf)
		switch {
		case err != nil:
			m.Parked[index] = "unparseable"
			continue
		case rec.Event.Ledger != Origin:
			m.Parked[index] = "wrong_origin"
			continue
		case rec.Event.Tenant != Tenant:
			m.Parked[index] = "wrong_tenant"
			continue
		case Check(rec, leaf, index) != nil:
			m.Parked[index] = "bad_signature"
			continue
		}
		e := rec.Event
		s := m.Attempts[e.AttemptID]
		scope := event.ScopeOf(e.Tenant, e.Source.RuntimeID, e.Source.InvocationID)
		if s == nil {
			s = &lifecycle.State{}
			if e.Lifecycle == event.Attempt && scopes[scope] {
				m.Parked[index] = "unlawful"
				continue
			}
		}
		if v := s.Apply(e, rec.Digest()); v != nil {
			m.Parked[index] = "unlawful"
			if v.Code == lifecycle.DuplicateLeaf {
				m.Parked[index] = "duplicate_leaf"
			}
			continue
		}
		scopes[scope], m.Attempts[e.AttemptID] = true, s
		m.Events = append(m.Events, Counted{index, e})
	}
	return m
}
