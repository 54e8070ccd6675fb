package admission

import (
	"cmp"
	"fmt"
	"slices"
)

// EvidenceSchema is the schema of an [EvidenceBundle].
const EvidenceSchema = "counterfoil.evidence-bundle.v1"

// maxKeptSubjects is how many subjects of a statement a bundle repeats: the ones
// about the artifact first. The statement itself is kept by its digest.
const maxKeptSubjects = 4

// maxOthersBytes is the room of the findings that were not used: half of a record.
// Who signs can write long names into a certificate; that must not keep a
// quarantine from being recorded.
const maxOthersBytes = MaxRecordBytes / 2

// EvidenceBundle names the evidence of one admission. It is stored apart from
// the decision and says nothing about it (ADM-07).
type EvidenceBundle struct {
	Schema string `json:"schema"`
	// Binding is the digest of the artifact binding; absent without one.
	Binding string `json:"binding,omitempty"`
	// SignatureBundle names the files of Used, Attestation their signed
	// payloads, ProvenanceSummary what they say, each as [SetDigest]. Absent if
	// nothing was used.
	SignatureBundle   string `json:"signatureBundle,omitempty"`
	Attestation       string `json:"attestation,omitempty"`
	ProvenanceSummary string `json:"provenanceSummary,omitempty"`
	// Used are the findings that met a demand, in order (ADM-22).
	Used []Finding `json:"used,omitempty"`
	// Others are the findings that there were when the admission did not come to
	// an admit (ADM-20). A bundle of an admit has none: it binds the selected
	// path only.
	Others []Finding `json:"others,omitempty"`
	// Omitted is how many others were left out because a record has a bound.
	Omitted int64 `json:"omitted,omitzero"`
	// Checks and Sources are what was compared and where evidence was looked for.
	Checks  []Check  `json:"checks,omitempty"`
	Sources []Source `json:"sources,omitempty"`
	// Absent names what was looked for and not there, such as attestation
	// (ARC-12). Absence is recorded, never filled in.
	Absent []string `json:"absent,omitempty"`
}

// SetDigest names a set of digests: "" if it is empty, the digest itself if it
// is one, else the digest of the canonical JSON array of all, sorted.
func SetDigest(digests []string) string {
	set := slices.Compact(slices.Sorted(slices.Values(digests)))
	switch len(set) {
	case 0:
		return ""
	case 1:
		return set[0]
	}
	b := []byte{'['}
	for i, d := range set {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), d...), '"')
	}
	return Digest(append(b, ']'))
}

// summary is what [EvidenceBundle.ProvenanceSummary] is the digest of: the
// canonical JSON array of these, in the order of Used.
type summary struct {
	Evidence      string      `json:"evidence"`
	Payload       string      `json:"payload,omitempty"`
	PredicateType string      `json:"predicateType,omitempty"`
	Signer        *Signer     `json:"signer,omitempty"`
	SignedAt      string      `json:"signedAt,omitempty"`
	Provenance    *Provenance `json:"provenance,omitempty"`
}

// NewEvidenceBundle makes the record of the evidence that a judgement had. It
// takes Used from the judgement, and leaves everything else out if it is admit.
func NewEvidenceBundle(j *Judgement) (*EvidenceBundle, error) {
	in := j.Input
	e := &EvidenceBundle{Schema: EvidenceSchema, Checks: in.Checks, Sources: in.Sources}
	if in.Binding != nil {
		digest, _, err := Name(in.Binding)
		if err != nil {
			return nil, fmt.Errorf("artifact binding: %w", err)
		}
		e.Binding = digest
	}
	room := maxOthersBytes
	for i, f := range in.Findings {
		f.Subjects = keptSubjects(f.Subjects, in.Binding)
		switch {
		case slices.Contains(j.Used, i):
			e.Used = append(e.Used, f)
		case j.Decision != Admit:
			if err := e.keep(f, &room); err != nil {
				return nil, err
			}
		}
	}
	if !slices.ContainsFunc(in.Findings, func(f Finding) bool { return f.Payload != "" }) {
		e.Absent = append(e.Absent, "attestation")
	}
	if len(in.Findings) == 0 {
		e.Absent = append(e.Absent, "signature")
	}
	if err := e.seal(); err != nil {
		return nil, err
	}
	return e, e.Validate()
}

