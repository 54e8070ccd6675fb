package evidence_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/admission/evidence/mcpb"
	"counterfoil/ledger/admission/evidence/npm"
	"counterfoil/ledger/admission/evidence/pypi"
	"counterfoil/ledger/admission/evidence/sigstore"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/event"
)

var now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func fetcher(t testing.TB) *fetch.Fetcher {
	t.Helper()
	f, err := fetch.New(fetch.Config{Now: func() time.Time { return now }, Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// verifiers are all of them, with one trust root and npm's keys.
func verifiers(t testing.TB, root string) []admission.Verifier {
	t.Helper()
	r := evidencekit.Root(t, root)
	n, err := npm.NewVerifier(r, &sigstore.File{Name: "npm_keys", Body: evidencekit.File(t, "npm-keys.json")})
	if err != nil {
		t.Fatal(err)
	}
	p, err := pypi.NewVerifier(r)
	if err != nil {
		t.Fatal(err)
	}
	m, err := mcpb.NewVerifier(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sigstore.New(sigstore.Config{Root: r})
	if err != nil {
		t.Fatal(err)
	}
	return []admission.Verifier{n, p, m, s}
}

func shipped(t testing.TB, name string) *policy.Policy {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "policies", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// subject is what an admission is asked for.
type subject struct {
	server, name, version, repository string
	tarball                           string // file
	evidence                          []string
}

var sigstore200 = subject{server: "io.github.sigstore/sigstore", name: "sigstore", version: "2.0.0", repository: "https://github.com/sigstore/sigstore-js"}

func (s subject) entry() string {
	return `{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"` + s.server +
		`","description":"x","repository":{"url":"` + s.repository + `","source":"github"},"version":"` + s.version +
		`","packages":[{"registryType":"npm","identifier":"` + s.name + `","version":"` + s.version + `","transport":{"type":"stdio"}}]}`
}

// admit goes the whole way offline: entry, artifact, evidence, decision.
func admit(t testing.TB, s subject, class, root string) *admission.Judgement {
	t.Helper()
	ctx, at := t.Context(), event.FormatTime(now)
	snapshot, err := admission.NewSnapshot("file:server.json", admission.ParseEntry([]byte(s.entry())), admission.Asserted, at)
	if err != nil {
		t.Fatal(err)
	}
	f, all := fetcher(t), verifiers(t, root)
	resolver, err := npm.NewResolver(npm.Config{Fetch: f})
	if err != nil {
		t.Fatal(err)
	}
	in := &admission.Input{Class: class, Snapshot: snapshot, At: now}
	res, err := resolver.Resolve(ctx, admission.Selection{Server: snapshot.Entry, Package: &snapshot.Entry.Packages[0], Override: s.tarball})
	if err != nil {
		t.Fatal(err)
	}
	in.Binding, in.BindingFailure, in.Checks, in.Sources = res.Binding, res.Failure, res.Checks, res.Sources
	files, sources, err := evidence.Read(ctx, f, s.evidence...)
	if err != nil {
		t.Fatal(err)
	}
	in.Sources = append(in.Sources, sources...)
	if in.Findings, err = evidence.Judge(ctx, all, append(res.Evidence, files...), in.Binding); err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		in.Verifiers = append(in.Verifiers, v.Info())
	}
	return admission.Decide(in, shipped(t, class))
}

func wantCodes(t *testing.T, j *admission.Judgement, decision admission.Decision, codes ...admission.Code) {
	t.Helper()
	if j.Decision != decision || !slices.Equal(j.ReasonCodes, codes) {
		t.Errorf("%s %v, want %s %v\n%+v", j.Decision, j.ReasonCodes, decision, codes, j.Verdicts)
	}
}

var passed = []admission.Code{admission.NamespaceAuthenticated, admission.ArtifactDigestBound, admission.AttestationPolicyPass}

func TestADM29_RealProvenanceIsAdmittedAndAnotherTrustRootIsNot(t *testing.T) {
	s := sigstore200
	s.tarball, s.evidence = evidencekit.Path(t, "sigstore-2.0.0.tgz"), []string{evidencekit.Path(t, "sigstore-2.0.0.provenance.json")}
	for _, class := range []string{"light", "standard", "privileged"} {
		wantCodes(t, admit(t, s, class, "npm-seed"), admission.Admit, passed...)
	}
	wantCodes(t, admit(t, s, "privileged", "scaffolding"), admission.Quarantine, admission.EvidenceGap, admission.TrustRootLogUnknown)
	s.evidence = nil
	wantCodes(t, admit(t, s, "light", "npm-seed"), admission.Admit, passed...)
	wantCodes(t, admit(t, s, "privileged", "npm-seed"), admission.Quarantine, admission.EvidenceGap, admission.AttestationMissing)
	// Evidence that could not be read is no evidence that is missing.
	s.evidence = []string{filepath.Join(t.TempDir(), "none.json"), t.TempDir() + "\x00"}
	wantCodes(t, admit(t, s, "privileged", "npm-seed"), admission.Quarantine, admission.EvidenceGap, admission.EvidenceUnavailable)
}

func TestADM10_EqualBytesUnderAnotherNameAreAnothersProvenance(t *testing.T) {
	s := sigstore200
	s.tarball, s.evidence = evidencekit.Path(t, "sigstore-2.0.0.tgz"), []string{evidencekit.Path(t, "sigstore-2.0.0.provenance.json")}
	s.name = "sigstore-copy"
	j := admit(t, s, "standard", "npm-seed")
	// The bytes say themselves that they are another package; the evidence too.
	wantCodes(t, j, admission.Quarantine, admission.ArtifactVersionMismatch)
	found := false
	for _, v := range j.Verdicts {
		found = found || slices.Equal(v.Codes, []admission.Code{admission.EvidenceGap, admission.SubjectNameMismatch})
	}
	if !found {
		t.Errorf("no verdict says that the subject has another name: %+v", j.Verdicts)
	}
}

func TestADM13_TwoSignaturesAreNoEvidence(t *testing.T) {
	s := sigstore200
	s.tarball, s.evidence = evidencekit.Path(t, "sigstore-2.0.0.tgz"), []string{evidencekit.Path(t, "dsse-2sigs.sigstore.json")}
	wantCodes(t, admit(t, s, "standard", "npm-seed"), admission.Quarantine, admission.EvidenceGap, admission.AttestationSignatureCount)
}

func TestADM13_RealNPMAttestationsGoodAndBroken(t *testing.T) {
	s := subject{server: "io.github.ramonpetgrave64/gundam-visor", name: "gundam-visor", version: "1.0.1", repository: "https://github.com/ramonpetgrave64/gundam-visor"}
	good, broken := "gundam-visor-cli-v1-tag.tgz", "gundam-visor-cli-v1-tag-invalidsigprov.tgz"
	s.tarball, s.evidence = evidencekit.BesidePath(t, good), []string{evidencekit.BesidePath(t, good+".json")}
	j := admit(t, s, "standard", "npm-seed")
	wantCodes(t, j, admission.Admit, passed...)
	if len(j.Used) != 1 {
		t.Errorf("%d attestations are used, want the provenance alone", len(j.Used))
	}
	wantCodes(t, admit(t, s, "privileged", "npm-seed"), admission.Quarantine, admission.EvidenceGap, admission.SignerIdentityMismatch)
	s.tarball, s.evidence = evidencekit.BesidePath(t, broken), []string{evidencekit.BesidePath(t, broken+".json")}
	wantCodes(t, admit(t, s, "standard", "npm-seed"), admission.Quarantine, admission.EvidenceGap, admission.AttestationTampered)
}

func TestADM29_ARealServerWithoutAttestations(t *testing.T) {
	s := subject{server: "io.github.domdomegg/airtable-mcp-server", name: "airtable-mcp-server", version: "1.7.2", repository: "https://github.com/domdomegg/airtable-mcp-server.git"}
	s.tarball = evidencekit.Path(t, "airtable-mcp-server-1.7.2.tgz")
	wantCodes(t, admit(t, s, "light", "npm-seed"), admission.Admit, passed...)
	wantCodes(t, admit(t, s, "standard", "npm-seed"), admission.Quarantine, admission.EvidenceGap, admission.AttestationMissing)
	s.tarball = evidencekit.Path(t, "airtable-mcp-server-1.7.3.tgz")
	wantCodes(t, admit(t, s, "light", "npm-seed"), admission.Quarantine, admission.ArtifactVersionMismatch)
	s.server = "com.example/other"
	s.tarball = evidencekit.Path(t, "airtable-mcp-server-1.7.2.tgz")
	wantCodes(t, admit(t, s, "light", "npm-seed"), admission.Quarantine, admission.MCPNameMismatch)
}

func TestADM07_EvidenceIsReadFromFilesAndFolders(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string]string{"b.json": "b", "a.sigstore": "a", "c.txt": "c", ".hidden.json": "h"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "deeper.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(dir, "gone.json")
	files, sources, err := evidence.Read(t.Context(), fetcher(t), dir, filepath.Join(dir, "c.txt"), gone, "https://u:p@example.com/x?token=y")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, strings.TrimPrefix(f.Locator, dir+"/")+"="+string(f.Body))
	}
	if diff := cmp.Diff([]string{"a.sigstore=a", "b.json=b", "c.txt=c"}, got); diff != "" {
		t.Error(diff)
	}
	var states []string
	for _, s := range sources {
		states = append(states, s.State)
	}
	if diff := cmp.Diff([]string{"found", "found", "found", "none", "unavailable"}, states); diff != "" || sources[4].Locator != "https://example.com/x" {
		t.Errorf("%s %s", diff, sources[4].Locator)
	}
	if _, _, err := evidence.Read(t.Context(), fetcher(t), t.TempDir()); err == nil {
		t.Error("a folder without evidence is no error")
	}
	for i := range admission.MaxEvidenceFiles + 1 {
		if err := os.WriteFile(filepath.Join(dir, "f"+strings.Repeat("x", i)+".json"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := evidence.Read(t.Context(), fetcher(t), dir); err == nil {
		t.Error("too many files are no error")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, _, err := evidence.Read(ctx, fetcher(t), gone+"x", filepath.Join(dir, "a.sigstore")); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
}

func TestADM07_EachFileIsJudgedOnceByWhoReadsIt(t *testing.T) {
	bundle := evidencekit.File(t, "sigstore-2.0.0.provenance.json")
	a := evidencekit.Bytes("sigstore", "2.0.0", evidencekit.File(t, "sigstore-2.0.0.tgz"))
	block := evidencekit.File(t, "hello-1.0.0.signed.mcpb")[416:]
	files := []admission.Evidence{
		{Locator: "1", Body: bundle},
		{Locator: "2", Body: []byte(`{"attestations":[{"predicateType":"https://slsa.dev/provenance/v1","bundle":` + string(bundle) + `}]}`)},
		{Locator: "3", Body: bundle},
		{Locator: "4", Body: []byte("something else")},
		{Locator: "5", Body: block},
		{Locator: "6", Body: []byte(`{"version":1,"attestation_bundles":[]}`)},
	}
	findings, err := evidence.Judge(t.Context(), verifiers(t, "npm-seed"), files, a)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range findings {
		if err := f.Validate(); err != nil {
			t.Errorf("finding: %v", err)
		}
		got = append(got, strings.TrimSuffix(f.Locator+" "+f.Verifier+" "+string(f.Code), " "))
	}
	want := []string{"1 sigstore", "2 npm", "4 none attestation_malformed", "5 mcpb artifact_digest_mismatch", "6 pypi attestation_missing"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := evidence.Judge(ctx, verifiers(t, "npm-seed"), files, a); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
}

// An admission offline, without the log: the aim is under 60 ms. Trust material is
// read and the policy loaded each time, which a server does once.
func BenchmarkOfflineAdmission(b *testing.B) {
	s := sigstore200
	s.tarball, s.evidence = evidencekit.Path(b, "sigstore-2.0.0.tgz"), []string{evidencekit.Path(b, "sigstore-2.0.0.provenance.json")}
	for b.Loop() {
		if j := admit(b, s, "privileged", "npm-seed"); j.Decision != admission.Admit {
			b.Fatal(j.ReasonCodes)
		}
	}
}

// Verifiers are shared by all admissions and reviews of a process.
func TestVerifiersAreSafeForConcurrentUse(t *testing.T) {
	all := verifiers(t, "npm-seed")
	a := evidencekit.Bytes("sigstore", "2.0.0", evidencekit.File(t, "sigstore-2.0.0.tgz"))
	files := []admission.Evidence{
		{Locator: "1", Body: evidencekit.File(t, "sigstore-2.0.0.provenance.json")},
		{Locator: "2", Body: evidencekit.File(t, "dsse.sigstore.json")},
		{Locator: "3", Body: evidencekit.File(t, "hello-1.0.0.signed.mcpb")[416:]},
	}
	want, err := evidence.Judge(t.Context(), all, files, a)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			got, err := evidence.Judge(t.Context(), all, files, a)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
	group.Wait()
}
