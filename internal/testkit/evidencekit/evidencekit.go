// Package evidencekit lets tests read recorded evidence: real artifacts,
// attestations and trust material.
package evidencekit

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
)

// root is the module's folder.
func root(t testing.TB) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("no source position")
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Path is the name of a file in testdata/evidence.
func Path(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(root(t), "testdata", "evidence", name)
}

// File reads a file of testdata/evidence.
func File(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// BesidePath is the name of a file that lies beside the project and may not be
// copied into it: answers of the npm registry with their tarballs, from the tests
// of slsa-verifier. A test without it is skipped.
func BesidePath(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(root(t), "..", "shared", "fixtures", "npm-attestations", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("fixture %s is not beside the project", name)
	}
	return path
}

// Beside reads a file of [BesidePath].
func Beside(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(BesidePath(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Root is a trusted root of testdata/evidence, such as public-good.2023.
func Root(t testing.TB, name string) *sigstore.File {
	t.Helper()
	return &sigstore.File{Name: "trusted_root", Body: File(t, "trusted_root."+name+".json")}
}

// Digests are the digests of bytes.
func Digests(b []byte) admission.DigestSet {
	s2, s5 := sha256.Sum256(b), sha512.Sum512(b)
	return admission.DigestSet{"sha256": hex.EncodeToString(s2[:]), "sha512": hex.EncodeToString(s5[:])}
}

// Bytes binds bytes as an npm package.
func Bytes(name, version string, b []byte) *admission.ArtifactBinding {
	return &admission.ArtifactBinding{
		Schema: admission.BindingSchema, Kind: admission.KindBytes, PackageType: admission.TypeNPM,
		Identifier: name, Version: version, Transport: "stdio", Locator: name + "-" + version + ".tgz",
		RetrievedAt: "2026-03-04T05:06:07.000Z",
		Bytes:       &admission.BytesBinding{Digests: Digests(b), Size: int64(len(b))},
	}
}
