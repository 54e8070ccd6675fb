package admission

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// Digest names bytes: "sha256:" and 64 hex digits of their SHA-256.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ValidDigest reports whether s has the form of [Digest].
func ValidDigest(s string) bool {
	h, ok := strings.CutPrefix(s, "sha256:")
	return ok && isHex(h, sha256.Size)
}

// DigestSet holds digests of the same bytes by algorithm: sha256, sha384, sha512;
// the values are lower-case hex. Weaker algorithms bind nothing and are not
// accepted in our records; statements of others may hold any.
type DigestSet map[string]string

// Algorithms that bind bytes, with the length of their digests in bytes.
var digestBytes = map[string]int{"sha256": 32, "sha384": 48, "sha512": 64}

// Agree compares two sets over the algorithms that both have and that bind.
// Agrees is true if there is at least one and all are equal; differs names the
// first algorithm, in order, whose digests are not equal.
func (d DigestSet) Agree(other DigestSet) (agrees bool, differs string) {
	for _, alg := range slices.Sorted(maps.Keys(d)) {
		theirs, both := other[alg]
		if !both || digestBytes[alg] == 0 {
			continue
		}
		if d[alg] != theirs {
			return false, alg
		}
		agrees = true
	}
	return agrees, ""
}

// String lists the set as alg:hex, in order of algorithms.
func (d DigestSet) String() string {
	var parts []string
	for _, alg := range slices.Sorted(maps.Keys(d)) {
		parts = append(parts, alg+":"+d[alg])
	}
	return strings.Join(parts, " ")
}

func isHex(s string, n int) bool {
	if len(s) != 2*n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
