package receipt

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"counterfoil/ledger/event"
	"counterfoil/ledger/trust"
)

// MaxTlogProofBytes bounds a tlog-proof: a checkpoint and a proof.
const MaxTlogProofBytes = trust.MaxNoteBytes + 1<<20

// ErrTlogProof is what every refusal of [ParseTlogProof] wraps.
var ErrTlogProof = errors.New("malformed tlog-proof")

// TlogProof is a C2SP tlog-proof: that a leaf, which travels beside it, is in a
// log.
//
//	c2sp.org/tlog-proof@v1
//	index <decimal>
//	<base64 hash>          sibling of the leaf first, none in a tree of one leaf
//
//	<signed checkpoint>
type TlogProof struct {
	Index      uint64
	Proof      [][]byte
	Checkpoint []byte // signed note, byte for byte
	// Extra is data that nothing authenticates; nil without any. It is never
	// written here and never used.
	Extra []byte
}

const tlogProofMagic = "c2sp.org/tlog-proof@v1\n"

// Append adds the text of the proof to dst.
func (p *TlogProof) Append(dst []byte) []byte {
	dst = append(dst, tlogProofMagic...)
	if p.Extra != nil {
		dst = append(b64.AppendEncode(append(dst, "extra "...), p.Extra), '\n')
	}
	dst = append(strconv.AppendUint(append(dst, "index "...), p.Index, 10), '\n')
	for _, h := range p.Proof {
		dst = append(b64.AppendEncode(dst, h), '\n')
	}
	dst = append(dst, '\n')
	return append(dst, p.Checkpoint...)
}

// BuildTlogProof returns the text for a leaf under a checkpoint. It checks index
// and length of the proof, and verifies nothing.
func BuildTlogProof(index uint64, proof [][]byte, checkpoint []byte) ([]byte, error) {
	p := TlogProof{Index: index, Proof: proof, Checkpoint: checkpoint}
	c, err := p.tree()
	if err != nil {
		return nil, fmt.Errorf("tlog-proof: %w", err)
	}
	if index >= c.Size {
		return nil, fmt.Errorf("tlog-proof: leaf %d is not under the checkpoint of size %d", index, c.Size)
	}
	if want := proofLength(index, c.Size); len(proof) != want {
		return nil, fmt.Errorf("tlog-proof: leaf %d: inclusion proof of %d hashes, want %d at size %d", index, len(proof), want, c.Size)
	}
	for _, h := range proof {
		if len(h) != sha256.Size {
			return nil, fmt.Errorf("tlog-proof: leaf %d: a proof hash has %d bytes, want %d", index, len(h), sha256.Size)
		}
	}
	return p.Append(nil), nil
}

func (p *TlogProof) tree() (trust.Checkpoint, error) {
	n, err := trust.ParseNote(p.Checkpoint)
	if err != nil {
		return trust.Checkpoint{}, err
	}
	return trust.ParseCheckpoint(n.Text)
}

// ParseTlogProof reads a tlog-proof in its one spelling: no carriage returns, no
// leading zeros, every line ended by a newline, at most MaxProofHashes hashes.
// The checkpoint is parsed but not verified. Errors wrap ErrTlogProof.
func ParseTlogProof(b []byte) (*TlogProof, error) {
	if len(b) > MaxTlogProofBytes {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrTlogProof, len(b), MaxTlogProofBytes)
	}
	head, checkpoint, ok := bytes.Cut(b, []byte("\n\n"))
	if !ok {
		return nil, fmt.Errorf("%w: no empty line before a checkpoint", ErrTlogProof)
	}
	text := string(head) + "\n"
	rest, ok := strings.CutPrefix(text, tlogProofMagic)
	if !ok {
		return nil, fmt.Errorf("%w: first line is not %q", ErrTlogProof, strings.TrimSuffix(tlogProofMagic, "\n"))
	}
	p := &TlogProof{Checkpoint: bytes.Clone(checkpoint)}
	lines := strings.Split(strings.TrimSuffix(rest, "\n"), "\n")
	if extra, ok := strings.CutPrefix(lines[0], "extra "); ok {
		raw, err := b64.DecodeString(extra)
		if err != nil || b64.EncodedLen(len(raw)) != len(extra) {
			return nil, fmt.Errorf("%w: extra is not standard base64 with padding", ErrTlogProof)
		}
		p.Extra = append([]byte{}, raw...)
		lines = lines[1:]
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%w: no index line", ErrTlogProof)
	}
	digits, ok := strings.CutPrefix(lines[0], "index ")
	index, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || strconv.FormatUint(index, 10) != digits {
		return nil, fmt.Errorf("%w: %q is not index and a decimal number without leading zeros", ErrTlogProof, clip(lines[0]))
	}
	p.Index = index
	lines = lines[1:]
	if len(lines) > MaxProofHashes {
		return nil, fmt.Errorf("%w: %d hashes, limit %d", ErrTlogProof, len(lines), MaxProofHashes)
	}
	for i, line := range lines {
		h, err := b64.DecodeString(line)
		if err != nil || len(h) != sha256.Size || b64.EncodedLen(len(h)) != len(line) {
			return nil, fmt.Errorf("%w: hash %d is not 32 bytes in standard base64 with padding", ErrTlogProof, i+1)
		}
		p.Proof = append(p.Proof, h)
	}
	if _, err := p.tree(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTlogProof, err)
	}
	return p, nil
}

// VerifyTlogProof judges a tlog-proof of a leaf by a trust file, with the checks
// of [Verify] that one leaf without a bundle has. leaf are the bytes of the leaf
// as they were logged. The chain of its attempt is not checked unless the leaf
// begins it.
func VerifyTlogProof(text, leaf []byte, file *trust.File, opts Options) *Report {
	opts.AllowPartial = true
	v, none := newVerifier(file, opts)
	if none != nil {
		return none
	}
	if len(text) == 0 || len(leaf) == 0 {
		return v.nothing("the proof or its leaf is empty: nothing to verify")
	}
	p, err := ParseTlogProof(text)
	if err != nil {
		v.fail(Check{Name: CheckFormat, Detail: err.Error()})
		return v.finish("the proof could not be read", 0)
	}
	rec, err := event.ParseRecord(leaf)
	if err != nil {
		v.fail(Check{Name: CheckSchema, Detail: "the leaf is no record: " + err.Error()})
		return v.finish("the leaf could not be read", 0)
	}
	e := Entry{Record: rec, LeafIndex: min(p.Index, maxInteger), Proof: p.Proof}
	if p.Index > maxInteger {
		v.fail(Check{Name: CheckLeafIndex, Detail: "leaf indexes end at 2^53-1", Got: strconv.FormatUint(p.Index, 10)})
	}
	v.openCheckpoint(p.Checkpoint)
	s := &scanner{b: appendEntry(nil, &e, true)}
	clean, damage := s.cleanEntry()
	clean.damage = damage
	v.entry(&clean)
	v.skip(CheckClaims, "a tlog-proof carries no claim boundaries; the event names "+rec.Event.ClaimBoundary)
	v.completeness()
	return v.finish("one leaf does not come as far as this check", 1)
}
