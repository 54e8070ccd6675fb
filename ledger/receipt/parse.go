package receipt

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/event"
	"counterfoil/ledger/excerpt"
)

// ErrBundle is what every refusal of [Parse] wraps.
var ErrBundle = errors.New("malformed bundle")

// Bundle is what a bundle holds. Nothing in it is to be believed before [Verify]
// says so.
type Bundle struct {
	// Checkpoint is the signed note, nil if there is none.
	Checkpoint []byte
	// Entries are in order of leaf index.
	Entries []Entry
}

// Parse reads a bundle that is whole and in its one spelling, within the bounds
// of this package: of what it accepts, writing the entries again gives the same
// bytes. It verifies neither signatures nor proofs. The result aliases raw.
// Errors wrap ErrBundle.
func Parse(raw []byte) (*Bundle, error) {
	d, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	b := &Bundle{Checkpoint: d.checkpoint}
	codes := map[string]string{}
	again := make([]byte, 0, len(raw))
	for i := range d.entries {
		e := &d.entries[i]
		if e.damage != nil {
			return nil, fmt.Errorf("%w: entry %d: %w", ErrBundle, i+1, e.damage)
		}
		rec, err := event.NewRecord(e.receipt, e.signatures)
		if err != nil {
			return nil, fmt.Errorf("%w: entry %d (leaf %d): %w", ErrBundle, i+1, e.leafIndex, err)
		}
		if i > 0 && e.leafIndex <= b.Entries[i-1].LeafIndex {
			return nil, fmt.Errorf("%w: entry %d: leaf %d after leaf %d", ErrBundle, i+1, e.leafIndex, b.Entries[i-1].LeafIndex)
		}
		out := Entry{Record: rec, LeafIndex: e.leafIndex}
		if e.hasProof {
			var hashes [MaxProofHashes]Hash
			proof, err := decodeProof(e.proof, hashes[:0])
			if err != nil {
				return nil, fmt.Errorf("%w: entry %d (leaf %d): %w", ErrBundle, i+1, e.leafIndex, err)
			}
			out.Proof = make([][]byte, len(proof))
			for j := range proof {
				out.Proof[j] = bytes.Clone(proof[j][:])
			}
		}
		text, _ := event.ClaimBoundaryText(rec.Event.ClaimBoundary)
		codes[rec.Event.ClaimBoundary] = text
		if again = appendEntry(again[:0], &out, e.hasProof); !bytes.Equal(again, e.raw) {
			return nil, fmt.Errorf("%w: entry %d (leaf %d): digest, payload type, origin or reference is not that of its event", ErrBundle, i+1, e.leafIndex)
		}
		b.Entries = append(b.Entries, out)
	}
	if head := appendHead(nil, d.checkpoint, codes); !bytes.HasPrefix(raw, head) {
		return nil, fmt.Errorf("%w: claimBoundaries are not those of the entries", ErrBundle)
	}
	return b, nil
}

// document is a bundle taken apart. Its slices alias the input.
type document struct {
	checkpoint []byte            // the note, unquoted; nil without one
	boundaries map[string]string // as the bundle gives them
	entries    []entry
}

// entry is an entry taken apart, as it stands in the file. If damage is set,
// only what could be saved is there.
type entry struct {
	raw         []byte
	digest      []byte
	payloadType []byte
	signatures  []byte // JSON array, canonical if the record is good
	receipt     []byte // JSON object, canonical if the record is good
	proof       []byte // what stands between the brackets
	origin      []byte
	attemptID   []byte
	eventID     []byte
	lifecycle   []byte
	previous    []byte
	leafIndex   uint64
	revision    uint64
	hasProof    bool
	hasIndex    bool
	damage      *scanError
}

// schemaError: the document is of a schema that is not ours.
type schemaError struct{ got string }

func (e *schemaError) Error() string {
	return fmt.Sprintf("schemaVersion is %q, want %q", clip(e.got), Schema)
}

// parse takes a bundle apart. An error means that the document as a whole
// cannot be read; an entry that cannot is in the result with its damage.
func parse(raw []byte) (*document, error) {
	if len(raw) > MaxBundleBytes {
		return nil, fmt.Errorf("%d bytes, limit %d", len(raw), MaxBundleBytes)
	}
	d, err := parseDocument(raw)
	if err == nil {
		return d, nil
	}
	if got, ok := SchemaVersion(raw); ok && got != Schema {
		return nil, &schemaError{got}
	}
	return nil, err
}

