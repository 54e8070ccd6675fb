package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// Seen is what a witness knows of a log.
type Seen struct {
	Witness string // name in the policy
	Size    uint64 // of the checkpoint that it serves; 0 if it has none
	Err     error  // why it could not be asked
}

// Ask asks every witness of a policy that has a URL which checkpoint of the log it
// has. Only what the log's key signed counts.
func Ask(ctx context.Context, policy *trust.Policy, m *Manifest, cfg tiles.HTTPConfig) ([]Seen, error) {
	key, err := trust.ParseVerifierKey(m.VKey)
	if err != nil {
		return nil, fmt.Errorf("the log's key in the backup: %w", err)
	}
	id := sha256.Sum256([]byte(m.Origin))
	var out []Seen
	for _, w := range policy.Witnesses {
		if w.URL == "" {
			continue
		}
		s := Seen{Witness: w.Name}
		s.Size, s.Err = latest(ctx, w.URL+"/"+hex.EncodeToString(id[:]), key, m.Origin, cfg)
		out = append(out, s)
	}
	return out, nil
}

func latest(ctx context.Context, prefix string, key trust.VerifierKey, origin string, cfg tiles.HTTPConfig) (uint64, error) {
	src, err := tiles.HTTP(prefix, cfg)
	if err != nil {
		return 0, err
	}
	raw, _, err := src.Read(ctx, tiles.Path{Kind: tiles.Checkpoint})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := trust.ParseNote(raw)
	if err != nil {
		return 0, err
	}
	cp, err := trust.ParseCheckpoint(n.Text)
	if err != nil {
		return 0, err
	}
	v, err := n.VerifyBy(key)
	if err == nil && (v.Lines == 0 || cp.Origin != origin) {
		err = fmt.Errorf("it shows a checkpoint of %q that the log's key did not sign", cp.Origin)
	}
	return cp.Size, err
}
