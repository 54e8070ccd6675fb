package receipt

import (
	"crypto/sha256"
	"math/bits"

	"counterfoil/ledger/event"
)

// Hash is a node or leaf hash of the tree (RFC 6962, SHA-256).
type Hash = [sha256.Size]byte

// leafHash hashes the leaf that is spliced from an event and its signatures:
// SHA-256(0x00 ‖ leaf). buf is scratch space and is returned for the next call.
func leafHash(buf, eventBytes, signatureBytes []byte) (Hash, []byte) {
	buf = append(buf[:0], 0x00)
	buf = event.AppendLeaf(buf, eventBytes, signatureBytes)
	return sha256.Sum256(buf), buf
}

// nodeHash is SHA-256(0x01 ‖ left ‖ right).
func nodeHash(left, right *Hash) Hash {
	var b [1 + 2*sha256.Size]byte
	b[0] = 0x01
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// proofLength is the number of hashes of an inclusion proof, index < size: one
// for each level at which the paths of the leaf and of the last leaf have not
// met, and one for each full subtree left of where they have.
func proofLength(index, size uint64) int {
	inner := bits.Len64(index ^ (size - 1))
	return inner + bits.OnesCount64(index>>uint(inner))
}

// rootOf computes the root of a tree of the given size from a leaf, its index
// and its proof, sibling first. index < size and len(proof) ==
// proofLength(index, size). Source: RFC 9162 section 2.1.3.2.
func rootOf(leaf Hash, index, size uint64, proof []Hash) Hash {
	inner := bits.Len64(index ^ (size - 1))
	h := leaf
	for i := range proof {
		if i >= inner || index>>uint(i)&1 == 1 {
			h = nodeHash(&proof[i], &h)
		} else {
			h = nodeHash(&h, &proof[i])
		}
	}
	return h
}
