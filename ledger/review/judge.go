package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review/rubric"
)

// Judge is what contracts are judged with: today's policy, verifiers and trust
// material. It is safe for concurrent use.
type Judge struct {
	Archive   Archive
	Policy    *policy.Policy
	Verifiers []admission.Verifier
	// Keys are those that sign receipts. Nil does not look at signatures; the
	// digest of a receipt is in the log all the same.
	Keys KeyOf
	// Live is optional.
	Live Live
	// At is the time of the run: exemptions expire by it, and it is recorded.
	At time.Time
	// Pause waits between two tries of the archive; it returns early with the
	// error of ctx.
	Pause func(ctx context.Context, d time.Duration) error
}

// Verdict is the judgement of one contract, before it is recorded.
type Verdict struct {
	rubric.Result
	Recheck   *Recheck
	Digest    string // of the recheck
	canonical []byte
	retention archive.Retention
}

// NoVerifier: none of the verifiers reads a file of evidence, so nothing was found
// out. It is not recorded as a failure of the evidence.
type NoVerifier struct{ Digest, MediaType string }

func (e *NoVerifier) Error() string {
	return fmt.Sprintf("no verifier reads evidence %s of type %q", e.Digest, e.MediaType)
}

// MissingTrust: a verifier of then, or a file that it believed, has none of its
// name today. A file that somebody forgot to give is no failure of the evidence.
type MissingTrust struct{ Verifier, Material string }

func (e *MissingTrust) Error() string {
	if e.Material == "" {
		return fmt.Sprintf("verifier %s judged the evidence then and is not there today", e.Verifier)
	}
	return fmt.Sprintf("verifier %s believed a %s then and is given none today", e.Verifier, e.Material)
}

// Check says what a judge lacks (REV-01).
func (j *Judge) Check() error {
	switch {
	case j.Archive == nil:
		return errors.New("a review needs the archive")
	case j.Policy == nil:
		return errors.New("a review needs today's policy")
	case j.At.IsZero():
		return errors.New("a review needs a time")
	case j.Pause == nil:
		return errors.New("a review needs a way to wait")
	}
	return nil
}

// Judge judges one contract: the receipt is loaded, its evidence verified again
// and judged under today's policy, the contract's impact read, the live registry
// looked at, and the rubric applied, in this order (REV-18). Nothing is recorded.
// Errors: *[UnknownReceipt], *[NotAdmitted], *[NoVerifier], *[MissingTrust],
// *rubric.Error, and that of ctx or of a verifier that is broken; nothing was
// judged then.
func (j *Judge) Judge(ctx context.Context, c *Contract) (*Verdict, error) {
	r := &Recheck{
		Schema: RecheckSchema, Receipt: c.Terms.Receipt, Contract: c.Digest(), Policy: j.Policy.Ref(),
		CheckedAt: event.FormatTime(j.At), Verifiers: j.infos(),
	}
	var early *admission.Failure
	l, err := j.load(ctx, c.Terms.Receipt, func(l *loaded) bool {
		early = pinned(c, l)
		return early == nil
	})
	if err != nil {
		return nil, err
	}
	if l.receipt != nil {
		r.EvidenceBundle = l.receipt.Records.EvidenceBundle
	}
	if d := l.set.Decision; d != nil {
		r.AdmittedUnder, r.Class = d.Policy.Digest, d.Class
		if c.Terms.Class != "" {
			r.Class = c.Terms.Class
		}
	}
	switch {
	case early != nil:
		r.State, r.Causes = event.RecheckFail, []string{string(early.Code)}
		r.Failed = []FailedVerdict{{admission.GateArtifact, "expected", []admission.Code{early.Code}}}
	case len(l.gaps) > 0:
		r.State, r.Incomplete = event.RecheckUnavailable, l.incomplete()
		r.Gaps = l.gaps[:min(len(l.gaps), maxGaps)]
		for _, g := range r.Gaps {
			r.cause(g.Cause())
			r.cause(string(g.Code))
		}
	default:
		if err := j.verify(ctx, l, r); err != nil {
			return nil, err
		}
	}
	r.Live = j.notes(ctx, l)
	return j.apply(c, l, r)
}

// pinned compares the contract's artifact with the receipt's, before any evidence
// is opened (ADM-26).
func pinned(c *Contract, l *loaded) *admission.Failure {
	if c.Terms.Artifact == "" || l.set.Binding == nil {
		return nil
	}
	return admission.Compare(admission.DigestSet{"sha256": strings.TrimPrefix(c.Terms.Artifact, "sha256:")}, l.set.Binding)
}

