package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"counterfoil/ledger/event"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// ErrNoCheckpoint: what the source serves as its checkpoint cannot be read as one.
var ErrNoCheckpoint = errors.New("there is no checkpoint that can be read")

// maxCheckpointText bounds the text of a checkpoint: the fold keeps it with each
// batch. Without extension lines it has less than 400 bytes.
const maxCheckpointText = 64 << 10

// Checkpoint is a checkpoint that the log signed.
type Checkpoint struct {
	trust.Checkpoint
	// Note is the signed note as it was read.
	Note *trust.Note
	// Signed is the text with one signature line of the log alone.
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
	if len(n.Text) > maxCheckpointText {
		return nil, nil, fmt.Errorf("%w: its text has %d bytes, limit %d", ErrNoCheckpoint, len(n.Text), maxCheckpointText)
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
		for _, s := range n.Signatures { // all of them verify: one will do
			if s.Name == key.Name && s.ID == key.ID && own.Signatures == nil {
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

// futureTolerance is how far a cosignature's time may be ahead of the auditor's
// clock and still count for MaxAge.
const futureTolerance = 5 * time.Minute

// Cosignatures says how witnesses stand to a checkpoint.
type Cosignatures struct {
	// Asked tells whether cosignatures are asked for at all.
	Asked     bool   `json:"asked"`
	Witnesses int    `json:"witnesses"` // that trust file or policy name
	Cosigned  int    `json:"cosigned"`  // of them, those that cosigned
	Time      string `json:"time,omitempty"`
	Detail    string `json:"detail"`
}

// policy is what cosignatures are judged by.
func (c *Config) policy() (*trust.Policy, error) {
	if c.Policy == nil {
		return c.Trust.Policy(), nil
	}
	if err := c.Policy.Validate(); err != nil {
		return nil, fmt.Errorf("the policy cannot be used: %w", err)
	}
	if err := c.Trust.CheckPolicy(c.Policy); err != nil {
		return nil, fmt.Errorf("trust file and policy contradict each other: %w", err)
	}
	return c.Policy, nil
}

// cosignatures counts the cosignatures of a checkpoint. Its Time is the newest one
// such that a quorum cosigned then or later.
func cosignatures(c *Checkpoint, policy *trust.Policy, maxAge time.Duration, now time.Time) (Cosignatures, []Finding) {
	t := policy.Tally(c.Note)
	out := Cosignatures{Asked: policy.Quorum != trust.QuorumNone, Witnesses: len(policy.Witnesses), Cosigned: len(t.Cosigned()), Detail: t.String()}
	var found []Finding
	for _, w := range t.Bad() {
		found = append(found, about(Cosignature, "checkpoint", "a cosignature that verifies", "one that does not",
			"a line of witness %s does not verify", w.Witness.Name))
	}
	if !t.Met() {
		found = append(found, about(Quorum, "checkpoint", "the quorum", fmt.Sprintf("%d cosignatures", out.Cosigned), "%s", t.String()))
	}
	at := t.TimeUpTo(uint64(max(0, now.Add(futureTolerance).Unix())))
	if at > 0 {
		out.Time = event.FormatTime(time.Unix(int64(at), 0))
	}
	if oldest := now.Add(-maxAge); maxAge > 0 && int64(at) < oldest.Unix() {
		got := out.Time
		if got == "" {
			got = "no time that a quorum states"
		}
		found = append(found, about(Stale, "checkpoint", "cosigned at "+event.FormatTime(oldest)+" or later", got, "the checkpoint is older than %s for its witnesses", maxAge))
	}
	return out, found
}
