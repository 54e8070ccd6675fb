package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// StateSchema is the schemaVersion of a state file.
const StateSchema = "counterfoil.audit-state.v1"

const maxStateBytes = 2 << 20

// ErrState: the state file cannot be read. It is what an auditor remembers, so it
// is never replaced by a new one in silence.
var ErrState = errors.New("the audit state cannot be read")

// memory is the state file: the newest checkpoint whose leaves were all judged.
type memory struct {
	Schema string `json:"schemaVersion"`
	Origin string `json:"origin"`
	// Checkpoint is the signed note with the log's signature lines.
	Checkpoint string `json:"checkpoint"`
	// Range is the compact range of its tree.
	Range []tiles.Hash `json:"range"`
	// Judged and Findings are for people: leaves folded, and of those the ones that
	// do not count.
	Judged   uint64 `json:"judged"`
	Findings uint64 `json:"findings"`
	// Sum is "sha256:" and the hex SHA-256 of the file's canonical JSON without
	// this member.
	Sum string `json:"sum,omitempty"`
}

func (m memory) sum() (string, error) {
	m.Sum = ""
	b, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	v := jsontext.Value(b)
	if err := v.Canonicalize(); err != nil {
		return "", err
	}
	d := sha256.Sum256(v)
	return "sha256:" + hex.EncodeToString(d[:]), nil
}

// readMemory reads a state file; nil if there is none. Its checkpoint is verified
// again, and its range gives the checkpoint's root.
func readMemory(path string, key trust.VerifierKey) (*Checkpoint, error) {
	raw, err := durable.ReadFile(path, maxStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %w (hint: restore it from a copy; to start anew and forget what was seen, move it away)", ErrState, path, fmt.Errorf(format, args...))
	}
	if err != nil {
		return nil, bad("%w", err)
	}
	var m memory
	if err := json.Unmarshal(raw, &m, json.RejectUnknownMembers(true)); err != nil {
		return nil, bad("%w", err)
	}
	if m.Schema != StateSchema {
		return nil, bad("schemaVersion is %q, want %q", m.Schema, StateSchema)
	}
	if sum, err := m.sum(); err != nil || sum != m.Sum {
		return nil, bad("its checksum is another")
	}
	if m.Origin != key.Name {
		return nil, fmt.Errorf("%w: %s is of log %s, the trust file is of %s (hint: use another state file for each log)", ErrState, path, m.Origin, key.Name)
	}
	c, f, err := ParseCheckpoint([]byte(m.Checkpoint), key)
	switch {
	case err != nil:
		return nil, bad("%w", err)
	case f != nil:
		return nil, bad("its checkpoint: %s", f.Detail)
	}
	if _, err := newRange(c.Size, m.Range); err != nil || tiles.EdgeRoot(m.Range) != c.Root {
		return nil, bad("its compact range does not give the root of its checkpoint")
	}
	return c, nil
}

// writeMemory replaces the state file: from here on the checkpoint is remembered.
func writeMemory(path string, c *Checkpoint, edge []tiles.Hash, p *position) error {
	m := memory{Schema: StateSchema, Origin: c.Origin, Checkpoint: c.Signed, Range: edge, Judged: p.Size - p.From, Findings: p.Findings}
	var err error
	if m.Sum, err = m.sum(); err != nil {
		return fmt.Errorf("encode the audit state: %w", err)
	}
	b, err := json.Marshal(m, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("encode the audit state: %w", err)
	}
	return durable.WriteFile(path, append(b, '\n'), 0o600)
}
