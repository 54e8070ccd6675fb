package app

import (
	"context"
	"fmt"
	"slices"

	"counterfoil/ledger/event"
	"counterfoil/ledger/stream"
)

// heal compares stream and log and makes the stream whole again from the leaves
// (invariant 3). Losses that it finds are noted, and announced once events can
// be recorded.
func (l *Ledger) heal(ctx context.Context) error {
	size := l.tlog.Size()
	var f *fold
	rep, err := l.stream.Heal(ctx, stream.HealConfig{
		Leaves: durableLeaves{l, size}, SubjectOf: event.SubjectOfLeaf, AsideDir: l.paths.aside(),
		Chains: func(leaf []byte) error {
			if f == nil { // only a stream that is built anew asks
				f = newFold(l.id.Origin, l.id.Tenant)
				if err := l.leaves(ctx, 0, size, size, func(_ uint64, leaf []byte) error { _ = f.add(leaf); return nil }); err != nil {
					f = nil
					return fmt.Errorf("%w: read the log: %w", stream.ErrNotJudged, err)
				}
			}
			return f.add(leaf)
		},
		Note: l.noteLosses, MayRepair: l.streamRepair(),
	})
	if err != nil {
		return err
	}
	// Unlogged messages may have other sequences now than those that the index
	// has seen.
	l.rebuilt = rep.Action == stream.Rebuilt
	if rep.Action != stream.Nothing {
		l.log.Warn("the stream was healed from the log", "action", string(rep.Action), "leaves", size, "republished", rep.Republished,
			"reappended", rep.Reappended, "lost", rep.Lost.Count, "unchained", rep.Unchained.Count, "aside", rep.AsideFile, "damaged", rep.Damaged)
	}
	return nil
}

// noteLosses notes the losses that healing knows of. What may have been lost
// without a trace shows in the index, if anywhere.
func (l *Ledger) noteLosses(rep *stream.Report) error {
	gone := append(slices.Clone(rep.Lost.First), rep.Unchained.First...)
	if len(gone) == 0 {
		return nil
	}
	from, to := slices.Min(gone), slices.Max(gone)
	count := rep.Lost.Count + rep.Unchained.Count
	return l.noteGap(from, max(to, from+count-1), count)
}

// durableLeaves is the log as it was when the stream was compared with it.
type durableLeaves struct {
	l    *Ledger
	size uint64
}

func (d durableLeaves) Size() uint64 { return d.size }

func (d durableLeaves) Leaf(ctx context.Context, index uint64) ([]byte, error) {
	leaf, err := d.l.tiles.Leaf(ctx, index, d.size)
	return leaf.Data, err
}
