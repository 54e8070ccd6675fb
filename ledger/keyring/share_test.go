package keyring

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"slices"
	"testing"
)

// TestSharedRegistry: nodes of one ledger exchange their registry as bytes, and
// find out what it takes back.
func TestSharedRegistry(t *testing.T) {
	a := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)).Public().(ed25519.PublicKey)
	b := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32)).Public().(ed25519.PublicKey)
	r := &Registry{}
	for i, pub := range []ed25519.PublicKey{a, b} {
		if _, _, err := r.Register(KeyID(pub), pub, uint64(10*i)); err != nil {
			t.Fatal(err)
		}
	}
	enc, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	same, err := ParseRegistry(enc)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := same.Encode(); err != nil || !bytes.Equal(again, enc) {
		t.Errorf("%q %v, want %q", again, err, enc)
	}
	for _, bad := range [][]byte{nil, enc[1:], append(bytes.Clone(enc), '\n'), make([]byte, maxRegistry+1)} {
		if _, err := ParseRegistry(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
	change := func(id string, s Status, at uint64) *Registry {
		next := r.Clone()
		if _, err := next.SetStatus(id, s, at); err != nil {
			t.Fatal(err)
		}
		return next
	}
	for _, x := range []struct {
		name string
		next *Registry
		want []Taken
	}{
		{"the same", r.Clone(), nil},
		{"retired at the end", change(KeyID(a), Retired, 100), nil},
		{"revoked at the end", change(KeyID(a), Revoked, 100), nil},
		{"revoked for a leaf that was counted", change(KeyID(a), Revoked, 99), []Taken{{KeyID(a), 99, 100}}},
		{"revoked from its beginning", change(KeyID(b), Revoked, 10), []Taken{{KeyID(b), 10, 100}}},
		{"without the keys", &Registry{}, []Taken{{KeyID(a), 0, 100}, {KeyID(b), 10, 100}}},
	} {
		if got := r.TakenBack(x.next, 100); !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
	if len((&Registry{}).TakenBack(r, 100)) > 0 {
		t.Error("keys that are new take nothing back")
	}
}