// keep adds a finding to the others while there is room.
func (e *EvidenceBundle) keep(f Finding, room *int) error {
	b, err := encode(&f)
	if err != nil {
		return err
	}
	if *room -= len(b); *room < 0 {
		e.Omitted++
		return nil
	}
	e.Others = append(e.Others, f)
	return nil
}

// seal fills in the digests of what is used.
func (e *EvidenceBundle) seal() (err error) {
	e.SignatureBundle, e.Attestation, e.ProvenanceSummary, err = e.digests()
	return err
}

func (e *EvidenceBundle) digests() (signatures, attestation, provenance string, err error) {
	if len(e.Used) == 0 {
		return "", "", "", nil
	}
	var files, payloads []string
	var summaries []summary
	for _, f := range e.Used {
		files = append(files, f.Evidence)
		if f.Payload != "" {
			payloads = append(payloads, f.Payload)
		}
		summaries = append(summaries, summary{f.Evidence, f.Payload, f.PredicateType, f.Signer, f.SignedAt, f.Provenance})
	}
	b, err := encode(summaries)
	if err != nil {
		return "", "", "", err
	}
	return SetDigest(files), SetDigest(payloads), Digest(b), nil
}

// ParseEvidenceBundle reads a bundle from its canonical bytes.
func ParseEvidenceBundle(b []byte) (*EvidenceBundle, error) { return parse[EvidenceBundle](b) }

// Validate implements [Record]. It computes the three digests again.
func (e *EvidenceBundle) Validate() error {
	if err := first(checkSchema(e.Schema, EvidenceSchema), checkOptionalDigest("/binding", e.Binding),
		validateChecks("/checks", e.Checks)); err != nil {
		return err
	}
	if e.Omitted < 0 {
		return bad("/omitted", "is %d", e.Omitted)
	}
	if len(e.Used)+len(e.Others) > MaxFindings {
		return bad("/used", "%d findings, limit %d", len(e.Used)+len(e.Others), MaxFindings)
	}
	for i := range e.Used {
		at := fmt.Sprintf("/used/%d", i)
		if err := e.Used[i].validate(at); err != nil {
			return err
		}
		if e.Used[i].State != FindingVerified {
			return bad(at+"/state", "is %s; only what was verified is used", e.Used[i].State)
		}
	}
	for i := range e.Others {
		if err := e.Others[i].validate(fmt.Sprintf("/others/%d", i)); err != nil {
			return err
		}
	}
	if err := validateSources(e.Sources); err != nil {
		return err
	}
	for i, a := range e.Absent {
		if err := checkToken(fmt.Sprintf("/absent/%d", i), a); err != nil {
			return err
		}
	}
	signatures, attestation, provenance, err := e.digests()
	if err != nil {
		return err
	}
	for _, d := range []struct{ path, got, want string }{
		{"/signatureBundle", e.SignatureBundle, signatures},
		{"/attestation", e.Attestation, attestation},
		{"/provenanceSummary", e.ProvenanceSummary, provenance},
	} {
		if d.got != d.want {
			return bad(d.path, "is %q, what is used gives %q", clip(d.got), d.want)
		}
	}
	return nil
}

func validateSources(sources []Source) error {
	if len(sources) > MaxEvidenceFiles {
		return bad("/sources", "%d sources, limit %d", len(sources), MaxEvidenceFiles)
	}
	for i, s := range sources {
		if err := s.validate(fmt.Sprintf("/sources/%d", i)); err != nil {
			return err
		}
	}
	return nil
}

func (s Source) validate(path string) error {
	switch s.State {
	case SourceFound, SourceNone, SourceUnavailable:
		return checkText(path+"/locator", s.Locator, MaxLocatorBytes)
	}
	return bad(path+"/state", "is %q, want found, none or unavailable", clip(s.State))
}

// Validate checks a finding as a verifier returns it.
func (f *Finding) Validate() error { return f.validate("") }

