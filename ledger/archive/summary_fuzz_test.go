package archive

import (
	"testing"

	"counterfoil/internal/testkit/seeds"
)

// A summary stands in for what was dropped: whatever is in its place is refused, or
// checked against the receipt without a panic.
func FuzzARC09_Summary(f *testing.F) {
	seeds.Add(f, "admission.json")
	f.Add([]byte(`{"schema":"counterfoil.compaction.v1","dropped":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseSummary(b)
		if err != nil {
			return
		}
		if err := s.Check([]byte("{}")); err == nil {
			t.Fatalf("%q is the summary of an empty receipt", b)
		}
	})
}
