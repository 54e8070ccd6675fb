package sigstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
)

func validityKey(t testing.TB) sigstore.Key {
	t.Helper()
	k, err := sigstore.ParsePEMKey(evidencekit.File(t, "public-key-validity.pem"))
	if err != nil {
		t.Fatal(err)
	}
	k.Unlogged = true
	return k
}

func TestADM13_KeysSignWithinTheirTime(t *testing.T) {
	root := evidencekit.Root(t, "public-key-validity")
	body, a := evidencekit.File(t, "public-key-validity.sigstore.json"), evidencekit.Bytes("x", "1.0.0", []byte("test content"))
	signed := time.Date(2026, 6, 4, 17, 43, 29, 0, time.UTC)
	tests := []struct {
		name   string
		change func(k *sigstore.Key)
		root   *sigstore.File
		code   admission.Code
	}{
		{"no bounds", func(*sigstore.Key) {}, root, ""},
		{"within", func(k *sigstore.Key) {
			k.NotBefore, k.NotAfter = signed.Add(-time.Second), signed.Add(time.Second)
		}, root, ""},
		{"at the bounds", func(k *sigstore.Key) { k.NotBefore, k.NotAfter = signed, signed }, root, ""},
		{"too early", func(k *sigstore.Key) { k.NotBefore = signed.Add(time.Second) }, root, admission.SignerKeyNotValid},
		{"too late", func(k *sigstore.Key) { k.NotAfter = signed.Add(-time.Second) }, root, admission.SignerKeyNotValid},
		{"log demanded", func(k *sigstore.Key) { k.Unlogged = false }, root, admission.TrustRootLogUnknown},
		{"unknown", func(k *sigstore.Key) { k.ID = "another" }, root, admission.SignerKeyUnknown},
		{"authority unknown", func(k *sigstore.Key) { k.NotAfter = signed }, nil, admission.SigningTimeUnverified},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := validityKey(t)
			tt.change(&k)
			f := one(t, newVerifier(t, sigstore.Config{Root: tt.root, Keys: []sigstore.Key{k}}), body, a)
			if tt.code != "" {
				wantCode(t, f, tt.code, "")
				return
			}
			if f.State != admission.FindingVerified || f.Signer.KeyID != k.ID || f.SignedAt != "2026-06-04T17:43:29.000Z" || f.Payload != "" || f.PredicateType != "" {
				t.Errorf("%+v", f)
			}
		})
	}
	v := newVerifier(t, sigstore.Config{Root: root, Keys: []sigstore.Key{validityKey(t)}})
	wantCode(t, one(t, v, body, evidencekit.Bytes("x", "1.0.0", []byte("other"))), admission.ArtifactDigestMismatch, "the signature is about sha256:6ae8a755")
	other := edit(t, body, func(b map[string]any) { flip(t, at(b, "messageSignature"), "signature", 20) })
	wantCode(t, one(t, v, other, a), admission.SigningTimeUnverified, "")
}

func TestADM13_TrustMaterialIsReadStrictly(t *testing.T) {
	k := validityKey(t)
	for name, cfg := range map[string]sigstore.Config{
		"root that is none":    {Root: &sigstore.File{Name: "trusted_root", Body: []byte("{}")}},
		"root that is no JSON": {Root: &sigstore.File{Name: "trusted_root", Body: []byte("x")}},
		"root that is large":   {Root: &sigstore.File{Name: "trusted_root", Body: make([]byte, 5<<20)}},
		"key twice":            {Keys: []sigstore.Key{k, k}},
		"key without id":       {Keys: []sigstore.Key{{Public: k.Public}}},
		"key of no type":       {Keys: []sigstore.Key{{ID: "x", Public: "x"}}},
		"many files":           {KeyFiles: make([]sigstore.File, 17)},
		"many keys":            {Keys: make([]sigstore.Key, 257)},
	} {
		if _, err := sigstore.New(cfg); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	pem := string(evidencekit.File(t, "public-key-validity.pem"))
	for _, bad := range []string{"", "x", pem + pem, strings.ReplaceAll(pem, "PUBLIC KEY", "CERTIFICATE")} {
		if _, err := sigstore.ParsePEMKey([]byte(bad)); err == nil {
			t.Errorf("%.40q is a key", bad)
		}
	}
}

func TestADM13_ManyBundlesInOneFile(t *testing.T) {
	body, a := sigstore200(t)
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		t.Fatal(err)
	}
	bad := edit(t, body, func(b map[string]any) { flip(t, at(b, "dsseEnvelope", "signatures"), "sig", 20) })
	lines := bytes.Join([][]byte{compact.Bytes(), bad, compact.Bytes()}, []byte("\n"))
	v := newVerifier(t, sigstore.Config{Root: evidencekit.Root(t, "npm-seed")})
	e := admission.Evidence{Locator: "x.jsonl", Body: lines}
	if !v.Handles(e) {
		t.Error("lines are not handled")
	}
	findings, err := v.Verify(t.Context(), e, a)
	if err != nil || len(findings) != 3 || findings[0].State != admission.FindingVerified || findings[1].Code != admission.AttestationTampered || findings[2].State != admission.FindingVerified {
		t.Errorf("%+v, %v", findings, err)
	}
	e.Body = bytes.Repeat([]byte("{}\n"), admission.MaxFindings+1)
	findings, err = v.Verify(t.Context(), e, a)
	if err != nil || len(findings) != 1 || findings[0].Code != admission.AttestationMalformed {
		t.Errorf("%+v, %v", findings, err)
	}
	for _, other := range []string{"", "{}", "[]", `{"mediaType":"text/plain"}`, `{"mediaType":7}`, "no"} {
		if v.Handles(admission.Evidence{Body: []byte(other)}) {
			t.Errorf("%q is handled", other)
		}
	}
	if !v.Handles(admission.Evidence{MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json"}) {
		t.Error("a bundle by its media type is not handled")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := v.Verify(ctx, admission.Evidence{Body: body}, a); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
}

func FuzzVerify(f *testing.F) {
	for _, name := range []string{"sigstore-2.0.0.provenance.json", "dsse-2sigs.sigstore.json", "othername.sigstore.json", "public-key-validity.sigstore.json"} {
		f.Add(evidencekit.File(f, name))
	}
	v := newVerifier(f, sigstore.Config{Root: evidencekit.Root(f, "npm-seed"), Keys: []sigstore.Key{validityKey(f)}})
	a := evidencekit.Bytes("x", "1.0.0", []byte("nothing that was ever signed"))
	f.Fuzz(func(t *testing.T, body []byte) {
		e := admission.Evidence{Locator: "x", Body: body}
		v.Handles(e)
		findings, err := v.Verify(t.Context(), e, a)
		if err != nil || len(findings) == 0 {
			t.Fatalf("%d findings, %v", len(findings), err)
		}
		for _, finding := range findings {
			if err := finding.Validate(); err != nil {
				t.Errorf("finding: %v", err)
			}
			if finding.State != admission.FindingFailed {
				t.Errorf("%s without a signature over the bytes", finding.State)
			}
		}
	})
}

func BenchmarkVerifyProvenance(b *testing.B) {
	body, a := sigstore200(b)
	v := newVerifier(b, sigstore.Config{Root: evidencekit.Root(b, "npm-seed")})
	e := admission.Evidence{Locator: "x.json", Body: body}
	for b.Loop() {
		if f, err := v.Verify(b.Context(), e, a); err != nil || f[0].State != admission.FindingVerified {
			b.Fatal(f, err)
		}
	}
}
