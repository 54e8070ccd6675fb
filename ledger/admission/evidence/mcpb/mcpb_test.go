package mcpb

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/admission/evidence/sigstore"
)

const (
	helloFile = "ca181cae2483d647d3cdcf7e0224bae8b0156352adfda53dc7974179eeef93b8" // sha256sum
	helloZip  = "886507aa91156a2e50217e977ded5b361ac6ad95ae4d99ffcf6b304beeda6a4f"
)

func resolver(t *testing.T, s *httptest.Server, now time.Time) *Resolver {
	t.Helper()
	cfg := fetch.Config{Now: func() time.Time { return now }, Scratch: t.TempDir()}
	if s != nil {
		cfg.Transport = s.Client().Transport
	}
	f, err := fetch.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewResolver(Config{Fetch: f})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func selection(url, sha256 string) admission.Selection {
	return admission.Selection{
		Server:  &admission.Entry{Name: "com.example/hello"},
		Package: &admission.Package{RegistryType: "mcpb", Identifier: url, Version: "1.0.0", FileSHA256: sha256, Transport: admission.Transport{Type: "stdio"}},
	}
}

func serve(t *testing.T, body []byte) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }))
	t.Cleanup(s.Close)
	return s
}

func resolve(t *testing.T, body []byte, sha256 string) admission.Resolution {
	t.Helper()
	s := serve(t, body)
	return evidencekit.Resolve(t, resolver(t, s, start.AddDate(0, 11, 15)), selection(s.URL+"/hello.mcpb", sha256))
}

func judge(t testing.TB, roots *sigstore.File, e admission.Evidence, a *admission.ArtifactBinding) admission.Finding {
	t.Helper()
	v, err := NewVerifier(roots)
	if err != nil {
		t.Fatal(err)
	}
	if !v.Handles(e) {
		t.Error("a block is not handled")
	}
	findings, err := v.Verify(t.Context(), e, a)
	if err != nil || len(findings) != 1 {
		t.Fatal(findings, err)
	}
	if err := findings[0].Validate(); err != nil {
		t.Errorf("finding: %v", err)
	}
	return findings[0]
}

// The file was packed and signed by the bundle's own tools.
func TestADM06_ABundleSignedByItsOwnToolsIsBoundTwice(t *testing.T) {
	body := evidencekit.File(t, "hello-1.0.0.signed.mcpb")
	res := resolve(t, body, helloFile)
	if res.Failure != nil {
		t.Fatal(res.Failure)
	}
	if diff := cmp.Diff(map[string]string{"source": "pass", "file_sha256": "pass", "version": "pass"}, evidencekit.States(res.Checks)); diff != "" {
		t.Error(diff)
	}
	b := res.Binding.Bytes
	if b.Digests["sha256"] != helloFile || b.Size != int64(len(body)) || b.Content == nil || b.Content.Digests["sha256"] != helloZip || b.Content.Size != 416 || len(b.Content.Digests["sha512"]) != 128 {
		t.Errorf("%+v %+v", b, b.Content)
	}
	if len(res.Evidence) != 1 || !bytes.Equal(res.Evidence[0].Body, body[416:]) || res.Sources[0].State != "found" {
		t.Fatalf("%d files, %+v", len(res.Evidence), res.Sources)
	}
	roots := &sigstore.File{Name: "mcpb_roots", Body: evidencekit.File(t, "hello-1.0.0.ca.pem")}
	// The certificate is valid from 2026-11-30.
	res.Binding.RetrievedAt = "2026-12-01T00:00:00.000Z"
	f := judge(t, roots, res.Evidence[0], res.Binding)
	want := &admission.Signer{Issuer: "CN=Test Root", Identity: "CN=Test Publisher,O=Tests"}
	if diff := cmp.Diff(want, f.Signer); f.State != admission.FindingVerified || f.Payload != "" || f.SignedAt != "" || diff != "" {
		t.Errorf("%s %s: %s %s", f.State, f.Code, f.Detail, diff)
	}
	if f := judge(t, newSigner(t, nil).roots(), res.Evidence[0], res.Binding); f.Code != admission.SignerCertificate {
		t.Errorf("other roots: %s %s", f.Code, f.Detail)
	}
	if f := judge(t, nil, res.Evidence[0], res.Binding); f.Code != admission.SignerCertificate {
		t.Errorf("no roots: %s %s", f.Code, f.Detail)
	}
	res.Binding.RetrievedAt = "2026-11-29T00:00:00.000Z"
	if f := judge(t, roots, res.Evidence[0], res.Binding); f.Code != admission.SignerKeyNotValid {
		t.Errorf("before it was valid: %s %s", f.Code, f.Detail)
	}
}

