package admission

import (
	"fmt"
	"slices"
	"strings"
)

// DecisionSchema is the schema of a [PolicyDecision].
const DecisionSchema = "counterfoil.policy-decision.v1"

// Bounds of a decision.
const (
	MaxVerdicts  = 256
	MaxMissing   = 64
	maxVerifiers = 16
	maxCodes     = 16
)

// Decision is exactly one of three words (ADM-02).
type Decision string

// The decisions.
const (
	Admit      Decision = "admit"
	Quarantine Decision = "quarantine"
	Reject     Decision = "reject"
)

// ParseDecision reads a decision and nothing else.
func ParseDecision(s string) (Decision, error) {
	switch d := Decision(s); d {
	case Admit, Quarantine, Reject:
		return d, nil
	}
	return "", bad("/decision", "is %q, want admit, quarantine or reject", clip(s))
}

// Result is how one question of a judgement was answered.
type Result string

// Results. Exempt is a demand that does not hold and is excused for a time;
// not_judged is one that could not be asked because an earlier one failed.
const (
	ResultPass          Result = "pass"
	ResultFail          Result = "fail"
	ResultError         Result = "error"
	ResultExempt        Result = "exempt"
	ResultNotApplicable Result = "not_applicable"
	ResultNotJudged     Result = "not_judged"
)

// Verdict is the answer to one question: one of a gate's own, a demand of the
// class, or a rule of the policy.
type Verdict struct {
	Gate   Gate   `json:"gate"`
	ID     string `json:"id"` // namespace, binding, check:mcp_name, attestation:build, rule:no-sse, …
	Result Result `json:"result"`
	// Codes say why it is fail or error; the first leads.
	Codes []Code `json:"codes,omitempty"`
	// Detail is for people; at most MaxDetailBytes.
	Detail string `json:"detail,omitempty"`
	// Exemption names what excuses it, with Result exempt.
	Exemption string `json:"exemption,omitempty"`
}

// Missing is evidence that would have been needed, and who asked for it (ADM-19).
type Missing struct {
	Evidence   string `json:"evidence"`   // namespace_auth, artifact_digest, check:…, attestation:…
	Class      string `json:"class"`      // the class that demands it
	RequiredBy string `json:"requiredBy"` // the verdict's id
	Detail     string `json:"detail"`     // in a sentence
}

// PolicyDecision is the record of a decision (ADM-08). It names the records that
// it judged, so that none can be put in another's place.
type PolicyDecision struct {
	Schema string    `json:"schema"`
	Policy PolicyRef `json:"policy"`
	Class  string    `json:"class"`
	Impact Impact    `json:"impact,omitempty"` // absent if the policy has no such class
	// Snapshot, Binding and Evidence are the digests of the records judged.
	Snapshot string `json:"snapshot,omitempty"`
	Binding  string `json:"binding,omitempty"`
	Evidence string `json:"evidence"`
	// Verifiers are those that were used, with version and trust material.
	Verifiers   []VerifierInfo `json:"verifiers,omitempty"`
	Decision    Decision       `json:"decision"`
	ReasonCodes []Code         `json:"reasonCodes"`
	Missing     []Missing      `json:"missing,omitempty"`
	Verdicts    []Verdict      `json:"verdicts"`
	// AttestationRequired says whether the class demands an attestation (ADM-16).
	AttestationRequired bool   `json:"attestationRequired,omitzero"`
	DecidedAt           string `json:"decidedAt"` // event.TimeLayout
}

// VerifierVersion lists the verifiers as id/version, in order, or is "none".
func (d *PolicyDecision) VerifierVersion() string {
	var names []string
	for _, v := range d.Verifiers {
		names = append(names, v.ID+"/"+v.Version)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ",")
}

// ParsePolicyDecision reads a decision from its canonical bytes.
func ParsePolicyDecision(b []byte) (*PolicyDecision, error) { return parse[PolicyDecision](b) }

// Validate implements [Record].
func (d *PolicyDecision) Validate() error {
	if err := first(checkSchema(d.Schema, DecisionSchema),
		checkToken("/policy/id", d.Policy.ID), checkText("/policy/version", d.Policy.Version, 64),
		checkDigest("/policy/digest", d.Policy.Digest), checkToken("/class", d.Class),
		checkOptionalDigest("/snapshot", d.Snapshot), checkOptionalDigest("/binding", d.Binding),
		checkDigest("/evidence", d.Evidence), checkTime("/decidedAt", d.DecidedAt)); err != nil {
		return err
	}
	switch d.Impact {
	case "", ImpactLow, ImpactStandard, ImpactPrivileged:
	default:
		return bad("/impact", "is %q, want low, standard or privileged", clip(string(d.Impact)))
	}
	if _, err := ParseDecision(string(d.Decision)); err != nil {
		return err
	}
	if d.Decision == Admit && (d.Snapshot == "" || d.Binding == "" || d.Impact == "") {
		return bad("/decision", "is admit, but snapshot, binding or class is missing")
	}
	if err := d.validateCodes(); err != nil {
		return err
	}
	return first(d.validateVerifiers(), d.validateVerdicts(), d.validateMissing())
}

