// Package vsa writes a decision on an MCP server, and a review of its contract, for the
// tools of others: a SLSA Verification Summary Attestation v1, in a DSSE envelope with
// one signature, in a Sigstore bundle v0.3. It stands beside the archive receipt or the
// review event, and says less.
//
// What such an attestation has no word for (reason codes, quarantine, receipt) is in
// the predicate under a URI of ours, which other readers ignore. No SLSA level is
// claimed: a policy demands evidence, and measures no level.
//
// The package is pure. Sources: SLSA VSA v1, in-toto Statement v1, DSSE v1, the
// Sigstore bundle specification.
package vsa

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
)

// Types of what is written.
const (
	PredicateType = "https://slsa.dev/verification_summary/v1"
	PayloadType   = "application/vnd.in-toto+json"
	BundleType    = "application/vnd.dev.sigstore.bundle.v0.3+json"
	// Extension is the member of the predicate that holds a [Decision].
	Extension = "https://counterfoil.example/ext/decision/v1"
	// ReviewExtension is the member of the predicate that holds a [Review].
	ReviewExtension = "https://counterfoil.example/ext/review/v1"
)

// Decision is what a summary has no word for.
type Decision struct {
	Decision    admission.Decision `json:"decision"`
	ReasonCodes []admission.Code   `json:"reasonCodes"`
	Class       string             `json:"class"`
	Server      string             `json:"server"`
	SpanningSet string             `json:"spanningSetDigest"`
	Receipt     string             `json:"receiptDigest"`
}

// statement is an in-toto statement with a summary.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type resource struct {
	Name   string              `json:"name,omitempty"`
	URI    string              `json:"uri,omitempty"`
	Digest admission.DigestSet `json:"digest,omitempty"`
}

type predicate struct {
	Verifier struct {
		ID string `json:"id"`
	} `json:"verifier"`
	TimeVerified       string     `json:"timeVerified"`
	ResourceURI        string     `json:"resourceUri"`
	Policy             resource   `json:"policy"`
	InputAttestations  []resource `json:"inputAttestations,omitempty"`
	VerificationResult string     `json:"verificationResult"` // PASSED or FAILED
	VerifiedLevels     []string   `json:"verifiedLevels"`
	SLSAVersion        string     `json:"slsaVersion"`
	Decision           *Decision  `json:"https://counterfoil.example/ext/decision/v1,omitempty"`
	Review             *Review    `json:"https://counterfoil.example/ext/review/v1,omitempty"`
}

// VerifierID is the URI of a ledger as a verifier, by the origin of its log.
func VerifierID(origin string) string { return "https://" + origin + "/admission/v1" }

// Level is the level that an admit under a class states. It is no SLSA level.
func Level(class string) string {
	return "COUNTERFOIL_" + strings.ToUpper(strings.ReplaceAll(class, "-", "_"))
}

// Statement returns the canonical bytes to be signed: what the receipt with a digest
// binds. ok is false where there are no bytes that a subject could name; then there
// is no summary, and none is made up.
func Statement(s *admission.Set, receipt, spanningSet, origin string) (payload []byte, ok bool, err error) {
	if s.Binding == nil || s.Binding.Bytes == nil || s.Snapshot == nil {
		return nil, false, nil
	}
	d := s.Decision
	p := predicate{
		TimeVerified: d.DecidedAt, ResourceURI: resourceURI(s.Binding), Policy: policyOf(d.Policy),
		Decision: &Decision{d.Decision, d.ReasonCodes, d.Class, s.Snapshot.ServerName, spanningSet, receipt},
	}
	p.Verifier.ID = VerifierID(origin)
	p.conclude(d.Decision == admission.Admit, d.Class)
	for _, f := range s.Evidence.Used {
		p.input(f.Locator, f.Evidence)
	}
	payload, err = encode(resource{Name: subjectName(s.Binding), Digest: s.Binding.Bytes.Digests}, p)
	return payload, err == nil, err
}

