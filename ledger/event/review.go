package event

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Judgement is the statement {"review":{…}} of a review: a person or a rubric,
// at least one of them.
type Judgement struct {
	Reviewer string `json:"reviewer,omitempty"`
	Rubric   string `json:"rubric,omitempty"`
	// Run is set by a review run, which judges by a rubric.
	Run *ReviewRun `json:"run,omitempty"`
}

// ReviewRun is what a review run adds to a review of kind contract or admission.
// The result is the status of the event and its reason codes; the refs named
// Ref… stand beside it, each a digest (REV-22).
type ReviewRun struct {
	ID string `json:"id"` // of the run, an identifier
	// Trigger is why the contract was reviewed: one of ReviewTriggers.
	Trigger string `json:"trigger"`
	// Mode is report_only or enforced.
	Mode string `json:"mode"`
	// Impact is that of the contract at the time of the review: one of Impacts.
	Impact string `json:"impact"`
	// Recheck is how the evidence did: one of RecheckStates.
	Recheck string `json:"recheck"`
	// Causes say why it was not pass, as reason codes; at most MaxReviewCauses,
	// none twice.
	Causes []string `json:"causes,omitempty"`
}

// MaxReviewCauses bounds the causes of a review.
const MaxReviewCauses = 8

// Modes of a review.
const (
	ReviewReportOnly = "report_only" // nothing is blocked
	ReviewEnforced   = "enforced"
)

// Triggers of a review (OPS-01, OPS-02).
const (
	TriggerManual    = "manual"
	TriggerSchedule  = "schedule"
	TriggerPolicy    = "policy_change"
	TriggerImpact    = "impact_change"
	TriggerVerifier  = "verifier_change" // verifier or its trust material
	TriggerRetention = "retention_change"
	TriggerIncident  = "incident"
)

// Impacts of a contract (REV-12).
const (
	ImpactLow        = "low"
	ImpactStandard   = "standard"
	ImpactPrivileged = "privileged"
)

// States of a recheck (REV-23).
const (
	RecheckPass        = "pass"
	RecheckFail        = "fail"
	RecheckUnavailable = "unavailable"
)

// The words of a review run. They must not be changed.
var (
	ReviewTriggers = []string{TriggerManual, TriggerSchedule, TriggerPolicy, TriggerImpact, TriggerVerifier, TriggerRetention, TriggerIncident}
	Impacts        = []string{ImpactLow, ImpactStandard, ImpactPrivileged}
	RecheckStates  = []string{RecheckPass, RecheckFail, RecheckUnavailable}
)

// Refs of a review by a run. The first four are required.
const (
	RefReceipt   = "receipt"   // the archive receipt that is reviewed
	RefPolicy    = "policy"    // today's policy
	RefContract  = "contract"  // the contract as it is now
	RefRecheck   = "recheck"   // the record of the recheck
	RefEvidence  = "evidence"  // the evidence bundle that the receipt binds, if the receipt could be read
	RefVerifiers = "verifiers" // the verifiers of today with their trust material
	RefAdmission = "admission" // an event id: the admission that has the receipt
)

// ContractTerms is the statement {"contract":{…}} of an attempt of subject kind
// contract: a tool contract in force from here on, until the next one of the same
// subject. It holds references and no predicates (ADM-24).
type ContractTerms struct {
	// Impact is how much harm the tools can do: one of Impacts.
	Impact string `json:"impact"`
	// Receipt is the digest of the sealed archive receipt on which the server is
	// used.
	Receipt string `json:"receipt"`
	// Admission is the event id of the admission that has the receipt.
	Admission string `json:"admission,omitempty"`
	// Artifact is the SHA-256 of the pinned artifact's bytes.
	Artifact string `json:"artifact,omitempty"`
	// Tools is the digest of the server's list of tools.
	Tools string `json:"tools,omitempty"`
	// Class is the risk class by which it is judged; the one of its admission
	// without it.
	Class string `json:"class,omitempty"`
	// Server is the name of the server in its registry. A label.
	Server string `json:"server,omitempty"`
}

// ContractSchema is the schema of a contract document.
const ContractSchema = "counterfoil.contract.v1"

// Canonical returns the canonical bytes of the contract document: the terms with
// the members schema and name.
func (t ContractTerms) Canonical(name string) []byte {
	b, err := json.Marshal(struct {
		Schema string `json:"schema"`
		Name   string `json:"name"`
		ContractTerms
	}{ContractSchema, name, t})
	if err != nil {
		return nil // as in statement.value
	}
	v := jsontext.Value(b)
	if v.Canonicalize() != nil {
		return nil
	}
	return v
}

