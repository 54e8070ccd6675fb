package sigstore_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
)

func newVerifier(t testing.TB, cfg sigstore.Config) *sigstore.Verifier {
	t.Helper()
	v, err := sigstore.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// one judges a file with one attestation, and checks the finding as a record does.
func one(t testing.TB, v *sigstore.Verifier, body []byte, a *admission.ArtifactBinding) admission.Finding {
	t.Helper()
	findings, err := v.Verify(t.Context(), admission.Evidence{Locator: "x.json", Body: body}, a)
	if err != nil || len(findings) != 1 {
		t.Fatalf("%d findings, %v", len(findings), err)
	}
	f := findings[0]
	if err := f.Validate(); err != nil {
		t.Fatalf("finding: %v", err)
	}
	if f.Evidence != admission.Digest(body) || f.Locator != "x.json" {
		t.Errorf("finding about %s at %s", f.Evidence, f.Locator)
	}
	return f
}

func wantCode(t testing.TB, f admission.Finding, code admission.Code, says string) {
	t.Helper()
	if f.State != admission.FindingFailed || f.Code != code || !strings.Contains(f.Detail, says) {
		t.Errorf("%s %s: %s; want %s saying %q", f.State, f.Code, f.Detail, code, says)
	}
	// Only what is about other bytes was signed by somebody.
	if (f.Signer != nil || f.SignedAt != "") && code != admission.ArtifactDigestMismatch {
		t.Errorf("a failed finding says who signed: %+v at %s", f.Signer, f.SignedAt)
	}
}

func sigstore200(t testing.TB) (bundle []byte, a *admission.ArtifactBinding) {
	t.Helper()
	return evidencekit.File(t, "sigstore-2.0.0.provenance.json"), evidencekit.Bytes("sigstore", "2.0.0", evidencekit.File(t, "sigstore-2.0.0.tgz"))
}

func TestADM16_RealProvenanceIsVerifiedOffline(t *testing.T) {
	body, a := sigstore200(t)
	for _, root := range []string{"public-good.2023", "npm-seed"} {
		v := newVerifier(t, sigstore.Config{Root: evidencekit.Root(t, root)})
		if !v.Handles(admission.Evidence{Body: body}) {
			t.Error("a bundle is not handled")
		}
		f := one(t, v, body, a)
		want := admission.Finding{
			Evidence: admission.Digest(body), Locator: "x.json", MediaType: "application/vnd.dev.sigstore.bundle+json;version=0.1",
			Verifier: "sigstore", State: admission.FindingVerified,
			Payload:       f.Payload,
			PredicateType: "https://slsa.dev/provenance/v1",
			Subjects:      []admission.Subject{{Name: "pkg:npm/sigstore@2.0.0", Digests: admission.DigestSet{"sha512": a.Bytes.Digests["sha512"]}}},
			Signer: &admission.Signer{
				Issuer:                 "https://token.actions.githubusercontent.com",
				Identity:               "https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main",
				SourceRepository:       "https://github.com/sigstore/sigstore-js",
				SourceRepositoryRef:    "refs/heads/main",
				SourceRepositoryDigest: "f0b49a04e5a62250e0f60fb128004a73110fe311",
				RunnerEnvironment:      "github-hosted",
				BuildSigner:            "https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main",
				RunInvocation:          "https://github.com/sigstore/sigstore-js/actions/runs/5904696764/attempts/1",
			},
			SignedAt: "2023-08-18T16:05:35.000Z",
			Provenance: &admission.Provenance{
				BuilderID:    "https://github.com/actions/runner/github-hosted",
				BuildType:    "https://slsa-framework.github.io/github-actions-buildtypes/workflow/v1",
				SourceURI:    "https://github.com/sigstore/sigstore-js",
				SourceRef:    "refs/heads/main",
				SourceDigest: "gitCommit:f0b49a04e5a62250e0f60fb128004a73110fe311",
				Invocation:   "https://github.com/sigstore/sigstore-js/actions/runs/5904696764/attempts/1",
			},
		}
		if diff := cmp.Diff(want, f); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", root, diff)
		}
		// The payload's digest is over the signed bytes themselves.
		var b struct {
			DSSEEnvelope struct{ Payload []byte }
		}
		if err := json.Unmarshal(body, &b); err != nil || admission.Digest(b.DSSEEnvelope.Payload) != f.Payload {
			t.Errorf("payload %s is not the digest of the signed bytes (%v)", f.Payload, err)
		}
	}
}