func parseDocument(raw []byte) (*document, error) {
	s := &scanner{b: raw}
	d := &document{boundaries: map[string]string{}}
	if s.skip(litCheckpoint) {
		note, err := s.text()
		if err != nil {
			return nil, err
		}
		d.checkpoint = note
		if err := s.expect(","); err != nil {
			return nil, err
		}
	} else if err := s.expect("{"); err != nil {
		return nil, err
	}
	if err := s.boundaries(d.boundaries); err != nil {
		return nil, err
	}
	if err := s.expect(litEntries); err != nil {
		return nil, err
	}
	listEnd := bytes.LastIndex(raw, []byte(litSchema))
	if listEnd < s.at {
		return nil, fmt.Errorf("the document of %d bytes ends inside its entries, after %d of them have begun: it was cut off",
			len(raw), bytes.Count(raw[s.at:], []byte(litArtifact)))
	}
	for more := s.at < listEnd; more; more = s.skip(",") {
		if len(d.entries) == MaxEntries {
			return nil, fmt.Errorf("more than %d entries", MaxEntries)
		}
		d.entries = append(d.entries, s.entry(listEnd))
	}
	if err := s.expect(litSchema); err != nil {
		return nil, err
	}
	version, err := s.text()
	if err != nil {
		return nil, err
	}
	if string(version) != Schema {
		return nil, &schemaError{string(version)}
	}
	if err := s.expect(litBundleEnd); err != nil {
		return nil, err
	}
	if s.at != len(raw) {
		return nil, s.fail("the end of the document")
	}
	return d, nil
}

func (s *scanner) boundaries(into map[string]string) error {
	if err := s.expect(litBoundaries); err != nil {
		return err
	}
	last := ""
	for more := !s.peek("}"); more; {
		at := s.at
		code, err := s.text()
		if err != nil {
			return err
		}
		for _, c := range code {
			if c >= 0x80 {
				return &scanError{at, "a claim boundary code", fmt.Sprintf("%q", clip(string(code)))}
			}
		}
		if len(into) > 0 && string(code) <= last {
			return &scanError{at, fmt.Sprintf("a code after %q", clip(last)), fmt.Sprintf("%q", clip(string(code)))}
		}
		if len(into) == MaxClaimBoundaries {
			return fmt.Errorf("more than %d claim boundaries", MaxClaimBoundaries)
		}
		if err := s.expect(":"); err != nil {
			return err
		}
		text, err := s.text()
		if err != nil {
			return err
		}
		last = string(code)
		into[last] = string(text)
		more = s.skip(",")
	}
	return nil
}

// entry reads one entry. It ends where the next one begins or, for the last one,
// at listEnd: the fixed text that begins an entry cannot stand inside a string,
// where its quotes would be escaped. So damage stays with its entry, and no byte
// is looked at more than a few times.
func (s *scanner) entry(listEnd int) entry {
	start := s.at
	end := listEnd
	if i := bytes.Index(s.b[start:listEnd], []byte(","+litArtifact)); i >= 0 {
		end = start + i
	}
	sub := &scanner{b: s.b[:end], at: start, part: "entry"}
	e, damage := sub.cleanEntry()
	if damage == nil && sub.at < end {
		damage = sub.fail("the end of the entry")
	}
	s.at = end
	if damage != nil {
		return salvage(s.b[start:end], damage)
	}
	e.raw = s.b[start:end]
	return e
}

func (s *scanner) cleanEntry() (e entry, err *scanError) {
	step := func(lit string, read func() *scanError) {
		if err == nil {
			err = s.expect(lit)
		}
		if err == nil {
			err = read()
		}
	}
	text := func(to *[]byte) func() *scanError {
		return func() (err *scanError) { *to, err = s.text(); return err }
	}
	value := func(open byte, to *[]byte) func() *scanError {
		return func() (err *scanError) { *to, err = s.value(open); return err }
	}
	step(litArtifact, text(&e.digest))
	step(litPayloadType, text(&e.payloadType))
	step(litSignatures, value('[', &e.signatures))
	step(litReceipt, value('{', &e.receipt))
	step(litRecord, func() (err *scanError) {
		if e.hasProof = s.skip(litProof); e.hasProof {
			if e.proof, err = s.hashes(); err == nil {
				err = s.expect("],")
			}
		}
		return err
	})
	step(litLeafIndex, func() (err *scanError) { e.leafIndex, err = s.integer(); e.hasIndex = err == nil; return err })
	step(litOrigin, text(&e.origin))
	step(litReference, text(&e.attemptID))
	step(litEventID, text(&e.eventID))
	step(litLifecycle, text(&e.lifecycle))
	if err == nil && s.peek(litPrevious) {
		step(litPrevious, text(&e.previous))
		if err == nil && len(e.previous) == 0 {
			s.at -= len(`""`)
			err = s.fail("a digest, since an empty previous is left out")
		}
	}
	step(litRevision, func() (err *scanError) { e.revision, err = s.integer(); return err })
	if err == nil {
		err = s.expect(litEntryEnd)
	}
	return e, err
}

