package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/internal/api"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/vsa"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
)

// Roles of records in the archive: the names that a receipt has for them.
const (
	roleSnapshot = "registry_snapshot"
	roleBinding  = "artifact_binding"
	roleBundle   = "evidence_bundle"
)

// record is a record of an admission with its name.
type record struct {
	role      string
	digest    string
	canonical []byte
}

// SealReceipt keeps the records of an admission one by one (ARC-03), their spanning
// set, and the receipt, signed with the ledger's event key. The receipt is durable when
// it returns. Nothing is judged, and nothing outside of the call is read (EVI-02): what
// is checked is that the records belong together (ADM-16, ADM-25).
func (l *Ledger) SealReceipt(ctx context.Context, attemptID string, r api.ReceiptRequest) (*api.AdmissionReceipt, error) {
	if err := l.admit(); err != nil {
		return nil, err
	}
	events, _, err := l.intake.Attempt(ctx, attemptID)
	if err != nil {
		return nil, l.explain(err)
	}
	if k := events[0].Rec.Event.Subject.Kind; k != event.Admission {
		return nil, api.NewInvalid("", "begin an attempt of subject kind admission first", "attempt "+attemptID+" is of kind "+string(k))
	}
	set, records, err := readSet(r)
	if err != nil {
		return nil, err
	}
	now := l.cfg.Now()
	receipt, span, err := admission.NewReceipt(set, r.Retention.Class, r.Refers, event.FormatTime(now))
	if err != nil {
		return nil, api.NewInvalid("/records", "the records must name each other; make all of them from one judgement", err.Error())
	}
	signer := l.eventSigner()
	sealed, err := admission.Seal(receipt, signer)
	if err != nil {
		return nil, &archive.Failure{Code: admission.ArchiveUnsigned, Doing: "sign the receipt", Err: err}
	}
	summary, err := l.summary(set, admission.Digest(sealed), receipt.SpanningSet, signer)
	if err != nil {
		return nil, err
	}
	records = append(records, summary...)
	records = append(records, record{archive.RoleSpanningSet, receipt.SpanningSet, span},
		record{archive.RoleReceipt, admission.Digest(sealed), sealed}) // the root comes last
	item := archive.Item{
		Owner: attemptID, Retention: archive.Retention(r.Retention), At: now,
		Sensitive: r.Sensitive || set.Decision.Impact == admission.ImpactPrivileged,
	}
	store := l.Archive()
	for _, rec := range records {
		item.Role, item.Digest = rec.role, rec.digest
		if _, err := store.Put(ctx, item, bytes.NewReader(rec.canonical)); err != nil {
			return nil, fmt.Errorf("keep the %s of %s: %w", rec.role, attemptID, err)
		}
	}
	if err := store.Sync(ctx); err != nil {
		return nil, fmt.Errorf("keep the receipt of %s: %w", attemptID, err)
	}
	out := &api.AdmissionReceipt{
		SchemaVersion: api.AdmissionReceiptSchema, AttemptID: attemptID, Receipt: admission.Digest(sealed),
		SpanningSetDigest: receipt.SpanningSet, ReceivedAt: receipt.ReceivedAt, KeyID: signer.KeyID(),
	}
	if len(summary) > 0 {
		out.VSA = summary[0].digest
	}
	return out, nil
}

// summary is the decision for the tools of others. There is none without an artifact's
// bytes, nor of a key that signs digests, which those tools do not know.
func (l *Ledger) summary(set *admission.Set, receipt, span string, signer keyring.Signer) ([]record, error) {
	payload, ok, err := vsa.Statement(set, receipt, span, l.id.Origin)
	if err != nil || !ok || !signsMessages(signer) {
		return nil, err
	}
	b, err := signSummary(payload, signer)
	if err != nil {
		return nil, &archive.Failure{Code: admission.ArchiveUnsigned, Doing: "sign the verification summary", Err: err}
	}
	return []record{{"vsa", admission.Digest(b), b}}, nil
}

// readSet reads the records of a request; any spelling of their JSON is one record.
func readSet(r api.ReceiptRequest) (*admission.Set, []record, error) {
	var (
		set     admission.Set
		records []record
	)
	in := r.Records
	err := errors.Join(
		readRecord(&set.Snapshot, &records, roleSnapshot, in.RegistrySnapshot, false, admission.ParseSnapshot),
		readRecord(&set.Binding, &records, roleBinding, in.ArtifactBinding, false, admission.ParseBinding),
		readRecord(&set.Evidence, &records, roleBundle, in.EvidenceBundle, true, admission.ParseEvidenceBundle),
		readRecord(&set.Decision, &records, archive.RoleDecision, in.PolicyDecision, true, admission.ParsePolicyDecision),
	)
	return &set, records, err
}

func readRecord[T any](to **T, records *[]record, role string, v jsontext.Value, wanted bool, parse func([]byte) (*T, error)) error {
	if len(v) == 0 || v.Kind() == 'n' {
		if wanted {
			return api.NewInvalid("/records/"+role, "send it as docs/spec/admission.md says", "missing")
		}
		return nil
	}
	err := v.Canonicalize()
	if err == nil {
		*to, err = parse(v)
	}
	if err != nil {
		return api.NewInvalid("/records/"+role, "the members are in docs/spec/admission.md", err.Error())
	}
	*records = append(*records, record{role, admission.Digest(v), v})
	return nil
}