func zipOf(t testing.TB, files ...[2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		out, err := w.Create(f[0])
		if err != nil {
			t.Fatal(err)
		}
		out.Write([]byte(f[1]))
	}
	w.Close()
	return b.Bytes()
}

func TestADM06_UnsignedAndDamagedBundles(t *testing.T) {
	signed := evidencekit.File(t, "hello-1.0.0.signed.mcpb")
	manifest := [2]string{"manifest.json", `{"name":"hello","version":"1.0.0"}`}
	plain := zipOf(t, manifest)
	change := func(f func(b []byte)) []byte { b := bytes.Clone(signed); f(b); return b }
	tests := []struct {
		name string
		body []byte
		code admission.Code // "" for none
		says string
	}{
		{"unsigned", plain, "", ""},
		{"length of the block", change(func(b []byte) { b[416+len(header)]++ }), admission.ArtifactUnsafe, "states 1350"},
		{"block without begin", append(bytes.Clone(plain), footer...), admission.ArtifactUnsafe, "does not begin"},
		{"block cut", signed[:len(signed)-1], admission.ArtifactUnsafe, "malformed"},
		{"two blocks", append(bytes.Clone(signed), signed[416:]...), admission.ArtifactUnsafe, "malformed"},
		{"block in a block", append(bytes.Clone(signed), block([]byte("x"))...), admission.ArtifactUnsafe, "malformed"},
		{"traversal", zipOf(t, manifest, [2]string{"../x", ""}), admission.ArtifactUnsafe, "path_traversal"},
		{"no manifest", zipOf(t, [2]string{"x", ""}), admission.ArtifactUnsafe, "has no manifest.json"},
		{"manifest of another form", zipOf(t, [2]string{"manifest.json", "[]"}), admission.ArtifactUnsafe, "has no version"},
		{"member twice", zipOf(t, [2]string{"manifest.json", `{"version":"1.0.0","version":"2"}`}), admission.ArtifactUnsafe, "twice"},
		{"bomb", zipOf(t, manifest, [2]string{"x", strings.Repeat("x", 17<<20)}), admission.ArtifactTooLarge, "compression_bomb"},
		{"no zip", []byte("<html></html>"), admission.ArtifactUnsafe, "malformed"},
		{"empty", nil, admission.ArtifactUnsafe, "malformed"},
	}
	for _, tt := range tests {
		res := resolve(t, tt.body, "")
		if tt.code == "" {
			if res.Failure != nil || res.Binding.Bytes.Content != nil || len(res.Evidence) > 0 || res.Sources[0].State != "none" || evidencekit.States(res.Checks)["file_sha256"] != "absent" {
				t.Errorf("%s: %+v %+v", tt.name, res.Failure, res)
			}
			continue
		}
		if res.Failure == nil || res.Failure.Code != tt.code || !strings.Contains(res.Failure.Detail, tt.says) || res.Binding != nil || len(res.Evidence) > 0 {
			t.Errorf("%s: %+v, want %s saying %q", tt.name, res.Failure, tt.code, tt.says)
		}
	}
	res := resolve(t, signed, strings.Repeat("0", 64))
	if got := evidencekit.States(res.Checks)["file_sha256"]; got != "fail file_sha256_mismatch" {
		t.Error(got)
	}
	if got := evidencekit.States(resolve(t, zipOf(t, [2]string{"manifest.json", `{"version":"2.0.0"}`}), "").Checks)["version"]; got != "fail artifact_version_mismatch" {
		t.Error(got)
	}
}

func TestADM26_ABundleThatChangedFailsEarly(t *testing.T) {
	signed := evidencekit.File(t, "hello-1.0.0.signed.mcpb")
	first := resolve(t, signed, "")
	dir := t.TempDir()
	name := filepath.Join(dir, "hello.mcpb")
	if err := os.WriteFile(name, signed[:416], 0o600); err != nil {
		t.Fatal(err)
	}
	s := selection("https://example.com/hello.mcpb", "")
	s.Override, s.Expected = name, first.Binding
	res, err := resolver(t, nil, start).Resolve(t.Context(), s)
	if err != nil || res.Failure == nil || res.Failure.Code != admission.ArtifactDigestMismatch || !strings.Contains(res.Failure.Detail, helloFile) || !strings.Contains(res.Failure.Detail, helloZip) {
		t.Errorf("%+v, %v", res.Failure, err)
	}
	s.Override = ""
	s.Package.Identifier = name // an entry does not name files of this machine
	if res, err := resolver(t, nil, start).Resolve(t.Context(), s); err != nil || res.Failure == nil || res.Failure.Code != admission.ArtifactUnresolved {
		t.Errorf("%+v, %v", res.Failure, err)
	}
}

