package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"

	"counterfoil/internal/api"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/vsa"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
	"counterfoil/ledger/review"
)

// eventSigner is the signer of events now.
func (l *Ledger) eventSigner() keyring.Signer {
	l.event.mu.Lock()
	defer l.event.mu.Unlock()
	return l.event.signer
}

// signsMessages reports whether a signer signs whole messages. Those that sign digests
// are not known to the tools that read summaries.
func signsMessages(s keyring.Signer) bool { return s.KeyID() == event.KeyID(s.Public()) }

// signSummary puts a statement into a bundle, with one signature.
func signSummary(payload []byte, signer keyring.Signer) ([]byte, error) {
	sig, err := signer.Sign(event.PAE(vsa.PayloadType, payload))
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return nil, fmt.Errorf("public key of the signer: %w", err)
	}
	return vsa.Bundle(payload, sig, der)
}

// ReviewSummary is a review of a contract as a verification summary. It is made of what
// the review event, its contract and the archive say, signed with the event key of now,
// and recorded nowhere: the review in the log is what counts.
//
// Nothing is said to pass unless the recheck and the records of the receipt can be read
// and say so. Otherwise what is gone is left out. Errors: those of the archive.
func (l *Ledger) ReviewSummary(ctx context.Context, eventID string, e *event.Event) ([]byte, error) {
	if l.signingStopped() != nil {
		return nil, errSignsNothing
	}
	j, ok := e.Judgement()
	if !ok || j.Run == nil || e.Subject.Kind != event.Contract {
		return nil, api.NewNotFound("no verification summary: the event is no review of a contract by a review run",
			"name one of GET /v1/reviews that has a run; a review by a person has no policy")
	}
	events, _, err := l.intake.Attempt(ctx, e.AttemptID)
	if err != nil {
		return nil, l.explain(err)
	}
	terms, ok := events[0].Rec.Event.ContractTerms()
	if !ok || terms.Receipt != e.Refs[event.RefReceipt] || terms.Digest(e.Subject.ID).String() != e.Refs[event.RefContract] {
		return nil, api.NewNotFound("no verification summary: the review is of another contract than its attempt set",
			"review the contract again: counterfoil review run")
	}
	r := &vsa.Reviewed{
		Review: vsa.Review{
			Disposition: e.Status, ReasonCodes: e.ReasonCodes, Recheck: j.Run.Recheck, Causes: j.Run.Causes, Mode: j.Run.Mode,
			Impact: j.Run.Impact, Rubric: j.Rubric, Contract: e.Subject.ID, ContractDigest: e.Refs[event.RefContract],
			Receipt: terms.Receipt, RecheckDigest: e.Refs[event.RefRecheck], EventID: eventID, Server: terms.Server,
		},
		At: e.OccurredAt, Policy: admission.PolicyRef{Digest: e.Refs[event.RefPolicy]}, Artifact: terms.Artifact,
	}
	if err := l.readReviewed(ctx, r); err != nil {
		return nil, err
	}
	payload, ok, err := vsa.ReviewStatement(r, l.id.Origin)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, api.NewNotFound("no verification summary: neither the contract nor its receipt names the bytes of an artifact",
			"a summary is about bytes; the review itself is GET /v1/receipts/"+eventID)
	}
	signer := l.eventSigner()
	if !signsMessages(signer) {
		return nil, api.NewNotFound("no verification summary: the event key signs digests, which the readers of summaries do not know",
			"sign with a key that signs whole messages (docs/runbooks/keys.md)")
	}
	b, err := signSummary(payload, signer)
	if err != nil {
		return nil, errors.Join(&api.Unavailable{Reason: "signer_unavailable", Message: "the verification summary could not be signed"}, err)
	}
	return b, nil
}

// readReviewed adds what the archive has.
func (l *Ledger) readReviewed(ctx context.Context, r *vsa.Reviewed) error {
	passed := r.Disposition == vsa.Continue
	recheck, err := readKept(ctx, l.Archive(), r.RecheckDigest, passed, review.ParseRecheck)
	if err != nil {
		return err
	}
	if recheck != nil {
		if recheck.Receipt != r.Receipt || recheck.Contract != r.ContractDigest || recheck.Policy.Digest != r.Policy.Digest || recheck.State != r.Recheck ||
			passed && recheck.State != event.RecheckPass {
			return api.NewNotFound("no verification summary: the recheck that the review names says something else",
				"review the contract again: counterfoil review run")
		}
		r.Policy, r.Class = recheck.Policy, recheck.Class
		for _, f := range recheck.Findings {
			r.Verified = append(r.Verified, f.Evidence)
		}
	}
	open := func(b []byte) (*admission.ArchiveReceipt, error) {
		rc, _, err := admission.Open(b, nil)
		return rc, err
	}
	receipt, err := readKept(ctx, l.Archive(), r.Receipt, passed, open)
	if err != nil || receipt == nil {
		return err
	}
	if d := receipt.Records.ArtifactBinding; d != "" {
		if r.Binding, err = readKept(ctx, l.Archive(), d, passed, admission.ParseBinding); err != nil {
			return err
		}
	}
	if passed && r.Artifact != "" && (r.Binding == nil || r.Binding.SHA256() != r.Artifact) {
		return api.NewNotFound("no verification summary: the review continues a contract whose receipt is about other bytes",
			"review the contract again: counterfoil review run")
	}
	if r.Evidence, err = readKept(ctx, l.Archive(), receipt.Records.EvidenceBundle, passed, admission.ParseEvidenceBundle); err != nil {
		return err
	}
	if d := receipt.Records.RegistrySnapshot; d != "" {
		snapshot, err := readKept(ctx, l.Archive(), d, passed, admission.ParseSnapshot)
		if err != nil {
			return err
		}
		if snapshot != nil {
			r.Server = snapshot.ServerName
		}
	}
	return nil
}

// maxKept bounds what is read of a record: a sealed receipt is the largest.
const maxKept = 2 * admission.MaxRecordBytes

// readKept reads a record. One that is not needed is nil if it is gone or damaged;
// trouble of the archive is an error all the same.
func readKept[T any](ctx context.Context, store *archive.Archive, digest string, needed bool, parse func([]byte) (*T, error)) (*T, error) {
	b, err := readBody(ctx, store, digest)
	var v *T
	if err == nil {
		if v, err = parse(b); err != nil {
			err = &archive.Failure{Code: admission.ArchiveDigestMismatch, Doing: "read " + digest, Err: err}
		}
	}
	var failure *archive.Failure
	switch {
	case err == nil:
		return v, nil
	case needed, ctx.Err() != nil, errors.As(err, &failure) && failure.Code != admission.ArchiveDigestMismatch:
		return nil, err
	}
	return nil, nil
}

func readBody(ctx context.Context, store *archive.Archive, digest string) ([]byte, error) {
	r, err := store.Open(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxKept+1))
	if err == nil && len(b) > maxKept {
		err = &archive.Failure{Code: admission.ArchiveDigestMismatch, Doing: "read " + digest, Err: fmt.Errorf("no record is larger than %d bytes", maxKept)}
	}
	return b, err
}