func TestOPS01_AVerifierNamesItsVersionAndTrustMaterial(t *testing.T) {
	root := evidencekit.Root(t, "npm-seed")
	keys := sigstore.File{Name: "own_keys", Body: []byte("x")}
	v := newVerifier(t, sigstore.Config{ID: "own", Root: root, KeyFiles: []sigstore.File{keys}})
	want := admission.VerifierInfo{ID: "own", Version: "1+sigstore-go.v1.3.0", Trust: []admission.TrustMaterial{
		{Name: "trusted_root", Digest: admission.Digest(root.Body)}, {Name: "own_keys", Digest: admission.Digest([]byte("x"))},
	}}
	if diff := cmp.Diff(want, v.Info()); diff != "" {
		t.Error(diff)
	}
	b, err := os.ReadFile("../../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", b, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if r.Mod.Path == "github.com/sigstore/sigstore-go" && r.Mod.Version != sigstore.LibraryVersion {
			t.Errorf("go.mod requires %s, the verifier says %s: its answers may have changed, so the name must", r.Mod.Version, sigstore.LibraryVersion)
		}
	}
}

// The same receipt, the same bundle, another trust root: another result.
func TestADM13_TrustMaterialDecides(t *testing.T) {
	body, a := sigstore200(t)
	f := one(t, newVerifier(t, sigstore.Config{Root: evidencekit.Root(t, "scaffolding")}), body, a)
	wantCode(t, f, admission.TrustRootLogUnknown, "no log of the trust root")
	f = one(t, newVerifier(t, sigstore.Config{}), body, a)
	wantCode(t, f, admission.TrustRootLogUnknown, "no log of the trust root")

	// Each part of the root alone is needed.
	for part, code := range map[string]admission.Code{
		"tlogs":                  admission.TrustRootLogUnknown,
		"ctlogs":                 admission.SignerCertificate,
		"certificateAuthorities": admission.SignerCertificate,
	} {
		var root map[string]any
		if err := json.Unmarshal(evidencekit.Root(t, "public-good.2023").Body, &root); err != nil {
			t.Fatal(err)
		}
		delete(root, part)
		edited, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		v := newVerifier(t, sigstore.Config{Root: &sigstore.File{Name: "trusted_root", Body: edited}})
		wantCode(t, one(t, v, body, a), code, "")
	}
}

func TestADM26_OtherBytesOfTheSameNameAreAMismatch(t *testing.T) {
	body, _ := sigstore200(t)
	v := newVerifier(t, sigstore.Config{Root: evidencekit.Root(t, "npm-seed")})
	other := evidencekit.Bytes("sigstore", "2.0.0", []byte("other bytes"))
	f := one(t, v, body, other)
	wantCode(t, f, admission.ArtifactDigestMismatch, "sha512:"+other.Bytes.Digests["sha512"])
	if !strings.Contains(f.Detail, "pkg:npm/sigstore@2.0.0 sha512:46d4e2f7") {
		t.Errorf("%s: the attested digest is not in it", f.Detail)
	}
	// A digest that agrees does not help if another one differs.
	_, a := sigstore200(t)
	a.Bytes.Digests["sha512"] = other.Bytes.Digests["sha512"]
	wantCode(t, one(t, v, body, a), admission.ArtifactDigestMismatch, "")
	// No algorithm in common: nothing is shown about these bytes.
	_, a = sigstore200(t)
	delete(a.Bytes.Digests, "sha512")
	wantCode(t, one(t, v, body, a), admission.ArtifactDigestMismatch, "")
	wantCode(t, one(t, v, body, nil), admission.ArtifactDigestMismatch, "no bytes")
	wantCode(t, one(t, v, body, &admission.ArtifactBinding{Kind: admission.KindPinnedDeployment}), admission.ArtifactDigestMismatch, "no bytes")
	// A release without bytes is bound by one statement, and by no other.
	release := &admission.ArtifactBinding{Kind: admission.KindAttestedRelease, Release: &admission.ReleaseBinding{Release: "2.0.0", Attestation: f.Payload}}
	if f := one(t, v, body, release); f.State != admission.FindingVerified {
		t.Errorf("%s: %s", f.Code, f.Detail)
	}
	release.Release.Attestation = admission.Digest([]byte("another statement"))
	wantCode(t, one(t, v, body, release), admission.ArtifactDigestMismatch, "no bytes")
}

