package admission

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/event"
)

// ReceiptSchema is the schema of an [ArchiveReceipt], and ReceiptType the DSSE
// payload type under which it is signed.
const (
	ReceiptSchema = "counterfoil.archive-receipt.v1"
	ReceiptType   = "application/vnd.counterfoil.archive-receipt.v1+json"
)

// Kinds of receipt. A backfill records an old admission as it was: what was not
// kept then is recorded as absent, and nothing new is put in its place (ARC-12,
// ARC-13).
const (
	ReceiptAdmission = "admission"
	ReceiptBackfill  = "backfill"
)

// ClaimBoundary is the claim boundary of every receipt (CLM-06, CLM-07).
const ClaimBoundary = "archive_receipt_v1"

// ClaimBoundaryText is what a receipt does not show.
const ClaimBoundaryText = "At the stated time a policy judged the records that this receipt names, and they were kept together. " +
	"Namespace authentication is one input and no verdict about safety. Provenance says where and how bytes were built; it is no proof of what they do when they run. " +
	"The decision of then does not claim present safety, and it neither authorises nor prevents execution."

// Bounds of a receipt.
const (
	MaxExternals  = 256
	maxSignatures = 8
)

// ArchiveReceipt is the root of an admission: what was bound, for how long it is
// kept, and when (ADM-09). It is never edited.
type ArchiveReceipt struct {
	Schema string `json:"schema"`
	Kind   string `json:"kind"`
	// SpanningSet is the spanning-set digest, Records the digests in it: each
	// record is stored by its own and can be read without the others (ARC-03).
	SpanningSet    string      `json:"spanningSet"`
	Records        SpanRecords `json:"records"`
	RetentionClass string      `json:"retentionClass"`
	// Externals are the bytes outside of the records that the decision depended
	// on (ARC-10), sorted.
	Externals []External `json:"externals,omitempty"`
	// Refers names the old admission of a backfill: an event id, a contract or
	// a ticket.
	Refers        string `json:"refers,omitempty"`
	ClaimBoundary string `json:"claimBoundary"`
	ReceivedAt    string `json:"receivedAt"` // event.TimeLayout
}

// External is a file outside of the records.
type External struct {
	Class   string `json:"class"` // registry_entry, artifact, evidence or trust_material
	Digest  string `json:"digest"`
	Locator string `json:"locator"`
}

// Classes of externals.
const (
	ExternalEntry    = "registry_entry"
	ExternalArtifact = "artifact"
	ExternalEvidence = "evidence"
	ExternalTrust    = "trust_material"
)

// externals lists what the records depend on.
func (s *Set) externals() []External {
	var out []External
	add := func(class, digest, locator string) { out = append(out, External{class, digest, locator}) }
	if s.Snapshot != nil {
		add(ExternalEntry, s.Snapshot.Raw.Digest, s.Snapshot.Registry)
	}
	if d := s.Binding.SHA256(); d != "" {
		add(ExternalArtifact, d, s.Binding.Locator)
	}
	for _, f := range slices.Concat(s.Evidence.Used, s.Evidence.Others) {
		add(ExternalEvidence, f.Evidence, f.Locator)
	}
	for _, v := range s.Decision.Verifiers {
		for _, m := range v.Trust {
			add(ExternalTrust, m.Digest, m.Name)
		}
	}
	slices.SortFunc(out, External.compare)
	return slices.Compact(out)
}

func (e External) compare(o External) int {
	return cmp.Or(cmp.Compare(e.Class, o.Class), cmp.Compare(e.Digest, o.Digest), cmp.Compare(e.Locator, o.Locator))
}

