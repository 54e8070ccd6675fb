package review_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/internal/testkit/reviewkit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
)

// fleet is n contracts of each impact, each with an admission of its own.
func fleet(r *room, p *policy.Policy, n int) (contracts []review.Contract, admitted map[string]reviewkit.Admitted) {
	admitted = map[string]reviewkit.Admitted{}
	for _, impact := range []string{"low", "standard", "privileged"} {
		for i := range n {
			name := fmt.Sprintf("%s-%02d", impact, i)
			a := reviewkit.Stamped(p, name, "one-"+impact, 1, stamps).Admit(r.t, r, r.owner())
			contracts, admitted[name] = append(contracts, r.contract(name, impact, a)), a
		}
	}
	return contracts, admitted
}

func names(cs []review.Candidate) (out []string) {
	for _, c := range cs {
		out = append(out, c.Name)
	}
	return out
}

func TestOPS05_OPS06_OPS10_BudgetByImpactAgeAndRelevance(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	contracts, admitted := fleet(r, p, 34) // 102
	j := r.judge(p, stamps)
	var b book
	run := &review.Run{ID: "run-1", Judge: j, Record: &b}
	plan := review.Selection{Budget: 10, Now: reviewkit.Now}.New(contracts)
	if len(r.opened) != 0 {
		t.Errorf("%d bodies were opened to choose candidates", len(r.opened))
	}
	out, err := run.Do(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	states := map[review.OutcomeState]int{}
	for _, o := range out {
		states[o.State]++
		if o.State == review.StateDeferred && (o.Disposition != "" || o.Event != "") {
			t.Errorf("deferred is no result: %+v", o)
		}
	}
	if states[review.StateReviewed] != 10 || states[review.StateDeferred] != 92 || len(b.order) != 10 {
		t.Errorf("%v, %d recorded", states, len(b.order))
	}
	evidence, receipts := 0, 0
	for _, a := range admitted {
		evidence += r.reads(a.Evidence...)
		receipts += r.reads(a.Receipt)
	}
	if evidence > 10 || receipts > 10 {
		t.Errorf("%d files of evidence and %d receipts were opened, the budget is 10", evidence, receipts)
	}
	for _, c := range plan.Review {
		if c.Terms.Impact != "privileged" {
			t.Errorf("%s came before a privileged one", c.Name)
		}
	}
}

func TestOPS05_Order(t *testing.T) {
	now, policy := reviewkit.Now, admission.Digest([]byte("today"))
	c := func(name, impact string, daysAgo int, reviewedUnder string) review.Contract {
		c := review.Contract{Name: name, Terms: event.ContractTerms{Impact: impact, Receipt: admission.Digest([]byte(name))}, Attempt: "att_" + name}
		if daysAgo >= 0 {
			c.Last = &review.Last{At: now.Add(-time.Duration(daysAgo)*24*time.Hour - time.Minute), Receipt: c.Terms.Receipt, Policy: reviewedUnder, Impact: impact}
		}
		return c
	}
	yesterday := admission.Digest([]byte("yesterday"))
	all := []review.Contract{
		c("low-never", "low", -1, ""), c("low-old", "low", 400, policy),
		c("priv-new", "privileged", 1, policy), c("priv-new-drift", "privileged", 1, yesterday), c("priv-new-b", "privileged", 1, policy),
		c("priv-old", "privileged", 30, policy), c("priv-never", "privileged", -1, ""),
		c("std", "standard", 3, policy),
	}
	want := []string{"priv-never", "priv-old", "priv-new-drift", "priv-new", "priv-new-b", "std", "low-never", "low-old"}
	s := review.Selection{Now: now, State: review.State{Policy: policy}}
	for range 3 {
		plan := s.New(all)
		if got := names(plan.Review); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		all = append(all[1:], all[0]) // in any order
	}
	s.OnlyDue = true
	if got := names(s.New(all).Review); !slices.Equal(got, []string{"priv-never", "priv-new-drift", "low-never"}) {
		t.Errorf("due are %v", got)
	}
	s = review.Selection{Now: now, Receipts: []string{admission.Digest([]byte("std"))}}
	if got := names(s.New(all).Review); !slices.Equal(got, []string{"std"}) {
		t.Errorf("by receipt: %v", got)
	}
}

func TestOPS01_OPS02_REV11_Triggers(t *testing.T) {
	now, pol := reviewkit.Now, admission.Digest([]byte("policy"))
	verifiers := review.VerifiersDigest([]admission.VerifierInfo{(&reviewkit.Stamps{Version: "1"}).Info()})
	c := review.Contract{Name: "c", Attempt: "att_c", Terms: event.ContractTerms{Impact: "low", Receipt: admission.Digest([]byte("r"))}}
	reviewed := review.Last{At: now, Receipt: c.Terms.Receipt, Policy: pol, Verifiers: verifiers, Impact: "low"}
	same := review.State{Policy: pol, Verifiers: verifiers}
	for _, tc := range []struct {
		name   string
		change func(*review.Contract, *review.State)
		want   []review.Trigger
	}{
		{"nothing changed", func(*review.Contract, *review.State) {}, nil},
		{"policy", func(_ *review.Contract, s *review.State) { s.Policy = admission.Digest([]byte("new")) }, []review.Trigger{event.TriggerPolicy}},
		{"impact", func(c *review.Contract, _ *review.State) { c.Terms.Impact = "privileged" }, []review.Trigger{event.TriggerImpact}},
		{"verifier version", func(_ *review.Contract, s *review.State) {
			s.Verifiers = review.VerifiersDigest([]admission.VerifierInfo{(&reviewkit.Stamps{Version: "2"}).Info()})
		}, []review.Trigger{event.TriggerVerifier}},
		{"trust material", func(_ *review.Contract, s *review.State) {
			s.Verifiers = review.VerifiersDigest([]admission.VerifierInfo{(&reviewkit.Stamps{Version: "1", Trusted: []string{"x"}}).Info()})
		}, []review.Trigger{event.TriggerVerifier}},
		{"retention since", func(c *review.Contract, s *review.State) {
			s.Retention = []review.Change{{Name: c.Terms.Receipt, At: now.UnixMilli() + 1}}
		}, []review.Trigger{event.TriggerRetention}},
		{"retention before", func(c *review.Contract, s *review.State) {
			s.Retention = []review.Change{{Name: c.Terms.Receipt, At: now.UnixMilli() - 1}}
		}, nil},
		{"incident", func(c *review.Contract, s *review.State) { s.Incident = []string{c.Terms.Receipt} }, []review.Trigger{event.TriggerIncident}},
		{"incident elsewhere", func(_ *review.Contract, s *review.State) { s.Incident = []string{admission.Digest(nil)} }, nil},
		{"several, the weightiest first", func(c *review.Contract, s *review.State) {
			s.Policy, s.Incident, c.Terms.Impact = admission.Digest([]byte("new")), []string{"c"}, "standard"
		}, []review.Trigger{event.TriggerIncident, event.TriggerImpact, event.TriggerPolicy}},
	} {
		k, s := c, same
		last := reviewed
		k.Last = &last
		tc.change(&k, &s)
		if got := review.DueOf(&k, s); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		plan := review.Selection{Now: now, State: s}.New([]review.Contract{k})
		want := review.Trigger(event.TriggerSchedule) // a run by schedule finds what no event announced
		if len(tc.want) > 0 {
			want = tc.want[0]
		}
		if plan.Review[0].Trigger != want {
			t.Errorf("%s: recorded as %s, want %s", tc.name, plan.Review[0].Trigger, want)
		}
	}
}

// A run that is interrupted anywhere goes on where it ended: nothing is judged
// twice, and nothing is left out.
func TestREV20_InterruptedRunJudgesNothingTwice(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	contracts, admitted := fleet(r, p, 8)
	var b book
	for _, stopAt := range []int{1, 5, 6, 17, 99} {
		ctx, cancel := context.WithCancel(t.Context())
		b.after = func(n int) {
			if n == stopAt {
				cancel()
			}
		}
		run := &review.Run{ID: "run", Judge: r.judge(p, stamps), Record: &b, Workers: 2, Appends: 3}
		out, err := run.Do(ctx, review.Selection{Now: reviewkit.Now}.New(contracts))
		cancel()
		if len(out) != len(contracts) {
			t.Fatalf("%d outcomes, %v", len(out), err)
		}
		if stopAt == 99 {
			if err != nil || !review.AllJudged(out) {
				t.Errorf("the last run: %v", err)
			}
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("stopped at %d: %v", stopAt, err)
		}
	}
	if len(b.order) != len(contracts) || len(b.reviews) != len(contracts) {
		t.Errorf("%d reviews of %d contracts", len(b.order), len(contracts))
	}
	// What was recorded was not opened again: verified twice may be at most what
	// was in flight when a run was stopped.
	again := 0
	for _, a := range admitted {
		again += r.opened[a.Evidence[0]] - 1
	}
	if again > 4*(2+3) {
		t.Errorf("%d files of evidence were opened again", again)
	}
	// The same run again judges nothing at all.
	clear(r.opened)
	out, err := (&review.Run{ID: "run", Judge: r.judge(p, stamps), Record: &b}).Do(t.Context(), review.Selection{Now: reviewkit.Now}.New(contracts))
	if err != nil || len(r.opened) != 0 || slices.ContainsFunc(out, func(o review.Outcome) bool { return o.State != review.StateBefore || o.Event == "" }) {
		t.Errorf("%v, %d bodies opened, %+v", err, len(r.opened), out[0])
	}
	// Another run judges all of it.
	if _, err := (&review.Run{ID: "run-2", Judge: r.judge(p, stamps), Record: &b}).Do(t.Context(), review.Selection{Now: reviewkit.Now}.New(contracts)); err != nil || len(b.order) != 2*len(contracts) {
		t.Errorf("%v, %d reviews", err, len(b.order))
	}
}

func TestOPS03_OPS04_ReportOnlyFirstThenByImpact(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	contracts, _ := fleet(r, p, 1)
	for enforce, want := range map[string]map[string]string{
		"":           {"low": "report_only", "standard": "report_only", "privileged": "report_only"},
		"privileged": {"low": "report_only", "standard": "report_only", "privileged": "enforced"},
		"standard":   {"low": "report_only", "standard": "enforced", "privileged": "enforced"},
		"low":        {"low": "enforced", "standard": "enforced", "privileged": "enforced"},
	} {
		var b book
		run := &review.Run{ID: "run", Enforce: enforce, Judge: r.judge(p, stamps), Record: &b}
		if _, err := run.Do(t.Context(), review.Selection{Now: reviewkit.Now}.New(contracts)); err != nil {
			t.Fatal(err)
		}
		for _, rev := range b.order {
			if rev.Run.Mode != want[rev.Run.Impact] {
				t.Errorf("enforce %q: %s is %s", enforce, rev.Run.Impact, rev.Run.Mode)
			}
		}
	}
	if _, err := (&review.Run{ID: "run", Enforce: "all", Judge: r.judge(p), Record: &book{}}).Do(t.Context(), review.Plan{}); err == nil {
		t.Error("an unknown impact was accepted")
	}
}

func TestREV21_REV22_REV24_REV27_WhatAReviewHolds(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	a := reviewkit.Stamped(p, "s", "one-privileged", 1, stamps).Admit(t, r, r.owner())
	c := r.contract("mcp/s", "privileged", a)
	c.Terms.Admission = event.DigestOf([]byte("admission")).EventID()
	lost := &reviewkit.Stamps{Version: "2"}
	var b book
	var mu sync.Mutex
	var seen []review.Outcome
	run := &review.Run{ID: "run-7", Enforce: "privileged", Judge: r.judge(p, lost), Record: &b,
		Observe: func(o review.Outcome) { mu.Lock(); defer mu.Unlock(); seen = append(seen, o) }}
	out, err := run.Do(t.Context(), review.Selection{Now: reviewkit.Now, Trigger: event.TriggerIncident}.New([]review.Contract{c}))
	if err != nil || len(b.order) != 1 || len(seen) != 1 || seen[0].State != review.StateReviewed {
		t.Fatalf("%+v %v", out, err)
	}
	rev := b.order[0]
	for name, want := range map[string]string{
		"receipt": a.Receipt, "policy": p.Ref().Digest, "contract": c.Digest(), "recheck": out[0].Digest, "evidence": a.Bundle,
		"reviews": c.Event, "admission": c.Terms.Admission, "verifiers": review.VerifiersDigest([]admission.VerifierInfo{lost.Info()}),
	} {
		if rev.Refs[name] != want || want == "" {
			t.Errorf("refs.%s is %s, want %s", name, rev.Refs[name], want)
		}
	}
	if rev.Refs["recheck"] == rev.Refs["evidence"] {
		t.Error("the recheck stands in the place of the original")
	}
	if rev.Status != "retire" || rev.Run.Recheck != "fail" || rev.Run.Impact != "privileged" || rev.Run.Trigger != "incident" || rev.Run.Mode != "enforced" || len(rev.Reasons) != 2 {
		t.Errorf("%+v", rev)
	}
	// The recheck is in the archive by its digest, and is what the digest names.
	kept, err := review.ParseRecheck([]byte(r.sealed(t, rev.Refs["recheck"])))
	if err != nil || kept.EvidenceBundle != a.Bundle || kept.State != "fail" || kept.CheckedAt != event.FormatTime(reviewkit.Now) {
		t.Errorf("%+v %v", kept, err)
	}
	ticket := out[0].Ticket()
	for i, head := range []string{"receipt: ", "contract: ", "replay_policy: ", "evidence_recheck: ", "disposition: ", "reasons: "} {
		if len(ticket) != 6 || !strings.HasPrefix(ticket[i], head) || len(ticket[i]) <= len(head) {
			t.Fatalf("ticket %q", ticket)
		}
	}
	if ticket[4] != "disposition: retire" || ticket[5] != "reasons: current_policy_evidence_fail, privileged_contract" {
		t.Errorf("%q", ticket)
	}
}

func TestARC05_TroubleOfTheArchive(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	a := reviewkit.Stamped(p, "s", "one-low", 1, stamps).Admit(t, r, r.owner())
	c := r.contract("c", "low", a)
	plan := review.Selection{Now: reviewkit.Now}.New([]review.Contract{c})
	for code, name := range map[admission.Code]string{
		admission.ArchiveFull: "full", admission.ArchivePermissionDenied: "permission denied", admission.ArchiveRetentionDenied: "retention denied",
	} {
		// Nothing passes whose recheck is not kept; the same run tries again.
		var b book
		r.full = &archive.Failure{Code: code, Err: errHidden}
		run := &review.Run{ID: "run", Judge: r.judge(p, stamps), Record: &b}
		out, err := run.Do(t.Context(), plan)
		if err != nil || out[0].State != review.StateNotJudged || len(b.order) != 0 || review.AllJudged(out) || !strings.Contains(out[0].Error, string(code)) {
			t.Errorf("%s: %+v %v", name, out, err)
		}
		// What cannot be read blocks, even if that cannot be kept either.
		r.hide[a.Bundle] = &archive.Failure{Code: code, Err: errHidden}
		out, err = run.Do(t.Context(), plan)
		if err != nil || out[0].Disposition != "quarantine" || !slices.Equal(out[0].Causes, []string{"evidence_bundle_unreadable", string(code)}) {
			t.Errorf("%s: %+v %v", name, out, err)
		}
		r.full = nil
		delete(r.hide, a.Bundle)
		// Both stay on record: the quarantine, and what another run finds later.
		out, err = (&review.Run{ID: "run-2", Judge: r.judge(p, stamps), Record: &b}).Do(t.Context(), plan)
		if err != nil || out[0].Disposition != "continue" || len(b.order) != 2 {
			t.Errorf("%s, archive back: %+v %v", name, out, err)
		}
	}
}

// A failure that passes within the bounds of a retry is no failure.
func TestADM31_ArchiveFailsTwiceThenAnswers(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	a := reviewkit.Stamped(p, "s", "one-low", 1, stamps).Admit(t, r, r.owner())
	j := r.judge(p, stamps)
	r.hide[a.Bundle] = &archive.Failure{Code: admission.ArchiveUnreachable, Err: errHidden}
	pauses := 0
	j.Pause = func(context.Context, time.Duration) error {
		if pauses++; pauses == 2 {
			delete(r.hide, a.Bundle)
		}
		return nil
	}
	want(t, j, r.contract("c", "low", a), "continue", "receipt_still_within_policy")
	if pauses != 2 {
		t.Errorf("%d pauses", pauses)
	}
}

// An archive that is down does not put everything into quarantine, and a ledger
// that is down does not keep a run waiting: after some in a row the run stops, and
// the same run goes on later.
func TestARC05_TroubleInARowStopsTheRun(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	contracts, admitted := fleet(r, p, 20) // 60
	plan := review.Selection{Now: reviewkit.Now}.New(contracts)
	for _, a := range admitted {
		r.hide[a.Receipt] = &archive.Failure{Code: admission.ArchiveUnreachable, Err: errHidden}
	}
	var b book
	run := &review.Run{ID: "run", Judge: r.judge(p, stamps), Record: &b, Workers: 2, Appends: 2}
	out, err := run.Do(t.Context(), plan)
	if err != nil || review.AllJudged(out) {
		t.Fatalf("%v", err)
	}
	if n := len(b.order); n < 16 || n > 16+6 {
		t.Errorf("%d contracts went into quarantine", n)
	}
	if last := out[len(out)-1]; last.State != review.StateNotJudged || !strings.Contains(last.Error, "in a row") {
		t.Errorf("%+v", last)
	}
	// The ledger down: nothing is recorded, and it ends as well.
	clear(r.hide)
	down := &book{fail: errors.New("the ledger is down")}
	opened := len(r.opened)
	clear(r.opened)
	if out, err = (&review.Run{ID: "run-2", Judge: r.judge(p, stamps), Record: down, Workers: 2, Appends: 2}).Do(t.Context(), plan); err != nil || review.AllJudged(out) {
		t.Fatalf("%v", err)
	}
	if receipts := r.reads(receiptsOf(admitted)...); receipts > 16+6 {
		t.Errorf("%d receipts were opened for nothing (%d bodies before)", receipts, opened)
	}
	// Some trouble here and there stops nothing.
	i := 0
	for _, a := range admitted {
		if i++; i%2 == 0 {
			r.hide[a.Bundle] = &archive.Failure{Code: admission.ArchiveUnreachable, Err: errHidden}
		}
	}
	if out, err = (&review.Run{ID: "run-3", Judge: r.judge(p, stamps), Record: &b, Workers: 1, Appends: 1}).Do(t.Context(), plan); err != nil || len(out) != 60 {
		t.Errorf("%v", err)
	}
	// Back again, the first run goes on where it stopped.
	clear(r.hide)
	if out, err = run.Do(t.Context(), plan); err != nil || !review.AllJudged(out) {
		t.Errorf("%v", err)
	}
}

func receiptsOf(admitted map[string]reviewkit.Admitted) (out []string) {
	for _, a := range admitted {
		out = append(out, a.Receipt)
	}
	return out
}

func TestREV20_OPS09_RecorderFails(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	contracts, _ := fleet(r, p, 2)
	b := &book{fail: errors.New("the ledger is down")}
	run := &review.Run{ID: "run", Judge: r.judge(p, stamps), Record: b}
	plan := review.Selection{Now: reviewkit.Now}.New(contracts)
	out, err := run.Do(t.Context(), plan)
	if err != nil || slices.ContainsFunc(out, func(o review.Outcome) bool { return o.State != review.StateNotJudged || o.Disposition != "" }) {
		t.Errorf("%+v %v", out, err)
	}
	b.fail = nil
	if out, err = run.Do(t.Context(), plan); err != nil || !review.AllJudged(out) || len(b.order) != len(contracts) {
		t.Errorf("%+v %v", out, err)
	}
}

func TestADM24_ContractDocuments(t *testing.T) {
	good := `{"schema":"counterfoil.contract.v1","name":"a","impact":"low","receipt":"` + admission.Digest(nil) + `"}`
	docs, err := review.ParseContracts([]byte(good))
	if err != nil || len(docs) != 1 || docs[0].Digest() != admission.Digest([]byte(`{"impact":"low","name":"a","receipt":"`+admission.Digest(nil)+`","schema":"counterfoil.contract.v1"}`)) {
		t.Fatalf("%+v %v", docs, err)
	}
	b, err := review.EncodeContracts(docs)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := review.ParseContracts(b); err != nil || len(again) != 1 || again[0] != docs[0] {
		t.Errorf("%+v %v", again, err)
	}
	list := func(items ...string) string {
		return `{"schema":"counterfoil.contracts.v1","contracts":[` + strings.Join(items, ",") + `]}`
	}
	for name, bad := range map[string]string{
		"not JSON":           `name: a`,
		"no schema":          strings.Replace(good, `"schema":"counterfoil.contract.v1",`, "", 1),
		"another schema":     strings.Replace(good, "contract.v1", "contract.v2", 1),
		"unknown member":     strings.Replace(good, `"impact"`, `"predicate":1,"impact"`, 1),
		"unknown impact":     strings.Replace(good, `"low"`, `"high"`, 1),
		"no name":            strings.Replace(good, `"name":"a",`, "", 1),
		"version as receipt": strings.Replace(good, admission.Digest(nil), "1.2.3", 1),
		"a name twice":       list(good, good),
		"a list in a list":   list(list(good)),
		"a member twice":     strings.Replace(good, `"impact"`, `"impact":"low","impact"`, 1),
	} {
		if docs, err := review.ParseContracts([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", name, docs)
		}
	}
}
