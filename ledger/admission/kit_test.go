package admission_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/event"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const (
	githubActions = "https://token.actions.githubusercontent.com"
	releaseYML    = "https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main"
	slsaV1        = "https://slsa.dev/provenance/v1"
)

// shipped reads one of the policies that are shipped.
func shipped(t testing.TB, name string) *policy.Policy {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", "policies", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// seeds are the four entries that the official registry starts from.
func seeds(t testing.TB) []jsontext.Value {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "registry-seed.json"))
	if err != nil {
		t.Fatal(err)
	}
	var entries []jsontext.Value
	if err := json.Unmarshal(b, &entries); err != nil || len(entries) != 4 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	return entries
}

const sigstoreEntry = `{
  "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
  "name": "io.github.sigstore/sigstore",
  "description": "A package with real provenance.",
  "repository": {"url": "https://github.com/sigstore/sigstore-js", "source": "github"},
  "version": "2.0.0",
  "packages": [{"registryType": "npm", "identifier": "sigstore", "version": "2.0.0", "transport": {"type": "stdio"}}]
}`

func snapshot(t testing.TB, raw string) *admission.RegistrySnapshot {
	t.Helper()
	s, err := admission.NewSnapshot("file:server.json", admission.ParseEntry([]byte(raw)), admission.Asserted, event.FormatTime(at))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hexes is a digest of n bytes that nobody takes for a real one.
func hexes(c string, n int) string { return strings.Repeat(c, 2*n) }

func binding() *admission.ArtifactBinding {
	return &admission.ArtifactBinding{
		Schema: admission.BindingSchema, Kind: admission.KindBytes, PackageType: "npm", Identifier: "sigstore", Version: "2.0.0",
		Transport: "stdio", Locator: "https://npm.example/sigstore/-/sigstore-2.0.0.tgz", RetrievedAt: event.FormatTime(at),
		Bytes: &admission.BytesBinding{
			Digests:   admission.DigestSet{"sha256": hexes("2", 32), "sha512": hexes("3", 64)},
			Size:      37200,
			MediaType: "application/gzip",
		},
	}
}

// attestation is provenance as a verifier reports it.
func attestation(n string) admission.Finding {
	return admission.Finding{
		Evidence: "sha256:" + hexes(n, 32), Locator: "provenance-" + n + ".json", MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
		Verifier: "sigstore", State: admission.FindingVerified, Payload: "sha256:" + hexes(n, 32), PredicateType: slsaV1,
		Subjects: []admission.Subject{{Name: "pkg:npm/sigstore@2.0.0", Digests: admission.DigestSet{"sha512": hexes("3", 64)}}},
		Signer: &admission.Signer{
			Issuer: githubActions, Identity: releaseYML, SourceRepository: "https://github.com/sigstore/sigstore-js",
			SourceRepositoryRef: "refs/heads/main", RunnerEnvironment: "github-hosted",
		},
		SignedAt:   "2023-08-18T16:05:35.000Z",
		Provenance: &admission.Provenance{BuilderID: "https://github.com/actions/runner/github-hosted"},
	}
}

// input is an admission that everything speaks for.
func input(t testing.TB) *admission.Input {
	return &admission.Input{
		Class: "privileged", Snapshot: snapshot(t, sigstoreEntry), Binding: binding(),
		Findings: []admission.Finding{attestation("4")},
		Checks:   []admission.Check{{ID: admission.CheckVersion, State: admission.CheckPass}, {ID: admission.CheckMCPName, State: admission.CheckAbsent}},
		Sources:  []admission.Source{{Locator: "https://npm.example", State: admission.SourceFound}},
		Verifiers: []admission.VerifierInfo{{
			ID: "sigstore", Version: "1.3.0",
			Trust: []admission.TrustMaterial{{Name: "trusted_root", Digest: "sha256:" + hexes("5", 32)}},
		}},
		At: at,
	}
}

func wantJudged(t *testing.T, j *admission.Judgement, d admission.Decision, codes ...admission.Code) {
	t.Helper()
	if j.Decision != d || !slices.Equal(j.ReasonCodes, codes) {
		t.Errorf("got %s %v, want %s %v\nverdicts: %+v", j.Decision, j.ReasonCodes, d, codes, j.Verdicts)
	}
	if len(j.ReasonCodes) == 0 {
		t.Error("no reason code")
	}
	if j.Decision == admission.Admit && len(j.Missing) > 0 {
		t.Errorf("admit with missing evidence %+v", j.Missing)
	}
}

// set makes the records of a judgement; a judgement that cannot be recorded is
// worth nothing.
func set(t testing.TB, j *admission.Judgement, p admission.Policy) *admission.Set {
	t.Helper()
	s, err := admission.NewSet(j, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
