package query

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/transparency-dev/merkle/rfc6962"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/projections/kv"
	"counterfoil/projections/receipts"
)

// TamperedError says that a row of the views does not say what its leaf says, or
// cannot be read. The log is right; the views are to be folded again.
type TamperedError struct {
	EventID   string // "" if it is not known
	AttemptID string // "" if it is not about an attempt
	Index     uint64 // leaf index
	Detail    string
}

func (e *TamperedError) Error() string {
	what := "event " + e.EventID
	switch {
	case e.AttemptID != "":
		what = "attempt " + e.AttemptID
	case e.EventID == "":
		what = "an event"
	}
	return fmt.Sprintf("the view of %s (leaf %d) does not match the log: %s (hint: counterfoil rebuild)", what, e.Index, e.Detail)
}

// damaged words a row that cannot be read; other trouble stays as it is.
func damaged(err error, what TamperedError) error {
	if !errors.Is(err, kv.ErrDamaged) {
		return err
	}
	what.Detail = err.Error()
	return &what
}

// Load reads the leaf of a row and compares everything that the row says with
// it. size is the tree size of the answer that the row came from; the leaf is
// read in that tree or in a greater one that was published. It does not check
// signatures; the follower did.
func (v *Views) Load(ctx context.Context, row receipts.Row, size uint64) (*event.Record, []byte, error) {
	leaf, err := v.leaves.Leaf(ctx, row.Index, max(size, v.db.Under()))
	if err != nil {
		return nil, nil, fmt.Errorf("read leaf %d of %s: %w", row.Index, row.EventID(), err)
	}
	tampered := func(format string, a ...any) error {
		return &TamperedError{EventID: row.EventID(), Index: row.Index, Detail: fmt.Sprintf(format, a...)}
	}
	hash := [32]byte(rfc6962.DefaultHasher.HashLeaf(leaf))
	if hash != row.LeafHash {
		return nil, nil, tampered("leaf hash %x, but the row has %x", hash, row.LeafHash)
	}
	rec, err := event.ParseRecord(leaf)
	if err != nil {
		return nil, nil, tampered("the leaf is no record: %v", err)
	}
	digest := rec.Digest()
	if digest != row.Digest {
		return nil, nil, tampered("the leaf holds %s", digest.EventID())
	}
	if want := receipts.NewRow(row.Index, hash, rec, digest); !bytes.Equal(want.Append(nil), row.Append(nil)) {
		return nil, nil, tampered("%s", firstDifference(&want, &row))
	}
	return rec, leaf, nil
}

func firstDifference(leaf, row *receipts.Row) string {
	for _, m := range []struct{ name, leaf, row string }{
		{"attemptId", leaf.AttemptID, row.AttemptID},
		{"lifecycle", string(leaf.Lifecycle), string(row.Lifecycle)},
		{"revision", fmt.Sprint(leaf.Revision), fmt.Sprint(row.Revision)},
		{"status", leaf.Status, row.Status},
		{"subject.kind", string(leaf.Kind), string(row.Kind)},
		{"subject.id", leaf.Subject, row.Subject},
		{"action.name", leaf.Tool, row.Tool},
		{"source.agentId", leaf.Agent, row.Agent},
		{"source.runtimeId", leaf.Runtime, row.Runtime},
		{"occurredAt", event.FormatTime(leaf.OccurredAt), event.FormatTime(row.OccurredAt)},
		{"capturedAt", event.FormatTime(leaf.CapturedAt), event.FormatTime(row.CapturedAt)},
	} {
		if m.leaf != m.row {
			return fmt.Sprintf("%s is %q in the leaf and %q in the row", m.name, m.leaf, m.row)
		}
	}
	return "the row has another encoding"
}

// LoadAttempt reads all leaves of an attempt, compares each with its row, and
// folds them again: the state that the answer shows is then that of the log.
func (v *Views) LoadAttempt(ctx context.Context, a *AttemptAnswer) ([]*event.Record, error) {
	var state lifecycle.State
	var out []*event.Record
	for _, row := range a.Receipts {
		rec, _, err := v.Load(ctx, row, a.TreeSize)
		if err != nil {
			return nil, err
		}
		if rec.Event.AttemptID != a.Attempt.ID {
			return nil, &TamperedError{EventID: row.EventID(), Index: row.Index, Detail: "an event of " + rec.Event.AttemptID + " stands in " + a.Attempt.ID}
		}
		if v := state.Apply(rec.Event, row.Digest); v != nil {
			return nil, &TamperedError{EventID: row.EventID(), Index: row.Index, Detail: "stands in " + a.Attempt.ID + ", but " + v.Error()}
		}
		out = append(out, rec)
	}
	want, _ := state.AppendBinary(nil) // never fails
	got, _ := a.Attempt.state.AppendBinary(nil)
	if !bytes.Equal(want, got) || len(out) == 0 {
		return nil, &TamperedError{AttemptID: a.Attempt.ID, Index: a.Attempt.FirstIndex(),
			Detail: fmt.Sprintf("its leaves fold to %q at revision %d, the row says %q at revision %d",
				state.Summary().State, state.Revision(), a.Attempt.State, a.Attempt.Revision)}
	}
	return out, nil
}
