// Package reviewkit makes admissions for tests of reviews: real records, receipts
// and evidence in a real archive.
package reviewkit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
)

// Then is when admissions are made, Now when they are reviewed.
var (
	Then = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	Now  = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
)

// Signer signs receipts.
type Signer struct{ key ed25519.PrivateKey }

// NewSigner makes a signer from a seed byte.
func NewSigner(seed byte) Signer {
	return Signer{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))}
}

// KeyID implements admission.ReceiptSigner.
func (s Signer) KeyID() string { return event.KeyID(s.key.Public().(ed25519.PublicKey)) }

// Sign implements admission.ReceiptSigner.
func (s Signer) Sign(pae []byte) ([]byte, error) { return ed25519.Sign(s.key, pae), nil }

// Keys knows the signer's key.
func (s Signer) Keys(id string) (ed25519.PublicKey, bool) {
	return s.key.Public().(ed25519.PublicKey), id == s.KeyID()
}

// Shipped reads a policy of deploy/policies, with replacements in its text.
func Shipped(t testing.TB, name string, oldNew ...string) *policy.Policy {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	b, err := os.ReadFile(filepath.Join(filepath.Dir(file), "..", "..", "..", "deploy", "policies", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(text, oldNew[i]) {
			t.Fatalf("policy %s has no %q", name, oldNew[i])
		}
	}
	return Load(t, strings.NewReplacer(oldNew...).Replace(text))
}

// Load reads a policy.
func Load(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Load([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Sigstore is a verifier that believes a trusted root of testdata/evidence.
func Sigstore(t testing.TB, root string) admission.Verifier {
	t.Helper()
	v, err := sigstore.New(sigstore.Config{Root: evidencekit.Root(t, root)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Case is an admission.
type Case struct {
	Server, Package, Version string
	Repository               string
	Artifact                 []byte
	Evidence                 []admission.Evidence
	Class                    string
	Policy                   *policy.Policy
	Verifiers                []admission.Verifier
	Signer                   admission.ReceiptSigner
	At                       time.Time
}

// RealSigstore is sigstore 2.0.0 of npm with its real provenance.
func RealSigstore(t testing.TB, p *policy.Policy, class string) Case {
	t.Helper()
	return Case{
		Server: "io.github.sigstore/sigstore", Package: "sigstore", Version: "2.0.0", Repository: "https://github.com/sigstore/sigstore-js",
		Artifact: evidencekit.File(t, "sigstore-2.0.0.tgz"),
		Evidence: []admission.Evidence{{Locator: "sigstore-2.0.0.provenance.json", Body: evidencekit.File(t, "sigstore-2.0.0.provenance.json")}},
		Class:    class, Policy: p, Verifiers: []admission.Verifier{Sigstore(t, "public-good.2023")}, Signer: NewSigner(1), At: Then,
	}
}

// Admitted is an admission that is in the archive.
type Admitted struct {
	Receipt  string // digest of the sealed receipt
	Sealed   []byte
	Bundle   string // digest of the evidence bundle
	Evidence []string
	Artifact string // sha256:…
	Decision admission.Decision
	Policy   string
}

// Admit judges the case and keeps all of it under an owner. The decision is what
// the policy says.
func (c Case) Admit(t testing.TB, store archive.Store, owner string) Admitted {
	t.Helper()
	in := c.input(t)
	j := admission.Decide(in, c.Policy)
	set, err := admission.NewSet(j, c.Policy)
	if err != nil {
		t.Fatal(err)
	}
	class := c.Policy.Class(c.Class)
	if class == nil {
		t.Fatalf("the policy has no class %q", c.Class)
	}
	receipt, span, err := admission.NewReceipt(set, class.Retention, "", event.FormatTime(c.At))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := admission.Seal(receipt, c.Signer)
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{t, store, owner, c}
	for role, r := range map[string]admission.Record{
		"registry_snapshot": set.Snapshot, "artifact_binding": set.Binding, "evidence_bundle": set.Evidence, "policy_decision": set.Decision,
	} {
		b, err := admission.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		k.put(role, b)
	}
	k.put("spanning_set", span)
	out := Admitted{
		Receipt: k.put("receipt", sealed), Sealed: sealed, Bundle: receipt.Records.EvidenceBundle, Decision: j.Decision,
		Artifact: set.Binding.SHA256(), Policy: c.Policy.Ref().Digest,
	}
	for _, e := range c.Evidence {
		out.Evidence = append(out.Evidence, k.put("evidence", e.Body))
	}
	if err := store.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	return out
}

func (c Case) input(t testing.TB) *admission.Input {
	t.Helper()
	entry := fmt.Appendf(nil, `{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":%q,`+
		`"description":"a test","version":%q,"repository":{"url":%q,"source":"github"},`+
		`"packages":[{"registryType":"npm","identifier":%q,"version":%q,"transport":{"type":"stdio"}}]}`, c.Server, c.Version, c.Repository, c.Package, c.Version)
	snapshot, err := admission.NewSnapshot("https://registry.example", admission.ParseEntry(entry), admission.Asserted, event.FormatTime(c.At))
	if err != nil {
		t.Fatal(err)
	}
	in := &admission.Input{Class: c.Class, Snapshot: snapshot, Binding: evidencekit.Bytes(c.Package, c.Version, c.Artifact), At: c.At}
	for _, v := range c.Verifiers {
		in.Verifiers = append(in.Verifiers, v.Info())
	}
	for _, e := range c.Evidence {
		for _, v := range c.Verifiers {
			if !v.Handles(e) {
				continue
			}
			findings, err := v.Verify(context.Background(), e, in.Binding)
			if err != nil {
				t.Fatal(err)
			}
			in.Findings = append(in.Findings, findings...)
			break
		}
	}
	return in
}

type keeper struct {
	t     testing.TB
	store archive.Store
	owner string
	c     Case
}

func (k *keeper) put(role string, b []byte) string {
	k.t.Helper()
	class := k.c.Policy.Class(k.c.Class)
	r, ok := k.c.Policy.Retention(class.Retention)
	if !ok {
		k.t.Fatalf("no retention class %q", class.Retention)
	}
	e, err := k.store.Put(context.Background(), archive.Item{Owner: k.owner, Role: role, Digest: admission.Digest(b), At: k.c.At,
		Retention: archive.Retention{Class: class.Retention, Kind: r.Kind, Days: r.Days}}, bytes.NewReader(b))
	if err != nil {
		k.t.Fatal(err)
	}
	return e.Digest
}

// Stamps verifies evidence of the form "stamp:KEY:PREDICATE:anything" by a list of
// keys. It costs nothing, and shows how runs do with a verifier that is not
// Sigstore's.
type Stamps struct {
	Trusted []string
	Version string
	// Unavailable are keys of which nothing can be found out now.
	Unavailable []string
}

// Stamp is evidence that Stamps reads.
func Stamp(key, predicate, rest string) admission.Evidence {
	return admission.Evidence{Locator: key + "-" + predicate + rest, MediaType: "text/plain", Body: []byte("stamp:" + key + ":" + predicate + ":" + rest)}
}

// Info implements admission.Verifier.
func (s *Stamps) Info() admission.VerifierInfo {
	return admission.VerifierInfo{ID: "stamps", Version: s.Version, Trust: []admission.TrustMaterial{
		{Name: "keys", Digest: admission.Digest([]byte(strings.Join(s.Trusted, ",")))}}}
}

// Handles implements admission.Verifier.
func (s *Stamps) Handles(e admission.Evidence) bool { return bytes.HasPrefix(e.Body, []byte("stamp:")) }

// Verify implements admission.Verifier.
func (s *Stamps) Verify(ctx context.Context, e admission.Evidence, a *admission.ArtifactBinding) ([]admission.Finding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	parts := strings.Split(string(e.Body), ":")
	f := admission.Finding{Evidence: admission.Digest(e.Body), Locator: e.Locator, MediaType: "text/plain", Verifier: "stamps",
		State: admission.FindingVerified, Payload: admission.Digest(append([]byte("payload"), e.Body...)), PredicateType: "https://example/" + parts[2],
		Subjects: []admission.Subject{{Name: a.SubjectNames()[0], Digests: a.Bytes.Digests}},
		Signer:   &admission.Signer{KeyID: parts[1]}, SignedAt: event.FormatTime(Then)}
	for _, k := range s.Unavailable {
		if k == parts[1] {
			f.State, f.Code = admission.FindingUnavailable, admission.EvidenceUnavailable
			return []admission.Finding{f}, nil
		}
	}
	for _, k := range s.Trusted {
		if k == parts[1] {
			return []admission.Finding{f}, nil
		}
	}
	f.State, f.Code = admission.FindingFailed, admission.SignerKeyUnknown
	return []admission.Finding{f}, nil
}

// StampPolicy demands stamps of three predicates by key k for classes three, one
// and none of the impacts of their names: three-low, one-privileged …
func StampPolicy(t testing.TB, version string, review string) *policy.Policy {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "schema: counterfoil.policy.v1\nid: stamps\nversion: %q\nretention:\n  keep-400d: {kind: security_evidence, days: 400}\n", version)
	if review != "" {
		fmt.Fprintf(&b, "review: %s\n", review)
	}
	b.WriteString("classes:\n")
	for _, demands := range []string{"three", "one", "none"} {
		for _, impact := range event.Impacts {
			if demands == "none" && impact == event.ImpactPrivileged {
				continue // no policy may say that
			}
			fmt.Fprintf(&b, "  %s-%s:\n    impact: %s\n    minimum:\n      namespace: [registry_asserted]\n      bindings: [bytes]\n", demands, impact, impact)
			n := map[string]int{"three": 3, "one": 1}[demands]
			if n == 0 {
				b.WriteString("      attestations: none\n")
			} else {
				b.WriteString("      attestations:\n")
			}
			for i := range n {
				fmt.Fprintf(&b, "        - {id: d%d, predicateTypes: [\"https://example/p%d\"], signers: [{keyIds: [k]}]}\n", i, i)
			}
			b.WriteString("    quarantine: {calls: refuse, retries: 0, reviewWithinHours: 24}\n    retention: keep-400d\n")
		}
	}
	return Load(t, b.String())
}

// Stamped is an admission with n stamps, distinct by its name.
func Stamped(p *policy.Policy, name, class string, n int, v admission.Verifier) Case {
	c := Case{Server: "io.github.example/" + name, Package: name, Version: "1.0.0", Repository: "https://github.com/example/" + name,
		Artifact: []byte("artifact of " + name), Class: class, Policy: p, Verifiers: []admission.Verifier{v}, Signer: NewSigner(1), At: Then}
	for i := range n {
		c.Evidence = append(c.Evidence, Stamp("k", fmt.Sprint("p", i), hex.EncodeToString([]byte(name))))
	}
	return c
}
