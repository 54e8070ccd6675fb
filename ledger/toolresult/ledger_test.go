package toolresult

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// want checks what a chain reads as from the record: status, outcome, delivery,
// error, claim boundary.
func (c *chain) want(t *testing.T, step, words string) {
	t.Helper()
	m, err := Of(c.state.Summary(), LocalReplay)
	if err != nil {
		t.Errorf("%s: %v", step, err)
		return
	}
	got := strings.Join([]string{string(m.Status()), string(m.Outcome()), string(m.Delivery()), string(m.Code()), m.ClaimBoundary()}, " ")
	if got != words {
		t.Errorf("%s: got %s, want %s", step, got, words)
	}
}

const (
	readsOpen       = "unknown unknown local_replay OUTCOME_UNKNOWN attempt_self_asserted_v1"
	readsUnknown    = "unknown unknown local_replay OUTCOME_UNKNOWN outcome_self_asserted_v1"
	readsSucceeded  = "succeeded committed local_replay  outcome_self_asserted_v1"
	readsFailed     = "failed unknown local_replay TOOL_ERROR outcome_self_asserted_v1"
	readsNotStarted = "failed not_started local_replay TIMEOUT_BEFORE_EXECUTE outcome_self_asserted_v1"
	readsConfirmed  = "succeeded committed receipt_reconciled  reconciliation_derived_v1"
	readsAbsent     = "failed unknown receipt_reconciled TOOL_ERROR reconciliation_derived_v1"
	readsDisputed   = "unknown unknown local_replay STATUS_CONFLICT reconciliation_derived_v1"
	readsUndone     = "unknown unknown local_replay STATUS_CONFLICT reversal_self_asserted_v1"
)

func TestOPR07_WhatNeverLeftMayBeMadeAgain(t *testing.T) {
	c := begin(t).add(event.Outcome, "not_started")
	c.want(t, "not started", readsNotStarted)
	m, err := Of(c.state.Summary(), Fresh)
	if err != nil || m.Delivery() != Fresh || m.Code().Recovery() != RetryAfter || m.Code().RetryAfterSeconds() < 1 {
		t.Errorf("got %s, %v", m.Append(nil), err)
	}
	// Of no other result is that said.
	for i, r := range lawful {
		if (r.code.Recovery() == RetryAfter) != (r.outcome == NotStarted) {
			t.Errorf("%s", ModelResult{row: uint8(i)}.Append(nil))
		}
	}
}

func TestOPR08_OPR09_ALostAnswerStaysUnknownHoweverOftenItIsRead(t *testing.T) {
	c := begin(t)
	c.want(t, "open", readsOpen)
	c.add(event.Outcome, "unknown")
	for range 3 {
		c.want(t, "unknown", readsUnknown)
	}
	m, err := Of(c.state.Summary(), Fresh)
	if err != nil || m.Status() != Unknown || m.Outcome() != OutcomeUnknown || m.Code().Recovery() != QueryStatus {
		t.Errorf("got %s, %v", m.Append(nil), err)
	}
	if _, err := m.WithData([]byte(`{"ok":true}`)); err == nil {
		t.Error("an unknown outcome has a value")
	}
	// A review tells what somebody thinks of it, and nothing of the effect.
	e := *c.events[0]
	head, _ := c.state.Head()
	e.Revision, e.Previous, e.Lifecycle, e.Status, e.Tags = 3, head.String(), event.Review, "upheld", nil
	e.Source.EventID, e.ClaimBoundary = "review", event.ClaimBoundaryFor(event.Review, e.Subject.Kind)
	e.Statement, e.Refs = event.Judgement{Reviewer: "auditor"}.Value(), map[string]string{lifecycle.RefReviews: head.EventID()}
	c.apply(&e)
	c.want(t, "reviewed", readsUnknown)
}

func TestOPR10_OnlyAReadBackIsReconciled(t *testing.T) {
	begin(t).add(event.Outcome, "unknown").add(event.Reconciliation, "once").want(t, "found after unknown", readsConfirmed)
	begin(t).add(event.Reconciliation, "once").want(t, "found while open", readsConfirmed)
	begin(t).add(event.Outcome, "unknown").add(event.Reconciliation, "absent").want(t, "absent", readsAbsent)
	begin(t).add(event.Outcome, "succeeded").want(t, "said to have succeeded", readsSucceeded)
	begin(t).add(event.Outcome, "failed").want(t, "said to have failed", readsFailed)
	begin(t).add(event.Outcome, "failed").add(event.Outcome, "succeeded").want(t, "corrected", readsSucceeded)
	begin(t).add(event.Outcome, "succeeded").add(event.Outcome, "unknown").want(t, "corrected into unknown", readsUnknown)
	// A caller cannot say it either.
	if m, err := Of(lifecycle.Summary{State: "succeeded", Outcome: "succeeded"}, ReceiptReconciled); err == nil {
		t.Errorf("got %s", m.Append(nil))
	}
	m, err := Of(begin(t).add(event.Outcome, "unknown").add(event.Reconciliation, "once").state.Summary(), Fresh)
	if err != nil || m.Delivery() != ReceiptReconciled {
		t.Errorf("a reconciled outcome is told as %s, %v", m.Delivery(), err)
	}
}

