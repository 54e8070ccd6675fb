package vectors

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/trust"
)

type policyCase struct {
	caseRule
	Policy pieces `json:"policy"`
	Logs   []struct {
		Key string `json:"key"`
		URL pieces `json:"url"`
	} `json:"logs"`
	Witnesses []struct {
		Name pieces `json:"name"`
		Key  string `json:"key"`
		URL  pieces `json:"url"`
	} `json:"witnesses"`
	Groups []struct {
		Name    pieces   `json:"name"`
		K       int      `json:"k"`
		Members []pieces `json:"members"`
	} `json:"groups"`
	Quorum    pieces     `json:"quorum"`
	Satisfied [][]pieces `json:"satisfied"` // nil if the vectors do not say
}

func TestLOG11_PolicyVectors(t *testing.T) {
	var doc struct {
		Description string       `json:"description"`
		Parts       parts        `json:"parts"`
		Accept      []policyCase `json:"accept"`
		Reject      []struct {
			caseRule
			Policy pieces `json:"policy"`
			Line   int    `json:"line"`
		} `json:"reject"`
		Judge []struct {
			caseRule
			Policy pieces `json:"policy"`
			Note   pieces `json:"note"`
			Why    string `json:"why"`
		} `json:"judge"`
	}
	load(t, "tlog/policy.json", &doc)
	for _, c := range some(t, "accept", doc.Accept) {
		p, err := trust.ParsePolicy(doc.Parts.join(t, c.Policy))
		if err != nil {
			t.Errorf("%s: %v", c, err)
			continue
		}
		if d := cmp.Diff(c.lines(t), linesOf(p)); d != "" {
			t.Errorf("%s: (-want +got)\n%s", c, d)
		}
		again, err := trust.ParsePolicy(p.Append(nil))
		if err != nil {
			t.Errorf("%s: written again: %v", c, err)
		} else if d := cmp.Diff(linesOf(p), linesOf(again)); d != "" {
			t.Errorf("%s: written again: %s", c, d)
		}
		if c.Satisfied != nil {
			c.checkSatisfied(t, p)
		}
	}
	for _, c := range some(t, "reject", doc.Reject) {
		_, err := trust.ParsePolicy(doc.Parts.join(t, c.Policy))
		var pe *trust.PolicyError
		if !errors.As(err, &pe) || pe.Line != c.Line {
			t.Errorf("%s: %v; want line %d", c, err, c.Line)
		}
	}
	for _, c := range some(t, "judge", doc.Judge) {
		p, err := trust.ParsePolicy(doc.Parts.join(t, c.Policy))
		if err != nil {
			t.Errorf("%s: %v", c, err)
			continue
		}
		if got := judge(p, doc.Parts.join(t, c.Note)); got != c.Why {
			t.Errorf("%s: %q, want %q", c, got, c.Why)
		}
	}
}

// judge says why a note is no valid checkpoint under a policy, "" if it is.
func judge(p *trust.Policy, note []byte) string {
	n, err := trust.ParseNote(note)
	if err != nil {
		return "malformed"
	}
	c, err := trust.ParseCheckpoint(n.Text)
	if err != nil {
		return "malformed"
	}
	_, err = p.LogSignature(n, c.Origin)
	tally := p.Tally(n)
	switch {
	case errors.Is(err, trust.ErrNoteSignature) || len(tally.Bad()) > 0:
		return "bad signature"
	case errors.Is(err, trust.ErrUnknownLog):
		return "no log"
	case err != nil:
		return err.Error()
	case !tally.Met():
		return "no quorum"
	}
	return ""
}

// lines is a policy as a list of its lines, one spelling for both sides.
func (c policyCase) lines(t *testing.T) (out []string) {
	t.Helper()
	s := func(p pieces) string { return parts(nil).text(t, p) }
	for _, l := range c.Logs {
		out = append(out, fmt.Sprintf("log %q %q", l.Key, s(l.URL)))
	}
	for _, w := range c.Witnesses {
		out = append(out, fmt.Sprintf("witness %q %q %q", s(w.Name), w.Key, s(w.URL)))
	}
	for _, g := range c.Groups {
		var members []string
		for _, m := range g.Members {
			members = append(members, s(m))
		}
		out = append(out, fmt.Sprintf("group %q %d %q", s(g.Name), g.K, members))
	}
	return append(out, fmt.Sprintf("quorum %q", s(c.Quorum)))
}

func linesOf(p *trust.Policy) (out []string) {
	id := func(k trust.VerifierKey) string { return fmt.Sprintf("%s+%08x", k.Name, k.ID) }
	for _, l := range p.Logs {
		out = append(out, fmt.Sprintf("log %q %q", id(l.Key), l.URL))
	}
	for _, w := range p.Witnesses {
		out = append(out, fmt.Sprintf("witness %q %q %q", w.Name, id(w.Key), w.URL))
	}
	for _, g := range p.Groups {
		out = append(out, fmt.Sprintf("group %q %d %q", g.Name, g.K, g.Members))
	}
	return append(out, fmt.Sprintf("quorum %q", p.Quorum))
}

// checkSatisfied tries every set of witnesses.
func (c policyCase) checkSatisfied(t *testing.T, p *trust.Policy) {
	t.Helper()
	want := map[string]bool{}
	for _, set := range c.Satisfied {
		var names []string
		for _, n := range set {
			names = append(names, parts(nil).text(t, n))
		}
		want[fmt.Sprintf("%q", names)] = true
	}
	met := 0
	for bits := range 1 << len(p.Witnesses) {
		var names []string
		for i, w := range p.Witnesses {
			if bits>>i&1 == 1 {
				names = append(names, w.Name)
			}
		}
		got := p.Satisfied(func(w string) bool { return slices.Contains(names, w) })
		if got != want[fmt.Sprintf("%q", names)] {
			t.Errorf("%s: cosigned by %q: satisfied is %v", c, names, got)
		}
		if got {
			met++
		}
	}
	if met != len(want) {
		t.Errorf("%s: %d sets meet the quorum, want %d", c, met, len(want))
	}
}
