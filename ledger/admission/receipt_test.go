package admission_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"reflect"
	"strings"
	"testing"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
)

// Swap any one record: the error names it.
func TestADM25_SubstitutionIsDetectedAndNamed(t *testing.T) {
	other := input(t)
	other.Snapshot = snapshot(t, strings.Replace(sigstoreEntry, "A package", "Another package", 1))
	other.Binding.Bytes.Digests["sha256"] = hexes("8", 32)
	other.Binding.Bytes.Digests["sha512"] = hexes("8", 64)
	other.Findings[0].Subjects[0].Digests = admission.DigestSet{"sha512": hexes("8", 64)}
	p := shipped(t, "privileged")
	theirs, _, _ := records(t, admission.Decide(other, p), p)
	for name, swap := range map[string]func(*admission.Set){
		"registry_snapshot": func(s *admission.Set) { s.Snapshot = theirs.Snapshot },
		"artifact_binding":  func(s *admission.Set) { s.Binding = theirs.Binding },
		"evidence_bundle":   func(s *admission.Set) { s.Evidence = theirs.Evidence },
		"policy_decision":   func(s *admission.Set) { s.Decision = theirs.Decision },
	} {
		s, r := admitted(t)
		if err := r.Check(s); err != nil {
			t.Fatalf("its own records: %v", err)
		}
		swap(s)
		var m *admission.Mismatch
		if err := r.Check(s); !errors.As(err, &m) || m.Record != name || m.Expected == m.Got {
			t.Errorf("%s: got %v", name, err)
		}
		// A receipt whose list of records was edited with it.
		forged, r2 := admitted(t)
		swap(forged)
		r2.Records = records2(t, forged)
		if err := r2.Check(forged); err == nil {
			t.Errorf("%s: an edited list of records passes", name)
		}
	}
	// A new receipt cannot be made of them either.
	for name, swap := range map[string]func(*admission.Set){
		"registry_snapshot": func(s *admission.Set) { s.Snapshot = theirs.Snapshot },
		"artifact_binding":  func(s *admission.Set) { s.Binding = theirs.Binding },
		"evidence_bundle":   func(s *admission.Set) { s.Evidence.Absent = append(s.Evidence.Absent, "x") },
	} {
		s, _ := admitted(t)
		swap(s)
		var m *admission.Mismatch
		if _, err := s.Span("security-evidence-400d"); !errors.As(err, &m) || m.Record != name {
			t.Errorf("%s: got %v", name, err)
		}
	}
	s, r := admitted(t)
	r.RetentionClass = "discovery-telemetry-30d"
	var m *admission.Mismatch
	if err := r.Check(s); !errors.As(err, &m) || m.Record != "spanning_set" {
		t.Errorf("retention class: %v", err)
	}
	s.Snapshot = nil
	if err := r.Check(s); !errors.As(err, &m) || m.Record != "registry_snapshot" || m.Got != "" {
		t.Errorf("a record that is gone: %v", err)
	}
}

func records2(t *testing.T, s *admission.Set) (k admission.SpanRecords) {
	t.Helper()
	for _, r := range []struct {
		record admission.Record
		to     *string
	}{{s.Snapshot, &k.RegistrySnapshot}, {s.Binding, &k.ArtifactBinding}, {s.Evidence, &k.EvidenceBundle}, {s.Decision, &k.PolicyDecision}} {
		digest, _, err := admission.Name(r.record)
		if err != nil {
			t.Fatal(err)
		}
		*r.to = digest
	}
	return k
}

