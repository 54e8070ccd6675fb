package npm

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
)

// Predicate types of what npm and build systems attest.
const (
	PublishV01 = "https://github.com/npm/attestation/tree/main/specs/publish/v0.1"
	Provenance = sigstore.ProvenanceV1
)

// attestationKeys is the usage of the keys by which npm attests.
const attestationKeys = "npm:attestations"

// Verifier judges the answer of a registry's attestation API: a list of Sigstore
// bundles, by certificates and by the registry's keys. It implements
// [admission.Verifier].
type Verifier struct{ core *sigstore.Verifier }

// NewVerifier returns a verifier. Root is a Sigstore trusted root, keys the
// registry's key file (npm-keys.json); without keys no publish attestation
// verifies.
func NewVerifier(root, keys *sigstore.File) (*Verifier, error) {
	cfg := sigstore.Config{ID: "npm", Root: root}
	if keys != nil {
		parsed, err := ParseKeys(keys.Body)
		if err != nil {
			return nil, fmt.Errorf("npm keys %s: %w", keys.Name, err)
		}
		cfg.Keys, cfg.KeyFiles = parsed, []sigstore.File{*keys}
	}
	core, err := sigstore.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Verifier{core}, nil
}

// ParseKeys reads the registry's key file as its TUF repository has it: keys with
// usage and time. It returns those for attestations.
func ParseKeys(b []byte) ([]sigstore.Key, error) {
	var in struct {
		Keys []struct {
			KeyID     string `json:"keyId"`
			KeyUsage  string `json:"keyUsage"`
			PublicKey struct {
				RawBytes   string `json:"rawBytes"`
				KeyDetails string `json:"keyDetails"`
				ValidFor   struct {
					Start string `json:"start"`
					End   string `json:"end"`
				} `json:"validFor"`
			} `json:"publicKey"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, err
	}
	var keys []sigstore.Key
	for i, k := range in.Keys {
		if k.KeyUsage != attestationKeys {
			continue
		}
		if d := k.PublicKey.KeyDetails; d != "PKIX_ECDSA_P256_SHA_256" {
			return nil, fmt.Errorf("key %d has details %.100q, expected PKIX_ECDSA_P256_SHA_256", i, d)
		}
		der, err := base64.StdEncoding.DecodeString(k.PublicKey.RawBytes)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i, err)
		}
		out := sigstore.Key{ID: k.KeyID}
		if out.Public, err = sigstore.ParsePublicKey(der); err != nil {
			return nil, fmt.Errorf("key %d: %w", i, err)
		}
		for _, t := range []struct {
			text string
			to   *time.Time
		}{{k.PublicKey.ValidFor.Start, &out.NotBefore}, {k.PublicKey.ValidFor.End, &out.NotAfter}} {
			if t.text == "" {
				continue
			}
			if *t.to, err = time.Parse(time.RFC3339, t.text); err != nil {
				return nil, fmt.Errorf("key %d: %w", i, err)
			}
		}
		keys = append(keys, out)
	}
	if len(keys) == 0 {
		return nil, errors.New("no key with usage " + attestationKeys)
	}
	return keys, nil
}

// Info implements [admission.Verifier].
func (v *Verifier) Info() admission.VerifierInfo { return v.core.Info() }

// Handles implements [admission.Verifier].
func (v *Verifier) Handles(e admission.Evidence) bool {
	m, err := sigstore.Members(e.Body)
	return err == nil && m["attestations"].Kind() == '['
}

// Verify implements [admission.Verifier].
func (v *Verifier) Verify(ctx context.Context, e admission.Evidence, a *admission.ArtifactBinding) ([]admission.Finding, error) {
	f := v.core.Finding(e)
	if whole, bad := sigstore.CheckSize(e, f); bad {
		return []admission.Finding{whole}, nil
	}
	fail := func(code admission.Code, format string, args ...any) ([]admission.Finding, error) {
		return []admission.Finding{sigstore.Fail(f, code, format, args...)}, nil
	}
	var in struct {
		Attestations []struct {
			PredicateType string         `json:"predicateType"`
			Bundle        jsontext.Value `json:"bundle"`
		} `json:"attestations"`
	}
	if err := json.Unmarshal(e.Body, &in); err != nil {
		return fail(admission.AttestationMalformed, "no list of attestations: %s", err)
	}
	switch n := len(in.Attestations); {
	case n == 0:
		return fail(admission.AttestationMissing, "the list of attestations is empty")
	case n > admission.MaxFindings:
		return fail(admission.AttestationMalformed, "%d attestations in one list, limit %d", n, admission.MaxFindings)
	}
	findings := make([]admission.Finding, 0, len(in.Attestations))
	for _, item := range in.Attestations {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		found := v.core.Judge(item.Bundle, f, a)
		// What is signed counts. A list that says something else was put together
		// wrongly, or by somebody who hopes that it is what is looked at.
		if found.State == admission.FindingVerified && found.PredicateType != item.PredicateType {
			found = sigstore.Fail(found, admission.AttestationTypeMismatch, "listed as %q, signed as %q", item.PredicateType, found.PredicateType)
		}
		findings = append(findings, found)
	}
	return findings, nil
}
