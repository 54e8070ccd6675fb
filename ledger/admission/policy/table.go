package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"counterfoil/ledger/admission"
)

// TableSchema is the schema of a table of tests for a policy.
const TableSchema = "counterfoil.policy-test.v1"

const maxCases = 256

// Table is a table of tests for a policy: facts, and the decision that they must
// lead to. See docs/policy.md for its members.
type Table struct {
	// Policy is the policy's file, beside the table.
	Policy string
	cases  []testCase
}

type testCase struct {
	name string
	line int
	in   *admission.Input
	want expectation
}

type expectation struct {
	decision admission.Decision
	codes    []admission.Code
	hasCodes bool
	failed   []string
	exempt   []string
}

// CaseResult is how one case ended.
type CaseResult struct {
	Name string `json:"name"`
	Line int    `json:"line"`
	OK   bool   `json:"ok"`
	// Decision and ReasonCodes are what the policy said, Missing what it missed.
	Decision    admission.Decision  `json:"decision"`
	ReasonCodes []admission.Code    `json:"reasonCodes"`
	Missing     []admission.Missing `json:"missing,omitempty"`
	// Differences say what was expected otherwise.
	Differences []string `json:"differences,omitempty"`
}

// IsTable reports whether a document says that it is a table; whatever it is, it
// may be wrong.
func IsTable(b []byte) bool {
	r := &reader{}
	n := r.document(b).get("schema")
	return n != nil && n.text == TableSchema
}

// ParseTable reads a table. The table is nil if there is an error among the
// problems.
func ParseTable(b []byte) (*Table, []Problem) {
	r := &reader{}
	n := r.document(b)
	if n == nil || !r.object(n, "", "!schema", "!policy", "!at", "!cases") {
		return nil, r.problems
	}
	t := &Table{Policy: r.text(n.get("policy"), "/policy", 255)}
	if s := r.text(n.get("schema"), "/schema", 64); s != "" && s != TableSchema {
		r.fail(n.get("schema"), "schema", "/schema", "", "is %q, want %s", s, TableSchema)
	}
	if strings.ContainsAny(t.Policy, `/\`) {
		r.fail(n.get("policy"), "value", "/policy", "", "is %q, want the name of a file beside this one", t.Policy)
	}
	at := r.time(n.get("at"), "/at", time.Time{})
	r.list(n.get("cases"), "/cases", maxCases, func(v *node, path string) {
		if !r.object(v, path, "!name", "!class", "given", "!want", "at") {
			return
		}
		c := testCase{name: r.text(v.get("name"), path+"/name", 255), line: v.line}
		if slices.ContainsFunc(t.cases, func(o testCase) bool { return o.name == c.name }) {
			r.fail(v.get("name"), "duplicate", path+"/name", "", "case %q is there already", c.name)
		}
		c.in = r.given(v.get("given"), path+"/given", r.time(v.get("at"), path+"/at", at))
		c.in.Class = r.id(v.get("class"), path+"/class")
		c.want = r.want(v.get("want"), path+"/want")
		t.cases = append(t.cases, c)
	})
	if c := n.get("cases"); c != nil && len(c.values) == 0 {
		r.fail(c, "missing", "/cases", "", "has no case")
	}
	sortProblems(r.problems)
	if HasErrors(r.problems) {
		return nil, r.problems
	}
	return t, r.problems
}

// Run judges every case by a policy.
func (t *Table) Run(p *Policy) []CaseResult {
	var out []CaseResult
	for _, c := range t.cases {
		j := admission.Decide(c.in, p)
		res := CaseResult{Name: c.name, Line: c.line, Decision: j.Decision, ReasonCodes: j.ReasonCodes, Missing: j.Missing}
		res.Differences = c.want.differences(j)
		res.OK = len(res.Differences) == 0
		out = append(out, res)
	}
	return out
}

func (w expectation) differences(j *admission.Judgement) (out []string) {
	if w.decision != j.Decision {
		out = append(out, fmt.Sprintf("decision: expected %s, got %s", w.decision, j.Decision))
	}
	if w.hasCodes && !slices.Equal(w.codes, j.ReasonCodes) {
		out = append(out, fmt.Sprintf("reasonCodes: expected %s, got %s", join(w.codes), join(j.ReasonCodes)))
	}
	var failed, exempt []string
	for _, v := range j.Verdicts {
		switch v.Result {
		case admission.ResultFail, admission.ResultError:
			failed = append(failed, v.ID)
		case admission.ResultExempt:
			exempt = append(exempt, v.ID)
		}
	}
	if w.failed != nil && !slices.Equal(w.failed, failed) {
		out = append(out, fmt.Sprintf("failed: expected %s, got %s", join(w.failed), join(failed)))
	}
	if w.exempt != nil && !slices.Equal(w.exempt, exempt) {
		out = append(out, fmt.Sprintf("exempt: expected %s, got %s", join(w.exempt), join(exempt)))
	}
	return out
}

func (r *reader) want(n *node, path string) (w expectation) {
	if !r.object(n, path, "!decision", "reasonCodes", "failed", "exempt") {
		return w
	}
	w.decision = choice(r, n.get("decision"), path+"/decision", admission.Admit, admission.Quarantine, admission.Reject)
	w.hasCodes = n.get("reasonCodes") != nil
	for _, s := range r.texts(n.get("reasonCodes"), path+"/reasonCodes") {
		if _, ok := admission.Code(s).Info(); !ok {
			r.fail(n.get("reasonCodes"), "value", path+"/reasonCodes", "", "%q is no reason code", s)
		}
		w.codes = append(w.codes, admission.Code(s))
	}
	w.failed = r.texts(n.get("failed"), path+"/failed")
	w.exempt = r.texts(n.get("exempt"), path+"/exempt")
	return w
}

func (r *reader) time(n *node, path string, otherwise time.Time) time.Time {
	s := r.text(n, path, 64)
	if s == "" {
		return otherwise
	}
	t, ok := parseTime(s)
	if !ok {
		r.fail(n, "value", path, "", "is %q, want a time like 2026-01-31T12:00:00.000Z", s)
	}
	return t
}
