package vectors

import (
	"errors"
	"testing"

	"counterfoil/ledger/lifecycle"
	"counterfoil/ledger/toolresult"
)

func TestTRS02_TRS03_TRS04_TRS05_OPR12_ToolResult(t *testing.T) {
	var doc struct {
		Description string `json:"description"`
		Accept      []struct {
			Rule     string `json:"rule"`
			Document string `json:"document"`
		} `json:"accept"`
		Reject []struct {
			Rule           string  `json:"rule"`
			DocumentBase64 string  `json:"documentBase64"`
			Path           *string `json:"path"`
		} `json:"reject"`
		States []struct {
			State       string              `json:"state"`
			Outcome     string              `json:"outcome"`
			Reversal    string              `json:"reversal"`
			InDoubt     bool                `json:"inDoubt"`
			Told        toolresult.Delivery `json:"told"`
			Combination *int                `json:"combination"`
		} `json:"states"`
	}
	load(t, "tool_result.json", &doc)
	for _, c := range some(t, "accept", doc.Accept) {
		m, err := toolresult.Parse([]byte(c.Document))
		if err != nil {
			t.Errorf("%s: %v", c.Rule, err)
		} else if got := string(m.Append(nil)); got != c.Document {
			t.Errorf("%s: got %.400s\nwant %.400s", c.Rule, got, c.Document)
		}
	}
	for _, c := range some(t, "reject", doc.Reject) {
		_, err := toolresult.Parse(unb64(t, c.DocumentBase64))
		var e *toolresult.Error
		if !errors.As(err, &e) || c.Path != nil && e.Path != *c.Path {
			t.Errorf("%s: got %v", c.Rule, err)
		}
	}
	for _, s := range some(t, "states", doc.States) {
		m, err := toolresult.Of(lifecycle.Summary{State: s.State, Outcome: s.Outcome, Reversal: s.Reversal, InDoubt: s.InDoubt}, s.Told)
		switch {
		case s.Combination == nil:
			if err == nil {
				t.Errorf("%+v: got %s, want none", s, m.Append(nil))
			}
		case err != nil:
			t.Errorf("%+v: %v", s, err)
		case string(m.Append(nil)) != doc.Accept[*s.Combination].Document:
			t.Errorf("%+v: got %s\nwant %s", s, m.Append(nil), doc.Accept[*s.Combination].Document)
		}
	}
}
