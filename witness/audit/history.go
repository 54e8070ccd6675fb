package audit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
)

// seen is a checkpoint of the log that was verified before.
type seen struct {
	*Checkpoint
	where string // that remembers it
	// beside is the path beside which evidence is kept.
	beside string
}

// follows compares the new checkpoint with one that was seen. A nil finding means
// that the new tree begins with the seen one. The prover is that of the new tree.
func follows(ctx context.Context, p *prover, now *Checkpoint, old seen, key trust.VerifierKey, at time.Time) (*Finding, error) {
	expected := fmt.Sprintf("size %d, root %x", old.Size, old.Root)
	switch {
	case now.Size == old.Size && now.Root == old.Root:
		return nil, nil
	case now.Size == old.Size:
		f := about(Forked, "", expected, fmt.Sprintf("size %d, root %x", now.Size, now.Root), "the log signed two trees of size %d: this one, and the one in %s", now.Size, old.where)
		return &f, keepEvidence(&f, rule.KindSameSize, now, old, nil, key, at)
	case now.Size < old.Size:
		f := about(RolledBack, "", "at least "+expected, fmt.Sprintf("size %d, root %x", now.Size, now.Root), "the log has %d leaves, and had %d (in %s)", now.Size, old.Size, old.where)
		return &f, keepNote(&f, now, old)
	case old.Size == 0:
		return nil, nil
	}
	edge, err := p.edgeAt(ctx, old.Size)
	if err != nil {
		return nil, err
	}
	got := tiles.EdgeRoot(edge)
	if got == old.Root {
		return nil, nil
	}
	f := about(Rewritten, "", expected, fmt.Sprintf("size %d, root %x", old.Size, got), "the first %d leaves of the tree are not those that the log signed before (in %s)", old.Size, old.where)
	hashes, err := p.consistency(ctx, old.Size)
	if err != nil {
		return &f, err
	}
	return &f, keepEvidence(&f, rule.KindRewritten, now, old, hashes, key, at)
}

// keepEvidence writes an equivocation document beside what remembered the seen
// checkpoint, and names it in the finding.
func keepEvidence(f *Finding, kind rule.Kind, now *Checkpoint, old seen, proof [][]byte, key trust.VerifierKey, at time.Time) error {
	e := &rule.Evidence{Cosigned: old.Signed, Kind: kind, ObservedAt: at.UTC().Format(rule.TimeLayout), Offered: now.Signed,
		Origin: now.Origin, Schema: rule.EvidenceSchema}
	for _, h := range proof {
		e.Proof = append(e.Proof, base64.StdEncoding.EncodeToString(h))
	}
	keys := []trust.VerifierKey{key}
	if err := e.Verify(keys); err != nil && kind == rule.KindRewritten {
		// A proof from a size that is a power of two shows no other root there.
		e.Kind = rule.KindUnproven
	}
	if err := e.Verify(keys); err != nil {
		return fmt.Errorf("equivocation document: %w", err)
	}
	b, err := e.Marshal()
	if err != nil {
		return err
	}
	f.Path = fmt.Sprintf("%s.%s-%s.json", old.beside, e.Kind, e.ID()[:16])
	return durable.WriteFile(f.Path, append(b, '\n'), 0o644)
}

// keepNote writes the signed checkpoint that does not fit; the other one stays
// where it is.
func keepNote(f *Finding, now *Checkpoint, old seen) error {
	f.Path = fmt.Sprintf("%s.rolled_back-%d.note", old.beside, now.Size)
	return durable.WriteFile(f.Path, []byte(now.Signed), 0o644)
}

// notProven reports whether an error says that tiles are damaged, rather than that
// they could not be read.
func notProven(err error) bool { return errors.Is(err, errUnproven) || errors.Is(err, errRoot) }

// besideDir is the path beside a directory.
func besideDir(dir string) string { return filepath.Clean(dir) }