// edit changes a bundle as JSON.
func edit(t testing.TB, body []byte, change func(b map[string]any)) []byte {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var b map[string]any
	if err := dec.Decode(&b); err != nil {
		t.Fatal(err)
	}
	change(b)
	out, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func at(b map[string]any, path ...string) map[string]any {
	for _, p := range path {
		switch next := b[p].(type) {
		case map[string]any:
			b = next
		case []any:
			b = next[0].(map[string]any)
		}
	}
	return b
}

func flip(t testing.TB, m map[string]any, key string, i int) {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(m[key].(string))
	if err != nil {
		t.Fatal(err)
	}
	raw[(i+len(raw))%len(raw)] ^= 1
	m[key] = base64.StdEncoding.EncodeToString(raw)
}

func TestADM13_WhatIsWrongWithABundleHasItsOwnCode(t *testing.T) {
	good, a := sigstore200(t)
	payload := func(b map[string]any, change func(s string) string) {
		env := at(b, "dsseEnvelope")
		raw, err := base64.StdEncoding.DecodeString(env["payload"].(string))
		if err != nil {
			t.Fatal(err)
		}
		env["payload"] = base64.StdEncoding.EncodeToString([]byte(change(string(raw))))
	}
	replace := func(from, to string) func(b map[string]any) {
		return func(b map[string]any) {
			payload(b, func(s string) string {
				if !strings.Contains(s, from) {
					t.Fatalf("payload has no %q", from)
				}
				return strings.Replace(s, from, to, 1)
			})
		}
	}
	material := "verificationMaterial"
	tests := []struct {
		name   string
		change func(b map[string]any)
		code   admission.Code
		says   string
	}{
		{"payload", replace("refs/heads/main", "refs/heads/evil"), admission.AttestationTampered, "payload"},
		{"one more line", func(b map[string]any) { payload(b, func(s string) string { return s + "\n" }) }, admission.AttestationTampered, "payload"},
		{"signature", func(b map[string]any) { flip(t, at(b, "dsseEnvelope", "signatures"), "sig", 20) }, admission.AttestationTampered, "another signature"},
		{"two signatures", func(b map[string]any) {
			env := at(b, "dsseEnvelope")
			sigs := env["signatures"].([]any)
			env["signatures"] = append(sigs, sigs[0])
		}, admission.AttestationSignatureCount, "2 signatures"},
		{"no signature", func(b map[string]any) { at(b, "dsseEnvelope")["signatures"] = []any{} }, admission.AttestationSignatureCount, "0 signatures"},
		{"payload type", func(b map[string]any) { at(b, "dsseEnvelope")["payloadType"] = "text/plain" }, admission.AttestationMalformed, "text/plain"},
		{"no log entry", func(b map[string]any) { at(b, material)["tlogEntries"] = []any{} }, admission.TrustRootLogUnknown, "no transparency log"},
		{"promise of the log", func(b map[string]any) {
			flip(t, at(b, material, "tlogEntries", "inclusionPromise"), "signedEntryTimestamp", 20)
		}, admission.AttestationTampered, "promise"},
		{"time of the log", func(b map[string]any) { at(b, material, "tlogEntries")["integratedTime"] = "1693328517" }, admission.AttestationTampered, "promise"},
		{"certificate", func(b map[string]any) {
			flip(t, at(b, material, "x509CertificateChain", "certificates"), "rawBytes", -1)
		}, admission.AttestationTampered, ""},
		{"media type", func(b map[string]any) { b["mediaType"] = "application/vnd.dev.sigstore.bundle.v0.3+json" }, admission.AttestationMalformed, "certificate chain"},
		{"no material", func(b map[string]any) { delete(b, material) }, admission.AttestationMalformed, "verification material"},
		{"no content", func(b map[string]any) { delete(b, "dsseEnvelope") }, admission.AttestationMalformed, "content"},
		{"unknown member", func(b map[string]any) { b["extra"] = 1 }, admission.AttestationMalformed, "extra"},
		{"no statement", func(b map[string]any) { payload(b, func(string) string { return "[]" }) }, admission.AttestationMalformed, "statement"},
		{"member of the statement twice", replace(`"predicateType"`, `"predicateType":"https://example.com/x","predicateType"`), admission.AttestationMalformed, "duplicate"},
		{"statement type", replace("in-toto.io/Statement/v1", "in-toto.io/Statement/v2"), admission.AttestationMalformed, "_type"},
		{"subjects", func(b map[string]any) {
			payload(b, func(string) string {
				return `{"_type":"https://in-toto.io/Statement/v1","predicateType":"x","subject":[]}`
			})
		}, admission.AttestationMalformed, "no subject"},
		{"key that nobody knows", func(b map[string]any) {
			delete(at(b, material), "x509CertificateChain")
			at(b, material)["publicKey"] = map[string]any{"hint": "nobody's"}
		}, admission.SignerKeyUnknown, "nobody's"},
	}
	v := newVerifier(t, sigstore.Config{Root: evidencekit.Root(t, "npm-seed")})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantCode(t, one(t, v, edit(t, good, tt.change), a), tt.code, tt.says)
		})
	}
	t.Run("member twice", func(t *testing.T) {
		twice := bytes.Replace(good, []byte(`"mediaType"`), []byte(`"mediaType":"x","mediaType"`), 1)
		wantCode(t, one(t, v, twice, a), admission.AttestationMalformed, "duplicate")
	})
	t.Run("no JSON", func(t *testing.T) {
		wantCode(t, one(t, v, []byte("x"), a), admission.AttestationMalformed, "not a JSON object")
	})
	t.Run("empty", func(t *testing.T) {
		wantCode(t, one(t, v, nil, a), admission.AttestationMalformed, "not a JSON object")
	})
	t.Run("too large", func(t *testing.T) {
		wantCode(t, one(t, v, make([]byte, admission.MaxEvidenceBytes+1), a), admission.EvidenceTooLarge, "limit")
	})
}