func bound(content []byte) *admission.ArtifactBinding {
	a := evidencekit.Bytes("x", "1.0.0", append(bytes.Clone(content), "block"...))
	a.RetrievedAt = "2026-06-01T00:00:00.000Z"
	a.Bytes.Content = &admission.ContentBinding{Digests: evidencekit.Digests(content), Size: int64(len(content))}
	return a
}

func TestADM13_WhatIsWrongWithASignatureBlockHasItsOwnCode(t *testing.T) {
	content := []byte("the zip")
	s := newSigner(t, nil)
	other := newSigner(t, nil)
	tests := []struct {
		name   string
		body   []byte
		change func(a *admission.ArtifactBinding)
		code   admission.Code
	}{
		{"good", s.sign(t, content, nil), nil, ""},
		{"other bytes", s.sign(t, []byte("another zip"), nil), nil, admission.ArtifactDigestMismatch},
		{"file without a block", s.sign(t, content, nil), func(a *admission.ArtifactBinding) { a.Bytes.Content = nil }, admission.ArtifactDigestMismatch},
		{"retrieved before", s.sign(t, content, nil), func(a *admission.ArtifactBinding) { a.RetrievedAt = "2025-12-31T23:59:59.999Z" }, admission.SignerKeyNotValid},
		{"retrieved after", s.sign(t, content, nil), func(a *admission.ArtifactBinding) { a.RetrievedAt = "2027-01-01T00:00:00.001Z" }, admission.SignerKeyNotValid},
		{"no time", s.sign(t, content, nil), func(a *admission.ArtifactBinding) { a.RetrievedAt = "" }, admission.SigningTimeUnverified},
		{"somebody else's root", other.sign(t, content, nil), nil, admission.SignerCertificate},
		{"other signature", s.sign(t, content, func(p *parts) { p.data.Signers[0].Signature = []byte{1} }), nil, admission.AttestationSignature},
		{"two signers", s.sign(t, content, func(p *parts) { p.data.Signers = append(p.data.Signers, p.data.Signers[0]) }), nil, admission.AttestationSignatureCount},
		{"no signer", s.sign(t, content, func(p *parts) { p.data.Signers = []signerInfo{} }), nil, admission.AttestationSignatureCount},
		{"certificate missing", s.sign(t, content, func(p *parts) { p.data.Certificates.Bytes = s.root.Raw }), nil, admission.AttestationMalformed},
		{"certificate unreadable", s.sign(t, content, func(p *parts) { p.data.Certificates.Bytes = []byte{1, 2} }), nil, admission.AttestationMalformed},
		{"many certificates", s.sign(t, content, func(p *parts) { p.data.Certificates.Bytes = bytes.Repeat(s.cert.Raw, 17) }), nil, admission.AttestationMalformed},
		{"serial", s.sign(t, content, func(p *parts) { p.data.Signers[0].ID.Serial = big.NewInt(9) }), nil, admission.AttestationMalformed},
		{"SHA-1", s.sign(t, content, func(p *parts) {
			p.data.Signers[0].Digest = pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 3, 14, 3, 2, 26}}
		}), nil, admission.AttestationMalformed},
		{"content inside", s.sign(t, content, func(p *parts) {
			p.data.Content.Content = asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: der(t, content, "")}
		}), nil, admission.AttestationMalformed},
		{"no attributes", s.sign(t, content, func(p *parts) { p.attributes = nil; p.data.Signers[0].Signature = []byte{1} }), nil, admission.AttestationMalformed},
		{"no digest", s.sign(t, content, func(p *parts) { p.attributes = p.attributes[:1] }), nil, admission.AttestationMalformed},
		{"no type", s.sign(t, content, func(p *parts) { p.attributes = p.attributes[1:] }), nil, admission.AttestationMalformed},
		{"digest twice", s.sign(t, content, func(p *parts) { p.attributes = append(p.attributes, p.attributes[1]) }), nil, admission.AttestationMalformed},
		{"two digests in one", s.sign(t, content, func(p *parts) {
			p.attributes[1].Values = set(t, make([]byte, crypto.SHA256.Size()), make([]byte, crypto.SHA256.Size()))
		}), nil, admission.AttestationMalformed},
		{"type of content", s.sign(t, content, func(p *parts) { p.attributes[0].Values = set(t, oidSignedData) }), nil, admission.AttestationMalformed},
		{"other PKCS#7", s.sign(t, content, func(p *parts) { p.outer = oidData }), nil, admission.AttestationMalformed},
		{"bytes after it", block(append(s.sign(t, content, nil)[len(header)+4:], 0)), nil, admission.AttestationMalformed},
		{"empty", block(nil), nil, admission.AttestationMalformed},
		{"no block", []byte(header), nil, admission.AttestationMalformed},
		{"large", block(make([]byte, maxBlock)), nil, admission.AttestationMalformed},
	}
	for _, tt := range tests {
		a := bound(content)
		if tt.change != nil {
			tt.change(a)
		}
		f := judge(t, s.roots(), admission.Evidence{Locator: "x", MediaType: MediaType, Body: tt.body}, a)
		if f.Code != tt.code || (tt.code == "") != (f.State == admission.FindingVerified) {
			t.Errorf("%s: %s %s: %s, want %q", tt.name, f.State, f.Code, f.Detail, tt.code)
		}
	}
	f := judge(t, s.roots(), admission.Evidence{Locator: "x", Body: s.sign(t, content, nil)}, nil)
	if f.Code != admission.ArtifactDigestMismatch {
		t.Errorf("no artifact: %s", f.Code)
	}
	for name, change := range map[string]func(*x509.Certificate){
		"for servers":   func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
		"without names": func(c *x509.Certificate) { c.Subject = pkix.Name{} },
		"odd names":     func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "a\x1b[2J"} },
	} {
		s := newSigner(t, change)
		if f := judge(t, s.roots(), admission.Evidence{Locator: "x", Body: s.sign(t, content, nil)}, bound(content)); f.Code != admission.SignerCertificate || f.Signer != nil {
			t.Errorf("certificate %s: %s %s", name, f.Code, f.Detail)
		}
	}
}

