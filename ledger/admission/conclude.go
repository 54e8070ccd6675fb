package admission

import (
	"fmt"
	"slices"
	"time"

	"counterfoil/ledger/event"
)

// NewSet makes the records of a judgement: evidence bundle and policy decision,
// beside snapshot and binding.
func NewSet(j *Judgement, p Policy) (*Set, error) {
	in := j.Input
	evidence, err := NewEvidenceBundle(j)
	if err != nil {
		return nil, fmt.Errorf("evidence bundle: %w", err)
	}
	d := &PolicyDecision{
		Schema: DecisionSchema, Policy: p.Ref(), Class: in.Class, Decision: j.Decision, ReasonCodes: j.ReasonCodes,
		Binding: evidence.Binding, Missing: j.Missing, Verdicts: j.Verdicts, Verifiers: sortedVerifiers(in.Verifiers),
		DecidedAt: event.FormatTime(in.At),
	}
	if j.Class != nil {
		d.Impact, d.AttestationRequired = j.Class.Impact, len(j.Class.Attestations) > 0
	}
	if in.Snapshot != nil {
		if d.Snapshot, _, err = Name(in.Snapshot); err != nil {
			return nil, fmt.Errorf("registry snapshot: %w", err)
		}
	}
	if d.Evidence, _, err = Name(evidence); err != nil {
		return nil, fmt.Errorf("evidence bundle: %w", err)
	}
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("policy decision: %w", err)
	}
	return &Set{in.Snapshot, in.Binding, evidence, d}, nil
}

func sortedVerifiers(infos []VerifierInfo) []VerifierInfo {
	out := slices.Clone(infos)
	for i := range out {
		out[i].Trust = slices.Clone(out[i].Trust)
		slices.SortFunc(out[i].Trust, func(a, b TrustMaterial) int {
			return compareAll(a.Name, b.Name, a.Digest, b.Digest)
		})
	}
	slices.SortStableFunc(out, func(a, b VerifierInfo) int { return compareAll(a.ID, b.ID, a.Version, b.Version) })
	return slices.CompactFunc(out, func(a, b VerifierInfo) bool {
		return a.ID == b.ID && a.Version == b.Version && slices.Equal(a.Trust, b.Trust)
	})
}

// Archived is how the archive's own write ended.
type Archived struct {
	// Receipt is the digest of the sealed receipt that was kept, sha256:….
	// Empty if none was.
	Receipt string
	// Failure is the archive's code, if it gave one.
	Failure Code
	Detail  string
}

// Outcome is the final decision on an admission.
type Outcome struct {
	Decision    Decision
	ReasonCodes []Code
	Missing     []Missing
	// Receipt is the digest of the receipt; empty without one.
	Receipt string
	// Answers are five answers, not one flag.
	Answers Answers
}

// Conclude is the last gate: an admit without a receipt that is kept is a
// quarantine, and the server is not callable (ADM-14). A decision that is not
// admit keeps its own cause.
func Conclude(j *Judgement, a Archived) Outcome {
	o := Outcome{Decision: j.Decision, ReasonCodes: slices.Clone(j.ReasonCodes), Missing: slices.Clone(j.Missing), Receipt: a.Receipt}
	if !ValidDigest(a.Receipt) {
		o.Receipt = ""
		if j.Decision == Admit {
			o.Decision, o.ReasonCodes = Quarantine, []Code{ArchiveWriteFailure}
			if i, ok := a.Failure.Info(); ok && i.Gate == GateArchive && a.Failure != ArchiveWriteFailure {
				o.ReasonCodes = append(o.ReasonCodes, a.Failure)
			}
		}
		o.Missing = append(o.Missing, Missing{"archive_receipt", j.Input.Class, "archive", limit("archive receipt was not kept " + a.Detail)})
	}
	o.Answers = answers(j, &o)
	return o
}

// Answers are the five questions that a single flag would hide (ADM-03). Each is
// yes, no or not_judged, and Decision is the decision.
type Answers struct {
	MetadataRead        string   `json:"metadataRead"`
	ArtifactVerified    string   `json:"artifactVerified"`
	AttestationAccepted string   `json:"attestationAccepted"` // not_demanded if the class demands none
	Decision            Decision `json:"decision"`
	ArchivedTogether    string   `json:"archivedTogether"`
}

func answers(j *Judgement, o *Outcome) Answers {
	a := Answers{
		MetadataRead: "no", ArtifactVerified: gateAnswer(j, GateArtifact), AttestationAccepted: gateAnswer(j, GateEvidence),
		Decision: o.Decision, ArchivedTogether: "no",
	}
	if s := j.Input.Snapshot; s != nil && s.Refused == nil {
		a.MetadataRead = "yes"
	}
	if a.AttestationAccepted == "yes" && len(j.Used) == 0 {
		a.AttestationAccepted = "not_demanded"
	}
	if o.Receipt != "" {
		a.ArchivedTogether = "yes"
	}
	return a
}

func gateAnswer(j *Judgement, g Gate) string {
	answer := "not_judged"
	for _, v := range j.Verdicts {
		switch {
		case v.Gate != g:
		case v.failed():
			return "no"
		case v.Result != ResultNotJudged && answer == "not_judged":
			answer = "yes"
		}
	}
	return answer
}

// Phase is a part of an admission with its own mark in the trace and its own
// retry rights.
type Phase struct {
	Name string
	// Marks are the marks that it leaves, in order (ADM-32).
	Marks []string
	// Attempts is how often it may try in all; Delay is how long it waits
	// before the second, doubled each time. Rights are not lent: a phase never
	// repeats another's work, and never goes to another source (ADM-21).
	Attempts int
	Delay    time.Duration
	// Repeats names what it may do again.
	Repeats string
}

// RetryRights are the phases of an admission in order (ADM-31). The admission
// itself repeats nothing: without a kept receipt there is none.
var RetryRights = []Phase{
	{"discovery", []string{"candidate"}, 4, 500 * time.Millisecond, "reads of the registry entry"},
	{"verification", []string{"policy_input", "dependency"}, 3, 500 * time.Millisecond, "reads of the artifact and queries of verifiers"},
	{"archive", []string{"persistence"}, 3, 200 * time.Millisecond, "its own write"},
	{"admission", []string{"linkage", "verdict"}, 1, 0, "nothing"},
}
