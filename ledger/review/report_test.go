package review_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/internal/testkit/reviewkit"
	"counterfoil/ledger/review"
)

func entry(contract, impact, disposition string, daysAgo, sinceDays int, reasons, causes string) review.Entry {
	at := func(days int) time.Time { return reviewkit.Now.Add(-time.Duration(days) * 24 * time.Hour) }
	return review.Entry{Contract: contract, Impact: impact, Disposition: disposition, Mode: "enforced", At: at(daysAgo), Since: at(sinceDays),
		Reasons: strings.Fields(reasons), Causes: strings.Fields(causes), Receipt: "sha256:" + contract, Event: "evt_" + contract}
}

func report() *review.Report {
	subject := func(e review.Entry) review.Subject {
		return review.Subject{Name: e.Contract, Impact: e.Impact, Receipt: e.Receipt, Latest: &e}
	}
	good := entry("good", "low", "continue", 1, 1, "receipt_still_within_policy", "")
	drift := entry("new|drift", "privileged", "re_admit", 1, 1, "policy_drift_detected privileged_contract_requires_fresh_receipt", "")
	long := entry("long-known", "privileged", "re_admit", 1, 60, "policy_drift_detected", "")
	weak := entry("weak", "low", "re_admit", 1, 2, "current_policy_evidence_fail", "evidence_gap signer_key_unknown")
	old := entry("old\x1b[2J", "low", "quarantine", 1, 90, "receipt_evidence_unavailable", "evidence_expired")
	young := entry("young", "standard", "quarantine", 2, 2, "receipt_evidence_unavailable", "evidence_bundle_unreadable archive_unreachable")
	gone := entry("gone", "privileged", "retire", 3, 3, "current_policy_evidence_fail privileged_contract", "signer_key_unknown")
	before := entry("old\x1b[2J", "low", "quarantine", 4, 90, "receipt_evidence_unavailable", "evidence_expired")
	ancient := entry("weak", "low", "continue", 30, 30, "receipt_still_within_policy", "")
	subjects := []review.Subject{subject(good), subject(drift), subject(long), subject(weak), subject(old), subject(young), subject(gone),
		{Name: "never", Impact: "privileged", Receipt: "sha256:never"}}
	return review.NewReport(subjects, []review.Entry{good, drift, long, weak, old, young, gone, before, ancient}, reviewkit.Now.Add(-7*24*time.Hour), reviewkit.Now)
}

func list(standings []review.Standing) (out []string) {
	for _, s := range standings {
		out = append(out, s.Contract)
	}
	return out
}

func TestOPS07_OPS08_ReportHasTheFourSectionsAndSplits(t *testing.T) {
	r := report()
	if r.Contracts != 8 || r.Reviews != 8 || r.Unreviewed != 1 {
		t.Errorf("%d contracts, %d reviews, %d unreviewed", r.Contracts, r.Reviews, r.Unreviewed)
	}
	if diff := cmp.Diff(review.ReasonCount{Code: "receipt_evidence_unavailable", Count: 3, Impact: map[string]int{"low": 2, "standard": 1}}, r.Reasons[0]); diff != "" {
		t.Error(diff)
	}
	// New are those that came to it within the time.
	if diff := cmp.Diff([]string{"new|drift"}, list(r.Readmissions)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"old\x1b[2J", "young"}, list(r.Quarantines)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]review.Class{
		{Class: "evidence", State: "expired", Count: 2, Contracts: 1, Repeated: 1, Impact: map[string]int{"low": 2}},
		{Class: "evidence_bundle", State: "unreadable", Count: 1, Contracts: 1, Impact: map[string]int{"standard": 1}},
	}, r.Unavailable); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"gone", "long-known", "new|drift", "young", "old\x1b[2J", "weak"}, list(r.Queue)); diff != "" {
		t.Error(diff)
	}
	if m := r.Impacts[0]; m.Impact != "privileged" || m.Contracts != 4 || m.Unreviewed != 1 || m.Dispositions["re_admit"] != 2 || m.Gaps["signer_key_unknown"] != 1 {
		t.Errorf("%+v", m)
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"text": func(b *bytes.Buffer) error { return r.Text(b) }, "Markdown": func(b *bytes.Buffer) error { return r.Markdown(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Top reason codes", "New privileged re-admission candidates", "Oldest quarantines", "Evidence classes repeatedly unavailable",
			"By impact class", "Remediation queue", "privileged", "evt_gone"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s lacks %q:\n%s", name, want, b.String())
			}
		}
		if strings.ContainsRune(b.String(), '\x1b') || name == "Markdown" && strings.Contains(b.String(), "new|drift") {
			t.Errorf("%s obeys names:\n%s", name, b.String())
		}
	}
}

func TestOPS07_EmptyReportSaysSo(t *testing.T) {
	r := review.NewReport(nil, nil, reviewkit.Then, reviewkit.Now)
	var b bytes.Buffer
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"No review in this time.", "None in this time.", "Nothing is in quarantine.", "All evidence could be read.", "Nothing is to be remedied."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestOPS08_CausesOfGapsComeApart(t *testing.T) {
	for _, role := range []string{"receipt", "evidence", "evidence_bundle", "policy_decision", "registry_snapshot", "artifact_binding"} {
		for _, state := range []string{"expired", "erased", "compacted", "absent", "damaged", "unreadable"} {
			g := review.Gap{Role: role, State: state}
			if r, s, ok := review.ParseCause(g.Cause()); !ok || r != role || s != state {
				t.Errorf("%s: %s %s %v", g.Cause(), r, s, ok)
			}
		}
	}
	for _, other := range []string{"evidence_gap", "signer_key_unknown", "evidence_unavailable", "archive_full", "_expired", "expired", "", "nothing_expired"} {
		if r, s, ok := review.ParseCause(other); ok {
			t.Errorf("%s: %s %s", other, r, s)
		}
	}
}
