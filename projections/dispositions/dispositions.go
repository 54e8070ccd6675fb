// Package dispositions keeps, for each contract and each admission, the latest
// review result that counts: continue, re_admit, quarantine or retire.
//
// The latest is the one at the highest leaf index, whatever attempt about the
// subject it reviews. An earlier disposition stays in the log and among the
// receipts; only this row moves on.
//
//	d ‖ string kind ‖ string subject id  →  index, digest, attempt, disposition
package dispositions

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"counterfoil/ledger/event"
	"counterfoil/projections/kv"
	"counterfoil/projections/receipts"
)

// Disposition is the latest review result of a subject.
type Disposition struct {
	Kind      event.SubjectKind
	Subject   string // subject id
	Status    string // the disposition
	Index     uint64 // leaf index of the review
	Digest    event.Digest
	AttemptID string
}

// Prefix is before the kind in the keys of this package.
var Prefix = []byte{'d'}

// Key is the key of a subject's row.
func Key(kind event.SubjectKind, subject string) []byte {
	return kv.AppendString(kv.AppendString(Prefix[:1:1], string(kind)), subject)
}

// PrefixOf is before the subject id in the keys of a kind.
func PrefixOf(kind event.SubjectKind) []byte { return kv.AppendString(Prefix[:1:1], string(kind)) }

const (
	version = 1
	fixed   = 1 + 8 + 32 + 16 // then the status
)

func (d *Disposition) append(dst []byte) []byte {
	dst = kv.AppendUint64(append(dst, version), d.Index)
	dst = append(dst, d.Digest[:]...)
	dst, _ = hex.AppendDecode(dst, []byte(strings.TrimPrefix(d.AttemptID, "att_"))) // valid, since the record parsed
	return append(dst, d.Status...)
}

var errRow = fmt.Errorf("%w: it is no disposition", kv.ErrDamaged)

// Parse reads a row; key is without Prefix.
func Parse(key, b []byte) (Disposition, error) {
	kind, rest, ok := kv.CutString(key)
	subject, rest, ok2 := kv.CutString(rest)
	if !ok || !ok2 || len(rest) != 0 || len(b) < fixed || b[0] != version {
		return Disposition{}, errRow
	}
	d := Disposition{Kind: event.SubjectKind(kind), Subject: subject, Status: string(b[fixed:])}
	d.Index, b, _ = kv.CutUint64(b[1:])
	copy(d.Digest[:], b)
	d.AttemptID = "att_" + hex.EncodeToString(b[32:48])
	return d, nil
}

// Read returns the disposition of a subject, or kv.ErrNotFound.
func Read(r receipts.Reader, kind event.SubjectKind, subject string) (Disposition, error) {
	k := Key(kind, subject)
	b, err := r.Get(k)
	if err != nil {
		return Disposition{}, err
	}
	d, err := Parse(k[len(Prefix):], b)
	if err != nil {
		return d, fmt.Errorf("%s %q: %w", kind, subject, err)
	}
	return d, nil
}

// Projection writes the rows of this package. It is not safe for concurrent use.
type Projection struct {
	dirty map[string]Disposition // by key
}

// New makes an empty projection.
func New() *Projection { return &Projection{dirty: map[string]Disposition{}} }

// Apply takes over what a leaf turned out to be.
func (p *Projection) Apply(_ *kv.Batch, f *receipts.Fact) error {
	r := f.Row
	if r == nil || r.Lifecycle != event.Review || r.Kind != event.Contract && r.Kind != event.Admission {
		return nil
	}
	p.dirty[string(Key(r.Kind, r.Subject))] = Disposition{Kind: r.Kind, Subject: r.Subject, Status: r.Status,
		Index: r.Index, Digest: r.Digest, AttemptID: r.AttemptID}
	return nil
}

// Pending is how many rows and bytes Flush would write, never less.
func (p *Projection) Pending() (rows, bytes int) { return len(p.dirty), 1024 * len(p.dirty) }

// Flush writes what is pending.
func (p *Projection) Flush(b *kv.Batch) error {
	for _, k := range slices.Sorted(maps.Keys(p.dirty)) {
		d := p.dirty[k]
		if err := b.Set([]byte(k), d.append(nil)); err != nil {
			return err
		}
	}
	return nil
}

// Committed tells that what Flush wrote is in the database.
func (p *Projection) Committed() { clear(p.dirty) }

// Discard forgets everything that is not in the database.
func (p *Projection) Discard() { clear(p.dirty) }
