package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"counterfoil/ledger/admission"
)

func TestADM15_AllGatesPass(t *testing.T) {
	for _, name := range []string{"light", "standard", "privileged"} {
		in := input(t)
		in.Class = name
		p := shipped(t, name)
		j := admission.Decide(in, p)
		wantJudged(t, j, admission.Admit, "namespace_authenticated", "artifact_digest_bound", "attestation_policy_pass")
		o := admission.Conclude(j, admission.Archived{Receipt: "sha256:" + hexes("a", 32)})
		if o.Decision != admission.Admit || o.Receipt == "" {
			t.Errorf("%s: %+v", name, o)
		}
		set(t, j, p)
	}
}

func TestADM15_UpstreamSpellingsAreReadNotWritten(t *testing.T) {
	for alias, code := range map[string]admission.Code{
		"namespace-authenticated": admission.NamespaceAuthenticated, "artifact-digest-bound": admission.ArtifactDigestBound,
		"attestation-policy-pass": admission.AttestationPolicyPass, "archive_write_failed": admission.ArchiveWriteFailure,
	} {
		if got, ok := admission.ParseCode(alias); !ok || got != code {
			t.Errorf("%s: %s %v", alias, got, ok)
		}
		if _, ok := admission.Code(alias).Info(); ok {
			t.Errorf("%s is written", alias)
		}
	}
}

// Every gate fails at once; taking the first fault away shows the next.
func TestADM10_FirstFailingGateIsTheCause(t *testing.T) {
	in := input(t)
	p := shipped(t, "privileged")
	in.Snapshot.Namespace = admission.NamespaceAuth{Method: admission.MethodNone, Result: admission.NamespaceNotCaptured}
	in.Snapshot.Response = &admission.ResponseMeta{Digest: "sha256:" + hexes("9", 32), Status: "deleted"}
	in.Binding = nil
	in.Findings = nil

	j := admission.Decide(in, p)
	wantJudged(t, j, admission.Reject, "namespace_auth_missing")
	in.Snapshot.Namespace = admission.NamespaceAuth{Method: admission.MethodDNS, Result: admission.NamespaceFail}
	j = admission.Decide(in, p)
	wantJudged(t, j, admission.Quarantine, "namespace_unverified")
	in.Snapshot.Namespace = admission.Asserted
	j = admission.Decide(in, p)
	wantJudged(t, j, admission.Quarantine, "missing_artifact_binding")
	in.Binding = binding()
	j = admission.Decide(in, p)
	wantJudged(t, j, admission.Quarantine, "evidence_gap", "attestation_missing")
	in.Findings = []admission.Finding{attestation("4")}
	j = admission.Decide(in, p)
	wantJudged(t, j, admission.Quarantine, "registry_entry_withdrawn")
	in.Snapshot.Response = nil
	j = admission.Decide(in, p)
	wantJudged(t, j, admission.Admit, "namespace_authenticated", "artifact_digest_bound", "attestation_policy_pass")
	o := admission.Conclude(j, admission.Archived{Failure: admission.ArchiveFull})
	if o.Decision != admission.Quarantine || !slices.Equal(o.ReasonCodes, []admission.Code{"archive_write_failure", "archive_full"}) {
		t.Errorf("%+v", o)
	}
}

func TestADM01_NamespaceAloneAdmitsNothing(t *testing.T) {
	for _, name := range []string{"light", "standard", "privileged"} {
		in := &admission.Input{Class: name, Snapshot: snapshot(t, sigstoreEntry), At: at}
		in.Snapshot.Namespace = admission.NamespaceAuth{
			Method: admission.MethodDNS, Result: admission.NamespacePass,
			Checked: []admission.Check{{ID: admission.CheckNamespaceDNS, State: admission.CheckPass}},
		}
		j := admission.Decide(in, shipped(t, name))
		wantJudged(t, j, admission.Quarantine, "missing_artifact_binding")
		if v := j.Verdicts[1]; v.ID != "namespace" || v.Result != admission.ResultPass {
			t.Errorf("the namespace should have passed: %+v", v)
		}
	}
}

