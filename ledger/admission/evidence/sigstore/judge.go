package sigstore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
)

// dsseType is the only type of payload that is read.
const dsseType = "application/vnd.in-toto+json"

// Judge judges one bundle: f is what is known of its file. It is safe for
// concurrent use.
func (v *Verifier) Judge(raw []byte, f admission.Finding, a *admission.ArtifactBinding) admission.Finding {
	// A member that stands twice reads differently to different readers.
	m, err := Members(raw)
	if err != nil {
		return Fail(f, admission.AttestationMalformed, "no bundle: %s", err)
	}
	f.MediaType = clip(Text(m["mediaType"]), 255)
	var b bundle.Bundle
	if err := b.UnmarshalJSON(raw); err != nil {
		return Fail(f, admission.AttestationMalformed, "no bundle: %s", err)
	}
	switch content := b.Content.(type) {
	case *protobundle.Bundle_DsseEnvelope:
		return v.judgeStatement(&b, f, a)
	case *protobundle.Bundle_MessageSignature:
		return v.judgeSignature(&b, content, f, a)
	}
	return Fail(f, admission.AttestationMalformed, "neither an envelope nor a signature")
}

// judgeStatement judges an in-toto statement in a DSSE envelope.
func (v *Verifier) judgeStatement(b *bundle.Bundle, f admission.Finding, a *admission.ArtifactBinding) admission.Finding {
	env := b.GetDsseEnvelope()
	if n := len(env.GetSignatures()); n != 1 {
		return Fail(f, admission.AttestationSignatureCount, "%d signatures in the envelope, expected 1", n)
	}
	if t := env.GetPayloadType(); t != dsseType {
		return Fail(f, admission.AttestationMalformed, "payload of type %q, expected %s", t, dsseType)
	}
	payload := env.GetPayload()
	f.Payload = admission.Digest(payload)
	s, err := readStatement(payload)
	if err != nil {
		return Fail(f, admission.AttestationMalformed, "statement: %s", err)
	}
	f.PredicateType, f.Provenance = s.predicateType, s.provenance
	f.Subjects = subjects(s.subjects, a)
	// The digest is compared below, over all algorithms.
	f, ok := v.verify(b, verify.WithoutArtifactUnsafe(), f)
	if !ok {
		return f
	}
	return matchSubject(f, s.subjects, a)
}

// matchSubject wants a subject with the artifact's digests. A release that is bound
// without its bytes is bound by the one statement that names it.
func matchSubject(f admission.Finding, subjects []admission.Subject, a *admission.ArtifactBinding) admission.Finding {
	if a != nil && a.Release != nil && a.Release.Attestation == f.Payload {
		return f
	}
	digests := digestsOf(a)
	var seen []string
	for _, s := range subjects {
		if agrees, _ := digests.Agree(s.Digests); agrees {
			return f
		}
		if len(seen) < 3 {
			seen = append(seen, s.Name+" "+s.Digests.String())
		}
	}
	return Fail(f, admission.ArtifactDigestMismatch, "the artifact has %s, the attestation is about %s", orNothing(digests.String()), orNothing(strings.Join(seen, ", ")))
}

func orNothing(s string) string {
	if s == "" {
		return "no bytes"
	}
	return s
}

// judgeSignature judges a plain signature over the artifact's bytes.
func (v *Verifier) judgeSignature(b *bundle.Bundle, content *protobundle.Bundle_MessageSignature, f admission.Finding, a *admission.ArtifactBinding) admission.Finding {
	signed := content.MessageSignature.GetMessageDigest()
	alg := map[string]string{"SHA2_256": "sha256", "SHA2_384": "sha384", "SHA2_512": "sha512"}[signed.GetAlgorithm().String()]
	if alg == "" {
		return Fail(f, admission.AttestationMalformed, "a signature over a digest of algorithm %s", signed.GetAlgorithm())
	}
	digest, err := hex.DecodeString(digestsOf(a)[alg])
	if err != nil || len(digest) == 0 {
		return Fail(f, admission.ArtifactDigestMismatch, "the signature is about %s:%x, the artifact has no digest of this algorithm", alg, signed.GetDigest())
	}
	if !bytes.Equal(digest, signed.GetDigest()) {
		return Fail(f, admission.ArtifactDigestMismatch, "the artifact has %s:%x, the signature is about %s:%x", alg, digest, alg, signed.GetDigest())
	}
	f, _ = v.verify(b, verify.WithArtifactDigest(alg, digest), f)
	return f
}

func digestsOf(a *admission.ArtifactBinding) admission.DigestSet {
	if a == nil || a.Bytes == nil {
		return nil
	}
	return a.Bytes.Digests
}

// verify judges signature, signer, log and time, and fills in who signed. ok is
// true if all hold.
func (v *Verifier) verify(b *bundle.Bundle, artifact verify.ArtifactPolicyOption, f admission.Finding) (_ admission.Finding, ok bool) {
	judge, policy, material, fail := v.choose(b)
	if fail != nil {
		return Fail(f, fail.Code, "%s", fail.Detail), false
	}
	res, err := judge.Verify(b, verify.NewPolicy(artifact, policy))
	if err != nil {
		code, why := diagnose(b, material, err)
		return Fail(f, code, "%s", why), false
	}
	if f.Signer, err = signer(res); err != nil {
		return Fail(f, admission.SignerCertificate, "%s", err), false
	}
	if t := earliest(res.VerifiedTimestamps); !t.IsZero() {
		f.SignedAt = event.FormatTime(t)
	}
	f.State = admission.FindingVerified
	return f, true
}

func signer(res *verify.VerificationResult) (*admission.Signer, error) {
	if id := res.Signature.PublicKeyID; id != nil {
		return &admission.Signer{KeyID: string(*id)}, nil
	}
	c := res.Signature.Certificate
	if c == nil || c.Issuer == "" || c.SubjectAlternativeName == "" {
		return nil, errors.New("the certificate names no issuer or no identity")
	}
	return certified(c)
}

func certified(c *certificate.Summary) (*admission.Signer, error) {
	s := &admission.Signer{
		Issuer: c.Issuer, Identity: c.SubjectAlternativeName,
		SourceRepository: c.SourceRepositoryURI, SourceRepositoryRef: c.SourceRepositoryRef,
		SourceRepositoryDigest: c.SourceRepositoryDigest, RunnerEnvironment: c.RunnerEnvironment,
		BuildSigner: c.BuildSignerURI, RunInvocation: c.RunInvocationURI,
	}
	for _, text := range []string{s.Issuer, s.Identity, s.SourceRepository, s.SourceRepositoryRef, s.SourceRepositoryDigest, s.RunnerEnvironment, s.BuildSigner, s.RunInvocation} {
		if len(text) > admission.MaxLocatorBytes || text != clip(text, len(text)) {
			return nil, fmt.Errorf("the certificate has a name of %d bytes, or one with control characters", len(text))
		}
	}
	return s, nil
}
