package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"counterfoil/ledger/admission"
)

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