func TestADM13_TwoSignaturesInOneEnvelopeAreRefused(t *testing.T) {
	v := newVerifier(t, sigstore.Config{Root: evidencekit.Root(t, "public-good.2023")})
	a := evidencekit.Bytes("slsa-provenance", "0.0.7", nil)
	a.Bytes.Digests["sha512"] = "bbfd372fc9beeb777fe35d05bb10c0c70a9733d366a75fed7dd18866c7391de3ee7e88ba74dd47abf3e15c845e547fcf0e5c3da80854c751554224d3a6d4e55f"
	f := one(t, v, evidencekit.File(t, "dsse-2sigs.sigstore.json"), a)
	wantCode(t, f, admission.AttestationSignatureCount, "2 signatures in the envelope, expected 1")

	// The same attestation with one signature is a person's, which a policy that
	// wants a workflow can see.
	f = one(t, v, evidencekit.File(t, "dsse.sigstore.json"), a)
	if f.State != admission.FindingVerified || f.Signer.Identity != "brian@dehamer.com" || f.PredicateType != "https://slsa.dev/provenance/v0.2" {
		t.Errorf("%s %s: %s: %+v", f.State, f.Code, f.Detail, f.Signer)
	}
	if p := f.Provenance; p == nil || p.BuilderID != "https://github.com/npm/slsa-provenance@0.0.1" || !strings.HasPrefix(p.SourceURI, "https://github.com/") || !strings.HasPrefix(p.SourceDigest, "sha1:") {
		t.Errorf("%+v", p)
	}
}
