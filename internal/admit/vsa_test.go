package admit_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"counterfoil/internal/admit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
	"counterfoil/ledger/admission/vsa"
)

// TestADM13_ADM15_ADecisionIsReadBySigstore has the verifier of others' attestations
// read ours: under the ledger's key it verifies for the artifact, and for no other.
func TestADM13_ADM15_ADecisionIsReadBySigstore(t *testing.T) {
	r := newRoom(t)
	keys, err := r.client.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	public, err := base64.StdEncoding.DecodeString(keys.Value.Keys[0].PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ root, result, level string }{{publicGood, "PASSED", "COUNTERFOIL_PRIVILEGED"}, {"trusted_root.scaffolding.json", "FAILED", "FAILED"}} {
		req := sigstoreJS(t, "privileged")
		req.NoContract = true
		res := r.admit("privileged", c.root, req)
		bundle := r.body(res.VSA)
		var b struct {
			VerificationMaterial struct{ PublicKey struct{ Hint string } }
			DSSEEnvelope         struct {
				Payload    []byte
				Signatures []struct{ KeyID string }
			} `json:"dsseEnvelope"`
		}
		if err := json.Unmarshal(bundle, &b); err != nil {
			t.Fatal(err)
		}
		v, err := sigstore.New(sigstore.Config{Keys: []sigstore.Key{{ID: b.VerificationMaterial.PublicKey.Hint, Public: ed25519.PublicKey(public), Unlogged: true}}})
		if err != nil {
			t.Fatal(err)
		}
		e := admission.Evidence{Locator: "vsa.json", Body: bundle}
		receipt, _, err := admission.Open(r.body(res.Receipt), nil)
		if err != nil {
			t.Fatal(err)
		}
		binding := parsed(t, r.body(receipt.Records.ArtifactBinding), admission.ParseBinding)
		found, err := v.Verify(t.Context(), e, binding)
		if err != nil || len(found) != 1 || found[0].State != admission.FindingVerified || found[0].PredicateType != vsa.PredicateType {
			t.Fatalf("%s: %+v %v", c.result, found, err)
		}
		if s := found[0].Subjects; len(s) != 1 || s[0].Name != "pkg:npm/sigstore@2.0.0" {
			t.Errorf("subjects %+v", s)
		}
		other := *binding
		other.Bytes = &admission.BytesBinding{Digests: admission.DigestSet{"sha256": strings.Repeat("0", 64)}, Size: 1}
		if found, err := v.Verify(t.Context(), e, &other); err != nil || found[0].Code != admission.ArtifactDigestMismatch {
			t.Errorf("another artifact: %+v %v", found, err)
		}

		var st struct {
			Predicate struct {
				Verifier           struct{ ID string }
				VerificationResult string
				VerifiedLevels     []string
				ResourceURI        string `json:"resourceUri"`
				Policy             struct{ Digest map[string]string }
				InputAttestations  []struct{ Digest map[string]string }
				Decision           vsa.Decision `json:"https://counterfoil.example/ext/decision/v1"`
			}
		}
		if err := json.Unmarshal(b.DSSEEnvelope.Payload, &st); err != nil {
			t.Fatal(err)
		}
		p := st.Predicate
		if p.VerificationResult != c.result || !slices.Equal(p.VerifiedLevels, []string{c.level}) || p.ResourceURI != "pkg:npm/sigstore@2.0.0" ||
			"sha256:"+p.Policy.Digest["sha256"] != res.Policy.Digest || p.Verifier.ID != vsa.VerifierID(r.Ready.Origin) || len(b.DSSEEnvelope.Signatures) != 1 {
			t.Errorf("%s: %+v", c.result, p)
		}
		if d := p.Decision; d.Decision != res.Decision || !slices.Equal(d.ReasonCodes, res.ReasonCodes) || d.Receipt != res.Receipt || d.SpanningSet != res.SpanningSetDigest {
			t.Errorf("%s: extension %+v", c.result, d)
		}
		if passed := c.result == "PASSED"; passed != (len(p.InputAttestations) == 1) {
			t.Errorf("%s: input attestations %v", c.result, p.InputAttestations)
		}
	}
}

// TestADM18_NoSummaryWithoutBytes: where there is no artifact no subject is made up.
func TestADM18_NoSummaryWithoutBytes(t *testing.T) {
	r := newRoom(t)
	req := light(t)
	req.Artifact = "https://example.com/absent.tgz" // there is no network
	if res := r.run(shipped(t, "light"), admit.Material{Now: material(t, "").Now}, "", req); res.VSA != "" || res.Receipt == "" {
		t.Errorf("%+v", res)
	}
}