// hashBytes is a hash in base64 with its quotes.
const hashBytes = 1 + 44 + 1

// hashes reads the elements of a proof without decoding them.
func (s *scanner) hashes() ([]byte, *scanError) {
	start := s.at
	for n := 0; ; n++ {
		if n == 0 && s.peek("]") {
			break
		}
		if n == MaxProofHashes {
			return nil, s.fail(fmt.Sprintf("at most %d hashes", MaxProofHashes))
		}
		if len(s.b)-s.at < hashBytes || s.b[s.at] != '"' || s.b[s.at+hashBytes-1] != '"' {
			return nil, s.fail("a hash of 44 characters of base64")
		}
		s.at += hashBytes
		if s.peek("]") {
			break
		}
		if err := s.expect(","); err != nil {
			return nil, err
		}
	}
	return s.b[start:s.at], nil
}

// proofHashes is the number of hashes in what hashes returned.
func proofHashes(raw []byte) int { return (len(raw) + 1) / (hashBytes + 1) }

// decodeProof decodes what hashes returned into dst, which has room for
// MaxProofHashes.
func decodeProof(raw []byte, dst []Hash) ([]Hash, error) {
	for i := 0; i < len(raw); i += hashBytes + 1 {
		var h [sha256.Size + 1]byte // base64 of 44 characters may say 33 bytes
		n, err := b64.Decode(h[:], raw[i+1:i+hashBytes-1])
		if err != nil || n != sha256.Size {
			return nil, fmt.Errorf("proof hash %d is not 32 bytes in standard base64 with padding", len(dst)+1)
		}
		dst = append(dst, Hash(h[:sha256.Size]))
	}
	return dst, nil
}

// salvage takes what it finds of a damaged entry by its fixed parts, so that the
// report can name the leaf and say which hashes differ.
func salvage(raw []byte, damage *scanError) entry {
	e := entry{raw: raw, damage: damage}
	try := func(lit string, last bool, read func(*scanner)) {
		i := bytes.Index(raw, []byte(lit))
		if last {
			i = bytes.LastIndex(raw, []byte(lit))
		}
		if i >= 0 {
			read(&scanner{b: raw, at: i + len(lit)})
		}
	}
	text := func(to *[]byte) func(*scanner) {
		return func(s *scanner) {
			if t, err := s.text(); err == nil {
				*to = t
			}
		}
	}
	try(litArtifact, false, text(&e.digest))
	try(litPayloadType, false, text(&e.payloadType))
	try(litRecord, true, func(s *scanner) {
		recordAt := s.at - len(litRecord)
		if e.hasProof = s.skip(litProof); e.hasProof {
			if p, err := s.hashes(); err == nil {
				e.proof = p
			} else {
				e.hasProof = false
			}
		}
		from := bytes.Index(raw, []byte(litSignatures))
		to := bytes.Index(raw, []byte(litReceipt))
		if from >= 0 && to >= from+len(litSignatures) && to+len(litReceipt) <= recordAt {
			e.signatures = raw[from+len(litSignatures) : to]
			e.receipt = raw[to+len(litReceipt) : recordAt]
		}
	})
	try(litLeafIndex, true, func(s *scanner) {
		if n, err := s.integer(); err == nil {
			e.leafIndex, e.hasIndex = n, true
		}
	})
	try(litReference, true, text(&e.attemptID))
	try(litReference, true, func(s *scanner) {
		if _, err := s.text(); err == nil && s.skip(litEventID) {
			text(&e.eventID)(s)
		}
	})
	return e
}

// SchemaVersion finds the schemaVersion of a JSON object in any spelling. It looks
// no further, and verifies nothing.
func SchemaVersion(raw []byte) (string, bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return "", false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return "", false
		}
		wanted := name.String() == "schemaVersion"
		if !wanted {
			if err := dec.SkipValue(); err != nil {
				return "", false
			}
			continue
		}
		v, err := dec.ReadToken()
		if err != nil || v.Kind() != '"' {
			return "", false
		}
		return v.String(), true
	}
	return "", false
}

// clip shortens what is quoted in a message.
func clip(s string) string { return excerpt.Cut(s, 80) }
