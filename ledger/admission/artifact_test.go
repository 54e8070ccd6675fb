package admission_test

import (
	"strings"
	"testing"

	"counterfoil/ledger/admission"
)

func TestADM12_ADM17_ADM19_NoBindingQuarantines(t *testing.T) {
	p := shipped(t, "light")
	for name, change := range map[string]func(*admission.Input){
		"none": func(in *admission.Input) { in.Binding = nil },
		"a version and no digest": func(in *admission.Input) {
			in.Binding.Version, in.Binding.Bytes = "0.4.0", nil
		},
		"the version in place of the digest": func(in *admission.Input) {
			in.Binding.Bytes.Digests = admission.DigestSet{"sha256": "0.4.0"}
		},
		"a weak digest alone": func(in *admission.Input) {
			in.Binding.Bytes.Digests = admission.DigestSet{"sha1": hexes("1", 20)}
		},
		"two kinds at once": func(in *admission.Input) {
			in.Binding.Statement = &admission.StatementBinding{Reason: "r", StatedBy: "s"}
		},
	} {
		in := input(t)
		in.Class = "light"
		change(in)
		j := admission.Decide(in, p)
		if j.Decision != admission.Quarantine || j.ReasonCodes[0] != admission.MissingArtifactBinding {
			t.Errorf("%s: %s %v", name, j.Decision, j.ReasonCodes)
			continue
		}
		m := j.Missing[0]
		if m.Class != "light" || m.Evidence != "artifact_digest" || !strings.HasPrefix(m.Detail, "artifact digest missing for resolved transport") {
			t.Errorf("%s: missing %+v", name, m)
		}
		if s := set(t, j, p); s.Binding != nil || s.Decision.Binding != "" {
			t.Errorf("%s: a binding was recorded", name)
		}
	}
}

func TestADM12_FailureOfTheResolverIsTheSecondCode(t *testing.T) {
	for _, code := range []admission.Code{
		admission.ArtifactUnresolved, admission.ArtifactUnsupported,
		admission.ArtifactTooLarge, admission.ArtifactUnsafe,
	} {
		in := input(t)
		in.Binding, in.BindingFailure = nil, &admission.Failure{Code: code, Detail: "d"}
		j := admission.Decide(in, shipped(t, "privileged"))
		wantJudged(t, j, admission.Quarantine, "missing_artifact_binding", code)
	}
}

func TestADM18_RemoteServersGetAnHonestBinding(t *testing.T) {
	const remote = "https://mcp.example/mcp"
	entry := strings.Replace(sigstoreEntry, `"packages": [{"registryType": "npm", "identifier": "sigstore", "version": "2.0.0", "transport": {"type": "stdio"}}]`,
		`"remotes": [{"type": "streamable-http", "url": "`+remote+`"}]`, 1)
	statement := &admission.ArtifactBinding{
		Schema: admission.BindingSchema, Kind: admission.KindNotBytePinnable, PackageType: "remote", Identifier: remote,
		Transport: "streamable-http", Locator: remote, RetrievedAt: "2026-11-30T12:00:00.000Z",
		Statement: &admission.StatementBinding{Reason: "the vendor does not publish what runs", StatedBy: "platform security"},
	}
	in := &admission.Input{Class: "light", Snapshot: snapshot(t, entry), Binding: statement, At: at}
	j := admission.Decide(in, shipped(t, "light"))
	wantJudged(t, j, admission.Quarantine, "remote_not_byte_pinnable")

	p, err := policyWith(t, "light", "bindings: [bytes, pinned_deployment]", "bindings: [bytes, not_byte_pinnable]")
	if err != nil {
		t.Fatal(err)
	}
	// The shipped rule about TLS wants a key, which a statement does not have.
	j = admission.Decide(in, p)
	wantJudged(t, j, admission.Quarantine, "policy_rule_failed")
	if p, err = policyWith(t, "light", "bindings: [bytes, pinned_deployment]", "bindings: [bytes, not_byte_pinnable]", `artifact.tlsKey != "" && `, ""); err != nil {
		t.Fatal(err)
	}
	j = admission.Decide(in, p)
	wantJudged(t, j, admission.Admit, "namespace_authenticated", "artifact_statement_accepted", "attestation_policy_pass")
	s := set(t, j, p)
	span, err := s.Span("admission-record-180d")
	if err != nil {
		t.Fatal(err)
	}
	if span.EvidenceBundle.ArtifactDigest != "" {
		t.Errorf("a digest was invented: %s", span.EvidenceBundle.ArtifactDigest)
	}
	if s.Binding.Kind != admission.KindNotBytePinnable {
		t.Error("the kind of binding is not recorded")
	}
}

