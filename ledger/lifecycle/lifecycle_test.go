package lifecycle

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/event"
)

// Effect tags of three different values.
var (
	tagA = "hmac-sha256:" + strings.Repeat("aa", 32)
	tagB = "hmac-sha256:" + strings.Repeat("bb", 32)
)

// chain builds the events of one attempt, each the lawful successor of the one
// before but for what a test changes.
type chain struct {
	t     interface{ Fatalf(string, ...any) }
	state State
	begin *event.Event
	ids   []string // event ids of what was applied
}

func newChain(t interface{ Fatalf(string, ...any) }, expected string) *chain {
	e := &event.Event{
		Schema: event.Schema, Ledger: "ledger.example/log", Tenant: "default", Revision: 1, Lifecycle: event.Attempt,
		Subject:    event.Subject{Kind: event.ToolAction, ID: "pay"},
		OccurredAt: "2026-07-28T00:00:00.000Z", CapturedAt: "2026-07-28T00:00:00.100Z",
		Source: event.Source{RuntimeID: "runtime", AgentID: "agent", InvocationID: "invocation", Protocol: "mcp", Implementation: "x",
			Assurance: event.SelfAsserted},
		Action: event.Action{Name: "pay", EffectKind: "payment", EffectMode: "one_time"}, Status: event.StatusRequested,
	}
	e.AttemptID = event.NewAttemptID(event.ScopeOf(e.Tenant, e.Source.RuntimeID, e.Source.InvocationID).Shard(), [15]byte{7})
	e.ClaimBoundary = event.ClaimBoundaryFor(e.Lifecycle, e.Subject.Kind)
	if expected != "" {
		e.Tags = map[string]string{TagExpectedEffect: expected}
	}
	return &chain{t: t, begin: e}
}

// next makes the event that would follow, with its digest.
func (c *chain) next(l event.Lifecycle, status string, change ...func(*event.Event)) (*event.Event, event.Digest) {
	if len(c.state.Entries) == 0 {
		e := *c.begin
		return seal(&e, change)
	}
	e := *c.begin
	head, _ := c.state.Head()
	e.Revision, e.Previous, e.Lifecycle, e.Status, e.Tags = c.state.Revision()+1, head.String(), l, status, nil
	e.Source.EventID = fmt.Sprintf("event-%d", e.Revision)
	e.ClaimBoundary = event.ClaimBoundaryFor(l, e.Subject.Kind)
	switch l {
	case event.Reconciliation:
		e.Statement = event.ReadBack{Source: "bank", Observed: event.ObservedUnreachable}.Value()
	case event.Review:
		e.Statement = event.Judgement{Reviewer: "auditor"}.Value()
		e.Refs = map[string]string{RefReviews: c.ids[0]}
	}
	return seal(&e, change)
}

func seal(e *event.Event, change []func(*event.Event)) (*event.Event, event.Digest) {
	for _, f := range change {
		f(e)
	}
	return e, event.DigestOf(e.Append(nil))
}

// add applies an event that must be valid and lawful and returns its id.
func (c *chain) add(l event.Lifecycle, status string, change ...func(*event.Event)) string {
	e, d := c.next(l, status, change...)
	if err := e.Validate(); err != nil {
		c.t.Fatalf("test event: %v", err)
	}
	if v := c.state.Apply(e, d); v != nil {
		c.t.Fatalf("%s %s as event %d: %v", l, status, e.Revision, v)
	}
	c.ids = append(c.ids, d.EventID())
	return d.EventID()
}

// try checks an event that must be valid, and leaves the state alone.
func (c *chain) try(l event.Lifecycle, status string, change ...func(*event.Event)) *Violation {
	e, d := c.next(l, status, change...)
	if err := e.Validate(); err != nil {
		c.t.Fatalf("test event: %v", err)
	}
	return c.state.Check(e, d)
}

func ref(name, id string) func(*event.Event) {
	return func(e *event.Event) { e.Refs = map[string]string{name: id} }
}

