package receipts

import (
	"fmt"
	"strings"

	"counterfoil/ledger/excerpt"
	"counterfoil/ledger/lifecycle"
	"counterfoil/projections/kv"
)

// Reasons why a leaf does not count.
const (
	Unparseable   = "unparseable" // no record in its one spelling
	WrongOrigin   = lifecycle.WrongOrigin
	WrongTenant   = lifecycle.WrongTenant
	BadSignature  = "bad_signature"  // no valid signature of a known key
	Unlawful      = "unlawful"       // breaks a lifecycle rule; Code says which
	DuplicateLeaf = "duplicate_leaf" // the same event again: the first counts
)

// maxDetail bounds the wording that is kept of a parked leaf.
const maxDetail = 256

// Parked is a leaf that is in the log and does not count. It is never skipped in
// silence and blocks nothing.
type Parked struct {
	Index    uint64
	LeafHash [32]byte
	Size     uint64 // length of the leaf in bytes
	Reason   string
	// Code is the lifecycle code of an unlawful event, or what the check of
	// signatures said; it may be empty.
	Code string
	// Detail is for people. It is kept outside of the digest, since wording
	// comes from many places.
	Detail string
}

// ParkedPrefix is before the index in the keys of parked rows.
var ParkedPrefix = []byte{'p'}

func parkedKey(index uint64) []byte { return kv.AppendUint64(key('p'), index) }

const parkedVersion = 1

func (p *Parked) append(dst []byte) []byte {
	dst = append(dst, parkedVersion)
	dst = append(dst, p.LeafHash[:]...)
	dst = kv.AppendUint64(dst, p.Size)
	dst = appendString(dst, p.Reason)
	return appendString(dst, p.Code)
}

// ParseParked reads a parked row; its Detail is read by ReadDetail.
func ParseParked(index uint64, b []byte) (Parked, error) {
	p := Parked{Index: index}
	d := decoder{b: b}
	d.version(parkedVersion)
	copy(p.LeafHash[:], d.bytes(32))
	p.Size, _, _ = kv.CutUint64(d.bytes(8))
	p.Reason, p.Code = d.string(), d.string()
	if err := d.end(); err != nil {
		return p, fmt.Errorf("parked leaf %d: %w", index, err)
	}
	return p, nil
}

// ReadDetail returns the wording for a parked leaf, "" if none was kept.
func ReadDetail(r Reader, index uint64) string {
	b, err := r.Get(kv.NoteKey(parkedKey(index)))
	if err != nil {
		return ""
	}
	return string(b)
}

// clip makes a detail fit for a row.
func clip(s string) string { return excerpt.Cut(strings.ToValidUTF8(s, "�"), maxDetail) }
