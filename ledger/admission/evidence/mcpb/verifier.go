package mcpb

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
	"counterfoil/ledger/event"
)

// Version changes when answers change.
const Version = "1"

// Verifier judges signature blocks by certificate authorities. It implements
// [admission.Verifier].
//
// A signature block has no proof of when it was made: the time in it is the
// signer's own word. What is known is that it was there when the file was
// retrieved, so certificates must be valid at that time, which the binding keeps:
// the same binding is judged alike for ever. A finding has no SignedAt.
type Verifier struct {
	roots *x509.CertPool
	info  admission.VerifierInfo
}

// NewVerifier returns a verifier. Roots are certificates in PEM, of authorities
// or of signers themselves; without them no block verifies.
func NewVerifier(roots *sigstore.File) (*Verifier, error) {
	v := &Verifier{roots: x509.NewCertPool(), info: admission.VerifierInfo{ID: "mcpb", Version: Version}}
	if roots == nil {
		return v, nil
	}
	rest, n := roots.Body, 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			return nil, fmt.Errorf("roots %s: block %d of type %s is no certificate: %w", roots.Name, n, block.Type, err)
		}
		v.roots.AddCert(c)
		n++
	}
	if n == 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("roots %s: %d certificates in PEM and %d other bytes, expected some and none", roots.Name, n, len(rest))
	}
	v.info.Trust = []admission.TrustMaterial{roots.Material()}
	return v, nil
}

// Info implements [admission.Verifier].
func (v *Verifier) Info() admission.VerifierInfo { return v.info }

// Handles implements [admission.Verifier].
func (v *Verifier) Handles(e admission.Evidence) bool {
	return e.MediaType == MediaType || bytes.HasPrefix(e.Body, []byte(header))
}

// Verify implements [admission.Verifier].
func (v *Verifier) Verify(ctx context.Context, e admission.Evidence, a *admission.ArtifactBinding) ([]admission.Finding, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	f := admission.Finding{Evidence: admission.Digest(e.Body), Locator: e.Locator, MediaType: MediaType, Verifier: v.info.ID}
	return []admission.Finding{v.judge(e.Body, f, a)}, nil
}

func (v *Verifier) judge(block []byte, f admission.Finding, a *admission.ArtifactBinding) admission.Finding {
	der, err := signature(block)
	if err != nil {
		return sigstore.Fail(f, admission.AttestationMalformed, "%s", err)
	}
	d, err := parsePKCS7(der)
	switch {
	case errors.Is(err, errSigners):
		return sigstore.Fail(f, admission.AttestationSignatureCount, "%s", err)
	case err != nil:
		return sigstore.Fail(f, admission.AttestationMalformed, "%s", err)
	}
	if err := d.check(); err != nil {
		return sigstore.Fail(f, admission.AttestationSignature, "the signature does not verify: %s", err)
	}
	var content admission.DigestSet
	if a != nil && a.Bytes != nil && a.Bytes.Content != nil {
		content = a.Bytes.Content.Digests
	}
	if got := hex.EncodeToString(d.digest); content[d.algorithm] != got {
		return sigstore.Fail(f, admission.ArtifactDigestMismatch, "the artifact's content has %q, the signature is about %s:%s", content, d.algorithm, got)
	}
	at, ok := event.ParseTime(a.RetrievedAt)
	if !ok {
		return sigstore.Fail(f, admission.SigningTimeUnverified, "the binding says no time of retrieval")
	}
	intermediates := x509.NewCertPool()
	for _, c := range d.others {
		intermediates.AddCert(c)
	}
	_, err = d.signer.Verify(x509.VerifyOptions{
		Roots: v.roots, Intermediates: intermediates, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	})
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return sigstore.Fail(f, admission.SignerKeyNotValid, "at %s, when the file was retrieved: %s", a.RetrievedAt, err)
	case err != nil:
		return sigstore.Fail(f, admission.SignerCertificate, "the certificate does not lead to the roots: %s", err)
	}
	signed := f
	signed.State = admission.FindingVerified
	signed.Signer = &admission.Signer{Issuer: d.signer.Issuer.String(), Identity: d.signer.Subject.String()}
	if err := signed.Validate(); err != nil { // no name, or one that no record holds
		return sigstore.Fail(f, admission.SignerCertificate, "the certificate's names: %s", err)
	}
	return signed
}