// conclude states the result, and the level of a class that passed.
func (p *predicate) conclude(passed bool, class string) {
	p.VerificationResult, p.VerifiedLevels = "FAILED", []string{"FAILED"}
	if passed {
		p.VerificationResult, p.VerifiedLevels = "PASSED", []string{Level(class)}
	}
}

// input adds a file of evidence that is not there yet.
func (p *predicate) input(locator, digest string) {
	in := resource{URI: locator, Digest: sha(digest)}
	if !slices.ContainsFunc(p.InputAttestations, func(r resource) bool { return r.Digest["sha256"] == in.Digest["sha256"] }) {
		p.InputAttestations = append(p.InputAttestations, in)
	}
}

// encode returns the canonical bytes of a statement about one artifact.
func encode(subject resource, p predicate) ([]byte, error) {
	p.SLSAVersion = "1.0"
	b, err := json.Marshal(statement{Type: "https://in-toto.io/Statement/v1", Subject: []resource{subject}, PredicateType: PredicateType, Predicate: p})
	if err != nil {
		return nil, fmt.Errorf("verification summary: %w", err)
	}
	v := jsontext.Value(b)
	if err := v.Canonicalize(); err != nil {
		return nil, fmt.Errorf("verification summary: %w", err)
	}
	return v, nil
}

// policyOf names a policy, by its digest alone if nothing else is known.
func policyOf(p admission.PolicyRef) resource {
	r := resource{Digest: sha(p.Digest)}
	if p.ID != "" {
		r.URI = "urn:counterfoil:policy:" + url.PathEscape(p.ID) + ":" + url.PathEscape(p.Version)
	}
	return r
}

func sha(digest string) admission.DigestSet {
	return admission.DigestSet{"sha256": strings.TrimPrefix(digest, "sha256:")}
}

func subjectName(b *admission.ArtifactBinding) string {
	if names := b.SubjectNames(); len(names) > 0 {
		return names[0]
	}
	return b.Identifier
}

// resourceURI is the package as a package URL where that says which it is, else where
// it was read.
func resourceURI(b *admission.ArtifactBinding) string {
	switch b.PackageType {
	case admission.TypeNPM:
		return subjectName(b)
	case admission.TypePyPI:
		return "pkg:pypi/" + url.PathEscape(strings.ToLower(strings.ReplaceAll(b.Identifier, "_", "-"))) + "@" + url.PathEscape(b.Version)
	case admission.TypeOCI:
		repository := subjectName(b)
		return "pkg:oci/" + url.PathEscape(repository[strings.LastIndex(repository, "/")+1:]) + "@" + url.QueryEscape(b.SHA256()) + "?repository_url=" + url.QueryEscape(repository)
	}
	return b.Locator
}

// Bundle puts a payload and its one signature into a Sigstore bundle. The envelope
// in its member dsseEnvelope is complete by itself. der is the signer's public key as
// SubjectPublicKeyInfo, by whose SHA-256 Sigstore's tools know it. The signature has no
// keyid: a reader that computes one in another way would pass the signature over.
func Bundle(payload, sig, der []byte) ([]byte, error) {
	type signature struct {
		Sig []byte `json:"sig"`
	}
	var b struct {
		MediaType string `json:"mediaType"`
		Material  struct {
			PublicKey struct {
				Hint string `json:"hint"`
			} `json:"publicKey"`
		} `json:"verificationMaterial"`
		Envelope struct {
			Payload     []byte      `json:"payload"`
			PayloadType string      `json:"payloadType"`
			Signatures  []signature `json:"signatures"`
		} `json:"dsseEnvelope"`
	}
	sum := sha256.Sum256(der)
	b.MediaType, b.Material.PublicKey.Hint = BundleType, base64.StdEncoding.EncodeToString(sum[:])
	b.Envelope.Payload, b.Envelope.PayloadType, b.Envelope.Signatures = payload, PayloadType, []signature{{sig}}
	out, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("bundle of a verification summary: %w", err)
	}
	return out, nil
}
