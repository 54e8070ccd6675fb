package admit_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"counterfoil/internal/admit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
)

// TestADM13_ADM19_ADM20_AnotherRootQuarantines judges the same evidence under the
// root of another instance.
func TestADM13_ADM19_ADM20_AnotherRootQuarantines(t *testing.T) {
	r := newRoom(t)
	for _, root := range []string{"trusted_root.scaffolding.json", ""} {
		res := r.admit("privileged", root, sigstoreJS(t, "privileged"))
		if res.Decision != admission.Quarantine || res.ReasonCodes[0] != admission.EvidenceGap || len(res.ReasonCodes) < 2 {
			t.Errorf("root %q: %s %v", root, res.Decision, res.ReasonCodes)
		}
		if len(res.Missing) == 0 || res.Missing[0].Evidence != "attestation:provenance" || res.Missing[0].Class != "privileged" || res.Contract != nil {
			t.Errorf("root %q: missing %+v, contract %v", root, res.Missing, res.Contract)
		}
		// what there was is kept, under a receipt, and found by its reason
		receipt, _, err := admission.Open(r.body(res.Receipt), r.keys())
		if err != nil {
			t.Fatal(err)
		}
		bundle := parsed(t, r.body(receipt.Records.EvidenceBundle), admission.ParseEvidenceBundle)
		if len(bundle.Used) != 0 || len(bundle.Others) != 1 || len(r.body(bundle.Others[0].Evidence)) == 0 {
			t.Errorf("root %q: evidence %+v", root, bundle)
		}
		last := r.events(res.TraceID)
		if e := last[len(last)-1]; e.Action.Status != "failed" || !slices.Contains(e.ReasonCodes, string(admission.EvidenceGap)) {
			t.Errorf("root %q: last event %+v", root, e)
		}
	}
}

// TestADM26_OtherBytesUnderOneVersion admits airtable 1.7.3 and offers 1.7.2 under
// the same version, and the other way round by a digest that an operator pins.
func TestADM26_OtherBytesUnderOneVersion(t *testing.T) {
	r := newRoom(t)
	const server, repo = "io.github.domdomegg/airtable-mcp-server", "https://github.com/domdomegg/airtable-mcp-server.git"
	good := admit.Request{Entry: entry(t, server, "1.7.3", repo, "airtable-mcp-server"), Class: "light", Artifact: evidence("airtable-mcp-server-1.7.3.tgz")}
	first := r.admit("light", "", good)
	want(t, first, admission.Admit, allGood...)
	before := r.body(first.Receipt)
	other := admission.Digest(read(t, evidence("airtable-mcp-server-1.7.2.tgz")))

	bad := good
	bad.Artifact = evidence("airtable-mcp-server-1.7.2.tgz") // same size, same version label
	res := r.admit("light", "", bad)
	want(t, res, admission.Quarantine, admission.MissingArtifactBinding, admission.ArtifactDigestMismatch)
	if d := res.Failed[0].Detail; !strings.Contains(d, strings.TrimPrefix(first.Artifact, "sha256:")) || !strings.Contains(d, strings.TrimPrefix(other, "sha256:")) {
		t.Errorf("detail without both digests: %s", d)
	}
	c, err := r.client.Contract(t.Context(), server)
	if err != nil || c.Value.Contracts[0].Receipt != first.Receipt || string(r.body(first.Receipt)) != string(before) {
		t.Errorf("the first admission changed: %v %v", c, err)
	}

	// the next version is another artifact of the server, and has a receipt of its own
	next := admit.Request{Entry: entry(t, server, "1.7.2", repo, "airtable-mcp-server"), Class: "light", Artifact: evidence("airtable-mcp-server-1.7.2.tgz")}
	next.Expected = admission.DigestSet{"sha256": strings.TrimPrefix(first.Artifact, "sha256:")}
	want(t, r.admit("light", "", next), admission.Quarantine, admission.MissingArtifactBinding, admission.ArtifactDigestMismatch)
	next.Expected = nil
	second := r.admit("light", "", next)
	want(t, second, admission.Admit, allGood...)
	if second.Artifact != other || second.Receipt == first.Receipt {
		t.Errorf("second %+v", second)
	}
}

// TestADM29_ClassesDemandDifferentEvidence offers a server without attestation to
// three classes.
func TestADM29_ClassesDemandDifferentEvidence(t *testing.T) {
	r := newRoom(t)
	for class, d := range map[string]admission.Decision{"light": admission.Admit, "standard": admission.Quarantine, "privileged": admission.Quarantine} {
		req := admit.Request{Entry: entry(t, "io.github.domdomegg/airtable-mcp-server", "1.7.2", "https://github.com/domdomegg/airtable-mcp-server", "airtable-mcp-server"),
			Class: class, Artifact: evidence("airtable-mcp-server-1.7.2.tgz")}
		res := r.admit(class, publicGood, req)
		if res.Decision != d || d == admission.Quarantine && !slices.Contains(res.ReasonCodes, admission.AttestationMissing) {
			t.Errorf("%s: %s %v", class, res.Decision, res.ReasonCodes)
		}
	}
}

