package app_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/internal/reviewer"
	"counterfoil/internal/testkit/reviewkit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
)

var stamps = &reviewkit.Stamps{Trusted: []string{"k"}, Version: "1"}

// reviews is a ledger as review runs see it.
func (l *ledger) reviews() reviewer.Ledger {
	l.t.Helper()
	cl, err := client.New(client.Config{Server: l.Ready.Listening, Token: l.Token})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(cl.Close)
	return reviewer.Ledger{Client: cl}
}

// admit records an admission: an attempt begun over HTTP, all evidence in the
// archive, and an outcome that names the receipt. It returns the event id of the
// outcome too.
func (l *ledger) admit(name string, c reviewkit.Case) (a reviewkit.Admitted, attempt, outcome string) {
	l.t.Helper()
	begun := l.want(http.StatusCreated, "POST", "/v1/attempts", patched(l.t, beginBody("admit-"+name, `{"n":1}`),
		"subject.kind", "admission", "subject.id", c.Server))
	attempt = text(begun, "attemptId")
	a = c.Admit(l.t, l.Ledger.Archive(), attempt)
	done := l.want(http.StatusCreated, "POST", "/v1/attempts/"+attempt+"/events",
		appendBody(attempt, "decided", `"lifecycle":"outcome","status":"succeeded","refs":{"receipt":"`+a.Receipt+`","policy":"`+a.Policy+`"}`))
	return a, attempt, text(done, "eventId")
}

// contract sets a contract.
func (l *ledger) contract(r reviewer.Ledger, name, impact string, a reviewkit.Admitted, outcome string) string {
	l.t.Helper()
	d := review.Document{Schema: event.ContractSchema, Name: name,
		ContractTerms: event.ContractTerms{Impact: impact, Receipt: a.Receipt, Admission: outcome, Artifact: a.Artifact}}
	id, _, err := r.SetContract(l.t.Context(), &d, reviewer.Source{RuntimeID: "test", AgentID: "test", Implementation: "test"}, reviewkit.Now)
	if err != nil {
		l.t.Fatal(err)
	}
	return id
}