// NewReceipt makes the receipt of a set, and the set's canonical bytes, which are
// stored like a record. Refers is for a backfill and empty otherwise.
func NewReceipt(s *Set, retentionClass, refers, receivedAt string) (*ArchiveReceipt, []byte, error) {
	span, err := s.Span(retentionClass)
	if err != nil {
		return nil, nil, err
	}
	digest, canonical, err := Name(span)
	if err != nil {
		return nil, nil, err
	}
	r := &ArchiveReceipt{
		Schema: ReceiptSchema, Kind: ReceiptAdmission, SpanningSet: digest, Records: *span.Records,
		RetentionClass: retentionClass, Externals: s.externals(), Refers: refers,
		ClaimBoundary: ClaimBoundary, ReceivedAt: receivedAt,
	}
	if refers != "" {
		r.Kind = ReceiptBackfill
	}
	return r, canonical, r.Validate()
}

// ParseReceipt reads a receipt, without signatures, from its canonical bytes.
func ParseReceipt(b []byte) (*ArchiveReceipt, error) { return parse[ArchiveReceipt](b) }

// Validate implements [Record].
func (r *ArchiveReceipt) Validate() error {
	if err := first(checkSchema(r.Schema, ReceiptSchema), checkDigest("/spanningSet", r.SpanningSet),
		checkOptionalDigest("/records/registry_snapshot", r.Records.RegistrySnapshot),
		checkOptionalDigest("/records/artifact_binding", r.Records.ArtifactBinding),
		checkDigest("/records/evidence_bundle", r.Records.EvidenceBundle),
		checkDigest("/records/policy_decision", r.Records.PolicyDecision),
		checkRetention("/retentionClass", r.RetentionClass),
		checkOptionalText("/refers", r.Refers, 255),
		checkTime("/receivedAt", r.ReceivedAt)); err != nil {
		return err
	}
	switch {
	case r.Kind != ReceiptAdmission && r.Kind != ReceiptBackfill:
		return bad("/kind", "is %q, want admission or backfill", clip(r.Kind))
	case (r.Kind == ReceiptBackfill) != (r.Refers != ""):
		return bad("/refers", "a backfill, and nothing else, refers to an old admission")
	case r.ClaimBoundary != ClaimBoundary:
		return bad("/claimBoundary", "is %q, want %s", clip(r.ClaimBoundary), ClaimBoundary)
	case len(r.Externals) > MaxExternals:
		return bad("/externals", "%d files, limit %d", len(r.Externals), MaxExternals)
	}
	for i, e := range r.Externals {
		at := fmt.Sprintf("/externals/%d", i)
		switch e.Class {
		case ExternalEntry, ExternalArtifact, ExternalEvidence, ExternalTrust:
		default:
			return bad(at+"/class", "is %q", clip(e.Class))
		}
		if err := first(checkDigest(at+"/digest", e.Digest), checkText(at+"/locator", e.Locator, MaxLocatorBytes)); err != nil {
			return err
		}
		if i > 0 && r.Externals[i-1].compare(e) >= 0 {
			return bad(at, "not in order, or twice")
		}
	}
	return nil
}

// Check compares a receipt with the records that are said to be its own. The
// error is a *[Mismatch] that names the record which was put in another's place
// (ADM-25).
func (r *ArchiveReceipt) Check(s *Set) error {
	names, err := s.names()
	if err != nil {
		return err
	}
	for _, c := range []struct{ name, want, got string }{
		{"registry_snapshot", r.Records.RegistrySnapshot, names.RegistrySnapshot},
		{"artifact_binding", r.Records.ArtifactBinding, names.ArtifactBinding},
		{"evidence_bundle", r.Records.EvidenceBundle, names.EvidenceBundle},
		{"policy_decision", r.Records.PolicyDecision, names.PolicyDecision},
	} {
		if c.want != c.got {
			return &Mismatch{c.name, c.want, c.got}
		}
	}
	span, err := s.Span(r.RetentionClass)
	if err != nil {
		return err
	}
	digest, err := span.Digest()
	if err != nil {
		return err
	}
	if digest != r.SpanningSet {
		return &Mismatch{"spanning_set", r.SpanningSet, digest}
	}
	return nil
}

