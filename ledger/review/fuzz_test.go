package review

import (
	"bytes"
	"testing"

	"counterfoil/internal/testkit/seeds"
	"counterfoil/ledger/admission"
)

func FuzzREV12_Contracts(f *testing.F) {
	seeds.Add(f, "review.json")
	f.Fuzz(func(t *testing.T, b []byte) {
		docs, err := ParseContracts(b)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, d := range docs {
			if seen[d.Name] {
				t.Fatalf("%q twice in %q", d.Name, b)
			}
			seen[d.Name] = true
			if err := d.ContractTerms.Validate(); err != nil {
				t.Fatalf("taken: %v in %q", err, b)
			}
		}
	})
}

// A recheck is bound by its digest: it has one spelling.
func FuzzREV23_Recheck(f *testing.F) {
	seeds.Add(f, "review.json")
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecheck(b)
		if err != nil {
			return
		}
		if again, err := admission.Encode(r); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%q comes back as %q, %v", b, again, err)
		}
	})
}
