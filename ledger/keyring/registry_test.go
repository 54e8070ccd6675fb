package keyring_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"counterfoil/ledger/keyring"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// key is a public key that depends on i only, and its id, computed here.
func key(i int) (ed25519.PublicKey, string) {
	seed := sha256.Sum256(fmt.Append(nil, i))
	pub := ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)
	sum := sha256.Sum256(pub)
	return pub, "ed25519:" + hex.EncodeToString(sum[:])
}

func TestATT18_RegistrationIsIdempotent(t *testing.T) {
	r := &keyring.Registry{}
	pub, id := key(1)
	e, added, err := r.Register(id, pub, 10)
	if err != nil || !added || e.Status != keyring.Active || e.FromIndex != 10 {
		t.Fatalf("first: %+v, %v, %v", e, added, err)
	}
	e, added, err = r.Register(id, pub, 99)
	if err != nil || added || e.FromIndex != 10 {
		t.Fatalf("again: %+v, %v, %v", e, added, err)
	}
	if _, err := r.SetStatus(id, keyring.Retired, 20); err != nil {
		t.Fatal(err)
	}
	e, added, err = r.Register(id, pub, 0)
	if err != nil || added || e.Status != keyring.Retired {
		t.Fatalf("a retired key came back: %+v, %v, %v", e, added, err)
	}

	other, otherID := key(2)
	if _, _, err := r.Register(id, other, 0); !errors.Is(err, keyring.ErrConflict) {
		t.Errorf("same id, other material: %v, want ErrConflict", err)
	}
	_, free := key(3)
	if _, _, err := r.Register(free, other, 0); !errors.Is(err, keyring.ErrMismatch) {
		t.Errorf("id of another key: %v, want ErrMismatch", err)
	}
	if _, _, err := r.Register(otherID, other[:31], 0); err == nil {
		t.Error("a short key was registered")
	}
	if _, _, err := r.Register(otherID, other, 1<<53); err == nil {
		t.Error("an index beyond 2^53-1 was registered")
	}
	if n := len(r.Entries()); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

func TestATT19_Transitions(t *testing.T) {
	all := []keyring.Status{keyring.Active, keyring.Retired, keyring.Revoked, keyring.Disabled}
	allowed := map[[2]keyring.Status]bool{
		{keyring.Active, keyring.Retired}: true, {keyring.Active, keyring.Revoked}: true, {keyring.Active, keyring.Disabled}: true,
		{keyring.Retired, keyring.Revoked}: true, {keyring.Retired, keyring.Disabled}: true,
		{keyring.Revoked, keyring.Revoked}: true, // at an earlier leaf
	}
	pub, id := key(1)
	for _, from := range all {
		for _, to := range append(all, "", "unknown") {
			r := &keyring.Registry{}
			if _, _, err := r.Register(id, pub, 5); err != nil {
				t.Fatal(err)
			}
			if from != keyring.Active {
				if _, err := r.SetStatus(id, from, 10); err != nil {
					t.Fatal(err)
				}
			}
			before, _ := r.Lookup(id)
			e, err := r.SetStatus(id, to, 7)
			after, _ := r.Lookup(id)
			if allowed[[2]keyring.Status{from, to}] {
				if err != nil || e.Status != to || after.Status != to {
					t.Errorf("%s to %s: %v", from, to, err)
				}
				continue
			}
			if !errors.Is(err, keyring.ErrTransition) {
				t.Errorf("%s to %q: error %v, want ErrTransition", from, to, err)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("%s to %q was refused but changed:\n%s", from, to, diff)
			}
		}
	}
}

func TestATT19_IndexesOfATransition(t *testing.T) {
	pub, id := key(1)
	r := &keyring.Registry{}
	if _, _, err := r.Register(id, pub, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := r.SetStatus(id, keyring.Retired, 4); err == nil {
		t.Error("retired before its first leaf")
	}
	e, err := r.SetStatus(id, keyring.Retired, 30)
	if err != nil || *e.ToIndex != 30 || e.RevokedFromIndex != nil {
		t.Fatalf("%+v, %v", e, err)
	}
	e, err = r.SetStatus(id, keyring.Revoked, 12)
	if err != nil || *e.ToIndex != 30 || *e.RevokedFromIndex != 12 {
		t.Fatalf("%+v, %v", e, err)
	}
	*e.ToIndex = 0
	if e, _ := r.Lookup(id); *e.ToIndex != 30 {
		t.Error("a returned entry is the registry's own")
	}
	for _, at := range []uint64{12, 13} { // it does not move to a later leaf
		if _, err := r.SetStatus(id, keyring.Revoked, at); !errors.Is(err, keyring.ErrTransition) {
			t.Errorf("revoked at 12, then at %d: %v", at, err)
		}
	}
	if _, err := r.SetStatus("ed25519:00", keyring.Revoked, 0); !errors.Is(err, keyring.ErrNotRegistered) {
		t.Errorf("unknown key: %v", err)
	}
}

func TestRegistryFileIsOneText(t *testing.T) {
	pubA, idA := key(1)
	pubB, idB := key(2)
	if idA > idB {
		pubA, idA, pubB, idB = pubB, idB, pubA, idA
	}
	want := fmt.Sprintf(`{
  "schema": "counterfoil.key-registry.v1",
  "keys": [
    {
      "keyId": "%s",
      "publicKey": "%s",
      "status": "revoked",
      "fromIndex": 0,
      "toIndex": 40,
      "revokedFromIndex": 17
    },
    {
      "keyId": "%s",
      "publicKey": "%s",
      "status": "active",
      "fromIndex": 40
    }
  ]
}
`, idA, base64.StdEncoding.EncodeToString(pubA), idB, base64.StdEncoding.EncodeToString(pubB))

	r := &keyring.Registry{}
	for _, step := range []func() error{
		func() error { _, _, err := r.Register(idB, pubB, 40); return err }, // not in order
		func() error { _, _, err := r.Register(idA, pubA, 0); return err },
		func() error { _, err := r.SetStatus(idA, keyring.Retired, 40); return err },
		func() error { _, err := r.SetStatus(idA, keyring.Revoked, 17); return err },
	} {
		mustDo(t, step())
	}
	path := filepath.Join(t.TempDir(), "registry.json")
	mustDo(t, r.Save(path))
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	mustMode(t, path, 0o600)
	back, err := keyring.LoadRegistry(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Entries(), back.Entries()); diff != "" {
		t.Errorf("round trip:\n%s", diff)
	}

	entryA := want[strings.Index(want, "    {"):strings.Index(want, "    },")]
	for name, text := range map[string]string{
		"unknown member":         strings.Replace(want, `"status": "active",`, `"status": "active", "note": "x",`, 1),
		"unknown member at top":  strings.Replace(want, `"keys"`, `"extra": 1, "keys"`, 1),
		"member twice":           strings.Replace(want, `"status": "active",`, `"status": "active", "status": "active",`, 1),
		"member in other case":   strings.Replace(want, `"status": "active"`, `"Status": "active"`, 1),
		"trailing bytes":         want + "{}",
		"trailing newline":       want + "\n",
		"compact":                strings.NewReplacer(" ", "", "\n", "").Replace(want),
		"byte order mark":        "\ufeff" + want,
		"null":                   strings.Replace(want, `"fromIndex": 40`, `"fromIndex": 40, "toIndex": null`, 1),
		"no fromIndex":           strings.Replace(want, ",\n      \"fromIndex\": 40", "", 1),
		"negative index":         strings.Replace(want, `"fromIndex": 40`, `"fromIndex": -1`, 1),
		"index as text":          strings.Replace(want, `"fromIndex": 40`, `"fromIndex": "40"`, 1),
		"index as float":         strings.Replace(want, `"fromIndex": 40`, `"fromIndex": 4e1`, 1),
		"index beyond 2^53-1":    strings.Replace(want, `"fromIndex": 40`, `"fromIndex": 9007199254740992`, 1),
		"unknown status":         strings.Replace(want, `"active"`, `"resting"`, 1),
		"active with an end":     strings.Replace(want, `"fromIndex": 40`, `"fromIndex": 40, "toIndex": 50`, 1),
		"revoked without index":  strings.Replace(want, ",\n      \"revokedFromIndex\": 17", "", 1),
		"end before start":       strings.Replace(strings.Replace(want, `"fromIndex": 0`, `"fromIndex": 20`, 1), `"revokedFromIndex": 17`, `"revokedFromIndex": 19`, 1),
		"id of another key":      strings.Replace(want, idA, flip(idA), 1),
		"public key, no padding": strings.Replace(want, base64.StdEncoding.EncodeToString(pubA), base64.RawStdEncoding.EncodeToString(pubA), 1),
		"short public key":       strings.Replace(want, base64.StdEncoding.EncodeToString(pubA), base64.StdEncoding.EncodeToString(pubA[:31]), 1),
		"same key twice":         strings.Replace(want, entryA, entryA+"    },\n"+entryA, 1),
		"not sorted":             strings.NewReplacer(idA, idB, idB, idA, base64.StdEncoding.EncodeToString(pubA), base64.StdEncoding.EncodeToString(pubB), base64.StdEncoding.EncodeToString(pubB), base64.StdEncoding.EncodeToString(pubA)).Replace(want),
		"other schema":           strings.Replace(want, "registry.v1", "registry.v2", 1),
		"no schema":              strings.Replace(want, "  \"schema\": \"counterfoil.key-registry.v1\",\n", "", 1),
		"keys null":              "{\n  \"schema\": \"counterfoil.key-registry.v1\",\n  \"keys\": null\n}\n",
		"empty":                  "",
	} {
		if text == want {
			t.Fatalf("%s: the text is unchanged, the test does not test", name)
		}
		mustDo(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := keyring.LoadRegistry(path)
		if !errors.Is(err, keyring.ErrMalformed) && !errors.Is(err, keyring.ErrMismatch) {
			t.Errorf("%s: error %v, want a refusal", name, err)
		}
	}
}

// flip changes the last hex digit.
func flip(id string) string {
	if strings.HasSuffix(id, "0") {
		return id[:len(id)-1] + "1"
	}
	return id[:len(id)-1] + "0"
}

// TestRegistryModel: whatever is registered and changed in whatever order, the
// registry agrees with a map, stays sorted, and survives the file.
func TestRegistryModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.json")
	rapid.Check(t, func(t *rapid.T) {
		r, model := &keyring.Registry{}, map[string]keyring.Status{}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			pub, id := key(rapid.IntRange(0, 5).Draw(t, "key"))
			if rapid.Bool().Draw(t, "register") {
				_, added, err := r.Register(id, pub, 1)
				_, had := model[id]
				if err != nil || added == had {
					t.Fatalf("register: added %v, had %v, %v", added, had, err)
				}
				if !had {
					model[id] = keyring.Active
				}
				continue
			}
			to := rapid.SampledFrom([]keyring.Status{keyring.Active, keyring.Retired, keyring.Revoked, keyring.Disabled}).Draw(t, "to")
			if _, err := r.SetStatus(id, to, 9); err == nil {
				model[id] = to
			}
		}
		if err := r.Save(path); err != nil {
			t.Fatal(err)
		}
		first, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		back, err := keyring.LoadRegistry(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := back.Save(path); err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("the same registry gives two texts (%v)", err)
		}
		entries := back.Entries()
		if len(entries) != len(model) || !slices.IsSortedFunc(entries, func(a, b keyring.Entry) int { return strings.Compare(a.KeyID, b.KeyID) }) {
			t.Fatalf("%d entries, want %d, sorted", len(entries), len(model))
		}
		for _, e := range entries {
			if model[e.KeyID] != e.Status {
				t.Fatalf("key %s is %s, want %s", e.KeyID, e.Status, model[e.KeyID])
			}
		}
	})
}
