package query_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"counterfoil/ledger/event"
	"counterfoil/projections/contracts"
	"counterfoil/projections/follow"
	"counterfoil/projections/kv"
	"counterfoil/projections/leaftest"
	"counterfoil/projections/query"
)

func digestOf(s string) string { return event.DigestOf([]byte(s)).String() }

// contract makes the attempt that sets a contract.
func contract(name, version, receipt, impact string) *event.Event {
	return leaftest.Begin(name+"@"+version, func(e *event.Event) {
		e.Subject = event.Subject{Kind: event.Contract, ID: name}
		e.Statement = event.ContractTerms{Impact: impact, Receipt: digestOf(receipt)}.Value()
	})
}

// reviewed makes a review of a contract by a run.
func reviewed(c, prev *event.Event, run, mode, status string, at time.Duration) *event.Event {
	terms, _ := c.ContractTerms()
	return leaftest.After(prev, event.Review, status, "review:"+run, func(e *event.Event) {
		recheck := map[string]string{"continue": "pass", "re_admit": "pass", "quarantine": "unavailable", "retire": "fail"}[status]
		e.CapturedAt = event.FormatTime(leaftest.Start.Add(at))
		e.Statement = event.Judgement{Rubric: "r", Run: &event.ReviewRun{ID: run, Trigger: event.TriggerManual, Mode: mode, Impact: terms.Impact, Recheck: recheck}}.Value()
		e.ReasonCodes = []string{"policy_drift_detected"}
		e.Refs = map[string]string{"reviews": leaftest.Digest(c).EventID(), "receipt": terms.Receipt, "policy": digestOf("policy"),
			"contract": terms.Digest(c.Subject.ID).String(), "recheck": digestOf("recheck " + run)}
	})
}

func standing(t *testing.T, es []*event.Event, name string) contracts.Standing {
	t.Helper()
	for _, e := range es {
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
	}
	a, err := fold(t, events(es...)).views.Contract(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return a.Contract.Standing()
}

func TestREV28_OPS03_WhatReviewsSayAboutCalls(t *testing.T) {
	const enforced, report = event.ReviewEnforced, event.ReviewReportOnly
	type step struct{ mode, status string }
	for _, c := range []struct {
		name   string
		impact string
		steps  []step
		call   contracts.Call
		reason string
	}{
		{"no review", "privileged", nil, contracts.Allow, ""},
		{"continue", "privileged", []step{{enforced, "continue"}}, contracts.Allow, ""},
		{"quarantine", "low", []step{{enforced, "quarantine"}}, contracts.Refuse, contracts.ReasonQuarantined},
		{"retire", "privileged", []step{{enforced, "retire"}}, contracts.Refuse, contracts.ReasonRetired},
		{"re_admit, privileged", "privileged", []step{{enforced, "re_admit"}}, contracts.Refuse, contracts.ReasonReadmission},
		{"re_admit, low", "low", []step{{enforced, "re_admit"}}, contracts.Queue, contracts.ReasonReadmission},
		{"evidence restored", "low", []step{{enforced, "quarantine"}, {enforced, "continue"}}, contracts.Allow, ""},
		{"report-only quarantine", "privileged", []step{{report, "quarantine"}}, contracts.Queue, contracts.ReasonReportOnly},
		{"a report lifts nothing", "privileged", []step{{enforced, "quarantine"}, {report, "continue"}}, contracts.Refuse, contracts.ReasonQuarantined},
		{"a report blocks nothing", "privileged", []step{{enforced, "continue"}, {report, "retire"}}, contracts.Queue, contracts.ReasonReportOnly},
		{"an old report is outdated", "privileged", []step{{report, "retire"}, {enforced, "continue"}}, contracts.Allow, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := contract("mcp/a", "1", "one", c.impact)
			es := []*event.Event{set}
			for i, s := range c.steps {
				es = append(es, reviewed(set, es[len(es)-1], fmt.Sprint("run-", i), s.mode, s.status, time.Duration(i)*time.Hour))
			}
			got := standing(t, es, "mcp/a")
			if got.Call != c.call || got.Reason != c.reason {
				t.Errorf("%s %q, want %s %q", got.Call, got.Reason, c.call, c.reason)
			}
			if c.call != contracts.Allow && (got.Review == nil || !strings.HasPrefix(got.Review.Event, "evt_")) {
				t.Errorf("no review is named: %+v", got) // REV-30
			}
			replaced := append(es[:len(es):len(es)], contract("mcp/a", "2", "two", c.impact))
			if got := standing(t, replaced, "mcp/a"); got.Call != contracts.Allow {
				t.Errorf("after the receipt was replaced: %s %q", got.Call, got.Reason)
			}
			again := append(es[:len(es):len(es)], contract("mcp/a", "2", "one", c.impact))
			if got := standing(t, again, "mcp/a"); got.Call != c.call {
				t.Errorf("set anew with the same receipt: %s %q", got.Call, got.Reason)
			}
		})
	}
}

func TestREV28_APersonsReviewIsEnforced(t *testing.T) {
	set := contract("mcp/a", "1", "one", "low")
	by := leaftest.After(set, event.Review, "quarantine", "ticket-7", leaftest.Refers("reviews", set))
	if got := standing(t, []*event.Event{set, by}, "mcp/a"); got.Call != contracts.Refuse || got.Review.Reviewer != "ada" {
		t.Errorf("%+v", got)
	}
}

