package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
)

func TestATT35_TheExampleHelper(t *testing.T) {
	seed := filepath.Join(t.TempDir(), "seed")
	pub, err := keyring.GenerateSeed(seed, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run([]string{"key"}, seed, strings.NewReader(""), &out); err != nil || !strings.HasPrefix(out.String(), event.PrehashKeyID(pub)+"\n") {
		t.Errorf("key: %q, %v", out.String(), err)
	}
	hello := `{"schema":"counterfoil.signer.v1"}` + "\n"
	for _, test := range []struct{ name, in, want string }{
		{"unknown profile", hello + `{"id":3,"profile":"x","digest":"AA=="}`, `{"id":3,"error":"unknown profile"}`},
		{"short digest", hello + `{"id":4,"profile":"ed25519ph-sha512","digest":"AA=="}`, `"error":"ed25519: bad Ed25519ph message hash length`},
	} {
		out.Reset()
		if err := run(nil, seed, strings.NewReader(test.in), &out); err != nil || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: %q, %v", test.name, out.String(), err)
		}
	}
	if err := os.Chmod(seed, 0o640); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"no seed":       run(nil, "", nil, &out),
		"open to group": run(nil, seed, nil, &out),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := os.Chmod(seed, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"argument":       run([]string{"x"}, seed, nil, &out),
		"other protocol": run(nil, seed, strings.NewReader(`{"schema":"x"}`), &out),
		"no JSON":        run(nil, seed, strings.NewReader("x"), &out),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