func TestOPR11_WhatDiffersIsAConflict(t *testing.T) {
	c := begin(t).add(event.Outcome, "unknown").add(event.Reconciliation, "other")
	c.want(t, "another value", readsDisputed)
	if StatusConflict.Recovery() != HumanReview {
		t.Errorf("recovery %s", StatusConflict.Recovery())
	}
	c.add(event.Reconciliation, "unreachable").want(t, "and then no answer", readsDisputed)
	c.add(event.Reconciliation, "once").want(t, "and then the expected one", readsConfirmed)
}

func TestOPR12_WithoutAnAnswerNothingIsGuessed(t *testing.T) {
	begin(t).add(event.Outcome, "unknown").add(event.Reconciliation, "unreachable").want(t, "unreachable", readsUnknown)
	begin(t).add(event.Reconciliation, "unreachable").want(t, "open and unreachable", readsOpen)
	for _, state := range []string{"", "committed", "still_unknown", "SUCCEEDED", "requested"} {
		if m, err := Of(lifecycle.Summary{State: state, Outcome: "succeeded"}, LocalReplay); err == nil || !m.Equal(ModelResult{}) {
			t.Errorf("state %q reads %s", state, m.Append(nil))
		}
	}
	if (ModelResult{}).Status() != Unknown || (ModelResult{}).Outcome() != OutcomeUnknown {
		t.Error("a result of which nothing was said says something")
	}
}

// What was undone is not committed, and not failed either.
func TestEVI19_WhatWasReversedIsNoSuccess(t *testing.T) {
	c := func() *chain { return begin(t).add(event.Outcome, "succeeded") }
	c().add(event.Reversal, "reversed").want(t, "reversed", readsUndone)
	c().add(event.Reversal, "failed").want(t, "a reversal that failed", readsSucceeded)
	c().add(event.Reversal, "unknown").want(t, "perhaps reversed", readsUndone)
	c().add(event.Reversal, "unknown").add(event.Reconciliation, "absent").want(t, "reversed after all", readsDisputed)
	c().add(event.Reversal, "unknown").add(event.Reconciliation, "once").want(t, "not reversed", readsConfirmed)
	c().add(event.Reversal, "unknown").add(event.Reconciliation, "other").want(t, "reversed in part", readsDisputed)
	begin(t).add(event.Outcome, "unknown").add(event.Reversal, "reversed").want(t, "unknown and reversed", readsUndone)
	begin(t).add(event.Outcome, "unknown").add(event.Reversal, "reversed").add(event.Reconciliation, "absent").want(t, "and absent", readsDisputed)
	begin(t).add(event.Outcome, "unknown").add(event.Reversal, "reversed").add(event.Reconciliation, "once").want(t, "and still there", readsConfirmed)
}

func TestTRS04_WhatIsReadFromTheRecordIsNotFresh(t *testing.T) {
	for _, c := range []*chain{begin(t), begin(t).add(event.Reconciliation, "other"), begin(t).add(event.Outcome, "succeeded").add(event.Reversal, "reversed")} {
		if m, err := Of(c.state.Summary(), Fresh); err == nil {
			t.Errorf("%s is %s", c.state.Summary().State, m.Append(nil))
		}
	}
}

// Whatever happens to an attempt, it reads as a lawful result that says no more
// than the plain list of its events.
func TestOPR12_AnyHistoryReadsLawfully(t *testing.T) {
	steps := []string{"outcome succeeded", "outcome failed", "outcome not_started", "outcome unknown", "reversal reversed", "reversal failed", "reversal unknown",
		"reconciliation once", "reconciliation other", "reconciliation absent", "reconciliation unreachable"}
	rapid.Check(t, func(t *rapid.T) {
		c := begin(t)
		c.lenient = true
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			l, what, _ := strings.Cut(rapid.SampledFrom(steps).Draw(t, "step"), " ")
			c.add(event.Lifecycle(l), what)
		}
		m, err := Of(c.state.Summary(), LocalReplay)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse(m.Append(nil)); err != nil || !again.Equal(m) {
			t.Fatalf("%s: %v", m.Append(nil), err)
		}
		said := func(l event.Lifecycle, status string) bool {
			return slices.ContainsFunc(c.events, func(e *event.Event) bool { return e.Lifecycle == l && e.Status == status })
		}
		newest := c.events[len(c.events)-1]
		switch {
		case m.Outcome() == Committed && !said(event.Outcome, "succeeded") && !said(event.Reconciliation, "confirmed_committed"),
			m.Outcome() == NotStarted && !said(event.Outcome, "not_started"),
			m.Status() == Failed && !said(event.Outcome, "failed") && !said(event.Outcome, "not_started") && !said(event.Reconciliation, "confirmed_absent"),
			m.Delivery() == ReceiptReconciled && !said(event.Reconciliation, "confirmed_committed") && !said(event.Reconciliation, "confirmed_absent"),
			m.Status() != Unknown && newest.Lifecycle == event.Outcome && newest.Status == "unknown",
			m.Status() != Unknown && newest.Lifecycle == event.Reversal && newest.Status != "failed",
			m.Status() != Unknown && c.state.InDoubt():
			t.Fatalf("%s of %v", m.Append(nil), c.state.Summary())
		}
	})
}
