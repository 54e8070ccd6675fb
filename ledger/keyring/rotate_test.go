package keyring_test

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
)

func TestATT16_AChosenKeySigns(t *testing.T) {
	dir, g := generate(t)
	next, err := keyring.GenerateEvent(dir, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	open := func(want string) {
		t.Helper()
		k, err := keyring.Open(config(dir))
		if err != nil {
			t.Fatal(err)
		}
		if got := k.Event().KeyID(); got != want {
			t.Errorf("%s signs, want %s", got, want)
		}
	}
	open(g.EventKeyID) // a new seed alone changes nothing
	register(t, dir, next.Public())
	open(g.EventKeyID)
	mustDo(t, keyring.Choose(dir, next.KeyID()))
	open(next.KeyID())
	mustDo(t, keyring.Choose(dir, g.EventKeyID)) // and back: the file of the first key has no id in its name
	open(g.EventKeyID)
}

func TestATT15_AChoiceFailsClosed(t *testing.T) {
	dir, g := generate(t)
	next, err := keyring.GenerateEvent(dir, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mustDo(t, keyring.Choose(dir, next.KeyID()))
	if _, err := keyring.Open(config(dir)); !errors.Is(err, keyring.ErrNotRegistered) {
		t.Errorf("chosen, not registered: %v", err)
	}
	for _, id := range []string{"", "x", "ed25519:00", keyring.KeyID(make([]byte, 32)), event.PrehashKeyID(g.EventPublicKey)} {
		if err := keyring.Choose(dir, id); err == nil {
			t.Errorf("%q was chosen, and its seed is not there", id)
		}
	}
	signer := filepath.Join(dir, keyring.SignerFile)
	for name, text := range map[string]string{
		"empty": "", "no line end": g.EventKeyID, "two lines": g.EventKeyID + "\n\n", "space": " " + g.EventKeyID + "\n",
		"upper case": "ed25519:" + "AA" + g.EventKeyID[10:] + "\n", "a path": "ed25519:../../../../etc/passwd\n", "no algorithm": g.EventKeyID[8:] + "\n",
	} {
		if err := os.WriteFile(signer, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if k, err := keyring.Open(config(dir)); !errors.Is(err, keyring.ErrMalformed) || k != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The seed of what was chosen is gone: the first key does not step in.
	register(t, dir, next.Public())
	mustDo(t, keyring.Choose(dir, next.KeyID()))
	_, hash, _ := strings.Cut(next.KeyID(), ":")
	mustDo(t, os.Remove(filepath.Join(dir, "event-"+hash[:16]+".key")))
	if k, err := keyring.Open(config(dir)); !errors.Is(err, keyring.ErrMismatch) || k != nil {
		t.Errorf("seed gone: %v", err)
	}
}