// Every member of every record changes the spanning set (ARC-02 for our records).
func TestARC02_EveryMemberOfTheRecordsIsBound(t *testing.T) {
	p := shipped(t, "privileged")
	base := admission.Decide(input(t), p)
	s, _, _ := records(t, base, p)
	span, err := s.Span("security-evidence-400d")
	if err != nil {
		t.Fatal(err)
	}
	original, err := span.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*admission.Input){
		"raw bytes of the entry": func(in *admission.Input) { in.Snapshot = snapshot(t, sigstoreEntry+" ") },
		"response metadata": func(in *admission.Input) {
			in.Snapshot.Response = &admission.ResponseMeta{Digest: admission.Digest(nil)}
		},
		"time of capture":      func(in *admission.Input) { in.Snapshot.CapturedAt = "2026-11-30T12:00:00.001Z" },
		"registry":             func(in *admission.Input) { in.Snapshot.Registry = "https://registry.example" },
		"artifact's sha512":    func(in *admission.Input) { in.Binding.Bytes.Digests["sha384"] = hexes("6", 48) },
		"artifact's size":      func(in *admission.Input) { in.Binding.Bytes.Size++ },
		"locator":              func(in *admission.Input) { in.Binding.Locator += "?" },
		"bundle's bytes":       func(in *admission.Input) { in.Findings[0].Evidence = admission.Digest(nil) },
		"payload":              func(in *admission.Input) { in.Findings[0].Payload = admission.Digest(nil) },
		"signer":               func(in *admission.Input) { in.Findings[0].Signer.RunInvocation = "run/2" },
		"provenance":           func(in *admission.Input) { in.Findings[0].Provenance.SourceDigest = "gitCommit:1" },
		"verifier's version":   func(in *admission.Input) { in.Verifiers[0].Version = "1.3.1" },
		"trust material":       func(in *admission.Input) { in.Verifiers[0].Trust[0].Digest = admission.Digest(nil) },
		"a check":              func(in *admission.Input) { in.Checks[0].Detail = "x" },
		"a source":             func(in *admission.Input) { in.Sources[0].State = admission.SourceNone },
		"time of the decision": func(in *admission.Input) { in.At = at.Add(1e6) },
	} {
		in := input(t)
		change(in)
		s, _, _ := records(t, admission.Decide(in, p), p)
		span, err := s.Span("security-evidence-400d")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := span.Digest(); err != nil || got == original {
			t.Errorf("%s is not bound: %v", name, err)
		}
	}
}

func TestARC03_ReceiptIsTheRootOfRecordsByDigest(t *testing.T) {
	s, r := admitted(t)
	if got := records2(t, s); r.Records != got {
		t.Errorf("%+v, want %+v", r.Records, got)
	}
}

func TestARC10_ReceiptNamesExternalBytesAndTheirClass(t *testing.T) {
	_, r := admitted(t)
	want := []admission.External{
		{Class: "artifact", Digest: "sha256:" + hexes("2", 32), Locator: "https://npm.example/sigstore/-/sigstore-2.0.0.tgz"},
		{Class: "evidence", Digest: "sha256:" + hexes("4", 32), Locator: "provenance-4.json"},
		{Class: "registry_entry", Digest: admission.Digest([]byte(sigstoreEntry)), Locator: "file:server.json"},
		{Class: "trust_material", Digest: "sha256:" + hexes("5", 32), Locator: "trusted_root"},
	}
	if !reflect.DeepEqual(r.Externals, want) {
		t.Errorf("%+v", r.Externals)
	}
	r.Externals[0], r.Externals[1] = r.Externals[1], r.Externals[0]
	wantPath(t, "order", r, "/externals/1")
}

func TestARC12_ARC13_BackfillRecordsAbsence(t *testing.T) {
	in := input(t)
	in.Class, in.Findings, in.Verifiers = "light", nil, nil
	p := shipped(t, "light")
	s := set(t, admission.Decide(in, p), p)
	if strings.Join(s.Evidence.Absent, " ") != "attestation signature" {
		t.Errorf("absent: %v", s.Evidence.Absent)
	}
	r, _, err := admission.NewReceipt(s, "admission-record-180d", "contract:docs-helper@3", event.FormatTime(at))
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != admission.ReceiptBackfill || r.ReceivedAt != event.FormatTime(at) {
		t.Errorf("%+v", r)
	}
	r.Refers = ""
	wantPath(t, "a backfill of nothing", r, "/refers")
	r.Kind, r.Refers = admission.ReceiptAdmission, "contract:docs-helper@3"
	wantPath(t, "an admission of something old", r, "/refers")
}

func TestADM23_TwoContractsTwoReceipts(t *testing.T) {
	_, first := admitted(t)
	in := input(t)
	in.Snapshot = snapshot(t, strings.ReplaceAll(sigstoreEntry, `"2.0.0"`, `"1.3.0"`))
	in.Binding.Version = "1.3.0"
	in.Findings[0].Subjects[0].Name = "pkg:npm/sigstore@1.3.0"
	p := shipped(t, "privileged")
	j := admission.Decide(in, p)
	wantJudged(t, j, admission.Admit, "namespace_authenticated", "artifact_digest_bound", "attestation_policy_pass")
	s, second, _ := records(t, j, p)
	if first.SpanningSet == second.SpanningSet || second.Check(s) != nil || first.Check(s) == nil {
		t.Error("two versions of one server share a receipt")
	}
}