// verify verifies the evidence again and judges it by today's policy. Nothing in
// here parses evidence (REV-02).
func (j *Judge) verify(ctx context.Context, l *loaded, r *Recheck) error {
	if err := missingTrust(l, r.Verifiers); err != nil {
		return err
	}
	var findings []admission.Finding
	for _, f := range l.evidence {
		i := slices.IndexFunc(j.Verifiers, func(v admission.Verifier) bool { return v.Handles(f.body) })
		if i < 0 {
			return &NoVerifier{f.digest, f.body.MediaType}
		}
		got, err := j.Verifiers[i].Verify(ctx, f.body, l.set.Binding)
		if err != nil {
			return fmt.Errorf("verifier %s: %w", j.Verifiers[i].Info().ID, err)
		}
		findings = append(findings, got...)
	}
	in := &admission.Input{
		Class: r.Class, Snapshot: l.set.Snapshot, Binding: l.set.Binding, Checks: l.set.Evidence.Checks,
		Findings: findings, Verifiers: r.Verifiers, At: j.At,
	}
	d := admission.Decide(in, j.Policy)
	for _, f := range d.Input.Findings {
		r.Findings = append(r.Findings, Rechecked{f.Evidence, f.Verifier, f.PredicateType, f.State, f.Code})
	}
	if d.Decision == admission.Admit {
		r.State = event.RecheckPass
		return nil
	}
	r.State = event.RecheckFail
	for _, f := range d.Input.Findings {
		if f.State == admission.FindingUnavailable {
			r.State = event.RecheckUnavailable
			r.cause(string(f.Code))
		}
	}
	r.Incomplete = r.State == event.RecheckUnavailable && slices.ContainsFunc(d.Input.Findings, func(f admission.Finding) bool {
		return f.State != admission.FindingUnavailable
	})
	for _, v := range d.Verdicts {
		if v.Result == admission.ResultFail || v.Result == admission.ResultError {
			r.Failed = append(r.Failed, FailedVerdict{v.Gate, v.ID, v.Codes})
			for _, c := range v.Codes {
				r.cause(string(c))
			}
		}
	}
	return nil
}

// missingTrust compares the verifiers that judged what was used with those of
// today, by their names and the names of what they believe.
func missingTrust(l *loaded, today []admission.VerifierInfo) error {
	for _, then := range l.set.Decision.Verifiers {
		if !slices.ContainsFunc(l.set.Evidence.Used, func(f admission.Finding) bool { return f.Verifier == then.ID }) {
			continue
		}
		i := slices.IndexFunc(today, func(v admission.VerifierInfo) bool { return v.ID == then.ID })
		if i < 0 {
			return &MissingTrust{Verifier: then.ID}
		}
		for _, m := range then.Trust {
			if !slices.ContainsFunc(today[i].Trust, func(t admission.TrustMaterial) bool { return t.Name == m.Name }) {
				return &MissingTrust{then.ID, m.Name}
			}
		}
	}
	return nil
}

// cause adds a cause that is not there yet, as long as there is room.
func (r *Recheck) cause(c string) {
	if c != "" && !slices.Contains(r.Causes, c) && len(r.Causes) < event.MaxReviewCauses {
		r.Causes = append(r.Causes, c)
	}
}

// apply applies the rubric and seals the recheck.
func (j *Judge) apply(c *Contract, l *loaded, r *Recheck) (*Verdict, error) {
	knobs := j.Policy.Review()
	res, err := rubric.Judge(rubric.Input{
		Recheck: r.State, Incomplete: r.Incomplete, Impact: c.Terms.Impact,
		Drift: r.AdmittedUnder != "" && r.AdmittedUnder != r.Policy.Digest,
	}, rubric.Knobs{PrivilegedFail: rubric.Disposition(knobs.PrivilegedEvidenceFail), StandardAs: string(knobs.StandardAs)})
	if err != nil {
		return nil, err
	}
	v := &Verdict{Result: res, Recheck: r, retention: j.retention(c, l, r)}
	if v.Digest, v.canonical, err = admission.Name(r); err != nil {
		return nil, fmt.Errorf("recheck of contract %q: %w", c.Name, err)
	}
	return v, nil
}

// retention is how long the recheck is kept: as long as the receipt, if today's
// policy has its class, else as its own class says.
func (j *Judge) retention(c *Contract, l *loaded, r *Recheck) archive.Retention {
	var names []string
	if l.receipt != nil {
		names = append(names, l.receipt.RetentionClass)
	}
	for _, class := range []string{r.Class, c.Terms.Class} {
		if k := j.Policy.Class(class); k != nil {
			names = append(names, k.Retention)
		}
	}
	for _, n := range append(names, j.Policy.RetentionClasses()...) {
		got, ok := j.Policy.Retention(n)
		if ok && (got.Kind == policy.SecurityEvidence || c.Terms.Impact != event.ImpactPrivileged) {
			return archive.Retention{Class: n, Kind: got.Kind, Days: got.Days}
		}
	}
	return archive.Retention{Class: "review", Kind: event.RetentionEvidence, Days: fallbackDays}
}

// fallbackDays is the retention of a recheck where the policy has no class that
// fits.
const fallbackDays = 400

// keep keeps the recheck, durably, under the attempt that set the contract.
func (j *Judge) keep(ctx context.Context, c *Contract, v *Verdict) error {
	item := archive.Item{Owner: c.Attempt, Role: RoleRecheck, Digest: v.Digest, Retention: v.retention,
		Sensitive: c.Terms.Impact == event.ImpactPrivileged, At: j.At}
	for try := 0; ; try++ {
		_, err := j.Archive.Put(ctx, item, bytes.NewReader(v.canonical))
		if err == nil {
			err = j.Archive.Sync(ctx)
		}
		var failure *archive.Failure
		if err == nil || !errors.As(err, &failure) || try+1 == archiveAttempts {
			return err
		}
		if err := j.Pause(ctx, archivePause<<try); err != nil {
			return err
		}
	}
}

func (j *Judge) infos() []admission.VerifierInfo {
	var infos []admission.VerifierInfo
	for _, v := range j.Verifiers {
		infos = append(infos, v.Info())
	}
	slices.SortFunc(infos, func(a, b admission.VerifierInfo) int { return strings.Compare(a.ID, b.ID) })
	return infos
}
