package audit

import (
	"context"
	"errors"
	"fmt"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// ErrNoCheckpoint: what the source serves as its checkpoint cannot be read as one.
var ErrNoCheckpoint = errors.New("there is no checkpoint that can be read")

// Checkpoint is a checkpoint that the log signed.
type Checkpoint struct {
	trust.Checkpoint
	// Note is the signed note as it was read.
	Note *trust.Note
	// Signed is the text with the log's own signature lines alone.
	Signed string
}

// ParseCheckpoint reads a signed checkpoint and verifies the log's signature. A
// note that cannot be read wraps ErrNoCheckpoint; one that is not signed by the key,
// or is of another log, is a finding.
func ParseCheckpoint(raw []byte, key trust.VerifierKey) (*Checkpoint, *Finding, error) {
	n, err := trust.ParseNote(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNoCheckpoint, err)
	}
	c, err := trust.ParseCheckpoint(n.Text)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNoCheckpoint, err)
	}
	v, err := n.VerifyBy(key)
	var f Finding
	switch {
	case err != nil:
		f = about(LogSignature, "checkpoint", "a signature of "+key.Name, err.Error(), "the signature of the trusted log key does not verify")
	case v.Lines == 0:
		f = about(LogSignature, "checkpoint", "a signature of "+key.String(), signers(n), "the checkpoint is not signed by the trusted log key")
	case c.Origin != key.Name:
		f = about(LogSignature, "checkpoint", "origin "+key.Name, "origin "+c.Origin, "the checkpoint is of another log")
	default:
		own := trust.Note{Text: n.Text}
		for _, s := range n.Signatures {
			if s.Name == key.Name && s.ID == key.ID {
				own.Signatures = append(own.Signatures, s)
			}
		}
		return &Checkpoint{Checkpoint: c, Note: n, Signed: string(own.Append(nil))}, nil, nil
	}
	return nil, &f, nil
}

func signers(n *trust.Note) string {
	text := "signatures of"
	for i, s := range n.Signatures {
		if i == 4 {
			return text + " and others"
		}
		text += fmt.Sprintf(" %s+%08x", s.Name, s.ID)
	}
	return text
}

// fetchCheckpoint reads the newest checkpoint of a source.
func fetchCheckpoint(ctx context.Context, src tiles.Source, key trust.VerifierKey) (*Checkpoint, *Finding, error) {
	raw, _, err := src.Read(ctx, tiles.Path{Kind: tiles.Checkpoint})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNoCheckpoint, err)
	}
	return ParseCheckpoint(raw, key)
}

// Cosignatures says how the witnesses of the trust file stand to a checkpoint.
type Cosignatures struct {
	Quorum    int    `json:"quorum"`    // that the trust file asks for
	Witnesses int    `json:"witnesses"` // that it names
	Cosigned  int    `json:"cosigned"`  // of them, those that cosigned
	Detail    string `json:"detail"`
}

func cosignatures(c *Checkpoint, file *trust.File) (Cosignatures, []Finding) {
	t := file.Policy().Tally(c.Note)
	out := Cosignatures{Quorum: file.Quorum, Witnesses: len(file.Witnesses), Cosigned: len(t.Cosigned()), Detail: t.String()}
	var found []Finding
	for _, w := range t.Bad() {
		found = append(found, about(Cosignature, "checkpoint", "a cosignature that verifies", "one that does not",
			"a line of witness %s does not verify", w.Witness.Name))
	}
	if !t.Met() {
		found = append(found, about(Quorum, "checkpoint", fmt.Sprintf("%d cosignatures", file.Quorum), fmt.Sprintf("%d", out.Cosigned), "%s", t.String()))
	}
	return out, found
}
