package main

import "math/bits"

const (
	tileWidth = 256
	hashBytes = 32
)

// tree is a log of that many leaves, as tlog-tiles lays it out.
type tree struct{ leaves uint64 }

// proofHashes is the longest inclusion proof: one hash a level.
func (t tree) proofHashes() int {
	if t.leaves < 2 {
		return 0
	}
	return bits.Len64(t.leaves - 1)
}

// tiles counts the full hash tiles of all levels and the partial ones on the right
// edge.
func (t tree) tiles() (full, partial uint64) {
	for n := t.leaves; n > 0; n /= tileWidth {
		full += n / tileWidth
		if n%tileWidth > 0 {
			partial++
		}
	}
	return full, partial
}

// bundles counts the full entry bundles.
func (t tree) bundles() uint64 { return t.leaves / tileWidth }

// hashTileBytes is what all hash tiles take.
func (t tree) hashTileBytes() uint64 {
	var b uint64
	for n := t.leaves; n > 0; n /= tileWidth {
		b += n * hashBytes
	}
	return b
}

// levels is how many tiles one proof reads at most.
func (t tree) levels() int {
	n := 0
	for l := t.leaves; l > 0; l /= tileWidth {
		n++
	}
	return n
}

// consistencyHashes bounds a consistency proof between two sizes of this order.
func (t tree) consistencyHashes() int {
	if t.leaves < 2 {
		return 0
	}
	return bits.Len64(t.leaves-1) + 1
}
