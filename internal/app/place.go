package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"counterfoil/internal/api"
	"counterfoil/internal/telemetry/trace"
	"counterfoil/ledger/sequencer"
)

// DefaultStage is what a call waits for that does not say.
func (l *Ledger) DefaultStage() string {
	if l.cfg.Durability == Balanced {
		return api.StageAccepted
	}
	return api.StageLogged
}

// Wait blocks until the event at leafIndex has reached a stage.
func (l *Ledger) Wait(ctx context.Context, leafIndex uint64, stage string) (err error) {
	start := l.cfg.Now()
	ctx, span := l.trace.Begin(ctx, "wait")
	span.Word(trace.Stage, stage)
	defer func() { span.End(err) }()
	switch stage {
	case api.StageAccepted:
		return nil
	case api.StageLogged:
		err = l.waitLogged(ctx, leafIndex+1)
	case api.StagePublished:
		err = l.waitPublished(ctx, leafIndex+1)
	case api.StageWitnessed:
		if err = l.waitPublished(ctx, leafIndex+1); err == nil {
			err = l.waitWitnessed(ctx, leafIndex+1)
		}
	default:
		return fmt.Errorf("no stage %q", stage)
	}
	if l.observeStage != nil {
		l.observeStage(stage, l.cfg.Now().Sub(start))
	}
	return err
}

func (l *Ledger) waitLogged(ctx context.Context, size uint64) error {
	return l.patiently(ctx, func(ctx context.Context) error { return l.seq.Wait(ctx, size) })
}

// waitPublished waits for the leaf first: the log makes its batches for those who
// wait.
func (l *Ledger) waitPublished(ctx context.Context, size uint64) error {
	if err := l.waitLogged(ctx, size); err != nil {
		return err
	}
	return l.patiently(ctx, func(ctx context.Context) error { return l.pub.Wait(ctx, size) })
}

// troublePatience is how long a call waits for a log that is in trouble. Without
// trouble it waits as long as its context lets it.
const troublePatience = 3 * time.Second

func (l *Ledger) patiently(ctx context.Context, wait func(context.Context) error) error {
	for {
		part, cancel := context.WithTimeout(ctx, troublePatience)
		err := wait(part)
		cancel()
		trouble := errors.Join(l.seq.Trouble(), l.pub.Trouble())
		switch {
		case errors.Is(err, sequencer.ErrStopped), errors.Is(err, context.DeadlineExceeded) && trouble != nil:
			return errors.Join(&api.Unavailable{Reason: reasonLogUnavailable, Message: "the event is accepted and kept, but the log does not take it now"}, err, trouble)
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			continue // slow, not broken
		}
		return err
	}
}

// Place tells where a leaf stands now.
func (l *Ledger) Place(ctx context.Context, leafIndex uint64, proof bool) (api.Place, error) {
	p := api.Place{LeafIndex: leafIndex, Stage: api.StageAccepted}
	if cp, ok := l.over(leafIndex); ok {
		p.Stage, p.TreeSize = api.StagePublished, cp.Size
		if cp.Witnessed {
			p.Stage = api.StageWitnessed
		}
		if cp.Need > 0 {
			p.Witnesses = &api.Witnesses{Have: uint64(cp.Have), Need: uint64(cp.Need)}
		}
		if proof {
			var err error
			if p.Proof, err = l.tiles.Inclusion(ctx, leafIndex, cp.Size); err != nil {
				return p, fmt.Errorf("prove leaf %d in the tree of size %d: %w", leafIndex, cp.Size, err)
			}
			p.Checkpoint = string(cp.Note)
		}
		return p, nil
	}
	if leafIndex < l.seq.Size() {
		p.Stage = api.StageLogged
	}
	return p, nil
}

// Published is the size of the newest checkpoint.
func (l *Ledger) Published() (uint64, <-chan struct{}) {
	changed := l.pub.Changed()
	return l.tlog.PublishedSize(), changed // the publisher hears of it a moment later
}

// Leaves yields published leaves [from, to).
func (l *Ledger) Leaves(ctx context.Context, from, to uint64, yield func(uint64, []byte) error) error {
	return l.leaves(ctx, from, to, l.tlog.PublishedSize(), yield)
}

func (l *Ledger) leaves(ctx context.Context, from, to, size uint64, yield func(uint64, []byte) error) error {
	for leaf, err := range l.tiles.Leaves(ctx, from, to, size) {
		if err != nil {
			return err
		}
		if err := yield(leaf.Index, leaf.Data); err != nil {
			return err
		}
	}
	return nil
}

// Trust is the trust file, for whoever already trusts this connection.
// Policy is the tlog-policy text of the log and its witnesses, with nested groups,
// which the trust file cannot carry.
func (l *Ledger) Policy() []byte {
	if l.gather != nil {
		return l.gather.Policy().Append(nil)
	}
	return l.trustFile().Policy().Append(nil)
}

func (l *Ledger) Trust() []byte { return append(l.trustFile().Append(nil), '\n') }

// bundleWait bounds how long an export waits for a checkpoint over what was
// acknowledged just before.
const bundleWait = 5 * time.Second
