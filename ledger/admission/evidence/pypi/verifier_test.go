package pypi

import (
	"encoding/json"
	"strings"
	"testing"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/ledger/admission"
)

// attestation brings a real bundle into the form of PEP 740, by hand: nothing that
// is signed or logged changes.
func attestation(t testing.TB, change func(a map[string]any)) map[string]any {
	t.Helper()
	var b struct {
		VerificationMaterial struct {
			X509CertificateChain struct {
				Certificates []struct{ RawBytes string }
			}
			TlogEntries []any
		}
		DSSEEnvelope struct {
			Payload    string
			Signatures []struct{ Sig string }
		}
	}
	if err := json.Unmarshal(evidencekit.File(t, "sigstore-2.0.0.provenance.json"), &b); err != nil {
		t.Fatal(err)
	}
	a := map[string]any{
		"version": 1,
		"verification_material": map[string]any{
			"certificate":          b.VerificationMaterial.X509CertificateChain.Certificates[0].RawBytes,
			"transparency_entries": b.VerificationMaterial.TlogEntries,
		},
		"envelope": map[string]any{"statement": b.DSSEEnvelope.Payload, "signature": b.DSSEEnvelope.Signatures[0].Sig},
	}
	if change != nil {
		change(a)
	}
	return a
}

func provenance(t testing.TB, version int, attestations ...any) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{"version": version, "attestation_bundles": []any{
		map[string]any{"publisher": map[string]any{"kind": "GitHub", "repository": "somebody/else"}, "attestations": attestations},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestADM13_AttestationsOfPEP740AreJudged(t *testing.T) {
	v, err := NewVerifier(evidencekit.Root(t, "npm-seed"))
	if err != nil {
		t.Fatal(err)
	}
	a := evidencekit.Bytes("sigstore", "2.0.0", evidencekit.File(t, "sigstore-2.0.0.tgz"))
	other := evidencekit.Bytes("sigstore", "2.0.0", []byte("other"))
	single, err := json.Marshal(attestation(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	material := func(a map[string]any) map[string]any { return a["verification_material"].(map[string]any) }
	tests := []struct {
		name  string
		body  []byte
		a     *admission.ArtifactBinding
		codes []admission.Code
	}{
		{"good", provenance(t, 1, attestation(t, nil)), a, []admission.Code{""}},
		{"alone", single, a, []admission.Code{""}},
		{"other bytes", provenance(t, 1, attestation(t, nil)), other, []admission.Code{admission.ArtifactDigestMismatch}},
		{"good and bad", provenance(t, 1, attestation(t, nil), attestation(t, func(a map[string]any) {
			a["envelope"].(map[string]any)["statement"] = "e30K"
		}), 7), a, []admission.Code{"", admission.AttestationMalformed, admission.AttestationMalformed}},
		{"changed signature", provenance(t, 1, attestation(t, func(a map[string]any) {
			env := a["envelope"].(map[string]any)
			env["signature"] = strings.Replace(env["signature"].(string), "A", "B", 3)
		})), a, []admission.Code{admission.AttestationTampered}},
		{"no log entry", provenance(t, 1, attestation(t, func(a map[string]any) { material(a)["transparency_entries"] = []any{} })), a, []admission.Code{admission.TrustRootLogUnknown}},
		{"no certificate", provenance(t, 1, attestation(t, func(a map[string]any) { delete(material(a), "certificate") })), a, []admission.Code{admission.AttestationMalformed}},
		{"version of an attestation", provenance(t, 1, attestation(t, func(a map[string]any) { a["version"] = 2 })), a, []admission.Code{admission.AttestationMalformed}},
		{"version of the file", provenance(t, 2, attestation(t, nil)), a, []admission.Code{admission.AttestationMalformed}},
		{"none", provenance(t, 1), a, []admission.Code{admission.AttestationMissing}},
		{"many", provenance(t, 1, make([]any, admission.MaxFindings+1)...), a, []admission.Code{admission.AttestationMalformed}},
		{"too large", make([]byte, admission.MaxEvidenceBytes+1), a, []admission.Code{admission.EvidenceTooLarge}},
		{"no JSON", []byte("x"), a, []admission.Code{admission.AttestationMalformed}},
	}
	for _, tt := range tests {
		findings, err := v.Verify(t.Context(), admission.Evidence{Locator: "x", Body: tt.body}, tt.a)
		if err != nil || len(findings) != len(tt.codes) {
			t.Errorf("%s: %+v, %v", tt.name, findings, err)
			continue
		}
		for i, f := range findings {
			if err := f.Validate(); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			if f.Code != tt.codes[i] || f.Verifier != "pypi" || f.MediaType != MediaType {
				t.Errorf("%s: %s %s: %s, want %q", tt.name, f.State, f.Code, f.Detail, tt.codes[i])
			}
			// The certificate says who signed, whatever the file says of publishers.
			if f.Code == "" && f.Signer.SourceRepository != "https://github.com/sigstore/sigstore-js" {
				t.Errorf("%+v", f.Signer)
			}
		}
	}
	for body, want := range map[string]bool{string(single): true, `{"attestation_bundles":[]}`: true, "{}": false, "[]": false, `{"attestations":[]}`: false, "": false} {
		if v.Handles(admission.Evidence{Body: []byte(body)}) != want {
			t.Errorf("%.60q is handled: %v", body, !want)
		}
	}
	if i := v.Info(); i.ID != "pypi" || len(i.Trust) != 1 {
		t.Errorf("%+v", i)
	}
	if _, err := NewResolver(Config{}); err == nil {
		t.Error("a resolver that cannot fetch")
	}
}

func FuzzProvenance(f *testing.F) {
	f.Add(provenance(f, 1, attestation(f, nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		attestations, err := read(b)
		if err != nil {
			return
		}
		for _, raw := range attestations {
			if bundle, err := toBundle(raw); err == nil && !json.Valid(bundle) {
				t.Errorf("no JSON: %q", bundle)
			}
		}
	})
}
