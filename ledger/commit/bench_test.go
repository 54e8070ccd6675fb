package commit_test

import (
	"testing"

	"counterfoil/ledger/commit"
)

// BenchmarkPrivateValue is what one private value of a begin costs.
func BenchmarkPrivateValue(b *testing.B) {
	tenant, attempt, value := make([]byte, 32), make([]byte, 32), make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		key := commit.TagKey(tenant, attempt)
		salt := commit.DeriveSalt(attempt, "att_d457a2010172c76fa9722fd033f57bc2", commit.SlotBegin, commit.NameInput)
		commit.FormatDigest(commit.Commitment(commit.NameInput, salt, value))
		commit.FormatTag(commit.RequestTag(key, value))
	}
}
