package admission_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/event"
)

// policyWith is a shipped policy with replacements.
func policyWith(t testing.TB, name string, oldNew ...string) (*policy.Policy, error) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", "policies", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(text, oldNew[i]) {
			t.Fatalf("%s has no %q", name, oldNew[i])
		}
		text = strings.Replace(text, oldNew[i], oldNew[i+1], 1)
	}
	return policy.Load([]byte(text))
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func records(t fataler, j *admission.Judgement, p *policy.Policy) (*admission.Set, *admission.ArchiveReceipt, string) {
	t.Helper()
	s, err := admission.NewSet(j, p)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := admission.NewReceipt(s, "security-evidence-400d", "", event.FormatTime(at))
	if err != nil {
		t.Fatal(err)
	}
	digest, _, err := admission.Name(r)
	if err != nil {
		t.Fatal(err)
	}
	return s, r, digest
}

func admitted(t testing.TB) (*admission.Set, *admission.ArchiveReceipt) {
	t.Helper()
	p := shipped(t, "privileged")
	s, r, _ := records(t, admission.Decide(input(t), p), p)
	return s, r
}

// Every record survives its canonical bytes, and has one spelling.
func TestADM04_ADM06_ADM07_ADM08_ADM09_RecordsHaveOneSpelling(t *testing.T) {
	s, r := admitted(t)
	span, err := s.Span("security-evidence-400d")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		record admission.Record
		parse  func([]byte) (any, error)
	}{
		"snapshot": {s.Snapshot, func(b []byte) (any, error) { return admission.ParseSnapshot(b) }},
		"binding":  {s.Binding, func(b []byte) (any, error) { return admission.ParseBinding(b) }},
		"evidence": {s.Evidence, func(b []byte) (any, error) { return admission.ParseEvidenceBundle(b) }},
		"decision": {s.Decision, func(b []byte) (any, error) { return admission.ParsePolicyDecision(b) }},
		"receipt":  {r, func(b []byte) (any, error) { return admission.ParseReceipt(b) }},
		"span":     {span, func(b []byte) (any, error) { return admission.ParseSpanningSet(b) }},
	} {
		b, err := admission.Encode(c.record)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := c.parse(b)
		if err != nil {
			t.Errorf("%s: its own bytes are refused: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(got, any(c.record)) {
			t.Errorf("%s: read\n%+v\nwrote\n%+v", name, got, c.record)
		}
		for what, other := range map[string][]byte{
			"a space":           append([]byte("{ "), b[1:]...),
			"a line end":        append(bytes.Clone(b), '\n'),
			"an unknown member": append([]byte(`{"AAA":1,`), b[1:]...),
			"an empty member":   bytes.Replace(b, []byte(`{"`), []byte(`{"":null,"`), 1),
			"two documents":     append(bytes.Clone(b), b...),
			"nothing":           {},
			"an array":          append(append([]byte("["), b...), ']'),
		} {
			if _, err := c.parse(other); err == nil {
				t.Errorf("%s with %s is accepted", name, what)
			}
		}
		if _, err := c.parse(bytes.Repeat([]byte(" "), admission.MaxRecordBytes+1)); err == nil || !strings.Contains(err.Error(), "limit") {
			t.Errorf("%s: too large: %v", name, err)
		}
	}
}

func wantPath(t *testing.T, name string, r admission.Record, path string) {
	t.Helper()
	_, err := admission.Encode(r)
	var e *admission.Error
	if !errors.As(err, &e) || !strings.HasPrefix(e.Path, path) {
		t.Errorf("%s: got %v, want an error at %s", name, err, path)
	}
}

func TestADM04_SnapshotMissing(t *testing.T) {
	for path, change := range map[string]func(*admission.RegistrySnapshot){
		"/registry":         func(s *admission.RegistrySnapshot) { s.Registry = "" },
		"/serverName":       func(s *admission.RegistrySnapshot) { s.ServerName = "" },
		"/raw/digest":       func(s *admission.RegistrySnapshot) { s.Raw.Digest = "" },
		"/canonical":        func(s *admission.RegistrySnapshot) { s.Canonical = "" },
		"/normalised":       func(s *admission.RegistrySnapshot) { s.Normalised = "" },
		"/namespace":        func(s *admission.RegistrySnapshot) { s.Namespace = admission.NamespaceAuth{} },
		"/namespace/result": func(s *admission.RegistrySnapshot) { s.Namespace.Result = "" },
		"/capturedAt":       func(s *admission.RegistrySnapshot) { s.CapturedAt = "" },
		"/entry":            func(s *admission.RegistrySnapshot) { s.Entry = nil },
	} {
		s, _ := admitted(t)
		change(s.Snapshot)
		wantPath(t, path, s.Snapshot, path)
	}
}