type testSigner struct {
	key ed25519.PrivateKey
	sig []byte // instead of a signature, if not nil
}

func newSigner(seed byte) *testSigner {
	return &testSigner{key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))}
}

func (s *testSigner) public() ed25519.PublicKey { return s.key.Public().(ed25519.PublicKey) }
func (s *testSigner) KeyID() string             { return event.KeyID(s.public()) }
func (s *testSigner) Sign(pae []byte) ([]byte, error) {
	if s.sig != nil {
		return s.sig, nil
	}
	return ed25519.Sign(s.key, pae), nil
}

func (s *testSigner) keys(id string) (ed25519.PublicKey, bool) { return s.public(), id == s.KeyID() }

func TestADM09_SealedReceipts(t *testing.T) {
	_, r := admitted(t)
	signer, stranger := newSigner(1), newSigner(2)
	sealed, err := admission.Seal(r, signer)
	if err != nil {
		t.Fatal(err)
	}
	got, by, err := admission.Open(sealed, signer.keys)
	if err != nil || by != signer.KeyID() || !reflect.DeepEqual(got, r) {
		t.Fatalf("%v by %s: %v", got, by, err)
	}
	if _, _, err := admission.Open(sealed, stranger.keys); !errors.Is(err, admission.ErrSignature) {
		t.Errorf("by a stranger: %v", err)
	}
	unsigned, err := admission.Seal(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := admission.Open(unsigned, signer.keys); !errors.Is(err, admission.ErrUnsigned) {
		t.Errorf("unsigned, with a signer: %v", err)
	}
	if _, _, err := admission.Open(unsigned, nil); err != nil {
		t.Errorf("unsigned, without one: %v", err)
	}
	if _, err := admission.Seal(r, &testSigner{key: signer.key, sig: []byte{}}); !errors.Is(err, admission.ErrUnsigned) {
		t.Errorf("a signer that signs nothing: %v", err)
	}
	if b, err := admission.Seal(r, &testSigner{key: signer.key, sig: make([]byte, 64)}); err != nil {
		t.Error(err)
	} else if _, _, err := admission.Open(b, signer.keys); !errors.Is(err, admission.ErrSignature) {
		t.Errorf("a signer that lies: %v", err)
	}
	for name, b := range map[string][]byte{
		"another time":  bytes.Replace(sealed, []byte("2026-11-30T12:00:00.000Z"), []byte("2026-11-30T12:00:00.001Z"), 1),
		"another class": bytes.Replace(sealed, []byte("security-evidence-400d"), []byte("security-evidence-401d"), 1),
	} {
		if bytes.Equal(b, sealed) {
			t.Fatal(name)
		}
		if _, _, err := admission.Open(b, signer.keys); !errors.Is(err, admission.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{
		"white space":  bytes.Replace(sealed, []byte(`,"signatures"`), []byte(`, "signatures"`), 1),
		"other order":  append(append([]byte(`{"signatures":[],`), unsigned[1:len(unsigned)-len(`,"signatures":[]}`)]...), '}'),
		"line end":     append(bytes.Clone(sealed), '\n'),
		"bare base64":  bytes.Replace(sealed, []byte(`=="`), []byte(`"`), 1),
		"extra member": append([]byte(`{"a":1,`), sealed[1:]...),
	} {
		if _, _, err := admission.Open(b, nil); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// A receipt is pure data: nothing in it changes when keys are revoked later, and
// what it does not claim stands beside it.
func TestADM27_CLM06_CLM07_ReceiptCarriesItsBoundary(t *testing.T) {
	_, r := admitted(t)
	r.ClaimBoundary = "safe_v1"
	wantPath(t, "boundary", r, "/claimBoundary")
	for _, words := range []string{
		"no proof of what they do when they run", "does not claim present safety",
		"neither authorises nor prevents execution", "no verdict about safety",
	} {
		if !strings.Contains(admission.ClaimBoundaryText, words) {
			t.Errorf("the boundary does not say: %s", words)
		}
	}
}
