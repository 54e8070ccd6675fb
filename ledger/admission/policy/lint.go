package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"counterfoil/ledger/admission"
)

// lint checks what the members of a document say together.
func (r *reader) lint(p *Policy) {
	used := make(map[string]bool)
	for _, c := range p.classes {
		used[c.Retention] = true
		r.lintClass(p, c)
	}
	for _, name := range p.RetentionClasses() {
		if !used[name] {
			r.report(SeverityWarning, p.retentionAt[name], "unused", "/retention/"+name, "delete it", "no class uses it")
		}
	}
	for i, u := range p.rules {
		r.lintRule(p, u, p.rules[:i])
	}
	for i := range p.exemptions {
		r.lintExemption(p, i)
	}
}

func (r *reader) lintClass(p *Policy, c *class) {
	path := "/classes/" + c.Name
	if c.Name == allClasses {
		r.fail(c.at, "value", path, "", "%s stands for every class and can be no class's name", allClasses)
	}
	kept, ok := p.retention[c.Retention]
	if !ok {
		r.fail(c.at, "unknown", path+"/retention", "known are "+strings.Join(p.RetentionClasses(), ", "), "no retention class %q", c.Retention)
	}
	secret := c.readsSecrets || c.Impact == admission.ImpactPrivileged
	if secret && kept.Kind == DiscoveryTelemetry {
		r.fail(c.at, "telemetry-retention", path+"/retention", "use a retention class of kind "+SecurityEvidence,
			"evidence about privileged or secret-reading tools is kept as %s", DiscoveryTelemetry)
	}
	if c.Impact == admission.ImpactPrivileged {
		if len(c.Attestations) == 0 {
			r.fail(c.at, "class-without-minimum", path+"/minimum/attestations", "name at least one attestation and its signers",
				"a privileged class demands no attestation")
		}
		if c.Quarantine.Calls != "refuse" {
			r.fail(c.at, "value", path+"/quarantine/calls", "", "a privileged class must refuse calls in quarantine")
		}
		if slices.Contains(c.Bindings, admission.KindNotBytePinnable) {
			r.report(SeverityWarning, c.at, "not-pinned", path+"/minimum/bindings", "", "a privileged class accepts servers that nothing pins")
		}
	}
	for _, d := range c.Attestations {
		for _, k := range c.Bindings {
			if k != admission.KindBytes && (k != admission.KindAttestedRelease || slices.Contains(d.PredicateTypes, admission.PlainSignature)) {
				r.report(SeverityWarning, c.at, "unreachable-binding", path+"/minimum/bindings", "put such servers into a class of their own",
					"a binding of kind %s has no bytes that attestation %s could be about", k, d.ID)
			}
		}
	}
}

func (r *reader) lintRule(p *Policy, u *rule, before []*rule) {
	known := false
	for _, name := range u.classes {
		switch {
		case name == allClasses || p.Class(name) != nil:
			known = true
		default:
			r.fail(u.at.get("classes"), "unknown", u.path+"/classes", "known are "+strings.Join(p.Classes(), ", ")+" and "+allClasses, "no class %q", name)
		}
	}
	if !known {
		return
	}
	for _, o := range before {
		if o.source() == u.source() && !slices.ContainsFunc(p.Classes(), func(c string) bool { return u.applies(c) && !o.applies(c) }) {
			r.fail(u.at, "unreachable-rule", u.path, "delete it", "rule %s asks the same of the same classes", o.id)
		}
	}
	r.lintReach(p, u)
	// A rule that breaks on empty facts breaks on real ones some day.
	empty := admission.EmptyFacts()
	for _, part := range []*expression{u.when, u.require} {
		if part == nil {
			continue
		}
		if _, code, err := part.eval(activation(empty)); err != nil && code == admission.PolicyRuleError {
			r.report(SeverityWarning, u.at, "fragile-rule", u.path, "guard it, as in size(attestations) > 0 && …, or use exists",
				"cannot be evaluated when nothing is known: %v", err)
			return
		}
	}
}

func (u *rule) source() string {
	when := "true"
	if u.when != nil {
		when = u.when.source
	}
	return when + "\x00" + u.require.source
}