func TestADM02_ExactlyThreeDecisions(t *testing.T) {
	for _, s := range []string{"admit", "quarantine", "reject"} {
		if d, err := admission.ParseDecision(s); err != nil || string(d) != s {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", "allow", "Admit", "admit ", "deny", "retire"} {
		if _, err := admission.ParseDecision(s); err == nil {
			t.Errorf("%q is a decision", s)
		}
	}
	p := shipped(t, "privileged")
	d := set(t, admission.Decide(input(t), p), p).Decision
	d.Decision = "allow"
	if _, err := admission.Encode(d); err == nil || !strings.Contains(err.Error(), "/decision") {
		t.Errorf("allow: %v", err)
	}
}

func TestADM03_FiveAnswersAndNoFlag(t *testing.T) {
	p := shipped(t, "privileged")
	receipt := admission.Archived{Receipt: "sha256:" + hexes("a", 32)}
	if a := admission.Conclude(admission.Decide(input(t), p), receipt).Answers; a != (admission.Answers{
		MetadataRead: "yes", ArtifactVerified: "yes", AttestationAccepted: "yes", Decision: "admit", ArchivedTogether: "yes",
	}) {
		t.Errorf("all well: %+v", a)
	}
	in := input(t)
	in.Findings = nil
	if a := admission.Conclude(admission.Decide(in, p), receipt).Answers; a != (admission.Answers{
		MetadataRead: "yes", ArtifactVerified: "yes", AttestationAccepted: "no", Decision: "quarantine", ArchivedTogether: "yes",
	}) {
		t.Errorf("no attestation: %+v", a)
	}
	in.Class = "light"
	if a := admission.Conclude(admission.Decide(in, shipped(t, "light")), admission.Archived{}).Answers; a != (admission.Answers{
		MetadataRead: "yes", ArtifactVerified: "yes", AttestationAccepted: "not_demanded", Decision: "quarantine", ArchivedTogether: "no",
	}) {
		t.Errorf("light without an archive: %+v", a)
	}
	in.Snapshot = snapshot(t, `{}`)
	if a := admission.Conclude(admission.Decide(in, shipped(t, "light")), receipt).Answers; a != (admission.Answers{
		MetadataRead: "no", ArtifactVerified: "not_judged", AttestationAccepted: "not_judged", Decision: "reject", ArchivedTogether: "yes",
	}) {
		t.Errorf("an entry that cannot be read: %+v", a)
	}
}

func TestADM11_NoNamespaceAuthRejects(t *testing.T) {
	p := shipped(t, "light")
	for name, ns := range map[string]admission.NamespaceAuth{
		"nothing":          {},
		"none":             {Method: admission.MethodNone, Result: admission.NamespaceNotCaptured},
		"method alone":     {Method: admission.MethodDNS},
		"result alone":     {Result: admission.NamespacePass},
		"not captured":     {Method: admission.MethodDNS, Result: admission.NamespaceNotCaptured},
		"none, but passed": {Method: admission.MethodNone, Result: admission.NamespacePass},
	} {
		in := input(t)
		in.Class = "light"
		in.Snapshot.Namespace = ns
		j := admission.Decide(in, p)
		if j.Decision != admission.Reject || j.ReasonCodes[0] != admission.NamespaceAuthMissing || len(j.ReasonCodes) != 1 {
			t.Errorf("%s: %s %v", name, j.Decision, j.ReasonCodes)
		}
	}
}

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

// What a class demands of attestations, and each way to miss it. The library
// checks the digest alone; name, type and signer are ours, on the same one.
func TestADM13_EvidenceGapNamesTheFailedDemand(t *testing.T) {
	cases := []struct {
		name   string
		change func(f *admission.Finding)
		code   admission.Code
	}{
		{"nothing", nil, admission.AttestationMissing},
		{"another type", func(f *admission.Finding) { f.PredicateType = "https://slsa.dev/verification_summary/v1" }, admission.AttestationTypeMismatch},
		{"other bytes", func(f *admission.Finding) { f.Subjects[0].Digests = admission.DigestSet{"sha512": hexes("9", 64)} }, admission.ArtifactDigestMismatch},
		{"a digest that binds nothing", func(f *admission.Finding) { f.Subjects[0].Digests = admission.DigestSet{"sha1": hexes("9", 20)} }, admission.ArtifactDigestMismatch},
		{"another package with equal bytes", func(f *admission.Finding) { f.Subjects[0].Name = "pkg:npm/sigstore@2.0.1" }, admission.SubjectNameMismatch},
		{"name and digest on two subjects", func(f *admission.Finding) {
			f.Subjects = []admission.Subject{
				{Name: f.Subjects[0].Name, Digests: admission.DigestSet{"sha512": hexes("9", 64)}},
				{Name: "pkg:npm/other@1.0.0", Digests: f.Subjects[0].Digests},
			}
		}, admission.SubjectNameMismatch},
		{"another branch", func(f *admission.Finding) { f.Signer.Identity += "2" }, admission.SignerIdentityMismatch},
		{"another issuer", func(f *admission.Finding) { f.Signer.Issuer = "https://issuer.example" }, admission.SignerIdentityMismatch},
		{"a key", func(f *admission.Finding) { f.Signer = &admission.Signer{KeyID: releaseYML} }, admission.SignerIdentityMismatch},
		{"tampered", failedWith(admission.AttestationTampered), admission.AttestationTampered},
		{"unknown key", failedWith(admission.SignerKeyUnknown), admission.SignerKeyUnknown},
		{"key not valid then", failedWith(admission.SignerKeyNotValid), admission.SignerKeyNotValid},
		{"unknown log", failedWith(admission.TrustRootLogUnknown), admission.TrustRootLogUnknown},
		{"two signatures", failedWith(admission.AttestationSignatureCount), admission.AttestationSignatureCount},
		{"gone", func(f *admission.Finding) {
			f.State, f.Code = admission.FindingUnavailable, admission.EvidenceUnavailable
		}, admission.EvidenceUnavailable},
	}
	p := shipped(t, "privileged")
	for _, c := range cases {
		in := input(t)
		if c.change == nil {
			in.Findings = nil
		} else {
			c.change(&in.Findings[0])
		}
		j := admission.Decide(in, p)
		if j.Decision != admission.Quarantine || !slices.Equal(j.ReasonCodes, []admission.Code{admission.EvidenceGap, c.code}) {
			t.Errorf("%s: %s %v", c.name, j.Decision, j.ReasonCodes)
		}
		if i := slices.IndexFunc(j.Missing, func(m admission.Missing) bool {
			return m.Evidence == "attestation:provenance" && m.Class == "privileged"
		}); i < 0 {
			t.Errorf("%s: missing %+v", c.name, j.Missing)
		}
		if len(j.Used) != 0 {
			t.Errorf("%s: used %v", c.name, j.Used)
		}
		set(t, j, p)
	}
}

func failedWith(code admission.Code) func(*admission.Finding) {
	return func(f *admission.Finding) { f.State, f.Code, f.PredicateType = admission.FindingFailed, code, "" }
}

// Four attestations, each right in three of the four parts: together they have
// everything, and none of them counts.
func TestADM13_PartsOfSeveralAttestationsDoNotAddUp(t *testing.T) {
	in := input(t)
	in.Findings = []admission.Finding{attestation("4"), attestation("5"), attestation("6"), attestation("7")}
	in.Findings[0].PredicateType = "https://slsa.dev/verification_summary/v1"
	in.Findings[1].Subjects[0].Digests = admission.DigestSet{"sha512": hexes("9", 64)}
	in.Findings[2].Subjects[0].Name = "pkg:npm/other@1.0.0"
	in.Findings[3].Signer.Identity = "https://github.com/mallory/x/.github/workflows/release.yml@refs/heads/main"
	j := admission.Decide(in, shipped(t, "privileged"))
	wantJudged(t, j, admission.Quarantine, "evidence_gap", "signer_identity_mismatch")
}

func TestADM13_ProvenanceRegressed(t *testing.T) {
	p, err := policyWith(t, "light", "attestations: none", "attestations: none\n      refuseRegression: true")
	if err != nil {
		t.Fatal(err)
	}
	in := input(t)
	in.Class, in.Findings, in.Previous = "light", nil, &admission.Previous{Version: "1.9.0", HadProvenance: true}
	j := admission.Decide(in, p)
	wantJudged(t, j, admission.Quarantine, "evidence_gap", "provenance_regressed")
	j = admission.Decide(in, shipped(t, "light")) // which does not ask
	wantJudged(t, j, admission.Admit, "namespace_authenticated", "artifact_digest_bound", "attestation_policy_pass")
	in.Findings = []admission.Finding{attestation("4")}
	j = admission.Decide(in, p)
	wantJudged(t, j, admission.Admit, "namespace_authenticated", "artifact_digest_bound", "attestation_policy_pass")
	in.Findings[0].Subjects[0].Name = "pkg:npm/other@2.0.0" // provenance of another package is none
	j = admission.Decide(in, p)
	wantJudged(t, j, admission.Quarantine, "evidence_gap", "provenance_regressed")
}

func TestADM14_ADM31_NothingIsAdmittedWithoutAKeptReceipt(t *testing.T) {
	j := admission.Decide(input(t), shipped(t, "privileged"))
	for _, a := range []admission.Archived{
		{},
		{Receipt: "none yet"},
		{Receipt: "sha256:" + strings.ToUpper(hexes("a", 32))},
		{Failure: admission.ArchivePermissionDenied},
		{Failure: admission.ArchiveRetentionDenied},
		{Failure: admission.EvidenceGap}, // no code of the archive's: not repeated
	} {
		o := admission.Conclude(j, a)
		if o.Decision != admission.Quarantine || o.ReasonCodes[0] != admission.ArchiveWriteFailure || o.Receipt != "" {
			t.Errorf("%+v: %+v", a, o)
		}
		if info, _ := a.Failure.Info(); info.Gate == admission.GateArchive && (len(o.ReasonCodes) != 2 || o.ReasonCodes[1] != a.Failure) {
			t.Errorf("%+v: the kind of failure is lost: %v", a, o.ReasonCodes)
		}
		if m := o.Missing[len(o.Missing)-1]; m.Evidence != "archive_receipt" || m.Class != "privileged" {
			t.Errorf("%+v: missing %+v", a, m)
		}
	}
	if j.Decision != admission.Admit {
		t.Error("concluding changed the judgement")
	}
	// A cause that came first stays.
	in := input(t)
	in.Findings = nil
	o := admission.Conclude(admission.Decide(in, shipped(t, "privileged")), admission.Archived{Failure: admission.ArchiveFull})
	if o.ReasonCodes[0] != admission.EvidenceGap {
		t.Errorf("%v", o.ReasonCodes)
	}
}

func TestADM31_ADM32_PhasesHaveTheirOwnRightsAndMarks(t *testing.T) {
	var names, marks []string
	for _, p := range admission.RetryRights {
		names = append(names, p.Name)
		marks = append(marks, p.Marks...)
		if p.Attempts < 1 || p.Attempts > 10 || p.Repeats == "" {
			t.Errorf("%+v is no bounded right", p)
		}
	}
	if !slices.Equal(names, []string{"discovery", "verification", "archive", "admission"}) {
		t.Error(names)
	}
	if !slices.Equal(marks, []string{"candidate", "policy_input", "dependency", "persistence", "linkage", "verdict"}) {
		t.Error(marks)
	}
	if last := admission.RetryRights[3]; last.Attempts != 1 || last.Repeats != "nothing" {
		t.Errorf("the admission repeats: %+v", last)
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

func TestADM29_LightAdmitsWithoutAttestationPrivilegedDoesNot(t *testing.T) {
	in := input(t)
	in.Findings = nil
	in.Class = "light"
	light := shipped(t, "light")
	j := admission.Decide(in, light)
	wantJudged(t, j, admission.Admit, "namespace_authenticated", "artifact_digest_bound", "attestation_policy_pass")
	in.Class = "privileged"
	privileged := shipped(t, "privileged")
	j = admission.Decide(in, privileged)
	wantJudged(t, j, admission.Quarantine, "evidence_gap", "attestation_missing")
	if light.Ref().Digest == privileged.Ref().Digest {
		t.Error("one digest for two policies")
	}
	if d := set(t, j, privileged).Decision.Policy.Digest; d != privileged.Ref().Digest {
		t.Errorf("the decision names %s", d)
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

func TestADM28_PolicyNoMatch(t *testing.T) {
	in := input(t)
	in.Class = "nobody"
	j := admission.Decide(in, shipped(t, "privileged"))
	wantJudged(t, j, admission.Quarantine, "policy_no_match")
	p := shipped(t, "privileged")
	if d := set(t, j, p).Decision; d.Impact != "" {
		t.Errorf("%+v", d)
	}
}

// What adapters hand over malformed counts against the admission.
func TestADM13_MalformedFindingsNeverPass(t *testing.T) {
	p := shipped(t, "privileged")
	for name, change := range map[string]func(*admission.Input){
		"no signer":         func(in *admission.Input) { in.Findings[0].Signer = nil },
		"code and verified": func(in *admission.Input) { in.Findings[0].Code = admission.AttestationTampered },
		"unknown state":     func(in *admission.Input) { in.Findings[0].State = "ok" },
		"no digest":         func(in *admission.Input) { in.Findings[0].Evidence = "" },
		"control character": func(in *admission.Input) { in.Findings[0].Locator = "a\nb" },
		"too many": func(in *admission.Input) {
			for i := range admission.MaxFindings {
				f := attestation("4")
				f.Locator = fmt.Sprint(i)
				in.Findings = append(in.Findings, f)
			}
		},
		"source": func(in *admission.Input) { in.Sources[0].State = "maybe" },
	} {
		in := input(t)
		change(in)
		j := admission.Decide(in, p)
		if j.Decision != admission.Quarantine || j.ReasonCodes[0] != admission.EvidenceGap {
			t.Errorf("%s: %s %v", name, j.Decision, j.ReasonCodes)
		}
		set(t, j, p)
	}
	in := input(t)
	in.Checks[0].State = "maybe"
	j := admission.Decide(in, p)
	wantJudged(t, j, admission.Quarantine, "required_check_not_passed")
	in = input(t)
	in.Snapshot.Normalised = "sha256:" + hexes("0", 32)
	j = admission.Decide(in, p)
	wantJudged(t, j, admission.Reject, "registry_entry_invalid")
}

// An exemption excuses from what does not hold, not from what cannot be known.
func TestADM10_ErrorsAreNeverExcused(t *testing.T) {
	exemption := `
exemptions:
  - {id: e, server: io.github.sigstore/sigstore, class: light, waive: ["rule:r"], reason: r, approvedBy: a, expires: "2027-01-01T00:00:00.000Z"}
rules:
  - {id: r, classes: [light], require: REQUIRE}
`
	for require, want := range map[string]admission.Decision{
		`server.name == "x"`:                 admission.Admit,
		`attestations[9].issuer == "x"`:      admission.Quarantine,
		`int(server.version) == size("abc")`: admission.Quarantine,
	} {
		p, err := policyWith(t, "light", "\nrules:\n", strings.Replace(exemption, "REQUIRE", "'"+require+"'", 1))
		if err != nil {
			t.Fatal(err)
		}
		in := input(t)
		in.Class = "light"
		j := admission.Decide(in, p)
		if j.Decision != want {
			t.Errorf("%s: %s %v", require, j.Decision, j.ReasonCodes)
		}
		set(t, j, p)
	}
}

// A namespace check counts wherever an adapter puts it.
func TestADM10_ChecksCountWhereverTheyStand(t *testing.T) {
	in := input(t)
	in.Checks = append(in.Checks, admission.Check{ID: admission.CheckNamespaceDNS, State: admission.CheckFail, Code: admission.NamespaceUnverified})
	j := admission.Decide(in, shipped(t, "privileged"))
	wantJudged(t, j, admission.Quarantine, "namespace_unverified")
	p, err := policyWith(t, "light", "attestations: none", "attestations: none\n      checks: [namespace_dns]")
	if err != nil {
		t.Fatal(err)
	}
	in = input(t)
	in.Class = "light"
	j = admission.Decide(in, p)
	wantJudged(t, j, admission.Quarantine, "required_check_not_passed")
	in.Snapshot.Namespace = admission.NamespaceAuth{
		Method: admission.MethodDNS, Result: admission.NamespacePass,
		Checked: []admission.Check{{ID: admission.CheckNamespaceDNS, State: admission.CheckPass}},
	}
	j = admission.Decide(in, p)
	wantJudged(t, j, admission.Admit, "namespace_authenticated", "artifact_digest_bound", "attestation_policy_pass")
}

// Codes of what went well, or of nobody, are no reason for a failure; every
// judgement can be recorded all the same.
func TestADM08_FailuresHaveCodesOfFailures(t *testing.T) {
	p := shipped(t, "privileged")
	for _, code := range []admission.Code{"", "luck", admission.AttestationPolicyPass, admission.MissingArtifactBinding} {
		in := input(t)
		in.Binding, in.BindingFailure = nil, &admission.Failure{Code: code}
		j := admission.Decide(in, p)
		if j.Decision != admission.Quarantine || j.ReasonCodes[0] != admission.MissingArtifactBinding {
			t.Errorf("%q: %v", code, j.ReasonCodes)
		}
		set(t, j, p)
		in = input(t)
		in.Snapshot, in.SnapshotFailure = nil, &admission.Failure{Code: code}
		set(t, admission.Decide(in, p), p)
		in = input(t)
		in.Checks = []admission.Check{{ID: admission.CheckTag, State: admission.CheckFail, Code: code}}
		j = admission.Decide(in, p)
		if j.Decision != admission.Quarantine {
			t.Errorf("check with %q: %v", code, j.ReasonCodes)
		}
		set(t, j, p)
		in = input(t)
		in.Findings[0].State, in.Findings[0].Code = admission.FindingFailed, code
		j = admission.Decide(in, p)
		if j.Decision != admission.Quarantine || j.ReasonCodes[0] != admission.EvidenceGap {
			t.Errorf("finding with %q: %v", code, j.ReasonCodes)
		}
		set(t, j, p)
	}
	in := input(t)
	in.Findings[0].State, in.Findings[0].Code = admission.FindingFailed, admission.EvidenceGap
	j := admission.Decide(in, p)
	wantJudged(t, j, admission.Quarantine, "evidence_gap")
	set(t, j, p)
}

// A signer who writes long names everywhere cannot keep a quarantine from being
// recorded.
func TestADM20_LongEvidenceIsRecordedAsFarAsItFits(t *testing.T) {
	in := input(t)
	in.Findings = nil
	long := strings.Repeat("x", admission.MaxLocatorBytes)
	for i := range admission.MaxFindings {
		f := attestation("4")
		f.Evidence = admission.Digest([]byte{byte(i)})
		f.Signer = &admission.Signer{
			Issuer: long, Identity: long, SourceRepository: long, SourceRepositoryRef: long, SourceRepositoryDigest: long,
			RunnerEnvironment: long, BuildSigner: long, RunInvocation: long,
		}
		in.Findings = append(in.Findings, f)
	}
	p := shipped(t, "privileged")
	j := admission.Decide(in, p)
	wantJudged(t, j, admission.Quarantine, "evidence_gap", "signer_identity_mismatch")
	s, r, _ := records(t, j, p)
	if n := len(s.Evidence.Others); n == 0 || int64(n)+s.Evidence.Omitted != admission.MaxFindings {
		t.Errorf("%d kept, %d left out", n, s.Evidence.Omitted)
	}
	if err := r.Check(s); err != nil {
		t.Error(err)
	}
}

// The judgement and its records do not depend on the order in which resolvers and
// verifiers answered (REV-32 for admissions).
func TestADM10_OrderOfInputsDoesNotMatter(t *testing.T) {
	p := shipped(t, "standard")
	rapid.Check(t, func(rt *rapid.T) {
		in := input(t)
		in.Class = "standard"
		in.Findings = nil
		for i := range rapid.IntRange(0, 6).Draw(rt, "findings") {
			f := attestation(string("0123456789abcdef"[i]))
			switch rapid.IntRange(0, 6).Draw(rt, "kind") {
			case 0:
				f.PredicateType = "https://example.org/other"
			case 1:
				f.Subjects[0].Name = "pkg:npm/other@1.0.0"
			case 2:
				f.Signer.Identity = "someone@example.org"
			case 3:
				f.State, f.Code = admission.FindingFailed, admission.AttestationTampered
			case 4:
				f.State, f.Code = admission.FindingUnavailable, admission.EvidenceUnavailable
			}
			in.Findings = append(in.Findings, f)
		}
		in.Checks = append(in.Checks, admission.Check{ID: admission.CheckTag, State: rapid.SampledFrom([]admission.CheckState{admission.CheckPass, admission.CheckAbsent}).Draw(rt, "tag")})
		j := admission.Decide(in, p)
		_, _, a := records(rt, j, p)
		if j.Decision == admission.Admit && len(j.Used) != 1 {
			rt.Fatalf("admit by %v", j.Used)
		}

		shuffled := *in
		shuffled.Findings = rapid.Permutation(in.Findings).Draw(rt, "order of findings")
		shuffled.Checks = rapid.Permutation(in.Checks).Draw(rt, "order of checks")
		k := admission.Decide(&shuffled, p)
		if _, _, b := records(rt, k, p); a != b {
			rt.Fatalf("another order, another receipt: %v %v", j.ReasonCodes, k.ReasonCodes)
		}
	})
}

// More evidence that does not count never turns a quarantine into an admit, and
// evidence that counts is not undone by more of it.
func TestADM13_EvidenceIsMonotone(t *testing.T) {
	p := shipped(t, "privileged")
	rapid.Check(t, func(rt *rapid.T) {
		in := input(t)
		good := rapid.Bool().Draw(rt, "good")
		in.Findings = nil
		if good {
			in.Findings = append(in.Findings, attestation("f"))
		}
		for i := range rapid.IntRange(0, 5).Draw(rt, "noise") {
			f := attestation(string("0123456789"[i]))
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				f.PredicateType = "https://example.org/other"
			case 1:
				f.Subjects[0].Digests = admission.DigestSet{"sha512": hexes("9", 64)}
			case 2:
				f.Signer.RunnerEnvironment = "self-hosted"
			case 3:
				f.State, f.Code = admission.FindingFailed, admission.SignerKeyUnknown
			}
			in.Findings = append(in.Findings, f)
		}
		if got := admission.Decide(in, p).Decision == admission.Admit; got != good {
			rt.Fatalf("admit is %v", got)
		}
	})
}
