package policy

import (
	"maps"
	"slices"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
)

// Schema is the value of the member schema.
const Schema = "counterfoil.policy.v1"

// Policy is a policy document that has no errors. It is immutable and safe for
// concurrent use, and implements [admission.Policy].
type Policy struct {
	ref         admission.PolicyRef
	canonical   []byte
	description string
	retention   map[string]Retention
	retentionAt map[string]*node
	review      Review
	classes     []*class
	rules       []*rule
	exemptions  []exemption
}

var _ admission.Policy = (*Policy)(nil)

// Retention is a retention class.
type Retention struct {
	// Kind is security_evidence or discovery_telemetry.
	Kind string
	Days int
}

// Kinds of retention. What privileged and secret-reading tools were admitted on
// is security evidence and never telemetry (ARC-07).
const (
	SecurityEvidence   = "security_evidence"
	DiscoveryTelemetry = "discovery_telemetry"
)

// Review is what review runs read from the policy.
type Review struct {
	// PrivilegedEvidenceFail is retire or quarantine: what becomes of a
	// privileged contract whose evidence no longer passes (X5).
	PrivilegedEvidenceFail string
	// StandardAs is low or privileged: as which impact standard is judged (X7).
	StandardAs admission.Impact
}

type class struct {
	admission.Class
	readsSecrets bool
	at           *node
}

type exemption struct {
	admission.Exemption
	server, class string
	waive         []string
	until         time.Time
	at            *node
}

// Load reads a policy. The error is a *[Refused] with every problem, warnings
// included, if there is at least one error among them. Warnings that depend on
// the time are those of [Lint].
func Load(b []byte) (*Policy, error) {
	p, problems := read(b)
	if HasErrors(problems) {
		return nil, &Refused{problems}
	}
	return p, nil
}

// Lint reports every problem of a document, in its order. At is the time by which
// exemptions are judged.
func Lint(b []byte, at time.Time) []Problem {
	p, problems := read(b)
	if p != nil {
		problems = append(problems, p.lintTime(at)...)
	}
	sortProblems(problems)
	return problems
}

// Ref implements [admission.Policy].
func (p *Policy) Ref() admission.PolicyRef { return p.ref }

// Canonical returns the canonical JSON form, of which Ref has the digest. The
// caller must not change it.
func (p *Policy) Canonical() []byte { return p.canonical }

// Description is what the document says about itself.
func (p *Policy) Description() string { return p.description }

// Class implements [admission.Policy]. The caller must not change the class.
func (p *Policy) Class(name string) *admission.Class {
	for _, c := range p.classes {
		if c.Name == name {
			return &c.Class
		}
	}
	return nil
}

// Classes lists the classes in the order of the document.
func (p *Policy) Classes() []string {
	var names []string
	for _, c := range p.classes {
		names = append(names, c.Name)
	}
	return names
}

// Retention returns a retention class.
func (p *Policy) Retention(name string) (Retention, bool) {
	r, ok := p.retention[name]
	return r, ok
}

// RetentionClasses lists the names of the retention classes in alphabetical order.
func (p *Policy) RetentionClasses() []string { return slices.Sorted(maps.Keys(p.retention)) }

// Review returns what review runs need.
func (p *Policy) Review() Review { return p.review }

// Exempt implements [admission.Policy]. An exemption is in force before the
// instant of its end, for exactly the server and class that it names.
func (p *Policy) Exempt(server, class, what string, at time.Time) *admission.Exemption {
	for i := range p.exemptions {
		e := &p.exemptions[i]
		if e.server == server && e.class == class && slices.Contains(e.waive, what) && at.Before(e.until) {
			return &e.Exemption
		}
	}
	return nil
}

// parseTime reads the one spelling of a time.
func parseTime(s string) (time.Time, bool) { return event.ParseTime(s) }
