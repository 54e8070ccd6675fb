package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"counterfoil/internal/api"
	"counterfoil/internal/durable"
	"counterfoil/ledger/lease"
	"counterfoil/ledger/trust"
	"counterfoil/witness/client"
)

// firstRound bounds how long a start waits for the witnesses' first answers. A
// witness that knows more of this log than the log itself must be heard before
// anything is signed; one that does not answer must not hold up the start.
const firstRound = 3 * time.Second

// readPolicy reads the witness policy. Its errors name the line.
func readPolicy(path string) (*trust.Policy, error) {
	b, err := durable.ReadFile(path, trust.MaxPolicyBytes)
	if err != nil {
		return nil, fmt.Errorf("witness policy: %w", err)
	}
	p, err := trust.ParsePolicy(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// openWitnesses reads what witnesses have said, and completes the trust file by
// them. It asks nobody yet.
func (l *Ledger) openWitnesses(ctx context.Context) error {
	if l.cfg.WitnessPolicy == "" {
		return nil
	}
	policy, err := readPolicy(l.cfg.WitnessPolicy)
	if err != nil {
		return err
	}
	idle := func() (bool, <-chan struct{}) { signs, changed := l.signs(); return !signs, changed }
	g, err := client.Open(ctx, client.Config{
		Idle:   idle,
		Policy: policy, Log: l.event.trust.Log, Dir: l.paths.witness(), Tree: ownTree{l}, RecosignEvery: l.cfg.RecosignEvery, AskEvery: l.cfg.CosignEvery,
		Asking: l.tracedAsking(), UserAgent: "counterfoil/" + l.cfg.Version, Random: l.cfg.Random, Now: l.cfg.Now, Logger: l.log,
	})
	if err != nil {
		return fmt.Errorf("witness policy %s: %w", l.cfg.WitnessPolicy, err)
	}
	for _, w := range g.Status().Witnesses {
		if !w.Asked {
			l.log.Warn("a witness of the policy has no URL: its cosignatures count, but it cannot be asked for any", "witness", w.Name)
		}
	}
	l.gather = g
	if err := g.Stopped(); err != nil {
		l.log.Error("the log signs nothing any more; what is there can be read", "error", err)
	}
	f, err := g.Policy().File(l.event.trust.EventKeys)
	if err != nil {
		l.log.Warn("the trust file of this ledger says nothing of witnesses: the policy is no k of n; give verifiers the policy itself", "why", err)
		return nil
	}
	l.event.trust = f
	return nil
}

// startWitnesses offers the newest checkpoint to the witnesses, and waits a
// little for their first answers.
func (l *Ledger) startWitnesses(ctx, run context.Context) error {
	if l.gather == nil {
		return nil
	}
	if cp := l.tlog.Checkpoint(); cp.Note != nil {
		if err := l.gather.Offer(cp.Note); err != nil {
			return err
		}
	}
	l.background("witnesses", func() error { l.gather.Run(run); return nil })
	ctx, cancel := context.WithTimeout(ctx, firstRound)
	defer cancel()
	l.gather.AskedOnce(ctx)
	return nil
}

// publish signs the durable tree, unless a witness has shown that it must not.
func (l *Ledger) publish(ctx context.Context) (uint64, error) {
	if l.gather != nil {
		if err := l.gather.Permit(ctx); err != nil {
			return 0, err
		}
	}
	before, batch := l.tlog.PublishedSize(), l.trace.Batch("publish")
	cp, err := l.tlog.Publish(ctx)
	batch.Leaves(before, cp.Size, err)
	if errors.Is(err, lease.ErrNotHeld) {
		return l.tlog.PublishedSize(), nil // another node's turn, and no trouble
	}
	if err == nil && l.gather != nil {
		err = l.gather.Offer(cp.Note)
	}
	return cp.Size, err
}

// signingStopped says why the log signs nothing any more, nil while it does.
func (l *Ledger) signingStopped() error {
	if l.gather == nil {
		return nil
	}
	return l.gather.Stopped()
}

// Witnesses reports whether a quorum of witnesses can be waited for.
func (l *Ledger) Witnesses() bool { return l.gather != nil && l.gather.Need() > 0 }

// over returns the checkpoint to show for a leaf: see client.Gatherer.Covering.
// It is false if the leaf is not published.
func (l *Ledger) over(leaf uint64) (client.Checkpoint, bool) {
	if l.gather != nil {
		if cp, ok := l.gather.Covering(leaf); ok {
			return cp, true
		}
	}
	cp := l.tlog.Checkpoint()
	over := client.Checkpoint{Size: cp.Size, Note: cp.Note}
	if l.gather != nil {
		over.Need = l.gather.Need()
	}
	return over, leaf < cp.Size
}

// checkpoint is the newest checkpoint with the cosignatures that it has.
func (l *Ledger) checkpoint() ([]byte, error) {
	cp := l.tlog.Checkpoint()
	if l.gather != nil {
		if c, ok := l.gather.Cosigned(cp.Size); ok {
			return c.Note, nil
		}
	}
	return cp.Note, nil
}

// witnessedCheckpoint is the newest checkpoint that meets the quorum; nil if there
// is none. On a busy log the newest one of all rarely does.
func (l *Ledger) witnessedCheckpoint() ([]byte, error) {
	if l.Witnesses() {
		if cp, ok := l.gather.Covering(0); ok && cp.Witnessed {
			return cp.Note, nil
		}
	}
	return nil, nil
}

func (l *Ledger) waitWitnessed(ctx context.Context, size uint64) error {
	if !l.Witnesses() {
		return errors.New("no quorum of witnesses can be waited for")
	}
	err := l.gather.Wait(ctx, size)
	switch {
	case errors.Is(err, client.ErrEnded):
		return errStopping
	case err != nil && l.signingStopped() != nil:
		return errors.Join(errSignsNothing, err)
	}
	return err
}

// errSignsNothing is what callers are told once signing has stopped.
var errSignsNothing = &api.Unavailable{Reason: "log_set_back", Message: "a witness showed that this log was set back or forked: nothing is accepted or signed; what is there can be read"}

// ownTree is the log as the witnesses' claims are compared with it.
type ownTree struct{ l *Ledger }

func (t ownTree) Consistency(ctx context.Context, old, size uint64) ([][]byte, error) {
	return t.l.tiles.Consistency(ctx, old, size)
}

// Judge believes that the log will reach what the stream has: a log that was
// restored from a backup beside a whole stream becomes the same tree again.
func (t ownTree) Judge(ctx context.Context, size uint64, root [32]byte) (client.Fit, error) {
	if size <= t.l.tlog.Size() {
		own, err := t.l.tiles.Root(ctx, size)
		switch {
		case err != nil:
			return 0, err
		case own == root:
			return client.Holds, nil
		}
		return client.Differs, nil
	}
	st, err := t.l.stream.State(ctx)
	if err != nil {
		return 0, err
	}
	if size <= st.Last {
		return client.Behind, nil
	}
	return client.SetBack, nil
}
