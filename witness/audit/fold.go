package audit

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/transparency-dev/merkle/compact"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// fold judges proven leaves in the order of the log. It is used by one goroutine.
type fold struct {
	store    *store
	origin   string
	pos      position // as of the newest leaf that was folded, committed or not
	rng      *compact.Range
	attempts *attempts
	most     int // rows of a batch
	rows     int // in the transaction, attempts aside
	bytes    int
	// stopped: the leaf at pos.Size is damaged or not proven. Leaves after it are
	// not folded.
	stopped bool
}

// newFold goes on at the position of the store, or starts at a leaf; edge is the
// compact range before that leaf.
func newFold(s *store, origin, tenant string, from uint64, edge []tiles.Hash) (*fold, error) {
	f := &fold{store: s, origin: origin, attempts: newAttempts(s), most: maxBatchRows / 2}
	p, err := s.position()
	if err != nil {
		return nil, err
	}
	if p == nil {
		p = &position{Version: positionVersion, Origin: origin, Tenant: tenant, From: from, Size: from, Range: edge, Counts: newCounts()}
	}
	f.pos = *p
	if f.rng, err = newRange(p.Size, p.Range); err != nil {
		return nil, fmt.Errorf("%w: %w", errStoreDamaged, err)
	}
	return f, nil
}

// leaf judges the leaf at pos.Size, which is proven.
func (f *fold) leaf(l *leaf) error {
	finding, err := f.judge(l)
	if err != nil {
		return fmt.Errorf("judge leaf %d: %w", l.index, err)
	}
	if finding != nil {
		row, err := encodeFinding(finding)
		if err != nil {
			return err
		}
		f.rows, f.bytes = f.rows+1, f.bytes+len(row)+32
		if err := f.store.set(indexKey(nsFinding, f.pos.Findings), row); err != nil {
			return err
		}
		f.pos.Findings++
		f.pos.Counts.Parked[finding.Kind]++
	}
	if err := f.rng.Append(l.hash[:], nil); err != nil {
		return err
	}
	f.pos.Size++
	return nil
}

// full reports whether the transaction should be committed.
func (f *fold) full() bool {
	return f.rows+len(f.attempts.dirty) >= f.most || f.bytes+f.attempts.dirtyWeight >= maxBatchBytes/2
}

// commit stores everything that was folded. From here on a kill goes on behind it.
func (f *fold) commit(under string) error {
	if err := f.attempts.write(); err != nil {
		return err
	}
	f.pos.Range, f.pos.Under = rangeHashes(f.rng), under
	f.rows, f.bytes = 0, 0
	return f.store.commit(&f.pos)
}

// judge decides whether a leaf counts, and folds it if it does.
func (f *fold) judge(l *leaf) (*Finding, error) {
	c := &f.pos.Counts
	if l.fault != nil {
		return l.fault, nil
	}
	if f.pos.Tenant == "" && l.sig == nil && l.rec.Event.Ledger == f.origin {
		f.pos.Tenant = l.rec.Event.Tenant // one log, one tenant: that of its first signed event
	}
	if fault := alone(l, f.origin, f.pos.Tenant); fault != nil {
		return fault, nil
	}
	e := l.rec.Event
	id, err := parseAttemptID(e.AttemptID)
	if err != nil {
		return nil, err
	}
	a, err := f.attempts.get(id)
	if err != nil {
		return nil, err
	}
	if a == nil {
		a = &attempt{}
		if e.Revision > 1 && f.pos.From > 0 {
			a.unjudged = true
			f.attempts.changed(id, a)
		}
	}
	if a.unjudged {
		c.NotJudged++
		return nil, nil
	}
	before := stateOf(&a.state)
	scope, v, err := a.state.Admit(e, l.digest, f.holder)
	if err != nil {
		return nil, err
	}
	if v != nil {
		return unlawful(l, a, v), nil
	}
	if scope != nil {
		f.rows, f.bytes = f.rows+2, f.bytes+200
		if err := errors.Join(f.store.set(append([]byte{nsScope}, scope[:]...), bytes.Clone(id[:])),
			f.store.set(indexKey(nsFirst, l.index), bytes.Clone(id[:]))); err != nil {
			return nil, err
		}
	}
	a.indices = append(a.indices, l.index)
	f.attempts.changed(id, a)
	c.Counted++
	c.Events[e.Lifecycle]++
	moved(c.Attempts, before, stateOf(&a.state))
	if e.Lifecycle == event.Review && (e.Subject.Kind == event.Contract || e.Subject.Kind == event.Admission) {
		return nil, f.disposition(e)
	}
	return nil, nil
}

// disposition makes the word of a review the latest of its subject.
func (f *fold) disposition(e *event.Event) error {
	key := append([]byte{nsSubject}, string(e.Subject.Kind)+"\x00"+e.Subject.ID...)
	before, err := f.store.get(key)
	if err != nil {
		return err
	}
	moved(f.pos.Counts.Dispositions, string(before), e.Status)
	f.rows, f.bytes = f.rows+1, f.bytes+len(key)+len(e.Status)+32
	return f.store.set(key, []byte(e.Status))
}

// holder names the attempt that has a scope.
func (f *fold) holder(s event.Scope) (string, error) {
	row, err := f.store.get(append([]byte{nsScope}, s[:]...))
	if err != nil || row == nil {
		return "", err
	}
	if len(row) != len(attemptID{}) {
		return "", fmt.Errorf("%w: a row is no scope", errStoreDamaged)
	}
	return attemptID(row).String(), nil
}

// alone says whether a record may count, whatever the leaves before it hold. A
// tenant of "" is not known yet.
func alone(l *leaf, origin, tenant string) *Finding {
	e := l.rec.Event
	name := func(f Finding) *Finding {
		f.EventID, f.AttemptID = l.digest.EventID(), e.AttemptID
		return &f
	}
	if tenant == "" {
		tenant = e.Tenant
	}
	if v := lifecycle.Belongs(e, origin, tenant); v != nil {
		if v.Code == lifecycle.WrongOrigin {
			return name(atLeaf(WrongOrigin, l.index, "ledger "+origin, "ledger "+e.Ledger, v.Detail))
		}
		return name(atLeaf(WrongTenant, l.index, "tenant "+tenant, "tenant "+e.Tenant, v.Detail))
	}
	if l.sig != nil {
		f := name(atLeaf(BadSignature, l.index, fmt.Sprintf("a signature by an event key of the trust file that is valid at leaf %d", l.index),
			"none that counts", l.sig.Error()))
		f.Code = string(trust.ReasonOf(l.sig))
		return f
	}
	return nil
}

// unlawful words a leaf that breaks a rule of its chain.
func unlawful(l *leaf, a *attempt, v *lifecycle.Violation) *Finding {
	e := l.rec.Event
	f := atLeaf(Unlawful, l.index, "an event that the lifecycle rules allow next", fmt.Sprintf("%s, revision %d", e.Lifecycle, e.Revision), v.Error())
	f.Code, f.EventID, f.AttemptID = v.Code, l.digest.EventID(), e.AttemptID
	if v.Code == lifecycle.DuplicateLeaf {
		f.Kind, f.Code = DuplicateLeaf, ""
		f.Expected, f.Got = "each event once", "the same event again"
		if i := a.state.Find(l.digest); i >= 0 {
			f.Detail = fmt.Sprintf("leaf %d repeats the event of leaf %d", l.index, a.indices[i])
		}
	}
	return &f
}

func encodeFinding(f *Finding) ([]byte, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode a finding: %w", err)
	}
	return b, nil
}
