package trust

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"testing"

	"filippo.io/mldsa"
	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

// The signers are those of other projects, so that what is verified here was
// not made here. Keys come from fixed seeds.

func seed(label string) []byte {
	s := sha256.Sum256([]byte("trust test " + label))
	return s[:]
}

func eventKey(label string) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(seed(label)) }

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// skey is the private form that x/mod and formats read.
func skey(name string, alg byte, public, seed []byte) string {
	h := sha256.Sum256(append(append([]byte(name+"\n"), alg), public...))
	return fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, binary.BigEndian.Uint32(h[:4]), base64.StdEncoding.EncodeToString(append([]byte{alg}, seed...)))
}

func publicOf(label string) ed25519.PublicKey { return eventKey(label).Public().(ed25519.PublicKey) }

func vkey(t testing.TB, name string, typ KeyType, label string) VerifierKey {
	t.Helper()
	if typ == TypeMLDSA44 {
		_, v := latticeSigner(t, name, label)
		return v
	}
	return must(NewVerifierKey(name, typ, publicOf(label)))(t)
}

func logSigner(t testing.TB, name, label string) note.Signer {
	t.Helper()
	return must(note.NewSigner(skey(name, 1, publicOf(label), seed(label))))(t)
}

func witnessSigner(t testing.TB, name, label string) note.Signer {
	t.Helper()
	return must(cosign.NewSignerForCosignatureV1(skey(name, 1, publicOf(label), seed(label))))(t)
}

func latticeSigner(t testing.TB, name, label string) (note.Signer, VerifierKey) {
	t.Helper()
	// The public key is not known before, and the signer does not look at the id.
	s := must(cosign.NewMLDSASigner(skey(name, 6, nil, seed(label))))(t)
	private := must(mldsa.NewPrivateKey(mldsa.MLDSA44(), seed(label)))(t)
	k := must(NewVerifierKey(name, TypeMLDSA44, private.PublicKey().Bytes()))(t)
	if s.KeyHash() != k.ID {
		t.Fatalf("id %08x, the signer says %08x", k.ID, s.KeyHash())
	}
	return s, k
}

// sign makes a signed note with the public reference implementation.
func sign(t testing.TB, text string, signers ...note.Signer) []byte {
	t.Helper()
	return must(note.Sign(&note.Note{Text: text}, signers...))(t)
}