// lintReach finds rules that are decided by the class alone: a when that is
// never true is a rule that nobody asks, and a require that is always true one
// that says nothing.
func (r *reader) lintReach(p *Policy, u *rule) {
	reached, says := false, false
	for _, c := range p.classes {
		if !u.applies(c.Name) {
			continue
		}
		when, whenKnown := true, true
		if u.when != nil {
			when, whenKnown = u.when.knownFor(&c.Class)
		}
		if whenKnown && !when {
			continue
		}
		reached = true
		if require, known := u.require.knownFor(&c.Class); !known || !require {
			says = true
		}
	}
	switch {
	case !reached:
		r.fail(u.at, "unreachable-rule", u.path+"/when", "delete it, or correct when", "is never true for the classes of the rule")
	case !says:
		r.fail(u.at, "empty-rule", u.path+"/require", "delete it, or correct require", "is always true for the classes of the rule")
	}
}

// knownFor evaluates an expression with nothing known but the class.
func (e *expression) knownFor(c *admission.Class) (value, known bool) {
	env, err := environment()
	if err != nil {
		return false, false
	}
	program, err := env.Program(e.ast, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(MaxRuleCost))
	if err != nil {
		return false, false
	}
	var unknown []*cel.AttributePatternType
	for _, v := range variables[1:] {
		unknown = append(unknown, cel.AttributePattern(v))
	}
	vars, err := cel.PartialVars(map[string]any{"class": admission.FactClass{Name: c.Name, Impact: string(c.Impact)}}, unknown...)
	if err != nil {
		return false, false
	}
	out, _, err := program.Eval(vars)
	if err != nil {
		return false, false
	}
	b, ok := out.(types.Bool)
	return bool(b), ok
}

func (r *reader) lintExemption(p *Policy, i int) {
	e := &p.exemptions[i]
	path := fmt.Sprintf("/exemptions/%d", i)
	for j := range i {
		if p.exemptions[j].ID == e.ID {
			r.fail(e.at, "duplicate", path+"/id", "", "exemption %s is there already", e.ID)
		}
	}
	if strings.ContainsAny(e.server, "*?") || !strings.Contains(e.server, "/") {
		r.fail(e.at, "value", path+"/server", "an exemption is for one server", "is %q, want a server's full name", e.server)
	}
	c := p.Class(e.class)
	if c == nil {
		r.fail(e.at, "unknown", path+"/class", "known are "+strings.Join(p.Classes(), ", "), "no class %q", e.class)
		return
	}
	for _, w := range e.waive {
		kind, id, _ := strings.Cut(w, ":")
		ok := false
		switch kind {
		case "rule":
			ok = slices.ContainsFunc(p.rules, func(u *rule) bool { return u.id == id && u.applies(c.Name) })
		case "check":
			ok = slices.Contains(c.Checks, id)
		case "attestation":
			r.fail(e.at, "value", path+"/waive", "put the server into a class with a lower minimum", "attestations cannot be waived")
			continue
		}
		if !ok {
			r.fail(e.at, "unreachable-exemption", path+"/waive", "waive rule:<id> or check:<id> of the class", "class %s has no %q to waive", c.Name, w)
		}
	}
}

// lintTime checks what depends on the time.
func (p *Policy) lintTime(at time.Time) (problems []Problem) {
	for i := range p.exemptions {
		e := &p.exemptions[i]
		warn := func(code, hint, format string, args ...any) {
			problems = append(problems, Problem{
				Line: e.at.line, Column: e.at.column, Severity: SeverityWarning, Code: code,
				Path: fmt.Sprintf("/exemptions/%d/expires", i), Message: fmt.Sprintf(format, args...), Hint: hint,
			})
		}
		switch {
		case !at.Before(e.until):
			warn("expired-exemption", "delete it", "exemption %s expired at %s", e.ID, e.Expires)
		case e.until.Sub(at) > 366*24*time.Hour:
			warn("long-exemption", "look at it again within a year", "exemption %s lasts more than a year", e.ID)
		}
	}
	return problems
}
