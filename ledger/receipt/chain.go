package receipt

import (
	"fmt"
	"strconv"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// attempt is the chain of one attempt so far.
type attempt struct {
	revision int64
	// head and alias are the digest that the next event must name: of the bytes
	// as they stand, and as their commitment names it. They differ only if the
	// entry was reported, and then either will do: one damaged leaf does not
	// spoil the next one.
	head, alias event.Digest
	state       lifecycle.State
	// unfolded: an event is missing, damaged or out of line, so nothing can be
	// said about what may follow.
	unfolded bool
	failed   bool // the chain has failed
	unlawful bool // the fold has failed
}

// chain checks the place of an event in its attempt: revision and link, then
// the rules of package lifecycle. A missing predecessor is reported, never
// ignored (BND-08).
func (v *verifier) chain(e *entry, j *judged) {
	id := string(e.attemptID)
	revision, previous := int64(e.revision), string(e.previous)
	if j.event != nil {
		id, revision, previous = j.event.AttemptID, j.event.Revision, j.event.Previous
	}
	if _, ok := event.ShardOfAttempt(id); !ok {
		return // reported as damage, or as no event
	}
	self, alias := j.digest, j.declared
	if alias == (event.Digest{}) {
		alias = self
	}
	if first, ok := v.seen[self]; ok {
		v.leafFail(e, Check{Name: CheckLifecycle, Detail: fmt.Sprintf("%s: %s is leaf %d already; the first one counts", lifecycle.DuplicateLeaf, self.EventID(), first)})
		return
	}
	v.seen[self] = e.leafIndex
	a := v.attempts[id]
	if a == nil {
		a = &attempt{}
		v.attempts[id] = a
	}
	if e.damage != nil && e.revision == 0 && j.event == nil {
		// The place in the chain is unknown; take the event for the next one.
		a.unfolded = true
		a.revision, a.head, a.alias = a.revision+1, self, alias
		return
	}
	if !v.link(e, a, revision, previous) {
		return
	}
	if j.intact && !a.unfolded {
		if violation := a.state.Apply(j.event, self); violation != nil {
			a.unlawful = true
			v.leafFail(e, Check{Name: CheckLifecycle, Detail: violation.Error()})
			return // it does not count; the next one follows the one before
		}
	} else {
		a.unfolded = true
	}
	a.revision, a.head, a.alias = revision, self, alias
	if j.intact && !a.failed {
		v.summary.ChainValid++
	}
}

// link checks that an event follows the newest one of its attempt, and reports
// whether it takes its place.
func (v *verifier) link(e *entry, a *attempt, revision int64, previous string) bool {
	next := a.revision + 1
	switch {
	case revision == next && (revision == 1 || previous == a.head.String() || previous == a.alias.String()):
		return true
	case revision > next:
		a.unfolded = true
		if v.opts.AllowPartial {
			v.partial++
			return true
		}
		a.failed = true
		v.leafFail(e, Check{Name: CheckChain, Detail: fmt.Sprintf("the event before it, %s, is not in the bundle", clip(previous)),
			Expected: "revision " + strconv.FormatInt(next, 10), Got: "revision " + strconv.FormatInt(revision, 10)})
		return true
	case revision == next:
		a.failed, a.unfolded = true, true
		v.leafFail(e, Check{Name: CheckChain, Detail: "the event names another one as the one before it", Expected: a.head.String(), Got: clip(previous)})
		return true
	}
	a.failed, a.unfolded = true, true
	v.leafFail(e, Check{Name: CheckChain, Detail: fmt.Sprintf("the attempt has another event of revision %d", revision),
		Expected: "revision " + strconv.FormatInt(next, 10), Got: "revision " + strconv.FormatInt(revision, 10)})
	return false
}

// finishChains counts the attempts whose chain held.
func (v *verifier) finishChains() {
	unfolded := 0
	for _, a := range v.attempts {
		if !a.failed {
			v.pass(CheckChain)
		}
		switch {
		case a.unfolded:
			unfolded++
		case !a.unlawful:
			v.pass(CheckLifecycle)
		}
	}
	if v.partial > 0 {
		v.skip(CheckChain, fmt.Sprintf("%d events follow events that are not in the bundle, as was allowed; all other links hold", v.partial))
	}
	if unfolded > 0 {
		v.skip(CheckLifecycle, fmt.Sprintf("%d of %d attempts cannot be judged: events are missing or damaged", unfolded, len(v.attempts)))
	}
}
