package keyring

import (
	"bytes"
	"errors"
	"testing"

	"counterfoil/internal/testkit/seeds"
)

func FuzzATT18_Registry(f *testing.F) {
	seeds.Add(f, "trust.json")
	f.Add([]byte(`{"formatVersion":1,"keys":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRegistry(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		first, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseRegistry(first)
		if err != nil {
			t.Fatalf("%q is not read again: %v", first, err)
		}
		if second, err := again.Encode(); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%q comes back as %q, %v", first, second, err)
		}
	})
}