func result(tag string) func(*event.Event) {
	return func(e *event.Event) { e.Tags = map[string]string{TagResult: tag} }
}

func readBack(observed string, count int64, tag string) func(*event.Event) {
	return func(e *event.Event) {
		e.Statement = event.ReadBack{Source: "bank", Observed: observed, Count: count}.Value()
		if tag != "" {
			e.Tags = map[string]string{TagReadBack: tag}
		}
	}
}

func code(v *Violation) string {
	if v == nil {
		return ""
	}
	return v.Code
}

// step is one event of a scenario: a lifecycle and status, "ref=N" naming event
// number N, or a read-back.
type step struct {
	lifecycle event.Lifecycle
	status    string
	ref       string // corrects=2, reverses=2, reviews=1
	observed  string
	count     int64
	tag       string // of the result or of what was read back
}

func (s step) changes(c *chain) (out []func(*event.Event)) {
	if name, n, ok := strings.Cut(s.ref, "="); ok {
		id := n
		if len(n) == 1 {
			id = c.ids[n[0]-'1']
		}
		out = append(out, ref(name, id))
	}
	switch {
	case s.observed != "":
		out = append(out, readBack(s.observed, s.count, s.tag))
	case s.tag != "":
		out = append(out, result(s.tag))
	}
	return out
}

// Short forms of steps.
func out(status string) step { return step{lifecycle: event.Outcome, status: status} }
func correct(status, which string) step {
	return step{lifecycle: event.Outcome, status: status, ref: "corrects=" + which}
}
func reverse(status, which string) step {
	return step{lifecycle: event.Reversal, status: status, ref: "reverses=" + which}
}
func review(status, which string) step {
	return step{lifecycle: event.Review, status: status, ref: "reviews=" + which}
}
func absent(status string) step {
	return step{lifecycle: event.Reconciliation, status: status, observed: event.ObservedAbsent}
}
func unreachable(status string) step {
	return step{lifecycle: event.Reconciliation, status: status, observed: event.ObservedUnreachable}
}
func present(status, tag string, n int64) step {
	return step{lifecycle: event.Reconciliation, status: status, observed: event.ObservedPresent, tag: tag, count: n}
}

const (
	succeeded  = event.StatusSucceeded
	failed     = event.StatusFailed
	notStarted = event.StatusNotStarted
	unknown    = event.StatusUnknown
	reversed   = event.StatusReversed
	committed  = event.StatusConfirmedCommitted
	gone       = event.StatusConfirmedAbsent
	contra     = event.StatusContradicted
	still      = event.StatusStillUnknown
)

