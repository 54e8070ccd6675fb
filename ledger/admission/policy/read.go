package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"counterfoil/ledger/admission"
)

// Bounds of what a document holds.
const (
	maxClasses     = 16
	maxRules       = 64
	maxExemptions  = 256
	maxRetentions  = 16
	maxDemands     = 8
	maxSigners     = 32
	maxTexts       = 16
	maxTextBytes   = 1024
	maxReviewHours = 24 * 366
	maxDays        = 100 * 366
)

// read reads a document and checks all that does not depend on the time. The
// policy is nil if it has an error.
func read(b []byte) (*Policy, []Problem) {
	r := &reader{}
	n := r.document(b)
	if n == nil {
		return nil, r.problems
	}
	p := r.policy(n)
	if !HasErrors(r.problems) {
		r.lint(p)
	}
	if HasErrors(r.problems) {
		p = nil
	}
	sortProblems(r.problems)
	return p, r.problems
}

func (r *reader) policy(n *node) *Policy {
	p := &Policy{retention: make(map[string]Retention), retentionAt: make(map[string]*node)}
	if s := r.text(n.get("schema"), "/schema", 64); s != "" && s != Schema {
		r.fail(n.get("schema"), "schema", "/schema", "", "is %q, want %s", s, Schema)
		return nil
	}
	if !r.object(n, "", "!schema", "!id", "!version", "description", "!retention", "review", "!classes", "rules", "exemptions") {
		return nil
	}
	p.ref.ID = r.id(n.get("id"), "/id")
	p.ref.Version = r.text(n.get("version"), "/version", 64)
	p.description = r.text(n.get("description"), "/description", 4*maxTextBytes)
	r.mappingOf(n.get("retention"), "/retention", maxRetentions, func(key, v *node, path string) {
		if r.object(v, path, "!kind", "!days") && r.id(key, path) != "" {
			p.retentionAt[key.text] = key
			p.retention[key.text] = Retention{
				Kind: choice(r, v.get("kind"), path+"/kind", SecurityEvidence, DiscoveryTelemetry),
				Days: r.integer(v.get("days"), path+"/days", 1, maxDays),
			}
		}
	})
	p.review = r.review(n.get("review"))
	r.mappingOf(n.get("classes"), "/classes", maxClasses, func(key, v *node, path string) {
		if name := r.id(key, path); name != "" {
			p.classes = append(p.classes, r.class(name, key, v, path))
		}
	})
	if c := n.get("classes"); c != nil && len(c.values) == 0 {
		r.fail(c, "missing", "/classes", "", "has no class")
	}
	r.list(n.get("rules"), "/rules", maxRules, func(v *node, path string) {
		if rule := r.rule(v, path, p); rule != nil {
			p.rules = append(p.rules, rule)
		}
	})
	r.list(n.get("exemptions"), "/exemptions", maxExemptions, func(v *node, path string) {
		if e, ok := r.exemption(v, path); ok {
			p.exemptions = append(p.exemptions, e)
		}
	})
	canonical, digest, err := n.json()
	if err != nil {
		r.fail(n, "text", "", "", "has no canonical form: %v", err)
		return nil
	}
	p.canonical, p.ref.Digest = canonical, digest
	return p
}

func (r *reader) review(n *node) Review {
	v := Review{PrivilegedEvidenceFail: "retire", StandardAs: admission.ImpactLow}
	if n == nil || !r.object(n, "/review", "privilegedEvidenceFail", "standardAs") {
		return v
	}
	if m := n.get("privilegedEvidenceFail"); m != nil {
		v.PrivilegedEvidenceFail = choice(r, m, "/review/privilegedEvidenceFail", "retire", "quarantine")
	}
	if m := n.get("standardAs"); m != nil {
		v.StandardAs = choice(r, m, "/review/standardAs", admission.ImpactLow, admission.ImpactPrivileged)
	}
	return v
}

func (r *reader) class(name string, key, n *node, path string) *class {
	c := &class{at: key, Class: admission.Class{Name: name}}
	if !r.object(n, path, "!impact", "readsSecrets", "minimum", "quarantine", "!retention") {
		return c
	}
	c.Impact = choice(r, n.get("impact"), path+"/impact", admission.ImpactLow, admission.ImpactStandard, admission.ImpactPrivileged)
	c.readsSecrets = r.boolean(n.get("readsSecrets"), path+"/readsSecrets")
	c.Retention = r.id(n.get("retention"), path+"/retention")
	if m := n.get("minimum"); m == nil {
		r.fail(key, "class-without-minimum", path+"/minimum", "say what evidence the class takes at least; attestations: none is an answer",
			"class %s has no evidence minimum", name)
	} else {
		r.minimum(m, path+"/minimum", &c.Class)
	}
	if q := n.get("quarantine"); q == nil {
		r.fail(key, "class-without-quarantine", path+"/quarantine", "say what a quarantine means: calls, retries, reviewWithinHours, notify",
			"class %s does not say what a quarantine means", name)
	} else {
		r.quarantine(q, path+"/quarantine", &c.Quarantine)
	}
	return c
}

