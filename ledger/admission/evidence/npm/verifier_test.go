package npm_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/npm"
	"counterfoil/ledger/admission/evidence/sigstore"
)

const (
	gundam       = "gundam-visor-cli-v1-tag.tgz"
	gundamBroken = "gundam-visor-cli-v1-tag-invalidsigprov.tgz"
)

func keyFile(t testing.TB) *sigstore.File {
	t.Helper()
	return &sigstore.File{Name: "npm_keys", Body: evidencekit.File(t, "npm-keys.json")}
}

func verify(t testing.TB, root, keys *sigstore.File, body []byte, a *admission.ArtifactBinding) []admission.Finding {
	t.Helper()
	v, err := npm.NewVerifier(root, keys)
	if err != nil {
		t.Fatal(err)
	}
	e := admission.Evidence{Locator: "x.json", Body: body}
	if !v.Handles(e) {
		t.Fatal("not handled")
	}
	findings, err := v.Verify(t.Context(), e, a)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if err := f.Validate(); err != nil {
			t.Errorf("finding: %v", err)
		}
		if f.Verifier != "npm" || f.Evidence != admission.Digest(body) {
			t.Errorf("%s about %s", f.Verifier, f.Evidence)
		}
	}
	return findings
}

func wantCodes(t *testing.T, findings []admission.Finding, codes ...admission.Code) {
	t.Helper()
	if len(findings) != len(codes) {
		t.Fatalf("%d findings, want %d", len(findings), len(codes))
	}
	for i, f := range findings {
		if f.Code != codes[i] || (codes[i] == "") != (f.State == admission.FindingVerified) {
			t.Errorf("finding %d is %s %s: %s; want %q", i, f.State, f.Code, f.Detail, codes[i])
		}
	}
}

func gundamArtifact(t testing.TB) *admission.ArtifactBinding {
	t.Helper()
	return evidencekit.Bytes("gundam-visor", "1.0.1", evidencekit.Beside(t, gundam))
}

func TestADM16_RealAttestationsOfNPMVerify(t *testing.T) {
	a := gundamArtifact(t)
	findings := verify(t, evidencekit.Root(t, "npm-seed"), keyFile(t), evidencekit.Beside(t, gundam+".json"), a)
	wantCodes(t, findings, "", "")
	publish, provenance := findings[0], findings[1]
	if publish.PredicateType != npm.PublishV01 || publish.Signer.KeyID != "SHA256:jl3bwswu80PjjokCgh0o2w5c2U4LhQAE57gj9cz1kzA" || publish.SignedAt != "2024-06-03T22:18:01.000Z" || publish.Provenance != nil {
		t.Errorf("%+v", publish)
	}
	if provenance.PredicateType != npm.Provenance || provenance.Signer.Identity != "https://github.com/ramonpetgrave64/gundam-visor/.github/workflows/npm-publish.yml@refs/tags/v1.0.1" ||
		provenance.Provenance.SourceRef != "refs/tags/v1.0.1" || provenance.Provenance.SourceDigest != "gitCommit:599500821344b070902a7a5666064bfdaba715df" {
		t.Errorf("%+v %+v %+v", provenance, provenance.Signer, provenance.Provenance)
	}
	for _, f := range findings {
		if f.Subjects[0].Name != "pkg:npm/gundam-visor@1.0.1" || a.SubjectNames()[0] != f.Subjects[0].Name {
			t.Errorf("%+v", f.Subjects)
		}
	}
}

func TestADM13_ABrokenProvenanceDoesNotHideBehindAGoodPublish(t *testing.T) {
	findings := verify(t, evidencekit.Root(t, "npm-seed"), keyFile(t), evidencekit.Beside(t, gundamBroken+".json"), gundamArtifact(t))
	wantCodes(t, findings, "", admission.AttestationTampered)
}

// The same receipt and the same bundle under another key file: another result.
func TestADM27_TrustMaterialOfTodayDecidesToday(t *testing.T) {
	root, body, a := evidencekit.Root(t, "npm-seed"), evidencekit.Beside(t, gundam+".json"), gundamArtifact(t)
	edit := func(from, to string) *sigstore.File {
		k := keyFile(t)
		if !bytes.Contains(k.Body, []byte(from)) {
			t.Fatalf("the key file has no %q", from)
		}
		k.Body = bytes.ReplaceAll(k.Body, []byte(from), []byte(to))
		return k
	}
	oldKey := "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE1Olb3zMAFFxXKHiIkQO5cJ3Yhl5i6UPp+IhuteBJbuHcA5UogKo0EWtlWwW6KSaKoTNEYL7JlCQiVnkhBktUgg=="
	newKey := "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEY6Ya7W++7aUPzvMTrezH6Ycx3c+HOKYCcNGybJZSCJq/fd7Qa8uuAKtdIkUQtQiEKERhAmE5lMMJhP8OkDOa2g=="
	for name, tt := range map[string]struct {
		keys *sigstore.File
		code admission.Code
	}{
		"ended before":        {edit("2025-01-29T00:00:00.000Z", "2024-01-29T00:00:00.000Z"), admission.SignerKeyNotValid},
		"starts after":        {edit("2022-12-01T00:00:00.000Z", "2024-12-01T00:00:00.000Z"), admission.SignerKeyNotValid},
		"other id":            {edit("SHA256:jl3bwswu", "SHA256:xxxxxxxx"), admission.SignerKeyUnknown},
		"other key":           {edit(oldKey, newKey), admission.SignerKeyUnknown},
		"other usage of it":   {edit("npm:attestations\",\n            \"publicKey\": {\n                \"rawBytes\": \""+oldKey, "npm:signatures\",\n            \"publicKey\": {\n                \"rawBytes\": \""+oldKey), admission.SignerKeyUnknown},
		"no keys at all":      {nil, admission.SignerKeyUnknown},
		"as it was published": {keyFile(t), ""},
	} {
		findings := verify(t, root, tt.keys, body, a)
		if findings[0].Code != tt.code || findings[1].Code != "" {
			t.Errorf("%s: %s (%s) and %q, want %q and no code", name, findings[0].Code, findings[0].Detail, findings[1].Code, tt.code)
		}
	}
	wantCodes(t, verify(t, evidencekit.Root(t, "scaffolding"), keyFile(t), body, a), admission.TrustRootLogUnknown, admission.TrustRootLogUnknown)
	wantCodes(t, verify(t, root, keyFile(t), body, evidencekit.Bytes("gundam-visor", "1.0.1", []byte("other"))), admission.ArtifactDigestMismatch, admission.ArtifactDigestMismatch)
	v, err := npm.NewVerifier(root, keyFile(t))
	if err != nil {
		t.Fatal(err)
	}
	if i := v.Info(); len(i.Trust) != 2 || i.Trust[0].Name != "trusted_root" || i.Trust[1].Digest != admission.Digest(keyFile(t).Body) || !strings.Contains(i.Version, "sigstore-go") {
		t.Errorf("%+v", i)
	}
}

