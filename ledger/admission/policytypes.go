package admission

import "time"

// Policy is what [Decide] asks of a policy document. Package policy implements
// it. Implementations are pure and safe for concurrent use.
type Policy interface {
	// Ref names the document.
	Ref() PolicyRef
	// Class returns a risk class; nil if there is none of this name.
	Class(name string) *Class
	// Rules evaluates the rules for a class in the order of the document. There
	// is one verdict for each rule, of gate policy; a rule that fails has a code.
	Rules(class string, f *Facts) []Verdict
	// Exempt returns the exemption in force at a time that excuses a server of a
	// class from a rule or a demanded check; nil if there is none.
	Exempt(server, class, what string, at time.Time) *Exemption
}

// PolicyRef names a policy document.
type PolicyRef struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	Digest  string `json:"digest"` // of its canonical JSON form
}

// Impact is how much harm a tool of a class can do.
type Impact string

// Impacts.
const (
	ImpactLow        Impact = "low"
	ImpactStandard   Impact = "standard"
	ImpactPrivileged Impact = "privileged"
)

// Class is a risk class: the least evidence that it takes, what a quarantine
// means, and how long evidence is kept (ADM-28).
type Class struct {
	Name   string
	Impact Impact
	// Namespace are the methods that are accepted.
	Namespace []NamespaceMethod
	// Bindings are the kinds of artifact binding that are accepted.
	Bindings []BindingKind
	// Algorithms are digests that a binding of bytes must have, besides sha256.
	Algorithms []string
	// Checks are checks that must pass, by id. A check that fails is refused
	// whether it is listed or not.
	Checks []string
	// Attestations are demanded, each of them. None is an explicit choice.
	Attestations []Demand
	// RefuseRegression quarantines a version without provenance if an earlier
	// one had some.
	RefuseRegression bool
	Quarantine       QuarantineBehaviour
	Retention        string
}

// Demand is one attestation that a class demands. Type, subject name, subject
// digest and signer must hold on the same attestation.
type Demand struct {
	ID string
	// PredicateTypes are accepted, exactly as signed. [PlainSignature] stands
	// for a signature without a statement.
	PredicateTypes []string
	// Signers are accepted; one of them is enough.
	Signers []SignerMatch
}

// PlainSignature stands in a demand for a signature over the artifact itself.
const PlainSignature = "signature"

// SignerMatch accepts a signer.
type SignerMatch interface {
	// Accepts reports whether s is accepted for an entry.
	Accepts(s *Signer, e *Entry) bool
	// String says who would be accepted, for people.
	String() string
}

// QuarantineBehaviour is what a quarantine in a class means.
type QuarantineBehaviour struct {
	// Calls is refuse, or report_only: calls go on and are reported.
	Calls string
	// Retries is how often the same admission may be tried again by itself, if
	// its cause is one that can pass: evidence or archive that did not answer.
	Retries int
	// ReviewWithin is when a person must have looked at it.
	ReviewWithin time.Duration
	// Notify names who, besides the route of the code.
	Notify string
}

// Exemption excuses one server of one class from rules and demanded checks, for
// a time. The evidence minimum of a class has no exemptions.
type Exemption struct {
	ID      string `json:"id"`
	Expires string `json:"expires"` // event.TimeLayout
	Reason  string `json:"reason"`
}
