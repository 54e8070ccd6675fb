package state

import (
	"errors"
	"testing"

	"counterfoil/internal/testkit/seeds"
)

func FuzzParseLogList(f *testing.F) {
	seeds.Add(f, "tlog/verifier_key.json")
	f.Add([]byte("logs/v0\n"))
	f.Add([]byte("logs/v0\n\n# a comment\nvkey example.com/log+1c5e33dd+AbC\norigin example.com/other\nqpd 100\ncontact me\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		logs, err := ParseLogList(b)
		if err != nil {
			if !errors.Is(err, ErrList) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		seen := map[string]bool{}
		for _, l := range logs {
			if seen[l.Origin] {
				t.Fatalf("%q stands twice in %q", l.Origin, b)
			}
			seen[l.Origin] = true
		}
	})
}