// ReceiptSigner signs a receipt; the ledger's event signer is one.
type ReceiptSigner interface {
	KeyID() string
	// Sign returns the signature over a DSSE pre-authentication encoding.
	Sign(pae []byte) ([]byte, error)
}

// Errors of signed receipts.
var (
	// ErrUnsigned: a signature is wanted and there is none.
	ErrUnsigned = errors.New("archive receipt is unsigned")
	// ErrSignature: no signature is by a key that is known.
	ErrSignature = errors.New("no signature of the archive receipt verifies")
)

// envelope is the form of a signed receipt: canonical JSON.
type envelope struct {
	Receipt    jsontext.Value    `json:"receipt"`
	Signatures []event.Signature `json:"signatures"`
}

// Seal returns the bytes of a receipt with its signature:
//
//	{"receipt":{…},"signatures":[{"keyId":"ed25519:…","sig":"<base64>"}]}
//
// in canonical JSON, signed like an event over the DSSE pre-authentication
// encoding of [ReceiptType] and the receipt's canonical bytes. With a nil signer
// the receipt has no signatures, and [Open] accepts it only without keys.
func Seal(r *ArchiveReceipt, signer ReceiptSigner) ([]byte, error) {
	payload, err := Encode(r)
	if err != nil {
		return nil, err
	}
	var sigs []event.Signature
	if signer != nil {
		sig, err := signer.Sign(event.PAE(ReceiptType, payload))
		if err != nil {
			return nil, fmt.Errorf("sign archive receipt: %w", err)
		}
		if len(sig) == 0 {
			return nil, fmt.Errorf("sign archive receipt: %w", ErrUnsigned)
		}
		sigs = append(sigs, event.Signature{KeyID: signer.KeyID(), Sig: sig})
	}
	return seal(payload, sigs), nil
}

func seal(payload []byte, sigs []event.Signature) []byte {
	b := append([]byte(`{"receipt":`), payload...)
	b = append(b, `,"signatures":`...)
	return append(event.AppendSignatures(b, sigs), '}')
}

// Open reads a sealed receipt. Keys returns the public key of a key id that is
// trusted; it comes from outside of what is read. A nil keys accepts a receipt
// without looking at signatures; with keys, one that has none is [ErrUnsigned]
// (ADM-09) and one that none verifies [ErrSignature]. Signer is the key id that
// verified.
func Open(b []byte, keys func(keyID string) (ed25519.PublicKey, bool)) (r *ArchiveReceipt, signer string, err error) {
	var e envelope
	if err := decode(b, &e); err != nil {
		return nil, "", err
	}
	if len(e.Signatures) > maxSignatures {
		return nil, "", bad("/signatures", "%d signatures, limit %d", len(e.Signatures), maxSignatures)
	}
	for i, s := range e.Signatures {
		if s.KeyID == "" || len(s.KeyID) > 255 || len(s.Sig) == 0 || len(s.Sig) > event.MaxSigBytes {
			return nil, "", bad(fmt.Sprintf("/signatures/%d", i), "wants a key id and a signature of at most %d bytes", event.MaxSigBytes)
		}
	}
	if r, err = ParseReceipt(e.Receipt); err != nil {
		return nil, "", err
	}
	if !bytes.Equal(seal(e.Receipt, e.Signatures), b) {
		return nil, "", bad("", "not in canonical form")
	}
	if keys == nil {
		return r, "", nil
	}
	if len(e.Signatures) == 0 {
		return nil, "", ErrUnsigned
	}
	pae := event.PAE(ReceiptType, e.Receipt)
	for _, s := range e.Signatures {
		if pub, ok := keys(s.KeyID); ok && event.VerifySignature(s.KeyID, pub, pae, s.Sig) {
			return r, s.KeyID, nil
		}
	}
	return nil, "", ErrSignature
}