func TestADM26_SameVersionOtherBytes(t *testing.T) {
	in := input(t)
	in.Expected = admission.DigestSet{"sha256": hexes("7", 32)}
	j := admission.Decide(in, shipped(t, "privileged"))
	wantJudged(t, j, admission.Quarantine, "artifact_digest_mismatch")
	f := admission.Compare(in.Expected, in.Binding)
	if f == nil || f.Code != admission.ArtifactDigestMismatch ||
		!strings.Contains(f.Detail, "expected sha256:"+hexes("7", 32)) || !strings.Contains(f.Detail, "got sha256:"+hexes("2", 32)) {
		t.Errorf("both digests should be named: %+v", f)
	}
	if f := admission.Compare(binding().Bytes.Digests, in.Binding); f != nil {
		t.Errorf("equal bytes: %+v", f)
	}
	if f := admission.Compare(admission.DigestSet{"sha256": hexes("2", 32), "sha512": hexes("8", 64)}, in.Binding); f == nil || f.Code != admission.ArtifactDigestMismatch {
		t.Errorf("one digest of two differs: %+v", f)
	}
	if f := admission.Compare(admission.DigestSet{"sha384": hexes("8", 48)}, in.Binding); f == nil {
		t.Error("nothing in common is no agreement")
	}
	if f := admission.Compare(admission.DigestSet{"sha1": hexes("8", 20)}, in.Binding); f == nil {
		t.Error("a weak digest is no agreement")
	}
}

func TestADM22_OnlyTheSelectedPathIsBound(t *testing.T) {
	in := input(t)
	other := attestation("5")
	other.PredicateType = "https://github.com/npm/attestation/tree/main/specs/publish/v0.1"
	in.Findings = []admission.Finding{other, attestation("6"), attestation("4")}
	entry := strings.Replace(sigstoreEntry, `"packages": [`, `"packages": [{"registryType": "oci", "identifier": "ghcr.io/sigstore/sigstore:2.0.0", "transport": {"type": "streamable-http", "url": "http://localhost:8080"}}, `, 1)
	in.Snapshot = snapshot(t, entry)
	p := shipped(t, "privileged")
	s := set(t, admission.Decide(in, p), p)
	if len(s.Evidence.Used) != 1 || len(s.Evidence.Others) != 0 || s.Evidence.Used[0].Evidence != attestation("4").Evidence {
		t.Errorf("bound: %+v and %+v", s.Evidence.Used, s.Evidence.Others)
	}
	if s.Binding.Transport != "stdio" || s.Binding.PackageType != "npm" {
		t.Errorf("%+v", s.Binding)
	}
	// A quarantine keeps what it had (ADM-20).
	in.Findings = []admission.Finding{other}
	s = set(t, admission.Decide(in, p), p)
	if len(s.Evidence.Used) != 0 || len(s.Evidence.Others) != 1 {
		t.Errorf("kept: %+v", s.Evidence)
	}
}

// A binding of something that the entry does not name is none of the entry.
func TestADM22_TheBindingIsAPathOfTheEntry(t *testing.T) {
	for name, change := range map[string]func(*admission.ArtifactBinding){
		"other package":   func(a *admission.ArtifactBinding) { a.Identifier = "sigstore2" },
		"other version":   func(a *admission.ArtifactBinding) { a.Version = "2.0.1" },
		"other type":      func(a *admission.ArtifactBinding) { a.PackageType = "pypi" },
		"other transport": func(a *admission.ArtifactBinding) { a.Transport = "sse" },
	} {
		in := input(t)
		in.Class = "light"
		change(in.Binding)
		j := admission.Decide(in, shipped(t, "light"))
		if j.ReasonCodes[0] != admission.ArtifactVersionMismatch {
			t.Errorf("%s: %s %v", name, j.Decision, j.ReasonCodes)
		}
	}
}
