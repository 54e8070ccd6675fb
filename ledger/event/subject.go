package event

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Shards is the number of shards of a tenant: the number of values of the two
// hex digits that follow "att_". It never changes in the life of a log.
const Shards = 256

const subjectRoot = "counterfoil.v1."

// UnparsedSubject is the stream subject of a leaf that is no record.
const UnparsedSubject = subjectRoot + "_._._.00"

// Scope is the sameness scope of a begin: (tenant, runtimeId, invocationId).
// It also fixes the shard.
type Scope Digest

// ScopeOf hashes the scope of a begin: SHA-256 over the label
// "counterfoil.scope.v1" and the three parts, each with an 8-byte big-endian
// length before it.
func ScopeOf(tenant, runtimeID, invocationID string) Scope {
	return Scope(hashParts("counterfoil.scope.v1", tenant, runtimeID, invocationID))
}

// Shard returns the two hex digits of the scope's shard.
func (s Scope) Shard() string { return hex.EncodeToString(s[:1]) }

// SourceKey identifies an appended event within its attempt: the first 16
// bytes of SHA-256 over the label "counterfoil.source-event.v1" and the source
// event id, length-prefixed.
func SourceKey(sourceEventID string) (k [16]byte) {
	d := hashParts("counterfoil.source-event.v1", sourceEventID)
	copy(k[:], d[:])
	return k
}

func hashParts(parts ...string) Digest {
	// Identifiers are short: label and three of the longest fit.
	buf := make([]byte, 0, 1024)
	for _, p := range parts {
		buf = append(binary.BigEndian.AppendUint64(buf, uint64(len(p))), p...)
	}
	return sha256.Sum256(buf)
}

// NewAttemptID makes the id of an attempt in a shard from 15 random bytes.
func NewAttemptID(shard string, random [15]byte) string {
	return "att_" + shard + hex.EncodeToString(random[:])
}

// ShardOfAttempt returns the two hex digits of the shard; ok is false for
// anything but an attempt id.
func ShardOfAttempt(attemptID string) (shard string, ok bool) {
	id, found := strings.CutPrefix(attemptID, "att_")
	if !found || len(id) != 32 || !lowerHex(id) {
		return "", false
	}
	return id[:2], true
}

// StreamSubject returns the stream subject of the event:
// counterfoil.v1.<tenant>.<kind>.<lifecycle>.<shard>.
func (e *Event) StreamSubject() string {
	shard, _ := ShardOfAttempt(e.AttemptID)
	return subjectRoot + e.Tenant + "." + string(e.Subject.Kind) + "." + string(e.Lifecycle) + "." + shard
}

// ShardFilter is the one filter string under which every writer checks the
// last sequence of a shard.
func ShardFilter(tenant, shard string) string {
	return subjectRoot + tenant + ".*.*." + shard
}

// NoticeFilter matches what begins the notices of a ledger about itself.
func NoticeFilter(tenant string) string {
	return subjectRoot + tenant + "." + string(Ledger) + "." + string(Attempt) + ".*"
}

// SubjectOfLeaf returns the stream subject of any leaf, a pure function of its
// bytes: that of its event, or UnparsedSubject.
func SubjectOfLeaf(leaf []byte) string {
	r, err := ParseRecord(leaf)
	if err != nil {
		return UnparsedSubject
	}
	return r.Event.StreamSubject()
}