func (f *Finding) validate(path string) error {
	if err := first(checkDigest(path+"/evidence", f.Evidence),
		checkText(path+"/locator", f.Locator, MaxLocatorBytes),
		checkOptionalText(path+"/mediaType", f.MediaType, 255),
		checkToken(path+"/verifier", f.Verifier),
		checkOptionalText(path+"/detail", f.Detail, MaxDetailBytes),
		checkOptionalDigest(path+"/payload", f.Payload),
		checkOptionalText(path+"/predicateType", f.PredicateType, MaxLocatorBytes),
		checkOptionalTime(path+"/signedAt", f.SignedAt),
		f.Signer.validate(path+"/signer"),
		f.Provenance.validate(path+"/provenance")); err != nil {
		return err
	}
	switch f.State {
	case FindingVerified:
		switch {
		case f.Code != "":
			return bad(path+"/code", "is %s in a verified finding", f.Code)
		case f.Signer == nil:
			return bad(path+"/signer", "is missing in a verified finding")
		case (f.Payload == "") != (f.PredicateType == ""):
			return bad(path+"/payload", "a signed payload and its predicate type come together")
		case f.Payload != "" && len(f.Subjects) == 0:
			return bad(path+"/subjects", "a verified attestation has subjects")
		}
	case FindingFailed, FindingUnavailable:
		if !f.Code.bad() {
			return bad(path+"/code", "is %q, want a registered reason code of what went wrong", clip(string(f.Code)))
		}
	default:
		return bad(path+"/state", "is %q, want verified, failed or unavailable", clip(string(f.State)))
	}
	if len(f.Subjects) > MaxSubjects {
		return bad(path+"/subjects", "%d subjects, limit %d", len(f.Subjects), MaxSubjects)
	}
	for i, s := range f.Subjects {
		at := fmt.Sprintf("%s/subjects/%d", path, i)
		if err := checkOptionalText(at+"/name", s.Name, MaxLocatorBytes); err != nil {
			return err
		}
		for alg, value := range s.Digests {
			if err := first(checkText(at+"/digests", alg, 64), checkText(at+"/digests/"+alg, value, 255)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Signer) validate(path string) error {
	if s == nil {
		return nil
	}
	if s.KeyID == "" && (s.Issuer == "" || s.Identity == "") {
		return bad(path, "has neither keyId nor issuer and identity")
	}
	for _, text := range []string{
		s.KeyID, s.Issuer, s.Identity, s.SourceRepository, s.SourceRepositoryRef,
		s.SourceRepositoryDigest, s.RunnerEnvironment, s.BuildSigner, s.RunInvocation,
	} {
		if err := checkOptionalText(path, text, MaxLocatorBytes); err != nil {
			return err
		}
	}
	return nil
}

func (p *Provenance) validate(path string) error {
	if p == nil {
		return nil
	}
	for _, text := range []string{p.BuilderID, p.BuildType, p.SourceURI, p.SourceRef, p.SourceDigest, p.Invocation} {
		if err := checkOptionalText(path, text, MaxLocatorBytes); err != nil {
			return err
		}
	}
	return nil
}

// sortedFindings puts findings into the order in which everything looks at them,
// so that the order in which verifiers answered changes nothing.
func sortedFindings(findings []Finding) []Finding {
	return slices.SortedStableFunc(slices.Values(findings), func(a, b Finding) int {
		return compareAll(a.Evidence, b.Evidence, a.Payload, b.Payload, a.PredicateType, b.PredicateType,
			a.Verifier, b.Verifier, string(a.State), string(b.State), string(a.Code), string(b.Code), a.Locator, b.Locator)
	})
}

func sortedChecks(checks []Check) []Check {
	return slices.SortedStableFunc(slices.Values(checks), func(a, b Check) int {
		return compareAll(a.ID, b.ID, string(a.State), string(b.State), string(a.Code), string(b.Code),
			a.Expected, b.Expected, a.Got, b.Got, a.Detail, b.Detail)
	})
}

// compareAll compares pairs of strings until one differs.
func compareAll(pairs ...string) int {
	for i := 0; i+1 < len(pairs); i += 2 {
		if c := cmp.Compare(pairs[i], pairs[i+1]); c != 0 {
			return c
		}
	}
	return 0
}

// keptSubjects returns the subjects about the artifact, then others, up to
// maxKeptSubjects.
func keptSubjects(subjects []Subject, a *ArtifactBinding) []Subject {
	if len(subjects) <= maxKeptSubjects {
		return subjects
	}
	about := func(s Subject) int {
		if a != nil && a.Bytes != nil {
			if agrees, _ := a.Bytes.Digests.Agree(s.Digests); agrees {
				return 0
			}
		}
		return 1
	}
	sorted := slices.SortedStableFunc(slices.Values(subjects), func(a, b Subject) int { return cmp.Compare(about(a), about(b)) })
	return sorted[:maxKeptSubjects]
}
