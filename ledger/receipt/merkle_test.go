package receipt

import (
	"encoding/binary"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"pgregory.net/rapid"

	"counterfoil/ledger/event"
)

// The verifier's few lines of tree against the reference implementation, for
// every leaf of every tree up to 66 leaves.
func TestBND09_ProofsAgreeWithTheReference(t *testing.T) {
	tree := testonly.New(rfc6962.DefaultHasher)
	for i := range uint64(66) {
		tree.AppendData(binary.BigEndian.AppendUint64(nil, i))
	}
	for size := uint64(1); size <= tree.Size(); size++ {
		for index := range size {
			p, err := tree.InclusionProof(index, size)
			if err != nil {
				t.Fatal(err)
			}
			if got := proofLength(index, size); got != len(p) {
				t.Fatalf("leaf %d of %d: %d hashes, want %d", index, size, got, len(p))
			}
			hashes := make([]Hash, len(p))
			for i := range p {
				hashes[i] = Hash(p[i])
			}
			if got := rootOf(Hash(tree.LeafHash(index)), index, size, hashes); string(got[:]) != string(tree.HashAt(size)) {
				t.Fatalf("leaf %d of %d: root %x, want %x", index, size, got, tree.HashAt(size))
			}
		}
	}
}

// Any index, size and proof, right or wrong: the same root, or the same refusal.
func TestBND09_AnyProofAgreesWithTheReference(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.Uint64Range(1, 1<<62).Draw(r, "size")
		index := rapid.Uint64Range(0, size-1).Draw(r, "index")
		hash := rapid.SliceOfN(rapid.Byte(), 32, 32)
		leaf := hash.Draw(r, "leaf")
		n := proofLength(index, size)
		if rapid.IntRange(0, 3).Draw(r, "spoil") == 0 {
			n = rapid.IntRange(0, MaxProofHashes).Draw(r, "length")
		}
		p := make([][]byte, n)
		hashes := make([]Hash, n)
		for i := range p {
			p[i] = hash.Draw(r, "hash")
			hashes[i] = Hash(p[i])
		}
		want, err := proof.RootFromInclusionProof(rfc6962.DefaultHasher, index, size, leaf, p)
		if (err == nil) != (n == proofLength(index, size)) {
			r.Fatalf("leaf %d of %d: %d hashes, want %d; the reference says %v", index, size, n, proofLength(index, size), err)
		}
		if err != nil {
			return
		}
		if got := rootOf(Hash(leaf), index, size, hashes); string(got[:]) != string(want) {
			r.Fatalf("leaf %d of %d: root %x, want %x", index, size, got, want)
		}
	})
}

func TestBND09_LeafHashIsThatOfTheLeaf(t *testing.T) {
	leaf := event.AppendLeaf(nil, []byte(`{"a":1}`), []byte(`[]`))
	got, buf := leafHash(nil, []byte(`{"a":1}`), []byte(`[]`))
	if want := rfc6962.DefaultHasher.HashLeaf(leaf); string(got[:]) != string(want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if again, _ := leafHash(buf, []byte(`{"a":1}`), []byte(`[]`)); again != got {
		t.Error("a used buffer changes the hash")
	}
}