// answer makes an answer of the registry of a bundle that may be kept here.
func answer(t testing.TB, predicateType string, bundles ...[]byte) []byte {
	t.Helper()
	type item struct {
		PredicateType string          `json:"predicateType"`
		Bundle        json.RawMessage `json:"bundle"`
	}
	var out struct {
		Attestations []item `json:"attestations"`
	}
	for _, b := range bundles {
		out.Attestations = append(out.Attestations, item{predicateType, b})
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestADM13_ListsAreReadStrictly(t *testing.T) {
	root, good := evidencekit.Root(t, "npm-seed"), evidencekit.File(t, "sigstore-2.0.0.provenance.json")
	a := evidencekit.Bytes("sigstore", "2.0.0", evidencekit.File(t, "sigstore-2.0.0.tgz"))
	wantCodes(t, verify(t, root, nil, answer(t, npm.Provenance, good), a), "")
	wantCodes(t, verify(t, root, nil, answer(t, npm.PublishV01, good), a), admission.AttestationTypeMismatch)
	wantCodes(t, verify(t, root, nil, answer(t, npm.Provenance, good, evidencekit.File(t, "dsse-2sigs.sigstore.json"), []byte("null"), []byte("7")), a),
		"", admission.AttestationSignatureCount, admission.AttestationMalformed, admission.AttestationMalformed)
	wantCodes(t, verify(t, root, nil, []byte(`{"attestations":[]}`), a), admission.AttestationMissing)
	wantCodes(t, verify(t, root, nil, []byte(`{"attestations":["x"]}`), a), admission.AttestationMalformed)
	many := []byte(`{"attestations":[{}` + strings.Repeat(`,{}`, admission.MaxFindings) + `]}`)
	wantCodes(t, verify(t, root, nil, many, a), admission.AttestationMalformed)

	v, err := npm.NewVerifier(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	findings, err := v.Verify(t.Context(), admission.Evidence{Locator: "x", Body: make([]byte, admission.MaxEvidenceBytes+1)}, a)
	if err != nil {
		t.Fatal(err)
	}
	wantCodes(t, findings, admission.EvidenceTooLarge)
	for _, other := range []string{"", "[]", "{}", `{"attestations":{}}`, `{"attestations":[],"attestations":[]}`, string(good)} {
		if v.Handles(admission.Evidence{Body: []byte(other)}) {
			t.Errorf("%.40q is handled", other)
		}
	}
}

func TestADM13_KeyFilesAreReadStrictly(t *testing.T) {
	for name, bad := range map[string]string{
		"no JSON":     "x",
		"no keys":     `{"keys":[]}`,
		"other usage": `{"keys":[{"keyUsage":"npm:signatures"}]}`,
		"details":     strings.ReplaceAll(string(keyFile(t).Body), "PKIX_ECDSA_P256_SHA_256", "PKIX_RSA"),
		"base64":      strings.ReplaceAll(string(keyFile(t).Body), "MFkw", "****"),
		"no key":      strings.ReplaceAll(string(keyFile(t).Body), "MFkw", "MFkx"),
		"time":        strings.ReplaceAll(string(keyFile(t).Body), "2022-12-01T", "2022-13-01T"),
		"twice":       strings.ReplaceAll(string(keyFile(t).Body), "SHA256:DhQ8wR5APBvFHLF/+Tc+AYvPOdTpcIDqOhxsBHRwC7U", "SHA256:jl3bwswu80PjjokCgh0o2w5c2U4LhQAE57gj9cz1kzA"),
	} {
		if _, err := npm.NewVerifier(nil, &sigstore.File{Name: "npm_keys", Body: []byte(bad)}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add(evidencekit.File(f, "npm-keys.json"))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := npm.ParseKeys(b)
		if err == nil && len(keys) == 0 {
			t.Error("no keys and no error")
		}
	})
}