func (r *reader) minimum(n *node, path string, c *admission.Class) {
	if !r.object(n, path, "!namespace", "!bindings", "algorithms", "checks", "!attestations", "refuseRegression") {
		return
	}
	methods := slices.DeleteFunc(slices.Clone(admission.NamespaceMethods), func(m admission.NamespaceMethod) bool { return m == admission.MethodNone })
	c.Namespace = choices(r, n.get("namespace"), path+"/namespace", true, methods...)
	c.Bindings = choices(r, n.get("bindings"), path+"/bindings", true, admission.KindBytes, admission.KindPinnedDeployment,
		admission.KindAttestedRelease, admission.KindNotBytePinnable)
	c.Algorithms = choices(r, n.get("algorithms"), path+"/algorithms", false, "sha256", "sha384", "sha512")
	c.Checks = choices(r, n.get("checks"), path+"/checks", false, admission.KnownChecks...)
	c.RefuseRegression = r.boolean(n.get("refuseRegression"), path+"/refuseRegression")
	a := n.get("attestations")
	if a == nil || a.kind == yaml.ScalarNode {
		if a != nil && (a.tag != "!!str" || a.text != "none") {
			r.fail(a, "type", path+"/attestations", "", "want the word none or a list")
		}
		return
	}
	if len(a.values) == 0 {
		r.fail(a, "class-without-minimum", path+"/attestations", "write attestations: none if that is meant", "is an empty list")
	}
	r.list(a, path+"/attestations", maxDemands, func(v *node, path string) {
		c.Attestations = append(c.Attestations, r.demand(v, path, c.Attestations))
	})
}

// choices reads a list of some words, each at most once.
func choices[T ~string](r *reader, n *node, path string, some bool, words ...T) []T {
	var out []T
	r.list(n, path, len(words), func(v *node, path string) {
		w := choice(r, v, path, words...)
		if slices.Contains(out, w) && w != "" {
			r.fail(v, "duplicate", path, "", "%s is listed twice", w)
			return
		}
		out = append(out, w)
	})
	if some && n != nil && n.kind == yaml.SequenceNode && len(n.values) == 0 {
		r.fail(n, "class-without-minimum", path, "", "is empty: nothing could ever be admitted")
	}
	return out
}

func (r *reader) quarantine(n *node, path string, q *admission.QuarantineBehaviour) {
	if !r.object(n, path, "!calls", "retries", "!reviewWithinHours", "notify") {
		return
	}
	q.Calls = choice(r, n.get("calls"), path+"/calls", "refuse", "report_only")
	q.Retries = r.integer(n.get("retries"), path+"/retries", 0, 10)
	q.ReviewWithin = time.Duration(r.integer(n.get("reviewWithinHours"), path+"/reviewWithinHours", 1, maxReviewHours)) * time.Hour
	q.Notify = r.text(n.get("notify"), path+"/notify", 255)
}

func (r *reader) demand(n *node, path string, before []admission.Demand) admission.Demand {
	var d admission.Demand
	if !r.object(n, path, "!id", "!predicateTypes", "!signers") {
		return d
	}
	d.ID = r.id(n.get("id"), path+"/id")
	if slices.ContainsFunc(before, func(o admission.Demand) bool { return o.ID == d.ID }) {
		r.fail(n.get("id"), "duplicate", path+"/id", "", "%s is there already", d.ID)
	}
	d.PredicateTypes = r.texts(n.get("predicateTypes"), path+"/predicateTypes")
	for i, t := range d.PredicateTypes {
		if t != admission.PlainSignature && !strings.Contains(t, "://") {
			r.fail(n.get("predicateTypes"), "value", fmt.Sprintf("%s/predicateTypes/%d", path, i), "",
				"is %q, want a URI or %s", t, admission.PlainSignature)
		}
	}
	r.list(n.get("signers"), path+"/signers", maxSigners, func(v *node, path string) {
		if s := r.signer(v, path); s != nil {
			d.Signers = append(d.Signers, s)
		}
	})
	if s := n.get("signers"); s != nil && s.kind == yaml.SequenceNode && len(s.values) == 0 {
		r.fail(s, "missing", path+"/signers", "name at least one signer", "is empty: anybody's attestation proves nothing")
	}
	return d
}

// texts reads a list of at least one text.
func (r *reader) texts(n *node, path string) []string {
	var out []string
	r.list(n, path, maxTexts, func(v *node, path string) {
		if s := r.text(v, path, maxTextBytes); s != "" {
			out = append(out, s)
		}
	})
	if n != nil && n.kind == yaml.SequenceNode && len(n.values) == 0 {
		r.fail(n, "missing", path, "", "is empty")
	}
	return out
}

func (r *reader) exemption(n *node, path string) (e exemption, ok bool) {
	if !r.object(n, path, "!id", "!server", "!class", "!waive", "!reason", "!approvedBy", "!expires") {
		return e, false
	}
	e.at = n
	e.ID, e.class = r.id(n.get("id"), path+"/id"), r.id(n.get("class"), path+"/class")
	e.server = r.text(n.get("server"), path+"/server", 200)
	e.waive = r.texts(n.get("waive"), path+"/waive")
	e.Reason = r.text(n.get("reason"), path+"/reason", 255)
	r.text(n.get("approvedBy"), path+"/approvedBy", 255)
	e.Expires = r.text(n.get("expires"), path+"/expires", 64)
	if e.Expires != "" {
		if e.until, ok = parseTime(e.Expires); !ok {
			r.fail(n.get("expires"), "value", path+"/expires", "", "is %q, want a time like 2026-01-31T12:00:00.000Z", e.Expires)
			return e, false
		}
	}
	return e, true
}
