package admission_test

import (
	"slices"
	"strings"
	"testing"

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
