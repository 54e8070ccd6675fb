package archive_test

import (
	"crypto/rand"
	"testing"

	"counterfoil/ledger/archive"
)

// BenchmarkAdmission keeps what one admission has, nine small bodies, and makes it
// durable.
func BenchmarkAdmission(b *testing.B) {
	v := openVault(b, b.TempDir(), rand.Reader)
	begin(b, v)
	a := archive.New(v)
	content := make([]byte, 8<<10)
	for b.Loop() {
		for n := range 9 {
			_, _ = rand.Read(content[:32])
			put(b, a, item(0, "evidence_"+string(rune('a'+n))), content)
		}
		if err := a.Sync(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
