package receipt

import (
	"bytes"
	"errors"
	"testing"

	"counterfoil/internal/testkit/seeds"
	"counterfoil/ledger/event"
)

// A proof has one spelling, and whatever is judged gives a report.
func FuzzParseTlogProof(f *testing.F) {
	seeds.Add(f, "tlog/proof.json")
	w := story(f)
	file := w.trusts("event")
	leaf := event.AppendLeaf(nil, []byte("{}"), nil)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r := VerifyTlogProof(b, leaf, file, Options{}); r == nil || r.Status == Verified {
			t.Fatalf("a leaf that is none is verified by %q", b)
		}
		p, err := ParseTlogProof(b)
		if err != nil {
			if !errors.Is(err, ErrTlogProof) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if again := p.Append(nil); !bytes.Equal(again, b) {
			t.Fatalf("%q comes back as %q", b, again)
		}
	})
}
