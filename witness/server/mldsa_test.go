package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"counterfoil/internal/testkit/logkit"
	"counterfoil/ledger/trust"
)

func mldsaKey(t *testing.T) *Key {
	t.Helper()
	k, err := GenerateKeyOf(trust.TypeMLDSA44, filepath.Join(t.TempDir(), "key"), "witness.example/w1", logkit.Seed("lattice"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestLOG10_MLDSAKeyFile: others read our key file, and we read theirs.
func TestLOG10_MLDSAKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	made, err := GenerateKeyOf(trust.TypeMLDSA44, path, "witness.example/w1", logkit.Seed("seed"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := LoadKey(path)
	if err != nil || k.Verifier().String() != made.Verifier().String() || k.Verifier().Type != trust.TypeMLDSA44 {
		t.Fatalf("%v, %v", k, err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := cosign.NewMLDSASigner(strings.TrimSuffix(string(raw), "\n"))
	if err != nil || other.Name() != k.Verifier().Name || other.KeyHash() != k.Verifier().ID {
		t.Errorf("%v, %v", other, err)
	}
	secret := string(raw[strings.LastIndex(string(raw), "+")+1 : len(raw)-1])
	if shown := fmt.Sprintf("%v %+v %#v", k, k, k); strings.Contains(shown, secret) {
		t.Errorf("prints the key: %s", shown)
	}
	skey, vkey, err := cosign.GenerateMLDSAKey("witness.example/theirs")
	if err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(theirs, []byte(skey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if k, err = LoadKey(theirs); err != nil || k.Verifier().String() != vkey {
		t.Errorf("%v, %v", k, err)
	}
	if _, err := GenerateKeyOf(trust.TypeEd25519, filepath.Join(t.TempDir(), "key"), "x", logkit.Seed("x")); err == nil {
		t.Error("makes a key of a log")
	}
}

// TestLOG10_TwoKeysCosign: one answer holds a line by each key, of one time, and
// both are served; code of others verifies them.
func TestLOG10_TwoKeysCosign(t *testing.T) {
	l := newLog(t, origin, 40, 40, "")
	w := newWitness(t, 1000, l)
	second := mldsaKey(t)
	w.srv.cfg.More = []*Key{second}
	first, err := cosign.NewVerifierForCosignatureV1(w.key.Verifier().String())
	if err != nil {
		t.Fatal(err)
	}
	lattice, err := cosign.NewMLDSAVerifier(second.Verifier().String())
	if err != nil {
		t.Fatal(err)
	}
	logKey, err := note.NewVerifier(l.key.String())
	if err != nil {
		t.Fatal(err)
	}
	check := func(signed string) {
		t.Helper()
		n, err := note.Open([]byte(signed), note.VerifierList(logKey, first, lattice))
		if err != nil {
			t.Fatal(err)
		}
		if len(n.Sigs) != 3 || len(n.UnverifiedSigs) != 0 {
			t.Fatalf("%d signatures verify, %d are unknown", len(n.Sigs), len(n.UnverifiedSigs))
		}
		for _, s := range n.Sigs[1:] {
			if at, err := cosign.CoSigV1Timestamp(s); err != nil || at.Unix() != 1_800_000_000 {
				t.Errorf("key %08x signed at %v, %v", s.Hash, at, err)
			}
		}
	}
	for size := uint64(0); size < 3; size++ {
		got := w.post(t, l.grow(t, size, size+1))
		if got.status != 200 || strings.Count(got.body, "\n") != 2 {
			t.Fatalf("%d: %q", got.status, got.body)
		}
		check(l.checkpoint(t, size+1) + got.body)
		kept, _ := w.store.Latest(origin)
		check(kept.Note)
	}
	// The lattice key signs no extension lines, and says so by verifying without.
	text := trust.Checkpoint{Origin: origin, Size: 3, Root: [32]byte(l.HashAt(3)), Extension: "more\n"}.Text()
	got := w.post(t, "old 3\n\n"+l.sign(t, text))
	if got.status != 200 {
		t.Fatal(got)
	}
	check(l.sign(t, text) + got.body)
}
