package vsa

import (
	"encoding/json"
	"strings"
	"testing"

	"counterfoil/ledger/admission"
)

// TestADM06_ResourcesByPackageType: a package URL where that says which package it is.
func TestADM06_ResourcesByPackageType(t *testing.T) {
	digest := strings.Repeat("a", 64)
	for _, c := range []struct{ kind, identifier, version, locator, subject, uri string }{
		{"npm", "@scope/name", "1.0.0", "https://npm.example/x.tgz", "pkg:npm/%40scope/name@1.0.0", "pkg:npm/%40scope/name@1.0.0"},
		{"pypi", "Time_MCP", "1.0.6", "https://pypi.example/time_mcp-1.0.6.tar.gz", "time_mcp-1.0.6.tar.gz", "pkg:pypi/time-mcp@1.0.6"},
		{"oci", "ghcr.example/team/server:1.0.0", "", "ghcr.example/team/server@sha256:" + digest, "ghcr.example/team/server",
			"pkg:oci/server@sha256%3A" + digest + "?repository_url=ghcr.example%2Fteam%2Fserver"},
		{"mcpb", "https://example.com/a.mcpb", "", "https://example.com/a.mcpb", "a.mcpb", "https://example.com/a.mcpb"},
	} {
		b := &admission.ArtifactBinding{
			Kind: admission.KindBytes, PackageType: c.kind, Identifier: c.identifier, Version: c.version, Locator: c.locator,
			Bytes: &admission.BytesBinding{Digests: admission.DigestSet{"sha256": digest}},
		}
		if got := subjectName(b); got != c.subject {
			t.Errorf("%s: subject %q, want %q", c.kind, got, c.subject)
		}
		if got := resourceURI(b); got != c.uri {
			t.Errorf("%s: resource %q, want %q", c.kind, got, c.uri)
		}
	}
}

// TestADM17_NoSubjectIsMadeUp: without bytes there is no summary.
func TestADM17_NoSubjectIsMadeUp(t *testing.T) {
	for name, s := range map[string]*admission.Set{
		"no artifact": {Snapshot: &admission.RegistrySnapshot{}, Decision: &admission.PolicyDecision{}, Evidence: &admission.EvidenceBundle{}},
		"deployment": {Snapshot: &admission.RegistrySnapshot{}, Decision: &admission.PolicyDecision{}, Evidence: &admission.EvidenceBundle{},
			Binding: &admission.ArtifactBinding{Kind: admission.KindPinnedDeployment, Deployment: &admission.DeploymentBinding{}}},
	} {
		if payload, ok, err := Statement(s, "", "", "log.example"); ok || payload != nil || err != nil {
			t.Errorf("%s: %s %v %v", name, payload, ok, err)
		}
	}
	if got := Level("standard-remote"); got != "COUNTERFOIL_STANDARD_REMOTE" || strings.HasPrefix(got, "SLSA_") {
		t.Errorf("level %s", got)
	}
}

// TestREV24_TheSubjectOfAReviewIsWhatTheContractPins: also where the receipt is about
// other bytes, or gone; and where nothing names bytes there is no summary.
func TestREV24_TheSubjectOfAReviewIsWhatTheContractPins(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	bound := &admission.ArtifactBinding{Kind: admission.KindBytes, PackageType: "npm", Identifier: "x", Version: "1.0.0",
		Bytes: &admission.BytesBinding{Digests: admission.DigestSet{"sha256": a, "sha512": strings.Repeat("c", 128)}}}
	deployed := &admission.ArtifactBinding{Kind: admission.KindPinnedDeployment, Deployment: &admission.DeploymentBinding{}}
	for name, c := range map[string]struct {
		artifact            string
		binding             *admission.ArtifactBinding
		sha256, subject, in string
		algorithms          int
	}{
		"not pinned":     {"", bound, a, "pkg:npm/x@1.0.0", "pkg:npm/x@1.0.0", 2},
		"the same":       {"sha256:" + a, bound, a, "pkg:npm/x@1.0.0", "pkg:npm/x@1.0.0", 2},
		"other bytes":    {"sha256:" + b, bound, b, "mcp/x", "urn:counterfoil:contract:mcp%2Fx", 1},
		"binding gone":   {"sha256:" + b, nil, b, "mcp/x", "urn:counterfoil:contract:mcp%2Fx", 1},
		"nothing":        {"", nil, "", "", "", 0},
		"a deployment":   {"", deployed, "", "", "", 0},
		"pins, deployed": {"sha256:" + b, deployed, b, "mcp/x", "urn:counterfoil:contract:mcp%2Fx", 1},
	} {
		r := &Reviewed{Review: Review{Disposition: "quarantine", Contract: "mcp/x"}, Policy: admission.PolicyRef{Digest: "sha256:" + a},
			Artifact: c.artifact, Binding: c.binding, Verified: []string{"sha256:" + b, "sha256:" + b}}
		payload, ok, err := ReviewStatement(r, "log.example")
		if err != nil || ok != (c.sha256 != "") || ok != (payload != nil) {
			t.Fatalf("%s: %s %v %v", name, payload, ok, err)
		}
		if !ok {
			continue
		}
		var st statement
		if err := json.Unmarshal(payload, &st); err != nil {
			t.Fatal(err)
		}
		if s := st.Subject[0]; s.Digest["sha256"] != c.sha256 || s.Name != c.subject || len(s.Digest) != c.algorithms {
			t.Errorf("%s: subject %+v", name, s)
		}
		if p := st.Predicate; p.ResourceURI != c.in || p.VerificationResult != "FAILED" || p.Policy.URI != "" || len(p.InputAttestations) != 1 ||
			p.Decision != nil || p.Review == nil || p.Verifier.ID != "https://log.example/review/v1" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
