package vectors

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"testing"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
	"counterfoil/ledger/review/rubric"
	"counterfoil/projections/contracts"
	"counterfoil/projections/follow"
	"counterfoil/projections/kv"
	"counterfoil/projections/leaftest"
	"counterfoil/projections/query"
)

type reviewDoc struct {
	Description string `json:"description"`
	Contracts   []struct {
		Rule     string              `json:"rule"`
		Name     string              `json:"name"`
		Terms    event.ContractTerms `json:"terms"`
		Document string              `json:"document"`
		Digest   string              `json:"digest"`
	} `json:"contracts"`
	Accept []struct {
		Rule    string `json:"rule"`
		Recheck string `json:"recheck"`
		Digest  string `json:"digest"`
	} `json:"accept"`
	Reject []struct {
		Rule    string  `json:"rule"`
		Recheck string  `json:"recheckBase64"`
		Path    *string `json:"path"`
	} `json:"reject"`
	Rubric []struct {
		Recheck        string             `json:"recheck"`
		Incomplete     bool               `json:"incomplete"`
		Drift          bool               `json:"drift"`
		Impact         string             `json:"impact"`
		PrivilegedFail rubric.Disposition `json:"privilegedEvidenceFail"`
		StandardAs     string             `json:"standardAs"`
		Disposition    rubric.Disposition `json:"disposition"`
		Reasons        []string           `json:"reasonCodes"`
	} `json:"rubric"`
	Verifiers []struct {
		Rule      string                   `json:"rule"`
		Verifiers []admission.VerifierInfo `json:"verifiers"`
		Digest    string                   `json:"digest"`
	} `json:"verifiers"`
	Standings []standing `json:"standings"`
}

type standing struct {
	Rule   string `json:"rule"`
	Events []struct {
		Impact      string `json:"impact"`
		Receipt     string `json:"receipt"`
		Mode        string `json:"mode"`
		Disposition string `json:"disposition"`
	} `json:"events"`
	Call   contracts.Call `json:"call"`
	Reason string         `json:"reason"`
}

func TestREV32_ADM24_ReviewVectors(t *testing.T) {
	var doc reviewDoc
	load(t, "review.json", &doc)
	for _, c := range doc.Contracts {
		if got := string(c.Terms.Canonical(c.Name)); got != c.Document || c.Terms.Digest(c.Name).String() != c.Digest {
			t.Errorf("%s: %s", c.Rule, got)
		}
		if docs, err := review.ParseContracts([]byte(c.Document)); err != nil || docs[0].Digest() != c.Digest {
			t.Errorf("%s: %+v %v", c.Rule, docs, err)
		}
	}
	for _, c := range doc.Accept {
		if _, err := review.ParseRecheck([]byte(c.Recheck)); err != nil || admission.Digest([]byte(c.Recheck)) != c.Digest {
			t.Errorf("%s: %v", c.Rule, err)
		}
	}
	for _, c := range doc.Reject {
		raw, err := base64.StdEncoding.DecodeString(c.Recheck)
		if err != nil {
			t.Fatal(err)
		}
		_, err = review.ParseRecheck(raw)
		var e *admission.Error
		if err == nil || c.Path != nil && (!errors.As(err, &e) || e.Path != *c.Path) {
			t.Errorf("%s: %v", c.Rule, err)
		}
	}
	for _, r := range doc.Rubric {
		got, err := rubric.Judge(rubric.Input{Recheck: r.Recheck, Incomplete: r.Incomplete, Drift: r.Drift, Impact: r.Impact},
			rubric.Knobs{PrivilegedFail: r.PrivilegedFail, StandardAs: r.StandardAs})
		if got.Disposition != r.Disposition || !slices.Equal(got.Reasons, r.Reasons) || (err != nil) != (r.Disposition == "") {
			t.Errorf("%+v: %+v %v", r, got, err)
		}
	}
	for _, c := range doc.Verifiers {
		if got := review.VerifiersDigest(c.Verifiers); got != c.Digest {
			t.Errorf("%s: %s", c.Rule, got)
		}
	}
	if len(doc.Contracts)*len(doc.Accept)*len(doc.Reject)*len(doc.Verifiers)*len(doc.Standings) == 0 || len(doc.Rubric) != 144 {
		t.Error("cases are missing")
	}
}

// The views fold the events of each case and come to the same answer.
func TestREV28_StandingVectors(t *testing.T) {
	var doc reviewDoc
	load(t, "review.json", &doc)
	for _, c := range doc.Standings {
		views := foldStanding(t, &c)
		ans, err := views.Contract(t.Context(), "mcp/a")
		if errors.Is(err, query.ErrNotFound) {
			if c.Call != contracts.Refuse || c.Reason != contracts.ReasonUnknown {
				t.Errorf("%s: there is no contract", c.Rule)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if st := ans.Contract.Standing(); st.Call != c.Call || st.Reason != c.Reason {
			t.Errorf("%s: %s %q, want %s %q", c.Rule, st.Call, st.Reason, c.Call, c.Reason)
		}
	}
}

func foldStanding(t *testing.T, c *standing) *query.Views {
	t.Helper()
	var leaves [][]byte
	var first, last *event.Event
	add := func(e *event.Event) {
		if err := e.Validate(); err != nil {
			t.Fatalf("%s: %v", c.Rule, err)
		}
		leaves, last = append(leaves, leaftest.Leaf(e)), e
	}
	for i, ev := range c.Events {
		if ev.Impact != "" || first == nil {
			first = leaftest.Begin(fmt.Sprint("terms-", i), func(e *event.Event) {
				e.Subject = event.Subject{Kind: event.Contract, ID: "mcp/a"}
				if ev.Impact != "" {
					e.Statement = event.ContractTerms{Impact: ev.Impact, Receipt: ev.Receipt}.Value()
				}
			})
			add(first)
		}
		if ev.Disposition == "" {
			continue
		}
		digest := admission.Digest(nil)
		add(leaftest.After(last, event.Review, ev.Disposition, fmt.Sprint("review:", i), func(e *event.Event) {
			e.ReasonCodes = []string{"policy_drift_detected"}
			e.Refs = map[string]string{"reviews": leaftest.Digest(first).EventID(), "policy": digest, "contract": digest, "recheck": digest, "receipt": ev.Receipt}
			if ev.Receipt == "" {
				// A run always names the receipt: that of the terms in force.
				terms, _ := first.ContractTerms()
				e.Refs["receipt"] = terms.Receipt
			}
			e.Statement = event.Judgement{Rubric: rubric.Name, Run: &event.ReviewRun{ID: fmt.Sprint(i), Trigger: event.TriggerManual, Mode: ev.Mode,
				Impact: event.ImpactLow, Recheck: event.RecheckPass}}.Value()
		}))
	}
	db, err := kv.Open(kv.Config{Dir: t.TempDir(), Origin: leaftest.Origin, Tenant: leaftest.Tenant, Schema: follow.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	log := leaftest.NewLog(leaves...)
	log.Publish(len(leaves))
	f, err := follow.New(follow.Config{DB: db, Source: log, Check: leaftest.Check})
	if err == nil {
		err = f.CatchUp(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return query.New(db, log)
}
