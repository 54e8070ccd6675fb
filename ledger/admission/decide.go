package admission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"counterfoil/ledger/excerpt"
)

// Input is all that a judgement looks at. It holds records and findings; nothing
// in here parses evidence (REV-02).
type Input struct {
	// Class is the risk class that the admission asks for: 1 to 64 of a-z, 0-9, _
	// and -, a letter first.
	Class string
	// Snapshot is the registry entry; nil if it could not be read, with
	// SnapshotFailure.
	Snapshot        *RegistrySnapshot
	SnapshotFailure *Failure
	// Binding is the artifact; nil with BindingFailure if there is none.
	Binding        *ArtifactBinding
	BindingFailure *Failure
	// Expected are digests that the artifact must have: pinned by an operator,
	// by a contract or by an earlier receipt. Nil if none are.
	Expected DigestSet
	// Checks, Findings and Sources come from resolvers and verifiers, in any
	// order.
	Checks   []Check
	Findings []Finding
	Sources  []Source
	// Verifiers are all that were asked, in any order.
	Verifiers []VerifierInfo
	// Previous is the last admission of the same server; nil if there is none.
	Previous *Previous
	// At is the time of the judgement: exemptions expire by it.
	At time.Time
}

// Previous is what an earlier admission of the same server had.
type Previous struct {
	Version       string
	HadProvenance bool
}

// Judgement is the result of [Decide], before the archive has its say.
type Judgement struct {
	Decision    Decision
	ReasonCodes []Code
	Missing     []Missing
	// Verdicts are in the order of the gates, and within one in a fixed order.
	Verdicts []Verdict
	// Used are the findings that met demands, as indices into the findings in
	// the order of the evidence bundle.
	Used []int
	// Class is the class of the policy; nil if it has none of this name.
	Class *Class
	// Input is what was judged: the input without what was not fit to be judged.
	Input *Input
}

// Decide judges an admission. The gates are asked in order and the first that
// fails is the cause; later ones are asked as far as that makes sense, so that
// verdicts and missing evidence are complete, but they add no reason codes
// (ADM-10). Equal inputs give equal judgements, whatever the order of findings,
// checks and verifiers.
//
// The result is admit only as far as these four gates go: [Conclude] adds the
// archive's.
func Decide(in *Input, p Policy) *Judgement {
	in, unfit := in.fit()
	j := &judge{in: in, policy: p, class: p.Class(in.Class), findings: in.Findings, unfit: unfit}
	if j.discovery(); !j.rejected {
		j.artifact()
		j.evidence()
		j.rules()
	}
	out := &Judgement{Decision: Admit, Verdicts: j.verdicts, Missing: j.missing, Used: j.used, Class: j.class, Input: in}
	if i := slices.IndexFunc(j.verdicts, Verdict.failed); i >= 0 {
		out.Decision, out.ReasonCodes = Quarantine, j.verdicts[i].Codes
		if j.rejected {
			out.Decision = Reject
		}
		return out
	}
	out.ReasonCodes = []Code{NamespaceAuthenticated, boundCode[in.Binding.Kind], AttestationPolicyPass}
	return out
}

// boundCode is what an admit says of its binding.
var boundCode = map[BindingKind]Code{
	KindBytes: ArtifactDigestBound, KindPinnedDeployment: ArtifactIdentityBound,
	KindAttestedRelease: ArtifactIdentityBound, KindNotBytePinnable: ArtifactStatementAccepted,
}

func (v Verdict) failed() bool { return v.Result == ResultFail || v.Result == ResultError }

// fit returns a copy of the input, sorted, without what is malformed, and says by
// gate what that was. Adapters are not believed: what they hand over malformed
// counts against the admission.
func (in *Input) fit() (*Input, map[Gate]string) {
	c, unfit := *in, make(map[Gate]string)
	if c.Snapshot != nil {
		if err := c.Snapshot.Validate(); err != nil {
			unfit[GateDiscovery] = err.Error()
		}
	}
	if c.Binding != nil {
		if err := c.Binding.Validate(); err != nil {
			c.Binding, c.BindingFailure = nil, &Failure{MissingArtifactBinding, limit("malformed binding: " + err.Error())}
		}
	}
	c.SnapshotFailure = c.SnapshotFailure.fit(EntryUnavailable)
	c.BindingFailure = c.BindingFailure.fit(ArtifactUnresolved)
	c.Checks = sortedChecks(in.Checks)
	if err := validateChecks("/checks", c.Checks); err != nil {
		c.Checks, unfit[GateArtifact] = nil, err.Error()
	}
	c.Findings = nil
	for i, f := range sortedFindings(in.Findings) {
		if err := f.validate(fmt.Sprintf("/findings/%d", i)); err != nil {
			unfit[GateEvidence] = err.Error()
		} else if len(c.Findings) == MaxFindings {
			unfit[GateEvidence] = fmt.Sprintf("%d findings, limit %d", len(in.Findings), MaxFindings)
		} else {
			c.Findings = append(c.Findings, f)
		}
	}
	if err := validateSources(in.Sources); err != nil {
		c.Sources, unfit[GateEvidence] = nil, err.Error()
	}
	return &c, unfit
}

