package vectors

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
)

// publishedSet is the vector of the published format. It is never changed.
type publishedSet struct {
	Origin       string                `json:"origin"`
	Licence      string                `json:"licence_note"`
	Unreproduced map[string]string     `json:"published_but_unreproducible"`
	Input        admission.SpanningSet `json:"input"`
	Digest       string                `json:"digest"`
	MustDiffer   []publishedMutation   `json:"must_differ"`
}

type publishedMutation struct {
	Changed string `json:"changed"`
	Digest  string `json:"digest"`
}

func TestARC01_PublishedSpanningSets(t *testing.T) {
	var doc publishedSet
	load(t, "admission/archive_spanning_set_digest.json", &doc)
	if got, err := doc.Input.Digest(); err != nil || got != doc.Digest {
		t.Errorf("got %s, %v; want %s", got, err, doc.Digest)
	}
	seed, err := canon.Restricted.Canonical(file(t, "admission/seed_spanning_set.json"))
	if err != nil || !bytes.Equal(seed, file(t, "admission/seed_spanning_set.py.canon")) {
		t.Errorf("canonical bytes differ: %s, %v", seed, err)
	}
	s, err := admission.ParseSpanningSet(seed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Digest(); err != nil || got != "sha256:4f09b38d6400cfebb22cfd8185cb9f28ba9d187b10ad5fe39bafd0c5bb0d2baa" {
		t.Errorf("got %s, %v", got, err)
	}
	// Key order and white space do not matter to what is digested; to us they
	// are another spelling.
	if _, err := admission.ParseSpanningSet(file(t, "admission/seed_spanning_set.json")); err == nil {
		t.Error("a second spelling is accepted")
	}
}

// Each of the seven changes gives the digest that is pinned for it. Three of the
// changed sets are lawful; the others have a digest that is none, which we refuse.
func TestARC02_AnyBoundFieldChangesTheDigest(t *testing.T) {
	var doc publishedSet
	load(t, "admission/archive_spanning_set_digest.json", &doc)
	if len(doc.MustDiffer) != 7 {
		t.Fatalf("%d changes", len(doc.MustDiffer))
	}
	lawful := 0
	for _, m := range doc.MustDiffer {
		s := doc.Input
		member := map[string]*string{
			"registry_snapshot.metadata_digest":  &s.RegistrySnapshot.MetadataDigest,
			"registry_snapshot.server_name":      &s.RegistrySnapshot.ServerName,
			"evidence_bundle.artifact_digest":    &s.EvidenceBundle.ArtifactDigest,
			"evidence_bundle.attestation_digest": &s.EvidenceBundle.AttestationDigest,
			"policy_decision.policy_digest":      &s.PolicyDecision.PolicyDigest,
			"policy_decision.verifier_version":   &s.PolicyDecision.VerifierVersion,
			"retention_class":                    &s.RetentionClass,
		}[m.Changed]
		if member == nil {
			t.Fatal(m.Changed)
		}
		*member += "x"
		if m.Changed == "retention_class" {
			*member = "discovery-telemetry-30d"
		}
		b, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		if b, err = canon.Restricted.Canonical(b); err != nil || admission.Digest(b) != m.Digest || m.Digest == doc.Digest {
			t.Errorf("%s: got %s, %v; want %s", m.Changed, admission.Digest(b), err, m.Digest)
		}
		switch got, err := s.Digest(); {
		case strings.HasSuffix(m.Changed, "_digest"):
			if err == nil {
				t.Errorf("%s: %q is taken for a digest", m.Changed, *member)
			}
		case err != nil || got != m.Digest:
			t.Errorf("%s: got %s, %v", m.Changed, got, err)
		default:
			lawful++
		}
	}
	if lawful != 3 {
		t.Errorf("%d lawful changes", lawful)
	}
}

type named struct {
	Canonical string `json:"canonical"`
	Digest    string `json:"digest"`
}

type admissionVectors struct {
	Description string `json:"description"`
	PublicKey   string `json:"publicKey"`
	SetDigest   []struct {
		Rule    string   `json:"rule"`
		Digests []string `json:"digests"`
		Digest  string   `json:"digest"`
	} `json:"setDigest"`
	Sets []struct {
		Rule        string `json:"rule"`
		Snapshot    *named `json:"snapshot"`
		Binding     *named `json:"binding"`
		Evidence    *named `json:"evidence"`
		Decision    *named `json:"decision"`
		SpanningSet named  `json:"spanningSet"`
		Receipt     named  `json:"receipt"`
		Sealed      string `json:"sealed"`
	} `json:"sets"`
	Reject []struct {
		Record string `json:"record"`
		Rule   string `json:"rule"`
		Input  string `json:"input"`
		Path   string `json:"path"`
	} `json:"reject"`
	Entries []struct {
		Rule       string         `json:"rule"`
		Input      string         `json:"input"`
		Raw        string         `json:"raw"`
		Canonical  string         `json:"canonical"`
		Normalised string         `json:"normalised"`
		Code       admission.Code `json:"code"`
	} `json:"entries"`
	Policies []struct {
		Rule      string `json:"rule"`
		YAML      string `json:"yaml"`
		Canonical string `json:"canonical"`
		Digest    string `json:"digest"`
	} `json:"policies"`
}

func admissionFile(t *testing.T) *admissionVectors {
	t.Helper()
	v := new(admissionVectors)
	load(t, "admission.json", v)
	return v
}

// read parses a record of the vectors and compares its name.
func read[R admission.Record](t *testing.T, rule string, n *named, parse func([]byte) (R, error)) (r R, ok bool) {
	t.Helper()
	if n == nil {
		return r, false
	}
	r, err := parse([]byte(n.Canonical))
	if err != nil {
		t.Errorf("%s: %v", rule, err)
		return r, false
	}
	digest, b, err := admission.Name(r)
	if err != nil || digest != n.Digest || string(b) != n.Canonical {
		t.Errorf("%s: got %s, %v; want %s", rule, digest, err, n.Digest)
	}
	return r, true
}

func TestADM04_ADM06_ADM07_ADM08_ADM09_Records(t *testing.T) {
	v := admissionFile(t)
	key := ed25519.PublicKey(unb64(t, v.PublicKey))
	keys := func(id string) (ed25519.PublicKey, bool) { return key, id == event.KeyID(key) }
	for _, c := range some(t, "sets", v.Sets) {
		s := &admission.Set{}
		if r, ok := read(t, c.Rule, c.Snapshot, admission.ParseSnapshot); ok {
			s.Snapshot = r
		}
		if r, ok := read(t, c.Rule, c.Binding, admission.ParseBinding); ok {
			s.Binding = r
		}
		s.Evidence, _ = read(t, c.Rule, c.Evidence, admission.ParseEvidenceBundle)
		s.Decision, _ = read(t, c.Rule, c.Decision, admission.ParsePolicyDecision)
		want, ok := read(t, c.Rule, &c.Receipt, admission.ParseReceipt)
		if _, ok2 := read(t, c.Rule, &c.SpanningSet, admission.ParseSpanningSet); !ok || !ok2 || s.Evidence == nil || s.Decision == nil {
			continue
		}
		r, span, err := admission.NewReceipt(s, want.RetentionClass, want.Refers, want.ReceivedAt)
		if err != nil {
			t.Errorf("%s: %v", c.Rule, err)
			continue
		}
		if digest, _, err := admission.Name(r); err != nil || digest != c.Receipt.Digest || string(span) != c.SpanningSet.Canonical {
			t.Errorf("%s: got receipt %s, %v and set %s", c.Rule, digest, err, span)
		}
		if err := want.Check(s); err != nil {
			t.Errorf("%s: %v", c.Rule, err)
		}
		switch opened, by, err := admission.Open([]byte(c.Sealed), keys); {
		case errors.Is(err, admission.ErrUnsigned):
			if b, err := admission.Seal(want, nil); err != nil || string(b) != c.Sealed {
				t.Errorf("%s: got %s, %v", c.Rule, b, err)
			}
		case err != nil || by != event.KeyID(key) || opened.SpanningSet != want.SpanningSet:
			t.Errorf("%s: opened by %s: %v", c.Rule, by, err)
		}
	}
}

func TestADM04_ADM06_ADM08_RefusedRecords(t *testing.T) {
	parsers := map[string]func([]byte) error{
		"snapshot": func(b []byte) error { _, err := admission.ParseSnapshot(b); return err },
		"binding":  func(b []byte) error { _, err := admission.ParseBinding(b); return err },
		"evidence": func(b []byte) error { _, err := admission.ParseEvidenceBundle(b); return err },
		"decision": func(b []byte) error { _, err := admission.ParsePolicyDecision(b); return err },
		"receipt":  func(b []byte) error { _, err := admission.ParseReceipt(b); return err },
	}
	for _, c := range some(t, "reject", admissionFile(t).Reject) {
		err := parsers[c.Record]([]byte(c.Input))
		var e *admission.Error
		if !errors.As(err, &e) || c.Path != "" && e.Path != c.Path {
			t.Errorf("%s, %s: got %v; want path %q", c.Record, c.Rule, err, c.Path)
		}
	}
}

func TestADM07_SetDigests(t *testing.T) {
	for _, c := range some(t, "setDigest", admissionFile(t).SetDigest) {
		if got := admission.SetDigest(c.Digests); got != c.Digest {
			t.Errorf("%s: got %q, want %q", c.Rule, got, c.Digest)
		}
	}
}

func TestADM05_RegistryEntries(t *testing.T) {
	for _, c := range some(t, "entries", admissionFile(t).Entries) {
		d := admission.ParseEntry([]byte(c.Input))
		if d.Refused != nil {
			if d.Refused.Code != c.Code {
				t.Errorf("%s: got %+v, want %q", c.Rule, d.Refused, c.Code)
			}
			continue
		}
		s, err := admission.NewSnapshot("file:server.json", d, admission.Asserted, "2026-11-30T12:00:00.000Z")
		if err != nil {
			t.Errorf("%s: %v", c.Rule, err)
			continue
		}
		if s.Raw.Digest != c.Raw || s.Canonical != c.Canonical || s.Normalised != c.Normalised || c.Code != "" {
			t.Errorf("%s: got %s %s %s, want %s %s %s %s", c.Rule, s.Raw.Digest, s.Canonical, s.Normalised, c.Raw, c.Canonical, c.Normalised, c.Code)
		}
		sum := sha256.Sum256([]byte(c.Input))
		if s.Raw.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
			t.Errorf("%s: raw is not what was read", c.Rule)
		}
	}
}

func TestADM08_PolicyDigests(t *testing.T) {
	for _, c := range some(t, "policies", admissionFile(t).Policies) {
		p, err := policy.Load([]byte(c.YAML))
		if err != nil {
			t.Errorf("%s: %v", c.Rule, err)
			continue
		}
		if string(p.Canonical()) != c.Canonical || p.Ref().Digest != c.Digest {
			t.Errorf("%s: got %s %s", c.Rule, p.Ref().Digest, p.Canonical())
		}
	}
}
