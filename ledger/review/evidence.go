package review

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/archive"
)

// Archive is the archive as a review needs it; archive.Store has it all. It is safe for
// concurrent use.
type Archive interface {
	Open(ctx context.Context, digest string) (io.ReadCloser, error)
	Put(ctx context.Context, item archive.Item, r io.Reader) (archive.Entry, error)
	Sync(ctx context.Context) error
}

// Roles of what a review reads, as in the archive.
const (
	RoleReceipt  = "receipt"
	RoleSnapshot = "registry_snapshot"
	RoleBinding  = "artifact_binding"
	RoleBundle   = "evidence_bundle"
	RoleDecision = "policy_decision"
	RoleEvidence = "evidence"
	RoleRecheck  = "evidence_recheck" // what a review keeps
)

// Gap is a body that a receipt binds and that cannot be read.
type Gap struct {
	Role   string `json:"role"`
	Digest string `json:"digest"`
	// State is expired, erased, compacted or absent, as in the archive; damaged
	// or unreadable.
	State string `json:"state"`
	// Code is the archive's failure, if the archive and not the evidence is the
	// trouble (ARC-05).
	Code admission.Code `json:"code,omitempty"`
}

// States of a gap besides those of the archive.
const (
	GapDamaged    = "damaged"    // other bytes than were stored
	GapUnreadable = "unreadable" // the archive failed
)

// Cause is the reason code of a gap: role and state, such as evidence_expired.
func (g Gap) Cause() string { return g.Role + "_" + g.State }

// loaded is the evidence of a receipt as far as it can be read.
type loaded struct {
	receipt  *admission.ArchiveReceipt
	set      admission.Set
	evidence []file
	gaps     []Gap
	// wanted counts the files that the evidence bundle names.
	wanted int
}

// file is a file of evidence with what was found out about it then.
type file struct {
	digest string
	body   admission.Evidence
}

// Bounds of what is read.
const (
	maxReceiptBytes = admission.MaxRecordBytes + (64 << 10)
	archiveAttempts = 3
	archivePause    = 200 * time.Millisecond
)

// UnknownReceipt: the archive never had a receipt of this digest. A contract that
// names it cannot be reviewed, and no result is recorded (REV-31).
type UnknownReceipt struct{ Digest string }

func (e *UnknownReceipt) Error() string { return "no receipt " + e.Digest + " was ever kept" }

// NotAdmitted: the receipt is of a decision that was not admit. There is nothing
// that could continue (ADM-34).
type NotAdmitted struct {
	Digest   string
	Decision admission.Decision
}

func (e *NotAdmitted) Error() string {
	return fmt.Sprintf("receipt %s is of a decision to %s", e.Digest, e.Decision)
}

// load reads what a receipt binds. Files of evidence are opened only if the
// records are all there and open says so.
func (j *Judge) load(ctx context.Context, digest string, open func(*loaded) bool) (*loaded, error) {
	l := &loaded{}
	b, gap, err := j.read(ctx, RoleReceipt, digest, maxReceiptBytes)
	if err != nil {
		return nil, err
	}
	if gap != nil {
		if gap.State == string(archive.Absent) {
			return nil, &UnknownReceipt{digest}
		}
		l.gaps = append(l.gaps, *gap)
		return l, nil
	}
	if l.receipt, _, err = admission.Open(b, j.Keys); err != nil {
		l.gaps = append(l.gaps, Gap{Role: RoleReceipt, Digest: digest, State: GapDamaged, Code: codeOfReceipt(err)})
		l.receipt = nil
		return l, nil
	}
	if err := j.records(ctx, l); err != nil {
		return nil, err
	}
	if d := l.set.Decision; d != nil && d.Decision != admission.Admit {
		return nil, &NotAdmitted{digest, d.Decision}
	}
	if len(l.gaps) > 0 || !open(l) {
		return l, nil
	}
	return l, j.files(ctx, l)
}

func codeOfReceipt(err error) admission.Code {
	if errors.Is(err, admission.ErrUnsigned) {
		return admission.ArchiveUnsigned
	}
	return admission.ArchiveDigestMismatch
}