// fit returns a failure whose code says that something went wrong.
func (f *Failure) fit(otherwise Code) *Failure {
	if f == nil || f.Code.bad() {
		return f
	}
	return &Failure{otherwise, f.Detail}
}

// judge is one judgement in the making.
type judge struct {
	in       *Input
	policy   Policy
	class    *Class
	findings []Finding
	verdicts []Verdict
	missing  []Missing
	used     []int
	unfit    map[Gate]string
	rejected bool
}

func (j *judge) say(g Gate, id string, r Result, detail string, codes ...Code) {
	if len(codes) > 1 && codes[0] == codes[1] {
		codes = codes[:1]
	}
	j.verdicts = append(j.verdicts, Verdict{Gate: g, ID: id, Result: r, Codes: codes, Detail: limit(detail)})
}

func (j *judge) miss(evidence, requiredBy, format string, args ...any) {
	if len(j.missing) < MaxMissing {
		j.missing = append(j.missing, Missing{evidence, j.in.Class, requiredBy, limit(fmt.Sprintf(format, args...))})
	}
}

// limit makes a detail fit for a record.
func limit(s string) string {
	return excerpt.Within(quotable(s), MaxDetailBytes)
}

// discovery is the first gate. Without captured namespace authentication, or
// with an entry that nobody can read in one way only, there is nothing to put
// into quarantine: the discovery record is rejected (ADM-11).
func (j *judge) discovery() {
	s := j.in.Snapshot
	failure := j.in.SnapshotFailure
	if s != nil && s.Refused != nil {
		failure = s.Refused
	}
	switch {
	case failure != nil:
		j.rejected = failure.Code != EntryUnavailable
		j.say(GateDiscovery, "entry", ResultFail, failure.Detail, failure.Code)
		j.miss("registry_entry", "entry", "no registry entry that can be used")
		return
	case s == nil:
		j.say(GateDiscovery, "entry", ResultFail, "no registry entry was read", EntryUnavailable)
		j.miss("registry_entry", "entry", "no registry entry was read")
		return
	}
	j.say(GateDiscovery, "entry", ResultPass, "")
	ns := s.Namespace
	if detail, bad := j.unfit[GateDiscovery]; bad && ns.Captured() {
		j.rejected = true
		j.say(GateDiscovery, "snapshot", ResultError, detail, EntryInvalid)
		return
	}
	switch {
	case !ns.Captured():
		j.rejected = true
		j.say(GateDiscovery, "namespace", ResultFail, "no namespace authentication was captured", NamespaceAuthMissing)
		j.miss("namespace_auth", "namespace", "namespace authentication missing for %s", s.ServerName)
	case ns.Result == NamespaceFail:
		j.say(GateDiscovery, "namespace", ResultFail, failedCheck(ns), NamespaceUnverified)
		j.miss("namespace_auth", "namespace", "a passed namespace authentication for %s", s.ServerName)
	case j.class == nil:
		j.say(GateDiscovery, "namespace", ResultNotJudged, "no class says which methods it accepts")
	case !slices.Contains(j.class.Namespace, ns.Method):
		j.say(GateDiscovery, "namespace", ResultFail,
			fmt.Sprintf("method %s, accepted are %s", ns.Method, list(j.class.Namespace)), NamespaceUnverified)
		j.miss("namespace_auth", "namespace", "namespace authentication by one of %s", list(j.class.Namespace))
	default:
		j.say(GateDiscovery, "namespace", ResultPass, ns.String())
	}
}

func failedCheck(ns NamespaceAuth) string {
	for _, c := range ns.Checked {
		if c.State == CheckFail {
			return fmt.Sprintf("%s: expected %s, got %s", c.ID, c.Expected, c.Got)
		}
	}
	return "method " + string(ns.Method) + " failed"
}

// rules is the last gate before the archive.
func (j *judge) rules() {
	if j.class == nil {
		j.say(GatePolicy, "class", ResultFail,
			fmt.Sprintf("policy %s version %s has no class %q for this server", j.policy.Ref().ID, j.policy.Ref().Version, j.in.Class), PolicyNoMatch)
		return
	}
	j.say(GatePolicy, "class", ResultPass, j.class.Name)
	for _, v := range j.policy.Rules(j.class.Name, j.in.facts(j.class, j.findings, j.used)) {
		v.Detail = limit(v.Detail)
		if v.failed() {
			j.excuse(&v, j.serverName(), v.ID)
		}
		j.verdicts = append(j.verdicts, v)
	}
}

// excuse turns a failed verdict into an exempt one if an exemption says so. What
// could not be evaluated is never excused.
func (j *judge) excuse(v *Verdict, server, what string) bool {
	if v.Result != ResultFail || j.class == nil {
		return false
	}
	e := j.policy.Exempt(server, j.class.Name, what, j.in.At)
	if e == nil {
		return false
	}
	v.Result, v.Exemption = ResultExempt, e.ID
	v.Detail = limit(v.Detail + "; excused until " + e.Expires + ": " + e.Reason)
	return true
}

func list[T ~string](words []T) string {
	s := make([]string, len(words))
	for i, w := range words {
		s[i] = string(w)
	}
	return strings.Join(s, ", ")
}
