// Package receipts keeps what the views say of single things: a row for every
// event that counts, a row for every attempt, a row for every leaf that does
// not count.
//
// Row values start with a version byte; numbers are varints, strings have their
// length before them, digests are raw. Each has one encoding, and it is a pure
// function of leaves.
package receipts

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"counterfoil/ledger/event"
	"counterfoil/projections/kv"
)

// SkewLimit is the distance between occurredAt and capturedAt above which a
// receipt is flagged. Equal times are no skew; order is the leaf index always.
const SkewLimit = 60 * time.Second

// Row is what the views keep of an event. The leaf has the rest.
type Row struct {
	Index      uint64 // leaf index
	Digest     event.Digest
	LeafHash   [32]byte // RFC 6962
	AttemptID  string
	Lifecycle  event.Lifecycle
	Revision   int64
	Status     string
	Kind       event.SubjectKind
	Subject    string // subject id
	Tool       string // action name
	Agent      string
	Runtime    string
	OccurredAt time.Time // UTC, milliseconds: the source's claim
	CapturedAt time.Time // UTC, milliseconds: the ledger's clock
	ClockSkew  bool      // the two are more than SkewLimit apart
}

// EventID is the public name of the event.
func (r *Row) EventID() string { return r.Digest.EventID() }

// NewRow makes the row of a record that was parsed from the leaf with this hash.
func NewRow(index uint64, leafHash [32]byte, rec *event.Record, digest event.Digest) Row {
	e := rec.Event
	occurred, _ := event.ParseTime(e.OccurredAt) // valid, since the record parsed
	captured, _ := event.ParseTime(e.CapturedAt)
	return Row{
		Index: index, Digest: digest, LeafHash: leafHash,
		AttemptID: e.AttemptID, Lifecycle: e.Lifecycle, Revision: e.Revision, Status: e.Status,
		Kind: e.Subject.Kind, Subject: e.Subject.ID, Tool: e.Action.Name, Agent: e.Source.AgentID, Runtime: e.Source.RuntimeID,
		OccurredAt: occurred, CapturedAt: captured, ClockSkew: Skewed(occurred, captured),
	}
}

// Skewed reports whether two times are more than SkewLimit apart.
func Skewed(occurred, captured time.Time) bool {
	d := occurred.UnixMilli() - captured.UnixMilli() // years 0 to 9999 do not fit a Duration
	return max(d, -d) > SkewLimit.Milliseconds()
}

const rowVersion = 1

// errRow is a row that is whole, but no encoding of ours.
var errRow = fmt.Errorf("%w: it has another encoding", kv.ErrDamaged)

// Append adds the encoding of the row to dst; the index is in the key.
func (r *Row) Append(dst []byte) []byte {
	dst = append(dst, rowVersion)
	dst = append(dst, r.Digest[:]...)
	dst = append(dst, r.LeafHash[:]...)
	dst = appendAttemptID(dst, r.AttemptID)
	dst = binary.AppendVarint(dst, r.Revision)
	dst = binary.AppendVarint(dst, r.OccurredAt.UnixMilli())
	dst = binary.AppendVarint(dst, r.CapturedAt.UnixMilli())
	for _, s := range []string{string(r.Lifecycle), r.Status, string(r.Kind), r.Subject, r.Tool, r.Agent, r.Runtime} {
		dst = appendString(dst, s)
	}
	return dst
}

// ParseRow reads what Append wrote.
func ParseRow(index uint64, b []byte) (Row, error) {
	r := Row{Index: index}
	d := decoder{b: b}
	d.version(rowVersion)
	copy(r.Digest[:], d.bytes(32))
	copy(r.LeafHash[:], d.bytes(32))
	r.AttemptID = d.attemptID()
	r.Revision = d.varint()
	r.OccurredAt = time.UnixMilli(d.varint()).UTC()
	r.CapturedAt = time.UnixMilli(d.varint()).UTC()
	r.Lifecycle, r.Status, r.Kind = event.Lifecycle(d.string()), d.string(), event.SubjectKind(d.string())
	r.Subject, r.Tool, r.Agent, r.Runtime = d.string(), d.string(), d.string(), d.string()
	r.ClockSkew = Skewed(r.OccurredAt, r.CapturedAt)
	return r, d.end()
}

// RowPrefix is before the index in the keys of receipt rows.
var RowPrefix = []byte{'r'}

func key(prefix byte, rest ...byte) []byte {
	return append(append(make([]byte, 0, 1+max(len(rest), attemptIDBytes)), prefix), rest...)
}

// RowKey is the key of a receipt row.
func RowKey(index uint64) []byte { return kv.AppendUint64(key('r'), index) }

// EventKey is the key under which the index of an event's row stands.
func EventKey(d event.Digest) []byte { return key('e', d[:]...) }

func scopeKey(s event.Scope) []byte { return key('s', s[:]...) }

// attemptKey needs a valid attempt id.
func attemptKey(id string) []byte { return appendAttemptID(key('a'), id) }

// attemptIDBytes is the length of an attempt id without "att_", from hex.
const attemptIDBytes = 16

func appendAttemptID(dst []byte, id string) []byte {
	var digits [2 * attemptIDBytes]byte
	n := copy(digits[:], strings.TrimPrefix(id, "att_"))
	dst, _ = hex.AppendDecode(dst, digits[:n]) // valid, since the record parsed
	return dst
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// decoder reads an encoding; after a failure it yields zeros and end reports it.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) bytes(n int) []byte {
	if d.bad || n < 0 || len(d.b) < n {
		d.bad = true
		return make([]byte, min(max(n, 0), 64))
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) version(want byte) {
	if d.bytes(1)[0] != want {
		d.bad = true
	}
}

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) varint() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad = true
		return ""
	}
	return string(d.bytes(int(n)))
}

func (d *decoder) attemptID() string {
	return "att_" + hex.EncodeToString(d.bytes(attemptIDBytes))
}

func (d *decoder) end() error {
	if d.bad || len(d.b) != 0 {
		return errRow
	}
	return nil
}
