package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/proxy"
	"counterfoil/internal/reviewer"
	"counterfoil/internal/testkit/mcpkit"
	"counterfoil/internal/testkit/reviewkit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
)

const refusedUnderContract = "echo not_started access_denied not_dispatched"

// What the reviews of a contract refuse never reaches the server, and the error
// names the review.
func TestREV28_REV30_WhatAReviewRefusesNeverReachesTheServer(t *testing.T) {
	for _, c := range []struct {
		impact, disposition, reason string
		passes                      bool
	}{
		{"low", "quarantine", "contract_quarantined", false},
		{"standard", "retire", "contract_retired", false},
		{"privileged", "re_admit", "contract_requires_readmission", false},
		{"standard", "re_admit", "", true},
		{"low", "re_admit", "", true},
		{"privileged", "continue", "", true},
	} {
		t.Run(c.impact+" "+c.disposition, func(t *testing.T) {
			l := startLedger(t)
			l.set(event.ContractTerms{Impact: c.impact})
			id := l.judged(c.disposition)
			calls := filepath.Join(t.TempDir(), "calls")
			s := l.proxied(t.TempDir(), mcpkit.Env(calls, 0), "--contract", underTest)
			s.ask(hello)
			answered(t, s.ask(fmt.Sprintf(listTools, 1)))
			got := s.call(2, "echo", `{"n":1}`)
			s.end()
			refs := map[string]string{"review": id, "contract": l.until(func(*client.Disposition) bool { return true }, "").ContractDigest}
			if c.passes {
				answered(t, got)
				l.wantCalls("echo succeeded")
				if c.disposition == "continue" {
					delete(refs, "review")
				}
			} else {
				d := denied(t, got)
				if d.Data.Code != "contract_refused" || d.Data.Reason != c.reason || d.Data.ReviewEventID != id || !slices.Equal(d.Data.ReasonCodes, []string{"manual_review"}) ||
					!strings.Contains(d.Message, id) || strings.Contains(d.Message, "agent") || d.Data.Recovery != "human_review" || d.Data.RetryAfterSeconds != nil {
					t.Errorf("got %s", got)
				}
				if r := reached(t, calls); r[0] != "" {
					t.Errorf("the server got %q", r)
				}
				l.wantCalls(refusedUnderContract)
			}
			if got := l.outcomeRefs(); len(got) != 1 || !maps.Equal(got[0], refs) {
				t.Errorf("refs %v, want %v", got, refs)
			}
		})
	}
}

func TestREV28_AContractThatTheLogDoesNotHaveRefuses(t *testing.T) {
	l := startLedger(t)
	calls := filepath.Join(t.TempDir(), "calls")
	s := l.proxied(t.TempDir(), mcpkit.Env(calls, 0), "--contract", underTest, "--fail-open")
	s.ask(hello)
	if d := denied(t, s.call(1, "echo", `{}`)); d.Data.Reason != "contract_unknown" || d.Data.ReviewEventID != "" || d.Message == "" {
		t.Errorf("got %+v", d)
	}
	// A batch with a call is one message, and bytes that could be a call are one.
	var batch []json.RawMessage
	if err := json.Unmarshal([]byte(s.ask(`[{"id":2,"method":"ping"},`+callLine(3, "echo", `{}`)+`]`)), &batch); err != nil || len(batch) != 2 {
		t.Errorf("got %s, %v", batch, err)
	} else {
		denied(t, string(batch[0]))
		denied(t, string(batch[1]))
	}
	denied(t, s.ask(`{"id":4,"method":"tools/call",}`))
	s.send(`{"method":"tools/call","params":{"name":"echo"}}`) // nobody waits for an answer
	if got := s.ask(`{"jsonrpc":"2.0","id":6,"method":"ping"}`); !strings.Contains(got, `"id":6,`) {
		t.Errorf("other messages do not pass: %s", got)
	}
	s.end()
	if r := reached(t, calls); r[0] != "" {
		t.Errorf("the server got %q", r)
	}
	l.wantCalls(refusedUnderContract, refusedUnderContract, "unnamed not_started access_denied not_dispatched", refusedUnderContract)
}

