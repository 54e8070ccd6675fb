package rubric_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/event"
	"counterfoil/ledger/review/rubric"
)

func read[T any](t *testing.T, name string) (v T) {
	t.Helper()
	b, err := os.ReadFile("../../../testdata/vectors/review/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

type row struct {
	Available   bool     `json:"evidence_available"`
	Recheck     string   `json:"evidence_recheck"`
	Impact      string   `json:"contract_impact"`
	Drift       bool     `json:"policy_drift"`
	Disposition string   `json:"disposition"`
	Reasons     []string `json:"reason_codes"`
	Allowed     []string `json:"allowed_dispositions"`
}

func (r row) input() rubric.Input {
	in := rubric.Input{Recheck: r.Recheck, Drift: r.Drift, Impact: r.Impact}
	if !r.Available {
		in.Recheck = event.RecheckUnavailable
	}
	return in
}

func table(t *testing.T) []row {
	t.Helper()
	v := read[struct {
		Table []row `json:"table"`
	}](t, "replay_rubric_truth_table.json")
	if len(v.Table) != 24 {
		t.Fatalf("%d rows, want 24", len(v.Table))
	}
	return v.Table
}

func TestREV03_REV04_REV05_REV06_REV07_REV08_TruthTable(t *testing.T) {
	for i, r := range table(t) {
		got, err := rubric.Judge(r.input(), rubric.Knobs{})
		if err != nil || string(got.Disposition) != r.Disposition || !slices.Equal(got.Reasons, r.Reasons) {
			t.Errorf("row %d %+v: %v %v %v", i, r, got.Disposition, got.Reasons, err)
		}
		other, err := rubric.Judge(r.input(), rubric.Knobs{PrivilegedFail: rubric.Quarantine})
		if err != nil || !slices.Equal(other.Reasons, r.Reasons) {
			t.Errorf("row %d with the knob: %v %v", i, other, err)
		}
		allowed := r.Allowed
		if allowed == nil {
			allowed = []string{r.Disposition}
		}
		if !slices.Contains(allowed, string(other.Disposition)) || len(r.Allowed) == 2 && other.Disposition != rubric.Quarantine {
			t.Errorf("row %d with the knob: %s is not among %v", i, other.Disposition, allowed)
		}
	}
}

func TestREV09_REV12_REV26_KnobsAndRefusals(t *testing.T) {
	type c struct {
		Rule           string             `json:"rule"`
		PrivilegedFail rubric.Disposition `json:"privilegedEvidenceFail"`
		StandardAs     string             `json:"standardAs"`
		Recheck        string             `json:"recheck"`
		Incomplete     bool               `json:"incomplete"`
		Drift          bool               `json:"drift"`
		Impact         string             `json:"impact"`
		Disposition    rubric.Disposition `json:"disposition"`
		Reasons        []string           `json:"reasonCodes"`
		Field          string             `json:"field"`
	}
	v := read[struct {
		Accept []c `json:"accept"`
		Refuse []c `json:"refuse"`
	}](t, "rubric_knobs.json")
	judge := func(c c) (rubric.Result, error) {
		return rubric.Judge(rubric.Input{Recheck: c.Recheck, Incomplete: c.Incomplete, Drift: c.Drift, Impact: c.Impact},
			rubric.Knobs{PrivilegedFail: c.PrivilegedFail, StandardAs: c.StandardAs})
	}
	for _, c := range v.Accept {
		got, err := judge(c)
		if err != nil || got.Disposition != c.Disposition || !slices.Equal(got.Reasons, c.Reasons) {
			t.Errorf("%s: %v %v", c.Rule, got, err)
		}
	}
	for _, c := range v.Refuse {
		got, err := judge(c)
		var e *rubric.Error
		if !errors.As(err, &e) || e.Field != c.Field || got.Disposition != "" {
			t.Errorf("%s: %v %v, want a refusal of %s", c.Rule, got, err, c.Field)
		}
	}
	if len(v.Accept) == 0 || len(v.Refuse) == 0 {
		t.Error("no cases")
	}
}

// Every code that the rubric gives is one that a ledger accepts, with a meaning.
func TestREV10_REV26_CodesAreRegistered(t *testing.T) {
	seen := map[rubric.Disposition][]string{}
	for _, r := range table(t) {
		got, err := rubric.Judge(r.input(), rubric.Knobs{})
		if err != nil || len(got.Reasons) == 0 {
			t.Fatalf("%+v: %v %v", r, got, err)
		}
		for _, c := range got.Reasons {
			if _, ok := event.ReasonCodeMeaning(c); !ok {
				t.Errorf("%s is not registered", c)
			}
		}
		if !slices.Contains(event.Statuses(event.Review, event.Contract), string(got.Disposition)) {
			t.Errorf("%s is no status of a review", got.Disposition)
		}
		seen[got.Disposition] = got.Reasons
	}
	// Unavailable and unacceptable are told apart by their codes.
	if slices.ContainsFunc(seen[rubric.Quarantine], func(c string) bool { return slices.Contains(seen[rubric.Retire], c) }) {
		t.Errorf("unavailable %v and failed %v share a code", seen[rubric.Quarantine], seen[rubric.Retire])
	}
	for _, c := range []string{rubric.EvidenceIncomplete} {
		if _, ok := event.ReasonCodeMeaning(c); !ok {
			t.Errorf("%s is not registered", c)
		}
	}
}
