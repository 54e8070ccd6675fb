package admission_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
)

func TestARC05_CodesOfArchiveAndEvidenceWakeDifferentPeople(t *testing.T) {
	for _, c := range admission.Codes() {
		info, _ := c.Info()
		switch {
		case strings.HasPrefix(string(c), "archive_"):
			if info.Route != admission.RoutePlatform || info.Gate != admission.GateArchive {
				t.Errorf("%s: %+v", c, info)
			}
		case strings.HasPrefix(string(c), "evidence_"):
			if info.Route != admission.RoutePublisher && info.Route != admission.RoutePolicy {
				t.Errorf("%s: %+v", c, info)
			}
		}
	}
}

func TestARC04_ArchiveFailuresAreTyped(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range []admission.Code{
		admission.ArchivePermissionDenied, admission.ArchiveRetentionDenied,
		admission.ArchiveDigestEncoding, admission.ArchiveFull, admission.ArchiveUnreachable,
	} {
		info, ok := c.Info()
		if !ok || info.Gate != admission.GateArchive || seen[info.Meaning] {
			t.Errorf("%s: %+v", c, info)
		}
		seen[info.Meaning] = true
	}
}

// The list of states that an admission needs at least.
func TestADM10_RequiredStatesAreRegistered(t *testing.T) {
	for _, s := range []string{
		"namespace_unverified", "artifact_unresolved", "artifact_digest_mismatch", "file_sha256_mismatch", "mcp_name_mismatch",
		"subject_name_mismatch", "attestation_missing", "attestation_type_mismatch", "attestation_tampered", "signer_identity_mismatch",
		"signer_key_unknown", "signer_key_not_valid_at_signing", "trust_root_log_unknown", "provenance_regressed",
		"schema_version_unsupported", "remote_not_byte_pinnable", "policy_no_match", "archive_write_failed",
	} {
		if _, ok := admission.ParseCode(s); !ok {
			t.Errorf("%s is not registered", s)
		}
	}
}

func TestADM08_CodesHaveTheFormOfReasonCodes(t *testing.T) {
	aliases := make(map[string]bool)
	for _, c := range admission.Codes() {
		info, _ := c.Info()
		if !event.ValidReasonCode(string(c)) || strings.Contains(string(c), "-") || info.Meaning == "" || info.Route == "" || !slices.Contains(admission.Gates, info.Gate) {
			t.Errorf("%s: %+v", c, info)
		}
		for _, a := range info.Aliases {
			if _, taken := admission.Code(a).Info(); taken || aliases[a] {
				t.Errorf("alias %s is taken", a)
			}
			aliases[a] = true
		}
	}
}

// The specification prints the registry.
func TestADM08_SpecificationHasEveryCode(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "spec", "admission.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, g := range admission.Gates {
		for _, c := range admission.Codes() {
			if info, _ := c.Info(); info.Gate == g {
				row := fmt.Sprintf("| `%s` | %s | %s | %s |", c, info.Gate, info.Route, info.Meaning)
				want = append(want, row)
				if !strings.Contains(string(b), row+"\n") {
					t.Errorf("docs/spec/admission.md lacks\n%s", row)
				}
			}
		}
	}
	if n := strings.Count(string(b), " | "+string(admission.RoutePlatform)+" | ") + strings.Count(string(b), " | "+string(admission.RoutePolicy)+" | ") +
		strings.Count(string(b), " | "+string(admission.RoutePublisher)+" | ") + strings.Count(string(b), " | "+string(admission.RouteNone)+" | "); n != len(want) {
		t.Errorf("%d rows of codes, want %d", n, len(want))
	}
	if !strings.Contains(string(b), admission.ClaimBoundaryText) {
		t.Error("docs/spec/admission.md lacks the claim boundary's text")
	}
}