// A report blocks nothing: its calls pass and carry the review.
func TestOPS03_REV28_AReportLetsCallsThrough(t *testing.T) {
	l := startLedger(t)
	then := reviewkit.StampPolicy(t, "1", "")
	trusted, lost := &reviewkit.Stamps{Trusted: []string{"k"}, Version: "1"}, &reviewkit.Stamps{Version: "1"}
	begun, err := l.client.Begin(t.Context(), &client.Begin{Source: client.Source{RuntimeID: "t", AgentID: "t", InvocationID: "admit", Protocol: "t", Implementation: "t"},
		OccurredAt: event.FormatTime(reviewkit.Now), Action: client.Action{Name: "admit", EffectKind: "admission", EffectMode: "create"},
		Subject: client.Subject{Kind: "admission", ID: "kit"}}, client.Logged)
	if err != nil {
		t.Fatal(err)
	}
	a := reviewkit.Stamped(then, "kit", "one-privileged", 1, trusted).Admit(t, l.Ledger.Archive(), begun.Value.AttemptID)
	if _, err := l.client.Append(t.Context(), &client.Append{AttemptID: begun.Value.AttemptID, Lifecycle: "outcome", SourceEventID: "decided", OccurredAt: event.FormatTime(reviewkit.Now),
		Status: "succeeded", Refs: map[string]string{"receipt": a.Receipt, "policy": a.Policy}}, client.Logged); err != nil {
		t.Fatal(err)
	}
	l.set(event.ContractTerms{Impact: "privileged", Receipt: a.Receipt, Artifact: a.Artifact})
	r := reviewer.Ledger{Client: l.client}
	contracts, err := r.Contracts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := (&review.Run{ID: "report", Record: r, Judge: &review.Judge{Archive: r, Policy: then, Verifiers: []admission.Verifier{lost}, Keys: reviewkit.NewSigner(1).Keys, At: reviewkit.Now,
		Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}}).Do(t.Context(), review.Selection{Now: reviewkit.Now}.New(contracts))
	if err != nil || len(out) != 1 || out[0].Disposition != "retire" {
		t.Fatalf("%+v %v", out, err)
	}
	l.until(func(d *client.Disposition) bool { return d.Call == "queue" && d.Mode == "report_only" }, "report")
	s := l.inside(t.TempDir(), "")
	answered(t, s.call(1, "echo", `{}`))
	s.finish()
	l.wantCalls("echo succeeded")
	if got := l.outcomeRefs(); got[0]["review"] != out[0].Event {
		t.Errorf("refs %v, want review %s", got, out[0].Event)
	}
}

// A review that comes in the middle of a session counts 30 seconds later at the
// latest, and so does one that lifts it.
func TestREV28_AReviewInTheMiddleOfASession(t *testing.T) {
	l := startLedger(t)
	l.set(event.ContractTerms{Impact: "standard"})
	calls := filepath.Join(t.TempDir(), "calls")
	s := l.inside(t.TempDir(), calls)
	answered(t, s.call(1, "echo", `{}`))
	answered(t, s.call(2, "echo", `{}`))
	if n := s.ledger.count(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	id := l.judged("quarantine")
	s.clock.jump(stale)
	if d := denied(t, s.call(3, "echo", `{}`)); d.Data.ReviewEventID != id {
		t.Errorf("got %+v, want review %s", d, id)
	}
	answered(t, s.ask(fmt.Sprintf(listTools, 4)))
	l.judged("continue")
	s.clock.jump(stale)
	answered(t, s.call(5, "echo", `{}`))
	s.finish()
	if r := reached(t, calls); len(r) != 3 {
		t.Errorf("the server got %q", r)
	}
	l.wantCalls("echo succeeded", "echo succeeded", refusedUnderContract, "echo succeeded")
}

func TestREV28_NoCallPassesBeforeTheFirstAnswer(t *testing.T) {
	l := startLedger(t)
	l.set(event.ContractTerms{Impact: "low"})
	l.stop()
	calls := filepath.Join(t.TempDir(), "calls")
	s := l.proxied(t.TempDir(), mcpkit.Env(calls, 0), "--contract", underTest, "--evidence-timeout", "300ms")
	s.ask(hello)
	if d := denied(t, s.call(1, "echo", `{}`)); d.Data.Code != "contract_unanswered" || d.Data.Reason != "the ledger does not answer" || d.Data.Recovery != "retry_after" {
		t.Errorf("got %+v", d)
	}
	l.start()
	answered(t, s.call(2, "echo", `{}`))
	s.end()
	if r := reached(t, calls); len(r) != 1 {
		t.Errorf("the server got %q", r)
	}
	got := l.calls()
	slices.Sort(got)
	if !slices.Equal(got, []string{"echo not_started not_dispatched", "echo succeeded"}) {
		t.Errorf("got %q", got)
	}
}

// The last answer stands for the grace, and calls after it need one.
func TestREV28_TheLastAnswerStandsForTheGrace(t *testing.T) {
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprintf("fail-open=%v", open), func(t *testing.T) {
			l := startLedger(t)
			l.set(event.ContractTerms{Impact: "low"})
			s := l.inside(t.TempDir(), "", func(c *proxy.Config) { c.FailOpen, c.Patience = open, 300*time.Millisecond })
			answered(t, s.call(1, "echo", `{}`))
			s.ledger.set(true, nil)
			s.clock.jump(stale)
			answered(t, s.call(2, "echo", `{}`))
			s.clock.jump(5 * time.Minute)
			got := s.call(3, "echo", `{}`)
			if open {
				answered(t, got)
			} else if d := denied(t, got); d.Data.Code != "contract_unanswered" {
				t.Errorf("got %+v", d)
			}
			s.ledger.set(false, nil)
			answered(t, s.call(4, "echo", `{}`))
			s.finish()
			want := []string{"echo succeeded", "echo succeeded", "echo succeeded", "echo not_started not_dispatched"}
			if open { // on record all the same, and counted
				want = []string{"echo succeeded", "echo succeeded", "echo succeeded", "echo succeeded", "proxy.gap unknown evidence_gap"}
			}
			calls := l.calls()
			slices.Sort(calls)
			slices.Sort(want)
			if !slices.Equal(calls, want) {
				t.Errorf("got %q, want %q", calls, want)
			}
			for _, r := range l.receipts(url.Values{"lifecycle": {"attempt"}}) {
				if r.Action.Name == "proxy.gap" && !strings.Contains(r.Subject.ID, "count=1 ") {
					t.Errorf("the gap is %s", r.Subject.ID)
				}
			}
		})
	}
}

