package sigstore

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"counterfoil/ledger/admission"
)

// choose picks who judges a bundle, and what it believes: certificates and keys
// have different demands.
func (v *Verifier) choose(b *bundle.Bundle) (*verify.Verifier, verify.PolicyOption, root.TrustedMaterial, *admission.Failure) {
	fail := func(code admission.Code, format string, args ...any) (*verify.Verifier, verify.PolicyOption, root.TrustedMaterial, *admission.Failure) {
		return nil, nil, nil, &admission.Failure{Code: code, Detail: fmt.Sprintf(format, args...)}
	}
	public, keyed := b.VerificationMaterial.Content.(*protobundle.VerificationMaterial_PublicKey)
	if !keyed {
		content, err := b.VerificationContent()
		if err != nil {
			return fail(admission.AttestationMalformed, "certificate: %s", err)
		}
		if c := content.Certificate(); len(c.URIs)+len(c.EmailAddresses)+len(c.DNSNames)+len(c.IPAddresses) > 1 {
			return fail(admission.SignerCertificate, "the certificate names several identities, expected one")
		}
		return v.keyless, verify.WithoutIdentitiesUnsafe(), v.root, nil
	}
	id := public.PublicKey.GetHint()
	key := v.keys[id]
	switch {
	case key == nil:
		return fail(admission.SignerKeyUnknown, "signed by key %q, which is none of the %d that are believed", id, len(v.keys))
	case len(b.VerificationMaterial.GetTlogEntries()) > 0:
		return v.logged, verify.WithKey(), v.all, nil
	case !key.Unlogged:
		return fail(admission.TrustRootLogUnknown, "the signature is in no transparency log")
	case !key.NotBefore.IsZero() || !key.NotAfter.IsZero() || len(b.VerificationMaterial.GetTimestampVerificationData().GetRfc3161Timestamps()) > 0:
		return v.timed, verify.WithKey(), v.all, nil
	}
	return v.untimed, verify.WithKey(), v.all, nil
}

// diagnose says why a bundle was refused. It takes the steps of the judgement one
// by one; it decides nothing.
func diagnose(b *bundle.Bundle, material root.TrustedMaterial, refusal error) (admission.Code, string) {
	if errors.Is(refusal, verify.ErrDSSEInvalidSignatureCount) {
		return admission.AttestationSignatureCount, refusal.Error()
	}
	content, err := b.VerificationContent()
	if err != nil {
		return admission.AttestationMalformed, err.Error()
	}
	signed, err := b.SignatureContent()
	if err != nil {
		return admission.AttestationMalformed, err.Error()
	}
	entries, err := b.TlogEntries()
	if err != nil {
		return admission.AttestationMalformed, err.Error()
	}
	var known []*tlog.Entry
	for _, e := range entries {
		if material.RekorLogs()[hex.EncodeToString([]byte(e.LogKeyID()))] != nil {
			known = append(known, e)
		}
	}
	for _, e := range known {
		if code, why := compareEntry(e, content, signed, material); code != "" {
			return code, why
		}
	}
	if signed.EnvelopeContent() != nil {
		if err := verify.VerifySignature(signed, content, material); err != nil {
			return admission.AttestationSignature, err.Error()
		}
	}
	if len(known) == 0 && len(entries) > 0 {
		return admission.TrustRootLogUnknown, fmt.Sprintf("logged in %x, which is no log of the trust root", entries[0].LogKeyID())
	}
	for _, e := range known {
		if code, why := verifyEntry(e, content, material); code != "" {
			return code, why
		}
	}
	if content.Certificate() != nil && len(entries) == 0 {
		return admission.TrustRootLogUnknown, "the signature is in no transparency log"
	}
	return diagnoseTime(b, content, known, material, refusal)
}

// compareEntry compares a log entry with what it should be about.
func compareEntry(e *tlog.Entry, content verify.VerificationContent, signed verify.SignatureContent, material root.TrustedMaterial) (admission.Code, string) {
	if e.IsRekorV2() {
		return "", "" // its hash commits to all of it
	}
	if env := signed.EnvelopeContent(); env != nil {
		payload, err := env.RawEnvelope().DecodeB64Payload()
		if err != nil {
			return admission.AttestationMalformed, err.Error()
		}
		sum := sha256.Sum256(payload)
		if logged, ok := e.GetDssePayloadHash(); ok && !bytes.Equal(logged, sum[:]) {
			return admission.AttestationTampered, fmt.Sprintf("the log has a payload of sha256:%x, the envelope one of sha256:%x", logged, sum)
		}
	}
	if !bytes.Equal(e.Signature(), signed.Signature()) {
		return admission.AttestationTampered, "the log has another signature than the bundle"
	}
	if !content.CompareKey(e.PublicKey(), material) {
		if content.Certificate() == nil {
			return admission.SignerKeyUnknown, fmt.Sprintf("the trust material has another key than the log under the id %q", content.PublicKey().Hint())
		}
		return admission.AttestationTampered, "the log has another certificate than the bundle"
	}
	return "", ""
}

// verifyEntry verifies that a known log has the entry, and its time.
func verifyEntry(e *tlog.Entry, content verify.VerificationContent, material root.TrustedMaterial) (admission.Code, string) {
	if e.HasInclusionPromise() {
		if err := tlog.VerifySET(e, material.RekorLogs()); err != nil {
			return admission.AttestationTampered, "the log's promise does not verify: " + err.Error()
		}
	}
	if t := e.IntegratedTime(); !t.IsZero() && !content.ValidAtTime(t, material) {
		return admission.SignerKeyNotValid, fmt.Sprintf("logged at %s, when the signer's key was not valid", t.UTC().Format("2006-01-02T15:04:05Z"))
	}
	return "", ""
}

// diagnoseTime looks at what depends on the time of the signature.
func diagnoseTime(b *bundle.Bundle, content verify.VerificationContent, known []*tlog.Entry, material root.TrustedMaterial, refusal error) (admission.Code, string) {
	stamps, _, err := verify.VerifySignedTimestamp(b, material)
	if err != nil {
		return admission.AttestationMalformed, err.Error()
	}
	times := 0
	for _, s := range stamps {
		times++
		if !content.ValidAtTime(s.Time, material) {
			return admission.SignerKeyNotValid, fmt.Sprintf("timestamped at %s, when the signer's key was not valid", s.Time.UTC().Format("2006-01-02T15:04:05Z"))
		}
	}
	var chains [][]*x509.Certificate
	for _, e := range known {
		if !e.HasInclusionPromise() {
			continue
		}
		times++
		if c := content.Certificate(); c != nil {
			if chains, err = verify.VerifyLeafCertificate(e.IntegratedTime(), c, material); err != nil {
				return admission.SignerCertificate, "the certificate does not lead to the trust root: " + err.Error()
			}
		}
	}
	switch {
	case times == 0:
		return admission.SigningTimeUnverified, "no log entry or timestamp shows when it was signed: " + refusal.Error()
	case chains != nil && verify.VerifySignedCertificateTimestamp(chains, 1, material) != nil:
		return admission.SignerCertificate, "no certificate transparency log of the trust root has the certificate"
	}
	return admission.AttestationTampered, refusal.Error()
}