func TestADM04_NothingPassesThatWasNotCheckedHere(t *testing.T) {
	dns := admission.Check{ID: admission.CheckNamespaceDNS, State: admission.CheckPass}
	failed := admission.Check{ID: admission.CheckNamespaceDNS, State: admission.CheckFail, Code: admission.NamespaceUnverified}
	for name, ns := range map[string]admission.NamespaceAuth{
		"asserted by the registry": {Method: admission.MethodRegistryAsserted, Result: admission.NamespacePass},
		"seen by others":           {Method: admission.MethodGitHubOIDC, Result: admission.NamespacePass},
		"not checked":              {Method: admission.MethodDNS, Result: admission.NamespacePass},
		"checked otherwise":        {Method: admission.MethodHTTP, Result: admission.NamespacePass, Checked: []admission.Check{dns}},
		"a check failed":           {Method: admission.MethodDNS, Result: admission.NamespaceAsserted, Checked: []admission.Check{failed}},
	} {
		s, _ := admitted(t)
		s.Snapshot.Namespace = ns
		wantPath(t, name, s.Snapshot, "/namespace")
	}
	s, _ := admitted(t)
	s.Snapshot.Namespace = admission.NamespaceAuth{Method: admission.MethodDNS, Result: admission.NamespacePass, Checked: []admission.Check{dns}}
	if _, err := admission.Encode(s.Snapshot); err != nil {
		t.Error(err)
	}
}

// The normaliser may change; what was read does not.
func TestADM05_RawAndNormalisedAreLinkedAndApart(t *testing.T) {
	s, _ := admitted(t)
	before := *s.Snapshot
	s.Snapshot.Entry.Repository = nil // as another normaliser would read it
	wantPath(t, "entry and digest apart", s.Snapshot, "/normalised")
	changed, err := admission.NewSnapshot(before.Registry, &admission.Discovered{Raw: before.Raw, Canonical: before.Canonical, Entry: s.Snapshot.Entry},
		before.Namespace, before.CapturedAt)
	if err != nil {
		t.Fatal(err)
	}
	if changed.Raw != before.Raw || changed.Canonical != before.Canonical || changed.Normalised == before.Normalised {
		t.Errorf("raw %v %v, normalised %v %v", changed.Raw, before.Raw, changed.Normalised, before.Normalised)
	}
}

func TestADM06_BindingMissing(t *testing.T) {
	for path, change := range map[string]func(*admission.ArtifactBinding){
		"/packageType":          func(a *admission.ArtifactBinding) { a.PackageType = "" },
		"/locator":              func(a *admission.ArtifactBinding) { a.Locator = "" },
		"/bytes/digests/sha256": func(a *admission.ArtifactBinding) { delete(a.Bytes.Digests, "sha256") },
		"/bytes/digests":        func(a *admission.ArtifactBinding) { a.Bytes.Digests["md5"] = hexes("1", 16) },
		"/bytes/digests/sha512": func(a *admission.ArtifactBinding) { a.Bytes.Digests["sha512"] = hexes("1", 32) },
		"/bytes":                func(a *admission.ArtifactBinding) { a.Bytes = nil },
		"/retrievedAt":          func(a *admission.ArtifactBinding) { a.RetrievedAt = "" },
		"/kind":                 func(a *admission.ArtifactBinding) { a.Kind, a.Bytes = "version", nil },
		"/deployment":           func(a *admission.ArtifactBinding) { a.Deployment = &admission.DeploymentBinding{} },
		"/transport":            func(a *admission.ArtifactBinding) { a.Transport = "" },
	} {
		a := binding()
		change(a)
		wantPath(t, path, a, path)
	}
}

func TestADM08_DecisionMissing(t *testing.T) {
	for path, change := range map[string]func(*admission.PolicyDecision){
		"/policy/digest":       func(d *admission.PolicyDecision) { d.Policy.Digest = "" },
		"/verifiers/0/version": func(d *admission.PolicyDecision) { d.Verifiers[0].Version = "" },
		"/decision":            func(d *admission.PolicyDecision) { d.Decision = "" },
		"/reasonCodes":         func(d *admission.PolicyDecision) { d.ReasonCodes = nil },
		"/reasonCodes/0":       func(d *admission.PolicyDecision) { d.ReasonCodes[0] = "namespace-authenticated" },
		"/reasonCodes/1":       func(d *admission.PolicyDecision) { d.ReasonCodes[1] = d.ReasonCodes[0] },
		"/reasonCodes/2":       func(d *admission.PolicyDecision) { d.ReasonCodes[2] = admission.EvidenceGap },
		"/verdicts":            func(d *admission.PolicyDecision) { d.Verdicts = nil },
		"/verdicts/0":          func(d *admission.PolicyDecision) { d.Verdicts[0].Result = admission.ResultNotJudged },
		"/evidence":            func(d *admission.PolicyDecision) { d.Evidence = "" },
	} {
		s, _ := admitted(t)
		change(s.Decision)
		wantPath(t, path, s.Decision, path)
	}
	s, _ := admitted(t)
	if got := s.Decision.VerifierVersion(); got != "sigstore/1.3.0" {
		t.Error(got)
	}
	if got := s.Decision.Verifiers[0].Trust[0]; got.Digest != "sha256:"+hexes("5", 32) {
		t.Errorf("the trust material is not in the decision: %+v", got)
	}
}

