package pypi

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
)

// MediaType is the media type of a provenance file (PEP 740).
const MediaType = "application/vnd.pypi.integrity.v1+json"

// Verifier judges provenance files of PEP 740. Each attestation in one is brought
// into the form of a Sigstore bundle, which changes no byte that is signed or
// logged. It implements [admission.Verifier].
type Verifier struct{ core *sigstore.Verifier }

// NewVerifier returns a verifier that believes a Sigstore trusted root.
func NewVerifier(root *sigstore.File) (*Verifier, error) {
	core, err := sigstore.New(sigstore.Config{ID: "pypi", Root: root})
	if err != nil {
		return nil, err
	}
	return &Verifier{core}, nil
}

// Info implements [admission.Verifier].
func (v *Verifier) Info() admission.VerifierInfo { return v.core.Info() }

// Handles implements [admission.Verifier]: a provenance file, or one attestation.
func (v *Verifier) Handles(e admission.Evidence) bool {
	m, err := sigstore.Members(e.Body)
	return err == nil && (m["attestation_bundles"].Kind() == '[' || m["verification_material"].Kind() == '{' && m["envelope"].Kind() == '{')
}

// Verify implements [admission.Verifier]. What the file says of its publishers is
// not signed and not looked at: the certificates say who signed.
func (v *Verifier) Verify(ctx context.Context, e admission.Evidence, a *admission.ArtifactBinding) ([]admission.Finding, error) {
	f := v.core.Finding(e)
	f.MediaType = MediaType
	if whole, bad := sigstore.CheckSize(e, f); bad {
		return []admission.Finding{whole}, nil
	}
	attestations, err := read(e.Body)
	if err != nil {
		return []admission.Finding{sigstore.Fail(f, admission.AttestationMalformed, "%s", err)}, nil
	}
	if len(attestations) == 0 {
		return []admission.Finding{sigstore.Fail(f, admission.AttestationMissing, "the provenance file has no attestation")}, nil
	}
	findings := make([]admission.Finding, 0, len(attestations))
	for _, raw := range attestations {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		bundle, err := toBundle(raw)
		if err != nil {
			findings = append(findings, sigstore.Fail(f, admission.AttestationMalformed, "attestation: %s", err))
			continue
		}
		found := v.core.Judge(bundle, f, a)
		found.MediaType = MediaType
		findings = append(findings, found)
	}
	return findings, nil
}

// read returns the attestations of a file, in order.
func read(body []byte) ([]jsontext.Value, error) {
	m, err := sigstore.Members(body)
	if err != nil {
		return nil, fmt.Errorf("provenance: %w", err)
	}
	if m["attestation_bundles"] == nil {
		return []jsontext.Value{body}, nil
	}
	var in struct {
		Version int `json:"version"`
		Bundles []struct {
			Attestations []jsontext.Value `json:"attestations"`
		} `json:"attestation_bundles"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("provenance: %w", err)
	}
	if in.Version != 1 {
		return nil, fmt.Errorf("provenance: version %d, expected 1", in.Version)
	}
	var all []jsontext.Value
	for _, b := range in.Bundles {
		all = append(all, b.Attestations...)
		if len(all) > admission.MaxFindings {
			return nil, fmt.Errorf("provenance: more than %d attestations", admission.MaxFindings)
		}
	}
	return all, nil
}

// toBundle brings an attestation into the form of a bundle of version 0.3. Values
// that it carries over stay as they are spelled.
func toBundle(raw []byte) ([]byte, error) {
	var in struct {
		Version  int `json:"version"`
		Material struct {
			Certificate jsontext.Value   `json:"certificate"`
			Entries     []jsontext.Value `json:"transparency_entries"`
		} `json:"verification_material"`
		Envelope struct {
			Statement jsontext.Value `json:"statement"`
			Signature jsontext.Value `json:"signature"`
		} `json:"envelope"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	if in.Version != 1 {
		return nil, fmt.Errorf("version %d, expected 1", in.Version)
	}
	for _, v := range []jsontext.Value{in.Material.Certificate, in.Envelope.Statement, in.Envelope.Signature} {
		if v.Kind() != '"' {
			return nil, errors.New("lacks a certificate, a statement or a signature")
		}
	}
	type certificate struct {
		RawBytes jsontext.Value `json:"rawBytes"`
	}
	type material struct {
		Certificate certificate      `json:"certificate"`
		Entries     []jsontext.Value `json:"tlogEntries"`
	}
	type signature struct {
		Sig jsontext.Value `json:"sig"`
	}
	type envelope struct {
		Payload     jsontext.Value `json:"payload"`
		PayloadType string         `json:"payloadType"`
		Signatures  []signature    `json:"signatures"`
	}
	return json.Marshal(struct {
		MediaType string   `json:"mediaType"`
		Material  material `json:"verificationMaterial"`
		Envelope  envelope `json:"dsseEnvelope"`
	}{
		"application/vnd.dev.sigstore.bundle.v0.3+json",
		material{certificate{in.Material.Certificate}, in.Material.Entries},
		envelope{in.Envelope.Statement, "application/vnd.in-toto+json", []signature{{in.Envelope.Signature}}},
	})
}
