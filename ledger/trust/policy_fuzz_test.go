package trust

import (
	"errors"
	"testing"

	"counterfoil/internal/testkit/seeds"
)

func FuzzParsePolicy(f *testing.F) {
	seeds.Add(f, "tlog/policy.json")
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePolicy(b)
		if err != nil {
			var pe *PolicyError
			if !errors.As(err, &pe) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		for _, w := range p.Witnesses {
			if again, err := ParseVerifierKey(w.Key.String()); err != nil || again.String() != w.Key.String() {
				t.Fatalf("a witness of %q has the key %q: %v", b, w.Key, err)
			}
		}
	})
}

// A verifier key has one spelling.
func FuzzParseVerifierKey(f *testing.F) {
	seeds.Add(f, "tlog/verifier_key.json")
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseVerifierKey(string(b))
		if err == nil && k.String() != string(b) {
			t.Fatalf("%q comes back as %q", b, k)
		}
	})
}