// TestEVI18_EVI19_EVI20_WhatMayFollow is the table of lifecycle rules, one row a
// case: the last step of each is refused with the code, or accepted when the code
// is empty. The attempt itself is event 1 and expects the effect with tag A.
func TestEVI18_EVI19_EVI20_WhatMayFollow(t *testing.T) {
	other := "evt_" + strings.Repeat("00", 32)
	for _, c := range []struct {
		name  string
		steps []step
		want  string
	}{
		// outcome: while open, then only as a correction of the outcome in force.
		{"outcome of an open attempt", []step{out(succeeded)}, ""},
		{"outcome not started", []step{out(notStarted)}, ""},
		{"second outcome", []step{out(succeeded), out(failed)}, OutcomeExists},
		{"second outcome with the same status", []step{out(failed), out(failed)}, OutcomeExists},
		{"second outcome after unknown", []step{out(unknown), out(succeeded)}, OutcomeExists},
		{"correction", []step{out(succeeded), correct(failed, "2")}, ""},
		{"correction to unknown", []step{out(succeeded), correct(unknown, "2")}, ""},
		{"correction of a correction", []step{out(succeeded), correct(failed, "2"), correct(succeeded, "3")}, ""},
		{"correction of an outcome that is not in force", []step{out(succeeded), correct(failed, "2"), correct(succeeded, "2")}, WrongTarget},
		{"correction that leaves unknown", []step{out(unknown), correct(succeeded, "2")}, LeavesUnknown},
		{"correction that leaves unknown as unknown", []step{out(unknown), correct(unknown, "2")}, LeavesUnknown},
		{"correction that leaves unknown after a reconciliation", []step{out(unknown), absent(gone), correct(failed, "2")}, LeavesUnknown},
		{"correction without an outcome", []step{correct(failed, "1")}, WrongTarget},
		{"correction of the attempt", []step{out(succeeded), correct(failed, "1")}, WrongTarget},
		{"correction of a foreign event", []step{out(succeeded), correct(failed, other)}, WrongTarget},
		{"correction by a digest instead of an event id", []step{out(succeeded), correct(failed, "sha256:"+strings.Repeat("00", 32))}, WrongTarget},
		{"outcome after a read-back that told nothing", []step{unreachable(still), out(succeeded)}, ""},
		{"outcome after a read-back that settled", []step{absent(gone), out(succeeded)}, OpenNoLonger},
		{"outcome after a contradiction", []step{present(contra, tagB, 0), out(succeeded)}, OpenNoLonger},
		{"outcome after a contradiction and silence", []step{present(contra, tagB, 0), unreachable(still), out(succeeded)}, OpenNoLonger},

		// reversal: names an outcome that is not reversed.
		{"reversal", []step{out(succeeded), reverse(reversed, "2")}, ""},
		{"reversal without a ref", []step{out(succeeded), {lifecycle: event.Reversal, status: reversed}}, WrongTarget},
		{"reversal of an open attempt", []step{reverse(reversed, "1")}, WrongTarget},
		{"reversal of the attempt", []step{out(succeeded), reverse(reversed, "1")}, WrongTarget},
		{"reversal of a foreign event", []step{out(succeeded), reverse(reversed, other)}, WrongTarget},
		{"reversal of an unknown outcome", []step{out(unknown), reverse(reversed, "2")}, ""},
		{"reversal of what was reversed", []step{out(succeeded), reverse(reversed, "2"), reverse(reversed, "2")}, AlreadyUndone},
		{"reversal tried again after it failed", []step{out(succeeded), reverse(failed, "2"), reverse(reversed, "2")}, ""},
		{"reversal tried again after it ended unknown", []step{out(succeeded), reverse(unknown, "2"), reverse(reversed, "2")}, ""},
		{"reversal of a corrected outcome", []step{out(succeeded), correct(failed, "2"), reverse(reversed, "2")}, ""},
		{"reversal of each of two outcomes", []step{out(succeeded), reverse(reversed, "2"), correct(succeeded, "2"), reverse(reversed, "4")}, ""},

		// reconciliation: while open, unknown or in doubt.
		{"reconciliation of an open attempt", []step{absent(gone)}, ""},
		{"reconciliation of an unknown outcome", []step{out(unknown), absent(gone)}, ""},
		{"reconciliation of a known outcome", []step{out(succeeded), absent(gone)}, NotInDoubt},
		{"reconciliation of a failed outcome", []step{out(failed), absent(gone)}, NotInDoubt},
		{"reconciliation again after silence", []step{out(unknown), unreachable(still), absent(gone)}, ""},
		{"reconciliation of a settled open attempt", []step{absent(gone), absent(gone)}, NotInDoubt},
		{"reconciliation of a settled unknown outcome", []step{out(unknown), present(committed, tagA, 0), absent(gone)}, NotInDoubt},
		{"reconciliation after a contradiction", []step{out(unknown), present(contra, tagB, 0), present(committed, tagA, 0)}, ""},
		{"reconciliation after an unknown reversal", []step{out(succeeded), reverse(unknown, "2"), absent(gone)}, ""},
		{"reconciliation after a failed reversal", []step{out(succeeded), reverse(failed, "2"), absent(gone)}, NotInDoubt},
		{"reconciliation after a reversal", []step{out(succeeded), reverse(reversed, "2"), absent(gone)}, NotInDoubt},
		{"a failed reversal ends no contradiction", []step{out(unknown), present(contra, tagB, 0), reverse(failed, "2"), present(committed, tagA, 0)}, ""},
		{"a failed reversal ends no doubt", []step{out(succeeded), reverse(unknown, "2"), reverse(failed, "2"), absent(gone)}, ""},
		{"a read-back settles an unknown reversal", []step{out(succeeded), reverse(unknown, "2"), absent(gone), absent(gone)}, NotInDoubt},
		{"silence in between reopens nothing", []step{out(unknown), present(contra, tagB, 0), unreachable(still), reverse(reversed, "2"), absent(gone)}, NotInDoubt},
		{"an outcome corrected to unknown after an earlier read-back", []step{out(succeeded), reverse(unknown, "2"), present(committed, tagA, 0), correct(unknown, "2"), absent(gone)}, ""},

		// its status is derived.
		{"stated instead of derived", []step{absent(committed)}, NotDerived},
		{"committed without comparison", []step{present(committed, "", 0)}, NotDerived},
		{"committed against another value", []step{present(committed, tagB, 0)}, NotDerived},
		{"committed though found twice", []step{present(committed, tagA, 2)}, NotDerived},
		{"absent though unreachable", []step{unreachable(gone)}, NotDerived},
		{"unknown though equal", []step{present(still, tagA, 1)}, NotDerived},

		// review: any event of this attempt.
		{"review of the attempt", []step{review("noted", "1")}, ""},
		{"review of the outcome", []step{out(failed), review("disputed", "2")}, ""},
		{"review of a review", []step{review("disputed", "1"), review("upheld", "2")}, ""},
		{"review of a foreign event", []step{review("noted", other)}, WrongTarget},
		{"review without a ref", []step{{lifecycle: event.Review, status: "noted", ref: "other=1"}}, WrongTarget},
	} {
		t.Run(c.name, func(t *testing.T) {
			ch := newChain(t, tagA)
			ch.add(event.Attempt, "")
			for _, s := range c.steps[:len(c.steps)-1] {
				ch.add(s.lifecycle, s.status, s.changes(ch)...)
			}
			before := ch.state
			before.Entries = slices.Clone(ch.state.Entries)
			last := c.steps[len(c.steps)-1]
			e, d := ch.next(last.lifecycle, last.status, last.changes(ch)...)
			if err := e.Validate(); err != nil {
				t.Fatal(err)
			}
			v := ch.state.Apply(e, d)
			if code(v) != c.want {
				t.Fatalf("got %v, want %q", v, c.want)
			}
			if v == nil {
				if ch.state.Revision() != e.Revision {
					t.Errorf("revision %d after event %d", ch.state.Revision(), e.Revision)
				}
				return
			}
			if d := cmp.Diff(before, ch.state); d != "" {
				t.Errorf("a refused event changed the state: %s", d)
			}
			if v.Detail == "" {
				t.Error("a violation without a reason")
			}
		})
	}
}

