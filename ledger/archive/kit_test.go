package archive_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
	"counterfoil/ledger/vault"
)

var (
	at   = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	year = archive.Retention{Class: "evidence-1y", Kind: event.RetentionEvidence, Days: 365}
)

func attempt(n int) string { return fmt.Sprintf("att_%032x", n) }

func openVault(t testing.TB, dir string, random io.Reader) *vault.Vault {
	t.Helper()
	v, err := vault.Open(dir, [32]byte{7}, vault.Options{MinFree: 1, Random: random})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// room is an archive with three attempts that the ledger has begun.
func room(t testing.TB) (*archive.Archive, *vault.Vault) {
	t.Helper()
	v := openVault(t, t.TempDir(), rand.Reader)
	begin(t, v)
	return archive.New(v), v
}

func begin(t testing.TB, v *vault.Vault) {
	t.Helper()
	for n := range 3 {
		if err := v.Put(attempt(n), [32]byte{byte(n + 1)}); err != nil {
			t.Fatal(err)
		}
	}
}

func item(owner int, role string) archive.Item {
	return archive.Item{Owner: attempt(owner), Role: role, Retention: year, At: at}
}

func put(t testing.TB, a *archive.Archive, i archive.Item, content []byte) archive.Entry {
	t.Helper()
	e, err := a.Put(t.Context(), i, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func read(t testing.TB, a *archive.Archive, digest string) ([]byte, error) {
	t.Helper()
	r, err := a.Open(t.Context(), digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// mustBeGone demands that a body reads as unavailable, and not as trouble.
func mustBeGone(t testing.TB, a *archive.Archive, digest string, want archive.State) {
	t.Helper()
	_, err := read(t, a, digest)
	var gone *archive.Gone
	var failure *archive.Failure
	if !errors.As(err, &gone) || gone.State != want || errors.As(err, &failure) || errors.Is(err, archive.ErrAbsent) {
		t.Errorf("%s: %v, want %s", digest, err, want)
	}
}

// admitted is an admission as its archive phase keeps it.
type admitted struct {
	receipt []byte // sealed
	entries map[string]archive.Entry
	log     []byte // of a verifier
}

// admit judges an npm package with provenance under a policy that is shipped, and
// keeps everything.
func admit(t testing.TB, a *archive.Archive, owner int) *admitted {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", "policies", "privileged.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	entry := []byte(`{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"io.github.sigstore/sigstore",` +
		`"description":"A package.","version":"2.0.0","packages":[{"registryType":"npm","identifier":"sigstore","version":"2.0.0","transport":{"type":"stdio"}}]}`)
	snapshot, err := admission.NewSnapshot("file:server.json", admission.ParseEntry(entry), admission.Asserted, event.FormatTime(at))
	if err != nil {
		t.Fatal(err)
	}
	evidence := []byte("a signed statement")
	in := &admission.Input{
		Class: "privileged", Snapshot: snapshot,
		Binding: &admission.ArtifactBinding{
			Schema: admission.BindingSchema, Kind: admission.KindBytes, PackageType: "npm", Identifier: "sigstore", Version: "2.0.0",
			Transport: "stdio", Locator: "https://npm.example/sigstore-2.0.0.tgz", RetrievedAt: event.FormatTime(at),
			Bytes: &admission.BytesBinding{Digests: admission.DigestSet{"sha256": strings.Repeat("22", 32)}, Size: 37200},
		},
		Findings: []admission.Finding{{Evidence: admission.Digest(evidence), Locator: "provenance.json", Verifier: "sigstore",
			State: admission.FindingFailed, MediaType: "application/json", Code: admission.AttestationTampered}},
		Verifiers: []admission.VerifierInfo{{ID: "sigstore", Version: "1.3.0"}},
		At:        at,
	}
	set, err := admission.NewSet(admission.Decide(in, p), p)
	if err != nil {
		t.Fatal(err)
	}
	receipt, span, err := admission.NewReceipt(set, year.Class, "", event.FormatTime(at))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := admission.Seal(receipt, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := &admitted{receipt: sealed, entries: map[string]archive.Entry{}, log: []byte(`{"steps":["parsed","verified"],"verifier":"sigstore"}`)}
	for role, content := range map[string][]byte{
		"registry_entry": entry, "evidence": evidence, "verifier_log": out.log, archive.RoleSpanningSet: span, archive.RoleReceipt: sealed,
	} {
		out.entries[role] = put(t, a, item(owner, role), content)
	}
	for role, r := range map[string]admission.Record{
		"registry_snapshot": set.Snapshot, "artifact_binding": set.Binding, "evidence_bundle": set.Evidence, archive.RoleDecision: set.Decision,
	} {
		canonical, err := admission.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		out.entries[role] = put(t, a, item(owner, role), canonical)
	}
	if err := a.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out
}

// hook runs do at the nth read of randomness.
type hook struct {
	n  int
	do func()
}

func (h *hook) Read(p []byte) (int, error) {
	if h.n--; h.n == 0 {
		h.do()
	}
	return rand.Read(p)
}