// Digest names the contract: the SHA-256 of its canonical document.
func (t ContractTerms) Digest(name string) Digest { return DigestOf(t.Canonical(name)) }

// Validate checks every member by itself. Errors are of type *[Error].
func (t *ContractTerms) Validate() error { return t.validate("") }

// Value returns the canonical statement.
func (j Judgement) Value() jsontext.Value { return statement{Review: &j}.value() }

// Value returns the canonical statement.
func (t ContractTerms) Value() jsontext.Value { return statement{Contract: &t}.value() }

// Judgement returns who or what judged, of a review that was validated.
func (e *Event) Judgement() (Judgement, bool) {
	s, err := e.parseStatement()
	if err != nil || s.Review == nil {
		return Judgement{}, false
	}
	return *s.Review, true
}

// ContractTerms returns the contract of an attempt of kind contract that was
// validated. Attempts of that kind may have none.
func (e *Event) ContractTerms() (ContractTerms, bool) {
	s, err := e.parseStatement()
	if err != nil || s.Contract == nil {
		return ContractTerms{}, false
	}
	return *s.Contract, true
}

func (j *Judgement) validate(path string, e *Event) error {
	if j.Reviewer == "" && j.Rubric == "" {
		return bad(path, "names neither a reviewer nor a rubric")
	}
	for _, m := range []struct{ name, value string }{{"/reviewer", j.Reviewer}, {"/rubric", j.Rubric}} {
		if m.value == "" {
			continue
		}
		if err := CheckID(path+m.name, m.value); err != nil {
			return err
		}
	}
	if j.Run == nil {
		return nil
	}
	if j.Rubric == "" {
		return bad(path+"/rubric", "missing: a run judges by a rubric")
	}
	if k := e.Subject.Kind; k != Contract && k != Admission {
		return bad(path+"/run", "runs review contracts and admissions, not %s", k)
	}
	return j.Run.validate(path+"/run", e)
}

func (r *ReviewRun) validate(path string, e *Event) error {
	if err := CheckID(path+"/id", r.ID); err != nil {
		return err
	}
	for _, m := range []struct {
		name, value string
		words       []string
	}{
		{"/trigger", r.Trigger, ReviewTriggers},
		{"/mode", r.Mode, []string{ReviewReportOnly, ReviewEnforced}},
		{"/impact", r.Impact, Impacts},
		{"/recheck", r.Recheck, RecheckStates},
	} {
		if !slices.Contains(m.words, m.value) {
			return bad(path+m.name, "%q is none of %v", clip(m.value), m.words)
		}
	}
	if len(r.Causes) > MaxReviewCauses {
		return bad(path+"/causes", "%d causes, limit %d", len(r.Causes), MaxReviewCauses)
	}
	for i, c := range r.Causes {
		if !ValidReasonCode(c) || slices.Contains(r.Causes[:i], c) {
			return bad(path+"/causes", "%q is no reason code, or is there twice", clip(c))
		}
	}
	for _, name := range []string{RefReceipt, RefPolicy, RefContract, RefRecheck} {
		if _, ok := ParseDigest(e.Refs[name]); !ok {
			return bad("/refs/"+name, "a review by a run names it by its digest")
		}
	}
	if len(e.ReasonCodes) == 0 {
		return bad("/reasonCodes", "missing: a review by a run says why") // REV-26
	}
	return nil
}

func (t *ContractTerms) validate(path string) error {
	if !slices.Contains(Impacts, t.Impact) {
		return bad(path+"/impact", "%q is none of %v", clip(t.Impact), Impacts)
	}
	if _, ok := ParseDigest(t.Receipt); !ok {
		return bad(path+"/receipt", "%q is not sha256: and 64 hex digits", clip(t.Receipt))
	}
	if t.Admission != "" {
		if _, ok := ParseEventID(t.Admission); !ok {
			return bad(path+"/admission", "%q is no event id", clip(t.Admission))
		}
	}
	for _, m := range []struct{ name, value string }{{"/artifact", t.Artifact}, {"/tools", t.Tools}} {
		if _, ok := ParseDigest(m.value); !ok && m.value != "" {
			return bad(path+m.name, "%q is not sha256: and 64 hex digits", clip(m.value))
		}
	}
	for _, m := range []struct{ name, value string }{{"/class", t.Class}, {"/server", t.Server}} {
		if m.value == "" {
			continue
		}
		if err := CheckID(path+m.name, m.value); err != nil {
			return err
		}
	}
	return nil
}