func TestEVI01_OneAttemptFirstAndOnlyOnce(t *testing.T) {
	c := newChain(t, "")
	if v := func() *Violation {
		e := *c.begin
		e.Revision, e.Lifecycle, e.Status, e.Previous = 2, event.Outcome, succeeded, "sha256:"+strings.Repeat("00", 32)
		e.Source.EventID = "x"
		return c.state.Check(&e, event.DigestOf(e.Append(nil)))
	}(); code(v) != NoAttempt {
		t.Errorf("outcome before its attempt: %v", v)
	}
	c.add(event.Attempt, "")
	again := *c.begin
	if v := c.state.Check(&again, event.DigestOf(again.Append(nil))); code(v) != DuplicateLeaf {
		t.Errorf("the same leaf again: %v", v)
	}
	again.CapturedAt = "2026-07-28T00:00:01.000Z"
	if v := c.state.Check(&again, event.DigestOf(again.Append(nil))); code(v) != NotFirst {
		t.Errorf("an attempt appended: %v", v)
	}
}

func TestEVI17_ChainAndIdentity(t *testing.T) {
	c := newChain(t, "")
	c.add(event.Attempt, "")
	c.add(event.Outcome, succeeded)
	replay, digest := c.begin, event.DigestOf(c.begin.Append(nil))
	if v := c.state.Check(replay, digest); code(v) != DuplicateLeaf {
		t.Errorf("replayed leaf: %v", v)
	}
	for name, x := range map[string]struct {
		want   string
		change func(*event.Event)
	}{
		"source event id again":  {DuplicateID, func(e *event.Event) { e.Source.EventID = "event-2" }},
		"revision skipped":       {BrokenLink, func(e *event.Event) { e.Revision = 4 }},
		"revision repeated":      {BrokenLink, func(e *event.Event) { e.Revision = 2 }},
		"previous of the first":  {BrokenLink, func(e *event.Event) { e.Previous = digest.String() }},
		"previous of nothing":    {BrokenLink, func(e *event.Event) { e.Previous = "sha256:" + strings.Repeat("00", 32) }},
		"another ledger":         {IdentityDiffer, func(e *event.Event) { e.Ledger = "other.example" }},
		"another attempt":        {IdentityDiffer, func(e *event.Event) { e.AttemptID = e.AttemptID[:34] + "ff" }},
		"another subject":        {IdentityDiffer, func(e *event.Event) { e.Subject.ID = "refund" }},
		"another agent":          {IdentityDiffer, func(e *event.Event) { e.Source.AgentID = "other" }},
		"another protocol":       {IdentityDiffer, func(e *event.Event) { e.Source.Protocol = "http" }},
		"another implementation": {IdentityDiffer, func(e *event.Event) { e.Source.Implementation = "y" }},
		"assurance raised":       {IdentityDiffer, func(e *event.Event) { e.Source.Assurance.Level = "attested" }},
		"another action":         {IdentityDiffer, func(e *event.Event) { e.Action.Name = "refund" }},
		"another effect mode":    {IdentityDiffer, func(e *event.Event) { e.Action.EffectMode = "repeatable" }},
		"trace added":            {IdentityDiffer, func(e *event.Event) { e.TraceID = "t" }},
	} {
		if v := c.try(event.Reversal, reversed, ref(RefReverses, c.ids[1]), x.change); code(v) != x.want {
			t.Errorf("%s: got %v, want %s", name, v, x.want)
		}
	}
	if v := c.try(event.Reversal, reversed, ref(RefReverses, c.ids[1])); v != nil {
		t.Errorf("unchanged: %v", v)
	}
}

