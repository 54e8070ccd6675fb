package trust

import (
	"crypto"
	"crypto/ed25519"
	"testing"

	"counterfoil/ledger/event"
)

// A key that signs digests counts like any other, in its own scheme only.
func TestATT32_KeysThatSignDigests(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	pub := key.Public().(ed25519.PublicKey)
	body := []byte(`{"any":"bytes"}`)
	pae := event.PAE(event.PayloadType, body)
	digest := event.Prehash(pae)
	sig, err := key.Sign(nil, digest[:], &ed25519.Options{Hash: crypto.SHA512})
	if err != nil {
		t.Fatal(err)
	}
	pure, hashed := event.KeyID(pub), event.PrehashKeyID(pub)
	for _, test := range []struct {
		name, trusted, named string
		sig                  []byte
		want                 KeyReason
	}{
		{"its own scheme", hashed, hashed, sig, ""},
		{"the id of the other scheme", hashed, pure, sig, UnknownKey},
		{"trusted for the other scheme", pure, hashed, sig, UnknownKey},
		{"a pure signature", hashed, hashed, ed25519.Sign(key, pae), BadSignature},
		{"a pure signature over the digest", hashed, hashed, ed25519.Sign(key, digest[:]), BadSignature},
		{"under the pure id", pure, pure, sig, BadSignature},
	} {
		keys, err := NewEventKeys([]EventKey{{KeyID: test.trusted, PublicKey: pub}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = keys.CheckBytes(body, []event.Signature{{KeyID: test.named, Sig: test.sig}}, 0)
		if got := ReasonOf(err); got != test.want || (err == nil) != (test.want == "") {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	if _, err := NewEventKeys([]EventKey{{KeyID: pure, PublicKey: pub}, {KeyID: hashed, PublicKey: pub}}); err == nil {
		t.Error("one key was trusted in two schemes")
	}
}
