package admission

import (
	"fmt"
	"slices"
	"strings"
)

// evidence is the third gate: each attestation that the class demands must be
// there, and must hold in all its parts by itself.
func (j *judge) evidence() {
	if j.class == nil {
		j.say(GateEvidence, "attestations", ResultNotJudged, "no class says what it demands")
		return
	}
	if len(j.class.Attestations) == 0 {
		j.say(GateEvidence, "attestations", ResultNotApplicable, "class "+j.class.Name+" demands no attestation")
	}
	for i := range j.class.Attestations {
		d := &j.class.Attestations[i]
		id := "attestation:" + d.ID
		if j.in.Binding == nil {
			j.say(GateEvidence, id, ResultNotJudged, "there is no artifact that it could be about")
			j.miss(id, id, "an attestation of type %s", strings.Join(d.PredicateTypes, " or "))
			continue
		}
		m := j.match(d)
		if m.index >= 0 {
			if !slices.Contains(j.used, m.index) {
				j.used = append(j.used, m.index)
			}
			j.say(GateEvidence, id, ResultPass, j.findings[m.index].PredicateType+" "+j.findings[m.index].Evidence)
			continue
		}
		j.say(GateEvidence, id, ResultFail, m.detail, EvidenceGap, m.code)
		j.miss(id, id, "an attestation of type %s by %s", strings.Join(d.PredicateTypes, " or "), signers(d))
	}
	if detail, bad := j.unfit[GateEvidence]; bad {
		j.say(GateEvidence, "findings", ResultError, detail, EvidenceGap, AttestationMalformed)
	}
	slices.Sort(j.used)
	j.regression()
}

func signers(d *Demand) string {
	var names []string
	for _, s := range d.Signers {
		names = append(names, s.String())
	}
	return strings.Join(names, " or ")
}

// regression asks whether provenance was lost since an earlier version.
func (j *judge) regression() {
	p := j.in.Previous
	if !j.class.RefuseRegression || p == nil || !p.HadProvenance || j.in.Binding == nil {
		return
	}
	for i := range j.findings {
		if f := &j.findings[i]; f.State == FindingVerified && f.Provenance != nil && subjectRank(f, j.in.Binding) == rankSigner {
			j.say(GateEvidence, "regression", ResultPass, "")
			return
		}
	}
	j.say(GateEvidence, "regression", ResultFail, "version "+p.Version+" had provenance", EvidenceGap, ProvenanceRegressed)
	j.miss("provenance", "regression", "provenance, as version %s had", p.Version)
}

// How far a finding got towards a demand; the furthest says what is wrong.
const (
	rankNothing     = iota
	rankUnavailable // nothing was found out
	rankType        // verified, but of another type
	rankFailed      // failed, and of the right type or of one that is not known
	rankDigest      // verified and of the right type, about other bytes
	rankName        // … about equal bytes of another package
	rankSigner      // … about this artifact, by somebody else
)

// matched is a finding that meets a demand, or why none does.
type matched struct {
	index  int // −1 if none
	rank   int
	code   Code
	detail string
}

func (j *judge) match(d *Demand) matched {
	best := matched{index: -1, code: AttestationMissing, detail: "no attestation was found; that does not prove that none exists"}
	for _, s := range j.in.Sources {
		if s.State == SourceUnavailable {
			best = matched{-1, rankUnavailable, EvidenceUnavailable, "could not be read: " + s.Locator}
			break
		}
	}
	for i := range j.findings {
		m := j.try(d, &j.findings[i])
		if m.index >= 0 {
			m.index = i
			return m
		}
		if m.rank > best.rank {
			best = m
		}
	}
	return best
}

// try asks one finding for all that a demand wants. Nothing of another finding
// can help it: a valid attestation of another type, of another artifact or by
// another signer meets no part of the demand.
func (j *judge) try(d *Demand, f *Finding) matched {
	kind := f.PredicateType
	if kind == "" && f.Payload == "" && f.State == FindingVerified {
		kind = PlainSignature
	}
	right := slices.Contains(d.PredicateTypes, kind)
	switch {
	case f.State == FindingUnavailable:
		return matched{-1, rankUnavailable, f.Code, f.Detail}
	case f.State != FindingVerified && (right || kind == ""):
		return matched{-1, rankFailed, f.Code, f.Detail}
	case !right:
		return matched{-1, rankType, AttestationTypeMismatch,
			fmt.Sprintf("expected type %s, got %s", strings.Join(d.PredicateTypes, " or "), kind)}
	}
	a := j.in.Binding
	switch subjectRank(f, a) {
	case rankDigest:
		return matched{-1, rankDigest, ArtifactDigestMismatch, fmt.Sprintf("expected %s, got %s", digestsOf(a), subjectsOf(f))}
	case rankName:
		return matched{-1, rankName, SubjectNameMismatch,
			fmt.Sprintf("expected subject %s, got %s", strings.Join(a.SubjectNames(), " or "), subjectsOf(f))}
	}
	var entry *Entry
	if j.in.Snapshot != nil {
		entry = j.in.Snapshot.Entry
	}
	for _, s := range d.Signers {
		if s.Accepts(f.Signer, entry) {
			return matched{index: 0}
		}
	}
	return matched{-1, rankSigner, SignerIdentityMismatch, fmt.Sprintf("expected %s, got %s", signers(d), f.Signer)}
}

// subjectRank says whether one subject has both a digest and the name of the
// artifact. A plain signature is over the artifact itself.
func subjectRank(f *Finding, a *ArtifactBinding) int {
	if f.Payload == "" {
		return rankSigner
	}
	if a.Bytes == nil {
		if a.Release != nil && a.Release.Attestation == f.Payload {
			return rankSigner
		}
		return rankDigest
	}
	rank := rankDigest
	names := a.SubjectNames()
	for _, s := range f.Subjects {
		if agrees, _ := a.Bytes.Digests.Agree(s.Digests); agrees {
			if slices.Contains(names, s.Name) {
				return rankSigner
			}
			rank = rankName
		}
	}
	return rank
}

func digestsOf(a *ArtifactBinding) string {
	if a.Bytes == nil {
		return "a binding of kind " + string(a.Kind)
	}
	return a.Bytes.Digests.String()
}

func subjectsOf(f *Finding) string {
	var out []string
	for i, s := range f.Subjects {
		if i == maxKeptSubjects {
			out = append(out, "…")
			break
		}
		out = append(out, s.Name+" "+s.Digests.String())
	}
	return strings.Join(out, ", ")
}

// String is who signed, for people.
func (s *Signer) String() string {
	switch {
	case s == nil:
		return "nobody"
	case s.KeyID != "":
		return "key " + s.KeyID
	}
	out := s.Identity + " of " + s.Issuer
	if s.SourceRepository != "" {
		out += " from " + s.SourceRepository
	}
	return out
}