// TestADM13_EvidenceThatIsNone: two signatures, evidence about other bytes, and a
// file that nobody reads.
func TestADM13_EvidenceThatIsNone(t *testing.T) {
	r := newRoom(t)
	for file, code := range map[string]admission.Code{
		evidence("dsse-2sigs.sigstore.json"):           admission.AttestationSignatureCount,
		evidence("dsse.sigstore.json"):                 admission.ArtifactDigestMismatch,
		write(t, "other.json", []byte(`{"a":"file"}`)): admission.AttestationMalformed,
	} {
		req := sigstoreJS(t, "standard")
		req.Evidence = []string{file}
		want(t, r.admit("standard", publicGood, req), admission.Quarantine, admission.EvidenceGap, code)
	}
}

// shared are inputs that stay outside of the project.
func shared(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join("..", "..", "..", "shared", "fixtures", name)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("%s is not here", name)
	}
	return file
}

// TestADM13_ADM15_AttestationsOfAnNPMRegistry judges the answers of a registry's
// attestation interface: a good one, and one whose provenance is broken.
func TestADM13_ADM15_AttestationsOfAnNPMRegistry(t *testing.T) {
	r := newRoom(t)
	run := func(suffix string) *admit.Result {
		m := material(t, publicGood)
		m.NPMKeys = &sigstore.File{Name: "npm_keys", Body: read(t, evidence("npm-keys.json"))}
		file := shared(t, "npm-attestations/gundam-visor-cli-v1-tag"+suffix+".tgz")
		server := entry(t, "io.github.ramonpetgrave64/gundam-visor", "1.0.1", "https://github.com/ramonpetgrave64/gundam-visor", "gundam-visor")
		return r.run(shipped(t, "standard"), m, "", admit.Request{Entry: server, Class: "standard", Artifact: file, Evidence: []string{file + ".json"}})
	}
	good := run("")
	want(t, good, admission.Admit, allGood...)
	bad := run("-invalidsigprov")
	want(t, bad, admission.Quarantine, admission.EvidenceGap, admission.AttestationTampered)
	c, err := r.client.Contract(t.Context(), "io.github.ramonpetgrave64/gundam-visor")
	if err != nil || c.Value.Contracts[0].Receipt != good.Receipt {
		t.Errorf("a quarantine changed the contract: %v %v", c, err)
	}
}

// TestADM05_ADM22_ADM26_EntriesOfARegistrySeed admits the entries of a registry's own
// seed by the one path that is chosen, and says what stands in the way of the others.
func TestADM05_ADM22_ADM26_EntriesOfARegistrySeed(t *testing.T) {
	var seed []json.RawMessage
	if err := json.Unmarshal(read(t, shared(t, "mcp-registry/seed.json")), &seed); err != nil {
		t.Fatal(err)
	}
	if len(seed) != 4 {
		t.Fatalf("%d entries", len(seed))
	}
	r := newRoom(t)
	files := []string{write(t, "a.json", seed[0]), write(t, "b.json", seed[1]), write(t, "c.json", seed[2]), write(t, "d.json", seed[3])}
	light := func(req admit.Request) (*admit.Result, error) {
		req.Class = "light"
		return r.try(shipped(t, "light"), material(t, ""), "", req)
	}
	// several ways and none chosen: nothing is recorded
	var usage *admit.Usage
	if _, err := light(admit.Request{Entry: files[0]}); !errors.As(err, &usage) || !strings.Contains(err.Error(), "oci:docker.io/domdomegg/airtable-mcp-server:1.7.2") {
		t.Errorf("no choice: %v", err)
	}
	for _, c := range []struct {
		file, pkg, artifact string
		decision            admission.Decision
		codes               []admission.Code
	}{
		{files[0], "npm", evidence("airtable-mcp-server-1.7.2.tgz"), admission.Admit, allGood},
		{files[1], "npm:airtable-mcp-server", evidence("airtable-mcp-server-1.7.3.tgz"), admission.Admit, allGood},
		{files[1], "mcpb", evidence("airtable-mcp-server-1.7.3.tgz"), admission.Quarantine, []admission.Code{admission.MissingArtifactBinding, admission.ArtifactUnsafe}},
		{files[2], "", "", admission.Quarantine, []admission.Code{admission.MissingArtifactBinding, admission.ArtifactUnsupported}},
		{files[3], "", "", admission.Quarantine, []admission.Code{admission.MissingArtifactBinding, admission.ArtifactUnresolved}},
	} {
		res, err := light(admit.Request{Entry: c.file, Package: c.pkg, Artifact: c.artifact})
		if err != nil {
			t.Errorf("%s %s: %v", c.file, c.pkg, err)
			continue
		}
		want(t, res, c.decision, c.codes...)
		receipt, _, err := admission.Open(r.body(res.Receipt), r.keys())
		if err != nil {
			t.Fatal(err)
		}
		s := parsed(t, r.body(receipt.Records.RegistrySnapshot), admission.ParseSnapshot)
		if got := admission.Digest(read(t, c.file)); s.Raw.Digest != got || string(r.body(got)) != string(read(t, c.file)) {
			t.Errorf("raw digest %s, want %s", s.Raw.Digest, got)
		}
		if c.decision == admission.Admit {
			b := parsed(t, r.body(receipt.Records.ArtifactBinding), admission.ParseBinding)
			if b.PackageType != "npm" || b.Bytes.Digests["sha512"] == "" {
				t.Errorf("binding %+v", b)
			}
		}
	}
}
