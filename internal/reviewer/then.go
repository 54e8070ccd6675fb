package reviewer

import (
	"context"
	"errors"
	"fmt"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/review"
)

// ErrUnreadable: what was recorded then cannot be read any more. It stays true.
var ErrUnreadable = errors.New("it cannot be read any more")

// Then is what was decided in an admission.
type Then struct {
	Kind     string // admission or backfill
	Evidence string // digest of the evidence bundle
	Decision *admission.PolicyDecision
}

// Decision reads the decision that a receipt binds, and no evidence. Errors:
// ErrUnreadable, and trouble.
func (l Ledger) Decision(ctx context.Context, receipt string) (*Then, error) {
	b, err := l.readable(ctx, receipt)
	if err != nil {
		return nil, err
	}
	r, _, err := admission.Open(b, nil)
	if err != nil {
		return nil, fmt.Errorf("receipt %s: %w: %w", receipt, err, ErrUnreadable)
	}
	if b, err = l.readable(ctx, r.Records.PolicyDecision); err != nil {
		return nil, err
	}
	d, err := admission.ParsePolicyDecision(b)
	if err != nil {
		return nil, fmt.Errorf("decision %s: %w: %w", r.Records.PolicyDecision, err, ErrUnreadable)
	}
	return &Then{r.Kind, r.Records.EvidenceBundle, d}, nil
}

// CheckReceipt says whether a contract may stand on a receipt: it was kept, and as
// far as it can still be read it is of an admit. Errors: *review.UnknownReceipt,
// *review.NotAdmitted, and trouble.
func (l Ledger) CheckReceipt(ctx context.Context, receipt string) error {
	then, err := l.Decision(ctx, receipt)
	switch {
	case errors.Is(err, archive.ErrAbsent):
		return &review.UnknownReceipt{Digest: receipt}
	case errors.Is(err, ErrUnreadable):
		return nil // kept once; a review says what that means
	case err != nil:
		return err
	case then.Decision.Decision != admission.Admit:
		return &review.NotAdmitted{Digest: receipt, Decision: then.Decision.Decision}
	}
	return nil
}

// Recheck reads the record of a recheck.
func (l Ledger) Recheck(ctx context.Context, digest string) (*review.Recheck, error) {
	b, err := l.readable(ctx, digest)
	if err != nil {
		return nil, err
	}
	r, err := review.ParseRecheck(b)
	if err != nil {
		return nil, fmt.Errorf("recheck %s: %w: %w", digest, err, ErrUnreadable)
	}
	return r, nil
}

// readable reads a body, compared with its digest.
func (l Ledger) readable(ctx context.Context, digest string) ([]byte, error) {
	b, err := l.ArchiveBody(ctx, digest, maxBody)
	if err != nil {
		err = archiveError(ctx, "read "+digest, digest, err)
		var gone *archive.Gone
		if errors.As(err, &gone) {
			return nil, fmt.Errorf("%s: %s: %w", digest, gone.State, ErrUnreadable)
		}
		if errors.Is(err, archive.ErrAbsent) {
			return nil, fmt.Errorf("%s: %w: %w", digest, archive.ErrAbsent, ErrUnreadable)
		}
		return nil, err
	}
	if admission.Digest(b) != digest {
		return nil, fmt.Errorf("%s: other bytes than were stored: %w", digest, ErrUnreadable)
	}
	return b, nil
}