// records reads the records of a receipt and checks that they are its own.
func (j *Judge) records(ctx context.Context, l *loaded) error {
	k := l.receipt.Records
	for _, r := range []struct {
		role, digest string
		parse        func([]byte) error
	}{
		{RoleBundle, k.EvidenceBundle, parseInto(&l.set.Evidence, admission.ParseEvidenceBundle)},
		{RoleDecision, k.PolicyDecision, parseInto(&l.set.Decision, admission.ParsePolicyDecision)},
		{RoleSnapshot, k.RegistrySnapshot, parseInto(&l.set.Snapshot, admission.ParseSnapshot)},
		{RoleBinding, k.ArtifactBinding, parseInto(&l.set.Binding, admission.ParseBinding)},
	} {
		if r.digest == "" {
			continue // the admission had none
		}
		b, gap, err := j.read(ctx, r.role, r.digest, admission.MaxRecordBytes)
		if err != nil {
			return err
		}
		if gap == nil && r.parse(b) != nil {
			gap = &Gap{Role: r.role, Digest: r.digest, State: GapDamaged}
		}
		if gap != nil {
			l.gaps = append(l.gaps, *gap)
		}
	}
	if len(l.gaps) == 0 {
		if err := l.receipt.Check(&l.set); err != nil {
			var m *admission.Mismatch
			role := RoleReceipt
			if errors.As(err, &m) {
				role = m.Record
			}
			l.gaps = append(l.gaps, Gap{Role: role, Digest: l.receipt.SpanningSet, State: GapDamaged, Code: admission.ArchiveDigestMismatch})
		}
	}
	return nil
}

func parseInto[T any](to **T, parse func([]byte) (*T, error)) func([]byte) error {
	return func(b []byte) (err error) {
		v, err := parse(b)
		if err == nil {
			*to = v
		}
		return err
	}
}

// files reads the files that the evidence bundle used, each once.
func (j *Judge) files(ctx context.Context, l *loaded) error {
	var seen []string
	for _, f := range l.set.Evidence.Used {
		if slices.Contains(seen, f.Evidence) {
			continue
		}
		seen = append(seen, f.Evidence)
		l.wanted++
		b, gap, err := j.read(ctx, RoleEvidence, f.Evidence, admission.MaxEvidenceBytes)
		if err != nil {
			return err
		}
		if gap != nil {
			l.gaps = append(l.gaps, *gap)
			continue
		}
		l.evidence = append(l.evidence, file{f.Evidence, admission.Evidence{MediaType: f.MediaType, Locator: f.Locator, Body: b}})
	}
	return nil
}

// incomplete reports whether some of the evidence is there and some is not. It is
// never judged by the part that is left (REV-09).
func (l *loaded) incomplete() bool {
	if l.set.Evidence == nil {
		return false
	}
	for _, g := range l.gaps {
		if g.Role != RoleEvidence {
			return true // evidence without the record beside it
		}
	}
	return len(l.gaps) > 0 && len(l.gaps) < l.wanted
}

// read reads one body. What is wrong with the body, or with the archive after
// archiveAttempts, is a gap; an error is that of ctx.
func (j *Judge) read(ctx context.Context, role, digest string, most int64) ([]byte, *Gap, error) {
	gap := Gap{Role: role, Digest: digest}
	for try := 0; ; try++ {
		b, err := readBody(ctx, j.Archive, digest, most)
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if err == nil && admission.Digest(b) != digest {
			err = errors.New("other bytes than the digest names")
		}
		var (
			gone    *archive.Gone
			failure *archive.Failure
		)
		switch {
		case err == nil:
			return b, nil, nil
		case errors.Is(err, archive.ErrAbsent):
			gap.State = string(archive.Absent)
			return nil, &gap, nil
		case errors.As(err, &gone):
			gap.State = string(gone.State)
			return nil, &gap, nil
		case errors.As(err, &failure) && failure.Code != admission.ArchiveDigestMismatch:
			gap.State, gap.Code = GapUnreadable, failure.Code
		default: // reading damage again does not mend it
			gap.State, gap.Code = GapDamaged, admission.ArchiveDigestMismatch
			return nil, &gap, nil
		}
		if try+1 == archiveAttempts {
			return nil, &gap, nil
		}
		if err := j.Pause(ctx, archivePause<<try); err != nil {
			return nil, nil, err
		}
	}
}

func readBody(ctx context.Context, a Archive, digest string, most int64) ([]byte, error) {
	r, err := a.Open(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	return b, err
}

// KeyOf returns a trusted public key by its id.
type KeyOf func(keyID string) (ed25519.PublicKey, bool)
