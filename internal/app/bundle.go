package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"counterfoil/internal/api"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/receipt"
	"counterfoil/witness/client"
)

// Bundle returns all events of the attempts under the newest checkpoint that
// witnesses cosigned as their quorum asks, or, while that does not cover them,
// under the best one that does. It waits a little for a checkpoint that covers
// what was acknowledged; events that are not even logged then are left out of no
// bundle: the export fails instead.
func (l *Ledger) Bundle(ctx context.Context, attempts []string) ([]byte, error) {
	var events []*intake.Result
	for _, id := range slices.Compact(slices.Sorted(slices.Values(attempts))) {
		rs, _, err := l.Attempt(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("attempt %s: %w", id, err)
		}
		events = append(events, rs...)
	}
	slices.SortFunc(events, func(a, b *intake.Result) int { return int(a.Seq) - int(b.Seq) })
	cp, err := l.covering(ctx, events[len(events)-1].LeafIndex())
	if err != nil {
		return nil, err
	}
	b, err := receipt.NewBuilder(cp.Note)
	if err != nil {
		return nil, err
	}
	for _, ev := range events {
		e := receipt.Entry{LeafIndex: ev.LeafIndex(), Record: ev.Rec}
		if e.Proof, err = l.tiles.Inclusion(ctx, e.LeafIndex, cp.Size); err != nil {
			return nil, fmt.Errorf("prove leaf %d in the tree of size %d: %w", e.LeafIndex, cp.Size, err)
		}
		if err := b.Add(e); err != nil {
			return nil, err
		}
	}
	return b.Bytes()
}

// covering returns the checkpoint to show for a leaf, once there is one.
func (l *Ledger) covering(ctx context.Context, leafIndex uint64) (client.Checkpoint, error) {
	wait, cancel := context.WithTimeout(ctx, bundleWait)
	defer cancel()
	if err := l.pub.Wait(wait, leafIndex+1); err != nil {
		return client.Checkpoint{}, errors.Join(&api.Unavailable{Reason: "not_published", Message: fmt.Sprintf("leaf %d is not under a checkpoint yet", leafIndex)}, err)
	}
	cp, _ := l.over(leafIndex)
	return cp, nil
}

// TlogProof returns the .tlog-proof of an event, under the same checkpoint as a
// bundle of it.
func (l *Ledger) TlogProof(ctx context.Context, eventID string) ([]byte, error) {
	d, ok := event.ParseEventID(eventID)
	if !ok {
		return nil, intake.ErrNoAttempt
	}
	ans, err := l.views.query.Receipt(ctx, d.EventID())
	if err != nil {
		return nil, err
	}
	cp, _ := l.over(ans.Receipt.Index) // a view has published leaves alone
	proof, err := l.tiles.Inclusion(ctx, ans.Receipt.Index, cp.Size)
	if err != nil {
		return nil, fmt.Errorf("prove leaf %d in the tree of size %d: %w", ans.Receipt.Index, cp.Size, err)
	}
	return receipt.BuildTlogProof(ans.Receipt.Index, proof, cp.Note)
}