// A refusal stands for ever, across starts of the proxy, whatever else is open.
func TestREV28_ARefusalStandsForEver(t *testing.T) {
	l := startLedger(t)
	l.set(event.ContractTerms{Impact: "low"})
	id := l.judged("retire")
	state := t.TempDir()
	open := func(c *proxy.Config) { c.FailOpen, c.Patience = true, 300*time.Millisecond }
	s := l.inside(state, "", open)
	denied(t, s.call(1, "echo", `{}`))
	s.ledger.set(true, nil)
	s.clock.jump(1000 * time.Hour)
	if d := denied(t, s.call(2, "echo", `{}`)); d.Data.ReviewEventID != id {
		t.Errorf("got %+v", d)
	}
	s.finish()
	l.stop()
	s = l.inside(state, "", open)
	if d := denied(t, s.call(3, "echo", `{}`)); d.Data.ReviewEventID != id || d.Data.Reason != "contract_retired" {
		t.Errorf("got %+v", d)
	}
	l.start()
	l.judged("continue")
	s.clock.jump(stale)
	answered(t, s.call(4, "echo", `{}`))
	s.finish()
	got := l.calls()
	slices.Sort(got)
	if !slices.Equal(got, []string{refusedUnderContract, refusedUnderContract, refusedUnderContract, "echo succeeded"}) {
		t.Errorf("got %q", got)
	}
}

// An answer about a smaller log than one that was seen is none.
func TestREV28_AnAnswerAboutAnOlderLogIsNone(t *testing.T) {
	l := startLedger(t)
	l.set(event.ContractTerms{Impact: "low"})
	old, err := l.client.Disposition(t.Context(), underTest)
	if err != nil {
		t.Fatal(err)
	}
	l.judged("quarantine")
	state := t.TempDir()
	s := l.inside(state, "")
	denied(t, s.call(1, "echo", `{}`))
	s.ledger.set(false, old)
	s.clock.jump(stale)
	denied(t, s.call(2, "echo", `{}`))
	s.finish()
	// Neither after a restart, nor where nothing was refused.
	s = l.inside(state, "")
	l.judged("continue")
	s.clock.jump(stale)
	answered(t, s.call(3, "echo", `{}`))
	s.ledger.set(false, old)
	s.clock.jump(stale)
	answered(t, s.call(4, "echo", `{}`)) // the last one stands
	s.clock.jump(5 * time.Minute)
	if d := denied(t, s.call(5, "echo", `{}`)); d.Data.Code != "contract_unanswered" {
		t.Errorf("got %+v", d)
	}
}
