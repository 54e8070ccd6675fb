package audit

import (
	"errors"
	"testing"

	"counterfoil/internal/testkit/seeds"
	"counterfoil/ledger/trust"
)

// What nobody signed is never a checkpoint.
func FuzzParseCheckpoint(f *testing.F) {
	seeds.Add(f, "tlog/checkpoint.json", "tlog/signed_note.json")
	key, err := trust.ParseVerifierKey("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, finding, err := ParseCheckpoint(b, key)
		switch {
		case err != nil && !errors.Is(err, ErrNoCheckpoint):
			t.Fatalf("untyped error %v", err)
		case err == nil && finding == nil && c == nil:
			t.Fatalf("nothing is said of %q", b)
		case err == nil && finding == nil:
			n, err := trust.ParseNote(b)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := n.VerifyBy(key); err != nil || v.Lines == 0 {
				t.Fatalf("%q is taken and not signed", b)
			}
		}
	})
}