// Attempts of kind contract without terms are what a proxy saw of tools. They and
// their reviews set no contract.
func TestADM24_ContractsWithoutTerms(t *testing.T) {
	seen := leaftest.Begin("seen", func(e *event.Event) { e.Subject = event.Subject{Kind: event.Contract, ID: "mcp/a"} })
	early := leaftest.After(seen, event.Review, "retire", "r-1", leaftest.Refers("reviews", seen))
	f := fold(t, events(seen, early))
	if _, err := f.views.Contract(t.Context(), "mcp/a"); !errors.Is(err, query.ErrNotFound) {
		t.Fatal(err)
	}
	set := contract("mcp/a", "1", "one", "low")
	if got := standing(t, []*event.Event{seen, early, set}, "mcp/a"); got.Call != contracts.Allow {
		t.Errorf("%+v", got)
	}
}

func TestREV29_TermsReviewsSinceAndRuns(t *testing.T) {
	a, b := contract("mcp/a", "1", "one", "privileged"), contract("mcp/b", "1", "one", "low")
	es := []*event.Event{a, b}
	last := a
	for i, s := range []string{"continue", "quarantine", "quarantine", "quarantine"} {
		last = reviewed(a, last, fmt.Sprint("run-", i), event.ReviewEnforced, s, time.Duration(i)*time.Hour)
		es = append(es, last)
	}
	es = append(es, reviewed(b, b, "run-3", event.ReviewReportOnly, "continue", time.Hour))
	leaves := events(es...)
	var digests [][32]byte
	for _, batch := range []int{1, 3, 512} {
		f := &fixture{dir: t.TempDir(), log: leaftest.NewLog(leaves...)}
		f.open(t)
		f.log.Publish(len(leaves))
		fl, err := follow.New(follow.Config{DB: f.db, Source: f.log, Check: leaftest.Check, BatchLeaves: batch})
		if err != nil {
			t.Fatal(err)
		}
		if err := fl.CatchUp(context.Background()); err != nil {
			t.Fatal(err)
		}
		d, err := f.views.Digest(t.Context(), uint64(len(leaves)))
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, d)
		ans, err := f.views.Contracts(t.Context(), query.Page{Limit: 1})
		if err != nil || len(ans.Contracts) != 1 || ans.Contracts[0].Name != "mcp/a" || ans.Next == "" {
			t.Fatalf("%+v %v", ans, err)
		}
		row := ans.Contracts[0]
		if got, want := row.Enforced.Since, leaftest.Start.Add(time.Hour).UnixMilli(); got != want || row.Enforced.At != leaftest.Start.Add(3*time.Hour).UnixMilli() {
			t.Errorf("since %d, want %d", got, want)
		}
		terms, _ := a.ContractTerms()
		if row.Digest() != terms.Digest("mcp/a").String() || row.Enforced.Contract != row.Digest() {
			t.Errorf("digest %s, reviewed %s", row.Digest(), row.Enforced.Contract)
		}
		next, err := f.views.Contracts(t.Context(), query.Page{Limit: 1, Token: ans.Next})
		if err != nil || len(next.Contracts) != 1 || next.Contracts[0].Name != "mcp/b" || next.Next != "" {
			t.Fatalf("%+v %v", next, err)
		}
		reviews, err := f.views.Reviewed(t.Context(), "run-3", query.Page{Limit: 1})
		if err != nil || len(reviews.Reviews) != 1 || reviews.Reviews[0].Contract != "mcp/a" || reviews.Next == "" {
			t.Fatalf("%+v %v", reviews, err)
		}
		reviews, err = f.views.Reviewed(t.Context(), "run-3", query.Page{Token: reviews.Next, Limit: 1})
		if err != nil || len(reviews.Reviews) != 1 || reviews.Reviews[0].Contract != "mcp/b" || reviews.Next != "" {
			t.Fatalf("%+v %v", reviews, err)
		}
		if err := f.db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if digests[0] != digests[1] || digests[1] != digests[2] {
		t.Errorf("the rows depend on how the leaves were cut into batches")
	}
}

// A row that was changed on disk is found by its leaves, whatever was changed.
func TestLOG15_TamperedContract(t *testing.T) {
	set := contract("mcp/a", "1", "one", "privileged")
	rev := reviewed(set, set, "run", event.ReviewEnforced, "quarantine", 0)
	for _, c := range []struct{ old, new string }{
		{`"impact":"privileged"`, `"impact":"low"`},
		{`"disposition":"quarantine"`, `"disposition":"continue"`},
		{digestOf("one"), digestOf("two")},
		{`"index":1`, `"index":0`},
		{`"attempt":"att_`, `"attempt":"ATT_`},
	} {
		f := fold(t, events(set, rev))
		s, err := f.db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.Get(contracts.Key("mcp/a"))
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if !strings.Contains(string(v), c.old) {
			t.Fatalf("no %s in %s", c.old, v)
		}
		rewrite(t, f.db, contracts.Key("mcp/a"), []byte(strings.Replace(string(v), c.old, c.new, 1)))
		var tampered *query.TamperedError
		if _, err := f.views.Contract(t.Context(), "mcp/a"); !errors.As(err, &tampered) {
			t.Errorf("%s: %v", c.new, err)
		}
	}
}

// rewrite changes a row without its leaf.
func rewrite(t *testing.T, db *kv.DB, key, value []byte) {
	t.Helper()
	b, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Set(key, value); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(b.Cursor()); err != nil {
		t.Fatal(err)
	}
}
