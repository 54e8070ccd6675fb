package receipt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"counterfoil/ledger/event"
	"counterfoil/ledger/trust"
)

// Builder writes a bundle entry by entry, so that the records need not all be
// in memory at once. Make one with NewBuilder. It is not safe for concurrent
// use.
type Builder struct {
	checkpoint []byte
	size       uint64
	entries    []byte
	codes      map[string]string
	n          int
	last       uint64
}

// NewBuilder begins a bundle under a checkpoint, a signed note as the log
// published it, which goes into the bundle byte for byte; nil for receipts of
// leaves that are not published yet. It parses the note and verifies nothing.
func NewBuilder(checkpoint []byte) (*Builder, error) {
	b := &Builder{checkpoint: checkpoint, codes: map[string]string{}}
	if len(checkpoint) == 0 {
		return b, nil
	}
	n, err := trust.ParseNote(checkpoint)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	c, err := trust.ParseCheckpoint(n.Text)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	b.size = c.Size
	return b, nil
}

// Add adds the next entry; leaf indexes must rise. It keeps nothing of e. An
// entry that no verifier could accept is refused: without a registered claim
// boundary (CLM-01), beyond the checkpoint, or with a proof of the wrong length.
func (b *Builder) Add(e Entry) error {
	if err := checkEntry(&e, len(b.checkpoint) > 0, b.size); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	if b.n > 0 && e.LeafIndex <= b.last {
		return fmt.Errorf("bundle: leaf %d after leaf %d", e.LeafIndex, b.last)
	}
	if b.n == MaxEntries {
		return fmt.Errorf("bundle: more than %d entries", MaxEntries)
	}
	if b.n > 0 {
		b.entries = append(b.entries, ',')
	}
	b.entries = appendEntry(b.entries, &e, len(b.checkpoint) > 0)
	if len(b.entries) > MaxBundleBytes {
		return fmt.Errorf("bundle: over %d bytes at leaf %d: export fewer attempts at once", MaxBundleBytes, e.LeafIndex)
	}
	code := e.Record.Event.ClaimBoundary
	b.codes[code], _ = event.ClaimBoundaryText(code)
	b.n, b.last = b.n+1, e.LeafIndex
	return nil
}

// Bytes returns the bundle. The same checkpoint and entries give the same bytes
// (BND-10).
func (b *Builder) Bytes() ([]byte, error) {
	head := appendHead(nil, b.checkpoint, b.codes)
	if n := len(head) + len(b.entries) + len(tail); n > MaxBundleBytes {
		return nil, fmt.Errorf("bundle: %d bytes, limit %d: export fewer attempts at once", n, MaxBundleBytes)
	}
	out := make([]byte, 0, len(head)+len(b.entries)+len(tail))
	out = append(append(out, head...), b.entries...)
	return append(out, tail...), nil
}

const tail = litSchema + `"` + Schema + `"` + litBundleEnd

// appendHead adds what stands before the entries.
func appendHead(dst, checkpoint []byte, codes map[string]string) []byte {
	if len(checkpoint) > 0 {
		dst = append(quote(append(dst, litCheckpoint...), string(checkpoint)), ',')
	} else {
		dst = append(dst, '{')
	}
	dst = append(dst, litBoundaries...)
	for i, code := range slices.Sorted(maps.Keys(codes)) { // codes are ASCII
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(quote(dst, code), ':')
		dst = quote(dst, codes[code])
	}
	return append(dst, litEntries...)
}

// Build returns the bundle of entries, in whatever order they are given. See
// [Builder] for what is refused; two entries with one leaf index are, too.
func Build(entries []Entry, checkpoint []byte) ([]byte, error) {
	b, err := NewBuilder(checkpoint)
	if err != nil {
		return nil, err
	}
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(a, b Entry) int { return cmp.Compare(a.LeafIndex, b.LeafIndex) })
	for _, e := range sorted {
		if err := b.Add(e); err != nil {
			return nil, err
		}
	}
	return b.Bytes()
}
