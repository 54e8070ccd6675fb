package vsa

import (
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