func judge(r reviewer.Ledger, p *policy.Policy, vs ...admission.Verifier) *review.Judge {
	return &review.Judge{Archive: r, Policy: p, Verifiers: vs, Keys: reviewkit.NewSigner(1).Keys, At: reviewkit.Now,
		Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
}

// run reviews all contracts and demands that all were judged.
func (l *ledger) run(r reviewer.Ledger, id, enforce string, j *review.Judge) map[string]review.Outcome {
	l.t.Helper()
	contracts, err := r.Contracts(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	out, err := (&review.Run{ID: id, Enforce: enforce, Judge: j, Record: r}).Do(l.t.Context(), review.Selection{Now: reviewkit.Now}.New(contracts))
	if err != nil || !review.AllJudged(out) {
		l.t.Fatalf("%+v %v", out, err)
	}
	byName := map[string]review.Outcome{}
	for _, o := range out {
		byName[o.Name] = o
	}
	return byName
}

// standing is what a caller is told once the views have the review.
func (l *ledger) standing(contract string) obj {
	l.t.Helper()
	l.settled("/v1/contracts")
	return l.want(http.StatusOK, "GET", "/v1/dispositions?contract="+url.QueryEscape(contract), nil)
}

// Real provenance on a running ledger: admitted, flipped by another trust root,
// and the receipt of then is the same leaf and the same bytes.
func TestREV20_REV29_REV30_ARC14_ReviewsOnARunningLedger(t *testing.T) {
	l := newLedger(t)
	r := l.reviews()
	p := reviewkit.Shipped(t, "privileged")
	a, attempt, outcome := l.admit("sigstore", reviewkit.RealSigstore(t, p, "privileged"))
	set := l.contract(r, "mcp/sigstore", "privileged", a, outcome)
	leafBefore := l.want(http.StatusOK, "GET", "/v1/receipts/"+outcome, nil)
	sealedBefore := string(l.get("/v1/archive/" + a.Receipt))

	got := l.run(r, "run-good", "privileged", judge(r, p, reviewkit.Sigstore(t, "public-good.2023")))["mcp/sigstore"]
	if got.Disposition != "continue" || !slices.Equal(got.Reasons, []string{"receipt_still_within_policy"}) {
		t.Fatalf("%+v", got)
	}
	if st := l.standing("mcp/sigstore"); text(st, "call") != "allow" || at(st, "known") != true || text(st, "reviewEventId") != got.Event {
		t.Errorf("%v", st)
	}
	got = l.run(r, "run-root", "privileged", judge(r, p, reviewkit.Sigstore(t, "scaffolding")))["mcp/sigstore"]
	if got.Disposition != "retire" || !slices.Contains(got.Causes, "trust_root_log_unknown") {
		t.Fatalf("%+v", got)
	}
	st := l.standing("mcp/sigstore")
	if text(st, "call") != "refuse" || text(st, "reason") != "contract_retired" || text(st, "reviewEventId") != got.Event || !strings.Contains(text(st, "message"), got.Event) {
		t.Errorf("%v", st) // REV-30
	}
	// The review in the log has every field, and both evidence digests.
	rev := l.want(http.StatusOK, "GET", "/v1/receipts/"+got.Event, nil)
	for member, want := range map[string]any{
		"lifecycle": "review", "refs.receipt": a.Receipt, "refs.policy": p.Ref().Digest, "refs.recheck": got.Digest, "refs.evidence": a.Bundle,
		"refs.admission": outcome, "refs.reviews": set, "action.status": "retire", "statement.review.run.impact": "privileged",
		"statement.review.run.recheck": "fail", "statement.review.run.mode": "enforced", "statement.review.rubric": "counterfoil.rubric.v1",
	} {
		if at(rev, member) != want {
			t.Errorf("%s is %v, want %v", member, at(rev, member), want)
		}
	}
	if text(rev, "refs.contract") == "" || text(rev, "refs.verifiers") == "" || at(rev, "reasonCodes") == nil {
		t.Errorf("%v", rev["refs"])
	}
	// Nothing about then has changed.
	leafAfter := l.want(http.StatusOK, "GET", "/v1/receipts/"+outcome, nil)
	if text(leafAfter, "commitment.digest") != text(leafBefore, "commitment.digest") || leafAfter["leafIndex"] != leafBefore["leafIndex"] ||
		string(l.get("/v1/archive/"+a.Receipt)) != sealedBefore {
		t.Error("the receipt changed")
	}
	// Both truths: then and now, each with its policy.
	then, err := r.Decision(t.Context(), a.Receipt)
	if err != nil || then.Decision.Decision != admission.Admit || then.Decision.Policy.Digest != p.Ref().Digest {
		t.Errorf("%+v %v", then, err)
	}
	now, err := r.Recheck(t.Context(), got.Digest)
	if err != nil || now.State != "fail" || now.EvidenceBundle != a.Bundle || now.AdmittedUnder != p.Ref().Digest {
		t.Errorf("%+v %v", now, err)
	}
	// Both attempts verify offline.
	l.verified(l.get("/v1/bundle?attempt=" + attempt + "&attempt=" + text(rev, "attemptId")))
}

func TestREV13_OPS02_EvidenceErasedIsFoundBySchedule(t *testing.T) {
	l := newLedger(t)
	r := l.reviews()
	p := reviewkit.StampPolicy(t, "1", "")
	a, attempt, outcome := l.admit("s", reviewkit.Stamped(p, "s", "one-low", 1, stamps))
	l.contract(r, "mcp/s", "low", a, outcome)
	if o := l.run(r, "run-1", "low", judge(r, p, stamps))["mcp/s"]; o.Disposition != "continue" {
		t.Fatalf("%+v", o)
	}
	l.want(http.StatusOK, "POST", "/v1/erasures", []byte(`{"state":"redacted","confirm":true,"attempts":["`+attempt+`"]}`))
	// No policy changed: the schedule alone finds it.
	o := l.run(r, "run-2", "low", judge(r, p, stamps))["mcp/s"]
	if o.Trigger != "schedule" || o.Disposition != "quarantine" || !slices.Equal(o.Causes, []string{"receipt_erased"}) {
		t.Fatalf("%+v", o)
	}
	if st := l.standing("mcp/s"); text(st, "call") != "refuse" || text(st, "reason") != "contract_quarantined" {
		t.Errorf("%v", st)
	}
	if code, e := l.do("GET", "/v1/archive/"+a.Receipt, nil); code != http.StatusGone || text(e, "error.code") != "evidence_gone" || text(e, "error.reason") != "erased" {
		t.Errorf("%d %v", code, e)
	}
	if _, err := r.Decision(t.Context(), a.Receipt); !errors.Is(err, reviewer.ErrUnreadable) {
		t.Errorf("%v", err)
	}
	// Replaced: a new admission, a new receipt, and calls go on.
	again, _, outcome := l.admit("s-2", reviewkit.Stamped(p, "s2", "one-low", 1, stamps))
	l.contract(r, "mcp/s", "low", again, outcome)
	if st := l.standing("mcp/s"); text(st, "call") != "allow" || text(st, "receipt") != again.Receipt {
		t.Errorf("%v", st)
	}
}

func TestOPS03_OPS04_REV28_ReportOnlyThenEnforced(t *testing.T) {
	l := newLedger(t)
	r := l.reviews()
	then, now := reviewkit.StampPolicy(t, "1", ""), reviewkit.StampPolicy(t, "2", "")
	lost := &reviewkit.Stamps{Version: "1"}
	a, _, oa := l.admit("priv", reviewkit.Stamped(then, "priv", "one-privileged", 1, stamps))
	b, _, ob := l.admit("low", reviewkit.Stamped(then, "low", "one-low", 1, stamps))
	l.contract(r, "mcp/priv", "privileged", a, oa)
	l.contract(r, "mcp/low", "low", b, ob)
	want := func(name, call, reason, mode string) {
		t.Helper()
		if st := l.standing(name); text(st, "call") != call || text(st, "reason") != reason || text(st, "mode") != mode {
			t.Errorf("%s: %v, want %s %s %s", name, st, call, reason, mode)
		}
	}
	want("mcp/priv", "allow", "", "")
	l.run(r, "run-report", "", judge(r, then, lost))
	want("mcp/priv", "queue", "contract_reported", "report_only")
	want("mcp/low", "queue", "contract_reported", "report_only")
	l.run(r, "run-drift", "privileged", judge(r, now, stamps))
	want("mcp/priv", "refuse", "contract_requires_readmission", "enforced")
	want("mcp/low", "allow", "", "report_only")
	l.run(r, "run-enforced", "privileged", judge(r, then, lost))
	want("mcp/priv", "refuse", "contract_retired", "enforced")
	want("mcp/low", "queue", "contract_reported", "report_only")
	// A report-only run lifts nothing.
	l.run(r, "run-audit", "", judge(r, then, stamps))
	want("mcp/priv", "refuse", "contract_retired", "enforced")
	// A person does.
	var page struct{ AttemptID, EventID string }
	c := at(l.settled("/v1/contracts?name=mcp/priv"), "contracts").([]any)[0]
	page.AttemptID, page.EventID = text(c, "attemptId"), text(c, "eventId")
	l.append(page.AttemptID, "ticket-9", `"lifecycle":"review","status":"continue","reviewer":"ada","reasonCodes":["manual_review"],"refs":{"reviews":"`+page.EventID+`"}`)
	want("mcp/priv", "allow", "", "enforced")
	// A contract that the log does not have refuses.
	want("mcp/none", "refuse", "contract_unknown", "")
}

// A run that is cut off anywhere, its ledger with it, judges nothing twice.
func TestREV20_RunGoesOnAfterTheLedgerEnded(t *testing.T) {
	dir := t.TempDir() + "/data"
	l := startLedger(t, dir)
	p := reviewkit.StampPolicy(t, "1", "")
	r := l.reviews()
	const n = 12
	for i := range n {
		name := fmt.Sprintf("s-%02d", i)
		a, _, outcome := l.admit(name, reviewkit.Stamped(p, name, "one-low", 1, stamps))
		l.contract(r, "mcp/"+name, "low", a, outcome)
	}
	contracts, err := r.Contracts(t.Context())
	if err != nil || len(contracts) != n {
		t.Fatalf("%d contracts, %v", len(contracts), err)
	}
	plan := review.Selection{Now: reviewkit.Now}.New(contracts)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	seen := 0
	run := &review.Run{ID: "run", Judge: judge(r, p, stamps), Record: r, Appends: 2, Observe: func(review.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen == 4 {
			cancel()
		}
	}}
	if _, err := run.Do(ctx, plan); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	l.stop()
	l = startLedger(t, dir)
	r = l.reviews()
	done, err := r.Reviewed(t.Context(), "run")
	if err != nil || len(done) < 4 || len(done) == n {
		t.Fatalf("%d reviewed, %v", len(done), err)
	}
	j := judge(r, p, stamps)
	j.At = reviewkit.Now.Add(time.Hour)
	out, err := (&review.Run{ID: "run", Judge: j, Record: r}).Do(t.Context(), plan)
	if err != nil || !review.AllJudged(out) {
		t.Fatalf("%+v %v", out, err)
	}
	before := 0
	for _, o := range out {
		if o.State == review.StateBefore {
			before++
		}
	}
	if before != len(done) {
		t.Errorf("%d were found, %d had been recorded", before, len(done))
	}
	// A review that the views do not show yet is found by its id.
	blind := blindTo{r}
	j.At = reviewkit.Now.Add(2 * time.Hour)
	out, err = (&review.Run{ID: "run", Judge: j, Record: blind}).Do(t.Context(), plan)
	if err != nil || slices.ContainsFunc(out, func(o review.Outcome) bool { return o.State != review.StateBefore }) {
		t.Fatalf("%+v %v", out, err)
	}
	for _, c := range contracts {
		if a := l.want(http.StatusOK, "GET", "/v1/attempts/"+c.Attempt, nil); a["revision"] != float64(2) {
			t.Errorf("%s has %v events, want the contract and one review", c.Name, a["revision"])
		}
	}
	list := l.want(http.StatusOK, "GET", "/v1/reviews?run=run&limit=256", nil)
	if got := len(list["reviews"].([]any)); got != n {
		t.Errorf("%d reviews of the run, want %d", got, n)
	}
}

// blindTo is a ledger whose views show nothing of the run.
type blindTo struct{ reviewer.Ledger }

func (blindTo) Reviewed(context.Context, string) (map[string]review.Recorded, error) {
	return nil, nil
}

func TestREV22_REV23_REV26_ADM24_RefusedOverHTTP(t *testing.T) {
	l := newLedger(t)
	digest := admission.Digest(nil)
	begin := func(changes ...any) []byte {
		return patched(t, beginBody("c", `{"n":1}`), append([]any{"subject.kind", "contract", "subject.id", "mcp/a"}, changes...)...)
	}
	for name, c := range map[string]struct {
		body []byte
		path string
	}{
		"contract on a tool action": {patched(t, beginBody("x", `1`), "contract.impact", "low", "contract.receipt", digest), "/contract"},
		"impact that nobody knows":  {begin("contract.impact", "high", "contract.receipt", digest), "/contract/impact"},
		"a version for a receipt":   {begin("contract.impact", "low", "contract.receipt", "1.7.2"), "/contract/receipt"},
		"predicates copied":         {begin("contract.impact", "low", "contract.receipt", digest, "contract.predicateType", "x"), "/contract/predicateType"},
	} {
		code, e := l.do("POST", "/v1/attempts", c.body)
		refused(t, name, code, e, "invalid_request", http.StatusBadRequest, c.path)
	}
	attempt := l.want(http.StatusCreated, "POST", "/v1/attempts", begin("contract.impact", "low", "contract.receipt", digest))
	id, set := text(attempt, "attemptId"), text(attempt, "eventId")
	full := appendBody(id, "review:r", `"lifecycle":"review","status":"continue","rubric":"r","reasonCodes":["receipt_still_within_policy"],`+
		`"refs":{"reviews":"`+set+`","receipt":"`+digest+`","policy":"`+digest+`","contract":"`+digest+`","recheck":"`+digest+`"},`+
		`"run":{"id":"r","trigger":"manual","mode":"enforced","impact":"low","recheck":"pass"}`)
	for name, c := range map[string]struct {
		body []byte
		path string
	}{
		"no reason":         {patched(t, full, "reasonCodes", nil), "/reasonCodes"},
		"no receipt":        {patched(t, full, "refs.receipt", nil), "/refs/receipt"},
		"no policy":         {patched(t, full, "refs.policy", nil), "/refs/policy"},
		"no contract":       {patched(t, full, "refs.contract", nil), "/refs/contract"},
		"no recheck":        {patched(t, full, "refs.recheck", nil), "/refs/recheck"},
		"no impact":         {patched(t, full, "run.impact", nil), "/statement/review/run/impact"},
		"no state":          {patched(t, full, "run.recheck", nil), "/statement/review/run/recheck"},
		"unknown state":     {patched(t, full, "run.recheck", "passed"), "/statement/review/run/recheck"},
		"no disposition":    {patched(t, full, "status", "upheld"), "/status"},
		"logs of verifiers": {patched(t, full, "run.log", "…"), "/run/log"},
		"a run's outcome":   {patched(t, full, "lifecycle", "outcome", "rubric", nil, "status", "failed"), "/run"},
	} {
		code, e := l.do("POST", "/v1/attempts/"+id+"/events", c.body)
		refused(t, name, code, e, "invalid_request", http.StatusBadRequest, c.path)
	}
	if code, e := l.do("POST", "/v1/attempts/"+id+"/events", full); code != http.StatusCreated {
		t.Errorf("the whole review: %d %v", code, e)
	}
	for name, path := range map[string]string{
		"no contract named": "/v1/dispositions", "unknown parameter": "/v1/dispositions?contract=a&use=b",
		"a name and a page": "/v1/contracts?name=a&limit=3", "a run in an order": "/v1/reviews?run=a&order=newest", "no digest": "/v1/archive/sha256:abc",
		"another token": "/v1/contracts?pageToken=xyz",
	} {
		if code, e := l.do("GET", path, nil); code != http.StatusBadRequest || text(e, "error.message") == "" {
			t.Errorf("%s: %d %v", name, code, e)
		}
	}
	if code, e := l.do("GET", "/v1/archive/"+digest, nil); code != http.StatusNotFound || text(e, "error.reason") != "absent" {
		t.Errorf("a body that nobody kept: %d %v", code, e)
	}
	if code, e := l.do("POST", "/v1/rechecks?owner="+id+"&class=c&kind=security_evidence&days=400", []byte(`{"schema":"counterfoil.evidence-recheck.v1"}`)); code != http.StatusBadRequest {
		t.Errorf("no recheck: %d %v", code, e)
	}
	if code, _ := l.raw("GET", "/v1/dispositions?contract=a", nil, ""); code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", code)
	}
}

func TestARC16_OPS01_RetentionChangeIsATrigger(t *testing.T) {
	l := newLedger(t)
	r := l.reviews()
	p := reviewkit.StampPolicy(t, "1", "")
	a, attempt, outcome := l.admit("s", reviewkit.Stamped(p, "s", "one-low", 1, stamps))
	l.contract(r, "mcp/s", "low", a, outcome)
	j := judge(r, p, stamps)
	l.run(r, "run-1", "", j)
	state := func() review.State {
		retention, err := r.RetentionChanges(t.Context(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return review.State{Policy: p.Ref().Digest, Verifiers: review.VerifiersDigest([]admission.VerifierInfo{stamps.Info()}), Retention: retention}
	}
	plan := func() review.Plan {
		l.settled("/v1/contracts")
		contracts, err := r.Contracts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return review.Selection{Now: reviewkit.Now, OnlyDue: true, State: state()}.New(contracts)
	}
	if p := plan(); len(p.Review) != 0 {
		t.Fatalf("nothing changed: %+v", p.Review)
	}
	l.want(http.StatusOK, "POST", "/v1/retention", []byte(`{"attempt":"`+attempt+`","class":"longer","kind":"security_evidence","days":800}`))
	if p := plan(); len(p.Review) != 1 || p.Review[0].Trigger != event.TriggerRetention {
		t.Errorf("%+v", p.Review)
	}
}

func TestOPS01_RunsAreOnRecord(t *testing.T) {
	l := newLedger(t)
	r := l.reviews()
	info := reviewer.RunInfo{ID: "run-1", Policy: "mine", Trigger: "incident", Who: reviewer.Source{RuntimeID: "t", AgentID: "t", Implementation: "t"}, At: reviewkit.Now}
	id, err := r.BeginRun(t.Context(), info)
	if err != nil {
		t.Fatal(err)
	}
	a := l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil)
	if text(a, "state") != "open" || text(a, "subject.kind") != "policy" || text(a, "subject.id") != "mine" || text(a, "action.effectKind") != "incident" {
		t.Errorf("%v", a)
	}
	info.At = info.At.Add(time.Hour) // it goes on later
	again, err := r.BeginRun(t.Context(), info)
	if err != nil || again != id {
		t.Errorf("%s, want %s: %v", again, id, err)
	}
	for range 2 {
		if err := r.EndRun(t.Context(), id, info.At, map[string]string{"policy": admission.Digest(nil)}, []byte(`{"n":1}`)); err != nil {
			t.Fatal(err)
		}
		info.At = info.At.Add(time.Hour)
	}
	if a := l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil); text(a, "state") != "succeeded" || a["revision"] != float64(2) {
		t.Errorf("%v", a)
	}
}

// The same terms after others are set anew; the same step twice is one.
func TestADM24_SettingContracts(t *testing.T) {
	l := newLedger(t)
	r := l.reviews()
	who := reviewer.Source{RuntimeID: "t", AgentID: "t", Implementation: "t"}
	doc := func(receipt string) *review.Document {
		return &review.Document{Schema: event.ContractSchema, Name: "mcp/a", ContractTerms: event.ContractTerms{Impact: "low", Receipt: admission.Digest([]byte(receipt))}}
	}
	var events []string
	for i, c := range []struct {
		receipt string
		set     bool
	}{{"a", true}, {"a", false}, {"b", true}, {"b", false}, {"a", true}, {"a", false}} {
		id, set, err := r.SetContract(t.Context(), doc(c.receipt), who, reviewkit.Now.Add(time.Duration(i)*time.Hour))
		if err != nil || set != c.set {
			t.Fatalf("step %d: set %v, %v", i, set, err)
		}
		events = append(events, id)
	}
	if events[0] != events[1] || events[0] == events[4] || events[4] != events[5] {
		t.Errorf("%v", events)
	}
	a, err := r.Contract(t.Context(), "mcp/a")
	if err != nil || a.Value.Contracts[0].Receipt != admission.Digest([]byte("a")) || a.Value.Contracts[0].EventID != events[4] {
		t.Errorf("%+v %v", a, err)
	}
}