func TestADM13_RootsAreReadStrictly(t *testing.T) {
	good := newSigner(t, nil).roots().Body
	v, err := NewVerifier(&sigstore.File{Name: "mcpb_roots", Body: append(bytes.Clone(good), good...)})
	if err != nil || len(v.Info().Trust) != 1 || v.Info().ID != "mcpb" {
		t.Errorf("%+v, %v", v, err)
	}
	for _, bad := range [][]byte{nil, []byte("x"), append(bytes.Clone(good), "x"...), bytes.ReplaceAll(good, []byte("CERTIFICATE"), []byte("PUBLIC KEY")), []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")} {
		if _, err := NewVerifier(&sigstore.File{Body: bad}); err == nil {
			t.Errorf("%.60q are roots", bad)
		}
	}
	if v.Handles(admission.Evidence{Body: []byte("{}")}) {
		t.Error("JSON is handled")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := v.Verify(ctx, admission.Evidence{}, nil); !errors.Is(err, cause) {
		t.Error(err)
	}
	if _, err := NewResolver(Config{}); err == nil {
		t.Error("a resolver that cannot fetch")
	}
}

func FuzzBlock(f *testing.F) {
	s := newSigner(f, nil)
	content := []byte("the zip")
	f.Add(s.sign(f, content, nil))
	f.Add(evidencekit.File(f, "hello-1.0.0.signed.mcpb")[416:])
	v, err := NewVerifier(s.roots())
	if err != nil {
		f.Fatal(err)
	}
	nobody := bound([]byte("nobody signed this"))
	f.Fuzz(func(t *testing.T, b []byte) {
		findings, err := v.Verify(t.Context(), admission.Evidence{Locator: "x", Body: b}, nobody)
		if err != nil || len(findings) != 1 || findings[0].State != admission.FindingFailed {
			t.Fatal(findings, err)
		}
		if err := findings[0].Validate(); err != nil {
			t.Error(err)
		}
		n, block, err := split(bytes.NewReader(b), int64(len(b)))
		if err == nil && n+int64(len(block)) != int64(len(b)) {
			t.Errorf("%d and %d of %d bytes", n, len(block), len(b))
		}
	})
}