func TestEVI01_AnAttemptIsBounded(t *testing.T) {
	c := newChain(t, "")
	c.add(event.Attempt, "")
	for len(c.state.Entries) < event.MaxRevision {
		c.add(event.Review, "noted")
	}
	e, _ := c.next(event.Review, "noted")
	if e.Validate() == nil {
		t.Errorf("revision %d is valid", e.Revision)
	}
	if v := c.state.Check(e, event.DigestOf(e.Append(nil))); code(v) != TooManyEvents {
		t.Errorf("event %d: %v", e.Revision, v)
	}
}

// TestEVI10_EVI11_Derive pins the whole table of derivation.
func TestEVI10_EVI11_Derive(t *testing.T) {
	const none = ""
	for _, c := range []struct {
		name             string
		expected, result string // tags; result "-" is no outcome
		observed         string
		count            int64
		tag, want        string
	}{
		{"absent", tagA, "-", event.ObservedAbsent, 0, none, gone},
		{"absent, with a tag that does not belong there", tagA, "-", event.ObservedAbsent, 0, tagA, gone},
		{"unreachable", tagA, "-", event.ObservedUnreachable, 0, none, still},
		{"unreachable, with a tag", tagA, "-", event.ObservedUnreachable, 0, tagA, still},
		{"nothing read back", tagA, tagA, "", 0, none, still},
		{"equal to the expected effect", tagA, "-", event.ObservedPresent, 0, tagA, committed},
		{"equal, counted once", tagA, "-", event.ObservedPresent, 1, tagA, committed},
		{"equal, counted twice", tagA, "-", event.ObservedPresent, 2, tagA, contra},
		{"twice, nothing to compare", none, "-", event.ObservedPresent, 2, none, contra},
		{"different from the expected effect", tagA, "-", event.ObservedPresent, 0, tagB, contra},
		{"the expected effect goes before the result", tagA, tagB, event.ObservedPresent, 0, tagB, contra},
		{"equal to the result", none, tagB, event.ObservedPresent, 0, tagB, committed},
		{"different from the result", none, tagB, event.ObservedPresent, 0, tagA, contra},
		{"no expected effect, no outcome", none, "-", event.ObservedPresent, 0, tagA, still},
		{"no expected effect, no result", none, none, event.ObservedPresent, 0, tagA, still},
		{"present, no value", tagA, tagA, event.ObservedPresent, 0, none, still},
	} {
		t.Run(c.name, func(t *testing.T) {
			ch := newChain(t, c.expected)
			ch.add(event.Attempt, "")
			if c.result != "-" {
				ch.add(event.Outcome, unknown, func(e *event.Event) {
					if c.result != "" {
						result(c.result)(e)
					}
				})
			}
			if got := ch.state.Derive(event.ReadBack{Source: "bank", Observed: c.observed, Count: c.count}, c.tag); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestEVI10_DeriveUsesTheOutcomeInForce(t *testing.T) {
	c := newChain(t, "")
	c.add(event.Attempt, "")
	first := c.add(event.Outcome, succeeded, result(tagA))
	c.add(event.Outcome, unknown, func(e *event.Event) {
		ref(RefCorrects, first)(e)
		result(tagB)(e)
	})
	rb := event.ReadBack{Source: "bank", Observed: event.ObservedPresent}
	if got := c.state.Derive(rb, tagB); got != committed {
		t.Errorf("result in force: %s", got)
	}
	if got := c.state.Derive(rb, tagA); got != contra {
		t.Errorf("result that was corrected: %s", got)
	}
}

// TestEVI09_EVI11_UnknownOutcome is the field case UNKNOWN OUTCOME: an attempt
// whose outcome never arrived or is unknown, and the five read-backs.
func TestEVI09_EVI11_UnknownOutcome(t *testing.T) {
	for _, start := range []struct {
		name  string
		steps []step
		state string
	}{
		{"no outcome", nil, Open},
		{"outcome unknown", []step{out(unknown)}, unknown},
	} {
		for _, c := range []struct {
			name         string
			read         step
			state        string
			inDoubt      bool
			reconcilable bool
		}{
			{"none", absent(gone), gone, false, false},
			{"one matching", present(committed, tagA, 1), committed, false, false},
			{"one differing", present(contra, tagB, 1), contra, true, true},
			{"two", present(contra, tagA, 2), contra, true, true},
			{"unreachable", unreachable(still), start.state, false, true},
		} {
			t.Run(start.name+", read-back "+c.name, func(t *testing.T) {
				ch := newChain(t, tagA)
				ch.add(event.Attempt, "")
				for _, s := range start.steps {
					ch.add(s.lifecycle, s.status, s.changes(ch)...)
				}
				if got := ch.state.Summary(); got.State != start.state || got.Outcome == failed || !ch.state.Reconcilable() {
					t.Fatalf("before the read-back: %+v, reconcilable %v", got, ch.state.Reconcilable())
				}
				outcome := ch.state.Summary().Outcome
				ch.add(c.read.lifecycle, c.read.status, c.read.changes(ch)...)
				want := Summary{State: c.state, Outcome: outcome, Reconciliation: c.read.status, InDoubt: c.inDoubt}
				if d := cmp.Diff(want, ch.state.Summary()); d != "" {
					t.Error(d)
				}
				if got := ch.state.Reconcilable(); got != c.reconcilable {
					t.Errorf("reconcilable %v, want %v", got, c.reconcilable)
				}
			})
		}
	}
}

// TestEVI23_StateWords pins the words of the views.
func TestEVI23_StateWords(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []step
		want  Summary
	}{
		{"begun", nil, Summary{State: Open}},
		{"succeeded", []step{out(succeeded)}, Summary{State: succeeded, Outcome: succeeded}},
		{"not started", []step{out(notStarted)}, Summary{State: notStarted, Outcome: notStarted}},
		{"corrected", []step{out(succeeded), correct(failed, "2")}, Summary{State: failed, Outcome: failed, Corrected: true}},
		{"reversed", []step{out(succeeded), reverse(reversed, "2")}, Summary{State: reversed, Outcome: succeeded, Reversal: reversed}},
		{"reversal failed", []step{out(succeeded), reverse(failed, "2")}, Summary{State: succeeded, Outcome: succeeded, Reversal: failed}},
		{"reversal unknown", []step{out(succeeded), reverse(unknown, "2")}, Summary{State: succeeded, Outcome: succeeded, Reversal: unknown, InDoubt: true}},
		{"reversal unknown, effect gone", []step{out(succeeded), reverse(unknown, "2"), absent(gone)},
			Summary{State: gone, Outcome: succeeded, Reversal: unknown, Reconciliation: gone}},
		{"reversal unknown, effect still there", []step{out(succeeded), reverse(unknown, "2"), present(committed, tagA, 1)},
			Summary{State: committed, Outcome: succeeded, Reversal: unknown, Reconciliation: committed}},
		{"unknown, reversed, still there", []step{out(unknown), reverse(reversed, "2"), present(committed, tagA, 1)},
			Summary{State: committed, Outcome: unknown, Reversal: reversed, Reconciliation: committed}},
		{"reversed, then corrected", []step{out(succeeded), reverse(reversed, "2"), correct(failed, "2")},
			Summary{State: failed, Outcome: failed, Reversal: reversed, Corrected: true}},
		{"contradicted, reversal failed", []step{out(unknown), present(contra, tagB, 1), reverse(failed, "2")},
			Summary{State: contra, Outcome: unknown, Reconciliation: contra, Reversal: failed, InDoubt: true}},
		{"contradicted, then silence", []step{out(unknown), present(contra, tagB, 1), unreachable(still)},
			Summary{State: contra, Outcome: unknown, Reconciliation: still, InDoubt: true}},
		{"reviewed", []step{out(failed), review("disputed", "2")}, Summary{State: failed, Outcome: failed, Review: "disputed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ch := newChain(t, tagA)
			ch.add(event.Attempt, "")
			for _, s := range c.steps {
				ch.add(s.lifecycle, s.status, s.changes(ch)...)
			}
			if d := cmp.Diff(c.want, ch.state.Summary()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestEVI18_LinksAreRemembered(t *testing.T) {
	ch := newChain(t, tagA)
	ch.add(event.Attempt, "")
	for _, s := range []step{out(succeeded), correct(failed, "2"), reverse(unknown, "2"), absent(gone), review("noted", "4")} {
		if s.lifecycle == event.Outcome {
			s.tag = tagB
		}
		changes := s.changes(ch)
		if s.ref != "" && s.tag != "" {
			changes = append(changes, result(s.tag))
		}
		ch.add(s.lifecycle, s.status, changes...)
	}
	var targets []int
	var results []string
	for _, e := range ch.state.Entries {
		targets, results = append(targets, e.Target), append(results, e.Result)
	}
	if d := cmp.Diff([]int{-1, -1, 1, 1, -1, 3}, targets); d != "" {
		t.Errorf("targets: %s", d)
	}
	if d := cmp.Diff([]string{"", tagB, tagB, "", "", ""}, results); d != "" {
		t.Errorf("results: %s", d)
	}
	if ch.state.Expected != tagA {
		t.Errorf("expected effect %q", ch.state.Expected)
	}
	for i, e := range ch.state.Entries {
		if i > 0 && ch.state.FindSource(fmt.Sprintf("event-%d", i+1)) != i {
			t.Errorf("event %d is not found by its source event id", i+1)
		}
		if got := hex.EncodeToString(e.Digest[:]); "evt_"+got != ch.ids[i] {
			t.Errorf("event %d: digest %s, id %s", i+1, got, ch.ids[i])
		}
	}
}