func TestADM16_AdmittedEvidenceKeepsItsAttestation(t *testing.T) {
	s, _ := admitted(t)
	// An evidence bundle without its attestation, and a decision that names it.
	s.Evidence.Used, s.Evidence.Attestation, s.Evidence.SignatureBundle, s.Evidence.ProvenanceSummary = nil, "", "", ""
	digest, _, err := admission.Name(s.Evidence)
	if err != nil {
		t.Fatal(err)
	}
	s.Decision.Evidence = digest
	if _, err := s.Span("security-evidence-400d"); err == nil || !strings.Contains(err.Error(), "admitted tool evidence must keep attestation binding") {
		t.Errorf("got %v", err)
	}
	s.Decision.AttestationRequired = false
	if _, err := s.Span("security-evidence-400d"); err != nil {
		t.Errorf("a class that demands none: %v", err)
	}
}

func TestARC06_RetentionClassIsChosenBeforeStorage(t *testing.T) {
	s, r := admitted(t)
	if _, _, err := admission.NewReceipt(s, "", "", event.FormatTime(at)); err == nil || !strings.Contains(err.Error(), "before storage") {
		t.Errorf("got %v", err)
	}
	r.RetentionClass = ""
	wantPath(t, "receipt", r, "/retentionClass")
}

func TestADM06_WeakDigestsAgreeOnNothing(t *testing.T) {
	weak := admission.DigestSet{"sha1": hexes("1", 20), "md5": hexes("2", 16)}
	if agrees, differs := weak.Agree(weak); agrees || differs != "" {
		t.Errorf("agrees %v, differs %q", agrees, differs)
	}
	if agrees, _ := (admission.DigestSet{"sha1": hexes("1", 20), "sha384": hexes("3", 48)}).Agree(admission.DigestSet{"sha1": hexes("2", 20), "sha384": hexes("3", 48)}); !agrees {
		t.Error("a weak digest speaks against a strong one")
	}
}

func TestADM07_SetDigest(t *testing.T) {
	a, b := "sha256:"+hexes("a", 32), "sha256:"+hexes("b", 32)
	if got := admission.SetDigest(nil); got != "" {
		t.Errorf("none: %s", got)
	}
	if got := admission.SetDigest([]string{a, a}); got != a {
		t.Errorf("one: %s", got)
	}
	want := admission.Digest([]byte(`["` + a + `","` + b + `"]`))
	if got := admission.SetDigest([]string{b, a, b}); got != want {
		t.Errorf("two: %s, want %s", got, want)
	}
}

// Records read back what any input made, whatever it was.
func TestADM20_EveryJudgementCanBeRecorded(t *testing.T) {
	policies := []*policy.Policy{shipped(t, "light"), shipped(t, "standard"), shipped(t, "privileged")}
	text := rapid.StringN(0, 40, 200)
	rapid.Check(t, func(rt *rapid.T) {
		in := input(t)
		in.Class = rapid.SampledFrom([]string{"light", "standard", "privileged", "nobody"}).Draw(rt, "class")
		if rapid.Bool().Draw(rt, "other entry") {
			d := admission.ParseEntry([]byte(text.Draw(rt, "entry")))
			s, err := admission.NewSnapshot("file:x", d, admission.Asserted, event.FormatTime(at))
			if err != nil {
				rt.Fatal(err)
			}
			in.Snapshot = s
		}
		switch rapid.IntRange(0, 3).Draw(rt, "binding") {
		case 0:
			in.Binding, in.BindingFailure = nil, &admission.Failure{Code: admission.ArtifactUnresolved, Detail: text.Draw(rt, "detail")}
		case 1:
			in.Binding.Identifier = text.Draw(rt, "identifier")
		}
		in.Findings[0].Detail = text.Draw(rt, "finding")
		in.Checks[0].Got = text.Draw(rt, "got")
		p := rapid.SampledFrom(policies).Draw(rt, "policy")
		j := admission.Decide(in, p)
		s, r, _ := records(rt, j, p)
		if err := r.Check(s); err != nil {
			rt.Fatal(err)
		}
	})
}
