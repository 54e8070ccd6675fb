package lifecycle

import "counterfoil/ledger/event"

// Codes of events that do not count in a log, whatever their attempt.
const (
	WrongOrigin = "wrong_origin" // an event of another ledger
	WrongTenant = "wrong_tenant" // an event of another tenant
	ScopeTaken  = "scope_taken"  // another attempt has this sameness scope
)

// Belongs says whether an event may count in the log of that origin and tenant
// at all; nil if so.
func Belongs(e *event.Event, origin, tenant string) *Violation {
	switch {
	case e.Ledger != origin:
		return violation(WrongOrigin, "event of ledger %s, expected %s", e.Ledger, origin)
	case e.Tenant != tenant:
		return violation(WrongTenant, "event of tenant %s, expected %s", e.Tenant, tenant)
	}
	return nil
}

// Admit applies e, the next event of the log, to the state of its attempt if it
// counts. Whoever reads a log calls it for every event that is signed and
// [Belongs], in the order of the log, with the state that the attempt has by
// then: the zero State if no event of it counted before. digest is that of e's
// canonical bytes.
//
// An attempt counts only if it is the first in its sameness scope: holder names
// the attempt that has a scope, "" if it is free. An event that begins an attempt
// takes the scope that is returned; all others take none. A violation leaves the
// state as it was. An error is that of holder.
func (s *State) Admit(e *event.Event, digest event.Digest, holder func(event.Scope) (string, error)) (*event.Scope, *Violation, error) {
	var scope *event.Scope
	if e.Lifecycle == event.Attempt && len(s.Entries) == 0 {
		sc := event.ScopeOf(e.Tenant, e.Source.RuntimeID, e.Source.InvocationID)
		id, err := holder(sc)
		if err != nil {
			return nil, nil, err
		}
		if id != "" {
			return nil, violation(ScopeTaken, "the scope of this attempt is that of %s", id), nil
		}
		scope = &sc
	}
	if v := s.Apply(e, digest); v != nil {
		return nil, v, nil
	}
	return scope, nil, nil
}
