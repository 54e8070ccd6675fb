package sigstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/admission"
)

func TestCLM06_ProvenanceIsReadAsFarAsItGoes(t *testing.T) {
	const v1 = `{"buildDefinition":{"buildType":"t","externalParameters":%s,"resolvedDependencies":%s},"runDetails":{"builder":{"id":"b"},"metadata":{"invocationId":"i"}}}`
	tests := []struct {
		name, predicateType, predicate string
		want                           *admission.Provenance
	}{
		{
			"the dependency of the workflow's repository", ProvenanceV1,
			fmt.Sprintf(v1, `{"workflow":{"ref":"refs/tags/v1","repository":"https://g/r"}}`, `[{"uri":"git+https://g/other@x","digest":{"gitCommit":"aa"}},{"uri":"git+https://g/r@refs/tags/v1","digest":{"sha256":"cc","gitCommit":"bb"}}]`),
			&admission.Provenance{BuilderID: "b", BuildType: "t", SourceURI: "https://g/r", SourceRef: "refs/tags/v1", SourceDigest: "gitCommit:bb", Invocation: "i"},
		},
		{
			"no dependency of the workflow's repository", ProvenanceV1,
			fmt.Sprintf(v1, `{"workflow":{"ref":"refs/tags/v1","repository":"https://g/r"}}`, `[{"uri":"git+https://g/other@x","digest":{"gitCommit":"aa"}}]`),
			&admission.Provenance{BuilderID: "b", BuildType: "t", SourceURI: "https://g/r", SourceRef: "refs/tags/v1", Invocation: "i"},
		},
		{
			"no workflow", ProvenanceV1,
			fmt.Sprintf(v1, `{}`, `[{"uri":"git+https://g/r@refs/heads/x","digest":{"sha1":"dd"}}]`),
			&admission.Provenance{BuilderID: "b", BuildType: "t", SourceURI: "https://g/r", SourceRef: "refs/heads/x", SourceDigest: "sha1:dd", Invocation: "i"},
		},
		{
			"a workflow of another form", ProvenanceV1, fmt.Sprintf(v1, `{"workflow":"x.yml"}`, `[]`),
			&admission.Provenance{BuilderID: "b", BuildType: "t", Invocation: "i"},
		},
		{
			"version 0.2", ProvenanceV02, `{"builder":{"id":"b"},"buildType":"t","invocation":{"configSource":{"uri":"git+https://g/r@refs/heads/main","digest":{"sha1":"dd"}}},"metadata":{"buildInvocationId":"i"}}`,
			&admission.Provenance{BuilderID: "b", BuildType: "t", SourceURI: "https://g/r", SourceRef: "refs/heads/main", SourceDigest: "sha1:dd", Invocation: "i"},
		},
		{"another type", "https://example.com/x", `{"builder":{"id":"b"}}`, nil},
		{"another form", ProvenanceV1, `[]`, nil},
		{"another form of an old one", ProvenanceV02, `{"builder":7}`, nil},
		{"nothing in it", ProvenanceV1, `{}`, nil},
		{"texts that no record holds", ProvenanceV02, `{"builder":{"id":"b\u0007"},"buildType":"` + strings.Repeat("x", 3000) + `"}`, nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, provenance(tt.predicateType, []byte(tt.predicate))); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func manySubjects(n int) string {
	var b strings.Builder
	b.WriteString(`{"_type":"https://in-toto.io/Statement/v1","predicateType":"x","subject":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"f%d","digest":{"sha256":"%064x"}}`, i, i)
	}
	b.WriteString(`]}`)
	return b.String()
}

func TestADM26_TheArtifactIsFoundAmongManySubjects(t *testing.T) {
	s, err := readStatement([]byte(manySubjects(maxSubjects)))
	if err != nil {
		t.Fatal(err)
	}
	last := fmt.Sprintf("%064x", maxSubjects-1)
	a := &admission.ArtifactBinding{Bytes: &admission.BytesBinding{Digests: admission.DigestSet{"sha256": last}}}
	kept := subjects(s.subjects, a)
	if len(kept) != admission.MaxSubjects || kept[0].Digests["sha256"] != last || kept[1].Name != "f0" {
		t.Errorf("%d subjects, first %v", len(kept), kept[:2])
	}
	if f := matchSubject(admission.Finding{State: admission.FindingVerified}, s.subjects, a); f.State != admission.FindingVerified {
		t.Errorf("%s: %s", f.Code, f.Detail)
	}
	a.Bytes.Digests["sha256"] = strings.Repeat("f", 64)
	if f := matchSubject(admission.Finding{}, s.subjects, a); f.Code != admission.ArtifactDigestMismatch || strings.Count(f.Detail, "sha256:") != 4 {
		t.Errorf("%s: %s", f.Code, f.Detail)
	}
}

func TestADM13_StatementsAreBounded(t *testing.T) {
	const good = `{"_type":"https://in-toto.io/Statement/v1","predicateType":"x","subject":[{"name":"a","digest":{"sha256":"aa"}}],"more":1}`
	if _, err := readStatement([]byte(good)); err != nil {
		t.Fatal(err)
	}
	replace := func(from, to string) string { return strings.Replace(good, from, to, 1) }
	for name, bad := range map[string]string{
		"many subjects":       manySubjects(maxSubjects + 1),
		"no type":             replace(`"_type":"https://in-toto.io/Statement/v1",`, ""),
		"no predicate type":   replace(`"predicateType":"x",`, ""),
		"long predicate type": replace(`"x"`, `"`+strings.Repeat("x", 256)+`"`),
		"escape in a type":    replace(`"x"`, `"x\u001b[2J"`),
		"no digest":           replace(`{"sha256":"aa"}`, `{}`),
		"empty digest":        replace(`"aa"`, `""`),
		"long digest":         replace(`"aa"`, `"`+strings.Repeat("a", 256)+`"`),
		"long name":           replace(`"a"`, `"`+strings.Repeat("a", 2049)+`"`),
		"escape in a name":    replace(`"a"`, `"\u0000"`),
		"digest twice":        replace(`"sha256":"aa"`, `"sha256":"aa","sha256":"bb"`),
		"something behind it": good + "{}",
		"no UTF-8":            replace(`"a"`, "\"\xff\""),
	} {
		if _, err := readStatement([]byte(bad)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func FuzzStatement(f *testing.F) {
	f.Add([]byte(manySubjects(2)))
	f.Add([]byte(`{"_type":"https://in-toto.io/Statement/v0.1","predicateType":"https://slsa.dev/provenance/v1","subject":[{"name":"a","digest":{"sha512":"aa"}}],"predicate":{"buildDefinition":{"externalParameters":{"workflow":{"ref":"r"}},"resolvedDependencies":[{"uri":"git+https://g/r@r","digest":{"gitCommit":"a"}}]}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := readStatement(b)
		if err != nil {
			return
		}
		finding := admission.Finding{
			Evidence: admission.Digest(b), Locator: "x", Verifier: "sigstore", State: admission.FindingVerified, Signer: &admission.Signer{KeyID: "k"},
			Payload: admission.Digest(b), PredicateType: s.predicateType, Subjects: subjects(s.subjects, nil), Provenance: s.provenance,
		}
		if err := finding.Validate(); err != nil {
			t.Errorf("what was read fits no record: %v", err)
		}
		if !json.Valid(b) {
			t.Error("read, and no JSON")
		}
	})
}
