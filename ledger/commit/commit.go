// Package commit computes what stands in the log in place of private values:
// salted commitments, and keyed tags that tell two values equal. It also
// checks openings.
//
// The package is pure: no I/O, no clock, no randomness, no goroutine. All
// functions may be called concurrently and keep no reference to what they are
// given.
//
// # Formats
//
// lp(x) is the length of x as 8 bytes, big-endian, followed by x. Labels are
// ASCII and enter as lp(label) like everything else, so no two different lists
// of parts give the same bytes.
//
//	commitment = SHA-256( lp("counterfoil.commitment.v1") ‖ lp(name) ‖ lp(salt) ‖ lp(value) )
//	salt       = HMAC-SHA256( attemptKey, lp("counterfoil.salt.v1") ‖ lp(attemptId) ‖ lp(slot) ‖ lp(name) )
//	tagKey     = HMAC-SHA256( tenantKey, lp("counterfoil.tag-key.v1") ‖ lp(attemptKey) )
//	request tag= HMAC-SHA256( tagKey, lp("counterfoil.tag.request.v1") ‖ lp(request) )
//	effect tag = HMAC-SHA256( tagKey, lp("counterfoil.tag.effect.v1") ‖ lp(value) )
//	fingerprint= "sha256:" + hex( SHA-256( lp("counterfoil.key-fingerprint.v1") ‖ lp(key) ) )
//
// A commitment is written "sha256:" and 64 lower-case hex digits, a tag
// "hmac-sha256:" and 64 lower-case hex digits; nothing else is accepted.
//
// The salt of a value is fixed by its place: the attempt's key, the attempt,
// the slot (the event it came with) and the name. So a commitment moved to
// another attempt, slot or name does not open (requirement PRV-09), and once
// the attempt's key is destroyed neither salt nor tag can be computed again:
// what is left in the log is a random number.
//
// An effect tag leaves out the value's name, on purpose: the expected effect
// of a begin and the read-back of a reconciliation are compared by it.
//
// Vectors: testdata/vectors/commit.json at the root of the repository, made and
// checked by check_commit.py beside it, which shares no code with this package.
package commit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// Size is the length of digests, tags, salts and derived keys in bytes.
const Size = sha256.Size

// Names of values that commitments are made of.
const (
	NameInput          = "input"
	NameExpectedEffect = "expectedEffect"
	NameResult         = "result"
	NameReadback       = "readback"
)

// TagRequest is the name of the request tag in an event. The other tags carry
// the name of the value they are computed from.
const TagRequest = "request"

// SlotBegin is the slot of the values that came with the begin of an attempt.
const SlotBegin = "begin"

// SlotAppend is the slot of the values that came with the append which the
// source called sourceEventID. It never equals [SlotBegin].
func SlotAppend(sourceEventID string) string { return "append:" + sourceEventID }

const (
	labelCommitment  = "counterfoil.commitment.v1"
	labelSalt        = "counterfoil.salt.v1"
	labelTagKey      = "counterfoil.tag-key.v1"
	labelRequest     = "counterfoil.tag.request.v1"
	labelEffect      = "counterfoil.tag.effect.v1"
	labelFingerprint = "counterfoil.key-fingerprint.v1"
)

// Salt is the random-looking part of a commitment. It is private as long as
// the value is: whoever has it can test guesses of the value.
type Salt [Size]byte

// Commitment commits to value, which is the canonical JSON or the raw bytes of
// what the caller gave; it is hashed as it is.
func Commitment(name string, salt Salt, value []byte) [Size]byte {
	buf := lp(lp(lp(make([]byte, 0, small), labelCommitment), name), salt[:])
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(value)))
	if len(buf)+len(value) <= small {
		return sha256.Sum256(append(buf, value...))
	}
	h := sha256.New()
	h.Write(bytes.Clone(buf))
	h.Write(value)
	return [Size]byte(h.Sum(nil))
}

// DeriveSalt derives the salt of the value called name in the slot of an
// attempt from the attempt's key (32 random bytes that the vault keeps).
func DeriveSalt(attemptKey []byte, attemptID, slot, name string) Salt {
	return mac(attemptKey, lp(lp(lp(make([]byte, 0, small/4), labelSalt), attemptID), slot), []byte(name))
}

// TagKey derives the key of an attempt's tags. It needs the tenant's key and
// the attempt's: without the first nobody outside the ledger can test guesses,
// and with the second destroyed nobody at all can.
func TagKey(tenantKey, attemptKey []byte) []byte {
	k := mac(tenantKey, lp(make([]byte, 0, small/8), labelTagKey), attemptKey)
	return k[:]
}

// RequestTag tags a whole canonical request, private values included. Equal
// tags of one attempt mean the same content.
func RequestTag(tagKey, request []byte) [Size]byte {
	return mac(tagKey, lp(make([]byte, 0, small/8), labelRequest), request)
}

// EffectTag tags one value, whatever its name. Equal tags of one attempt mean
// equal values.
func EffectTag(tagKey, value []byte) [Size]byte {
	return mac(tagKey, lp(make([]byte, 0, small/8), labelEffect), value)
}

// Fingerprint names a secret key of at least 16 random bytes without giving it
// away. It must not be used on anything that can be guessed.
func Fingerprint(key []byte) string {
	return FormatDigest(sha256.Sum256(lp(lp(nil, labelFingerprint), key)))
}

// small is what is hashed from a buffer on the stack.
const small = 1024

// mac is the HMAC of head, which it may change, and lp(last).
func mac(key, head, last []byte) [Size]byte {
	h := hmac.New(sha256.New, key)
	head = binary.BigEndian.AppendUint64(head, uint64(len(last)))
	h.Write(head)
	h.Write(last)
	return [Size]byte(h.Sum(head[:0]))
}

// lp appends the length of a part as 8 bytes, and the part.
func lp[T string | []byte](dst []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(len(part))), part...)
}