func (d *PolicyDecision) validateCodes() error {
	if len(d.ReasonCodes) == 0 {
		return &Error{"/reasonCodes", "is empty", "every decision says why"}
	}
	if len(d.ReasonCodes) > maxCodes {
		return bad("/reasonCodes", "%d codes, limit %d", len(d.ReasonCodes), maxCodes)
	}
	for i, c := range d.ReasonCodes {
		info, ok := c.Info()
		if !ok {
			return bad(fmt.Sprintf("/reasonCodes/%d", i), "is %q, which is not registered", clip(string(c)))
		}
		if good := info.Route == RouteNone; good != (d.Decision == Admit) {
			return bad(fmt.Sprintf("/reasonCodes/%d", i), "is %s, which is no reason to %s", c, d.Decision)
		}
		if slices.Contains(d.ReasonCodes[:i], c) {
			return bad(fmt.Sprintf("/reasonCodes/%d", i), "is %s a second time", c)
		}
	}
	return nil
}

func (d *PolicyDecision) validateVerifiers() error {
	if len(d.Verifiers) > maxVerifiers {
		return bad("/verifiers", "%d verifiers, limit %d", len(d.Verifiers), maxVerifiers)
	}
	for i, v := range d.Verifiers {
		at := fmt.Sprintf("/verifiers/%d", i)
		if err := first(checkToken(at+"/id", v.ID), checkText(at+"/version", v.Version, 64)); err != nil {
			return err
		}
		if len(v.Trust) > MaxTrustMaterials {
			return bad(at+"/trust", "%d files, limit %d", len(v.Trust), MaxTrustMaterials)
		}
		for j, m := range v.Trust {
			if err := first(checkToken(fmt.Sprintf("%s/trust/%d/name", at, j), m.Name),
				checkDigest(fmt.Sprintf("%s/trust/%d/digest", at, j), m.Digest)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *PolicyDecision) validateVerdicts() error {
	if len(d.Verdicts) == 0 || len(d.Verdicts) > MaxVerdicts {
		return bad("/verdicts", "%d verdicts, want 1 to %d", len(d.Verdicts), MaxVerdicts)
	}
	for i, v := range d.Verdicts {
		at := fmt.Sprintf("/verdicts/%d", i)
		if !slices.Contains(Gates, v.Gate) {
			return bad(at+"/gate", "is %q, want one of %v", clip(string(v.Gate)), Gates)
		}
		if err := first(checkText(at+"/id", v.ID, 128), checkOptionalText(at+"/detail", v.Detail, MaxDetailBytes),
			checkOptionalText(at+"/exemption", v.Exemption, 64)); err != nil {
			return err
		}
		switch v.Result {
		case ResultFail, ResultError, ResultExempt:
			if len(v.Codes) == 0 {
				return bad(at+"/codes", "is empty with result %s", v.Result)
			}
			if d.Decision == Admit && v.Result != ResultExempt {
				return bad(at+"/result", "is %s in an admit", v.Result)
			}
		case ResultNotJudged:
			if d.Decision == Admit {
				return bad(at+"/result", "is not_judged in an admit")
			}
			fallthrough
		case ResultPass, ResultNotApplicable:
			if len(v.Codes) != 0 {
				return bad(at+"/codes", "is not empty with result %s", v.Result)
			}
		default:
			return bad(at+"/result", "is %q", clip(string(v.Result)))
		}
		for _, c := range v.Codes {
			if _, ok := c.Info(); !ok {
				return bad(at+"/codes", "has %q, which is not registered", clip(string(c)))
			}
		}
	}
	return nil
}

func (d *PolicyDecision) validateMissing() error {
	if len(d.Missing) > MaxMissing {
		return bad("/missing", "%d entries, limit %d", len(d.Missing), MaxMissing)
	}
	for i, m := range d.Missing {
		at := fmt.Sprintf("/missing/%d", i)
		if err := first(checkText(at+"/evidence", m.Evidence, 128), checkToken(at+"/class", m.Class),
			checkText(at+"/requiredBy", m.RequiredBy, 128), checkText(at+"/detail", m.Detail, MaxDetailBytes)); err != nil {
			return err
		}
	}
	return nil
}
