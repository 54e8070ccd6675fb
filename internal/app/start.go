package app

import (
	"context"
	"fmt"
	"time"

	"counterfoil/ledger/index"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/sequencer"
	"counterfoil/ledger/tee"
	"counterfoil/ledger/tlog"
)

// start runs the background parts.
func (l *Ledger) start(ctx context.Context) error {
	run := l.run
	both := tee.New(func(ctx context.Context, from uint64) tee.Source { return source{l.stream.Tail(ctx, from)} }, l.stream.LastSeen()+1)
	l.background("stream reader", func() error { return both.Run(run) })
	reader := l.indexSource(l.indexNext(), func(from uint64) index.Reader { return indexReader{both.Reader(run, from)} })
	l.background("index", func() error { return l.index.Run(run, reader) })
	// The index needs no private value, and is what takes longest on a node that is
	// behind; what follows is for a node that has all.
	if err := l.haveVault(ctx); err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	batches := sequencer.Config{
		Log: l.tracedLog(), Logger: l.log, RetryEvery: 100 * time.Millisecond, Now: l.cfg.Now,
		Open: func(from uint64) sequencer.Reader { return seqReader{both.Reader(run, from)} },
		Last: l.stream.LastSeen, Fits: tlog.Fits,
	}
	if l.cluster != nil {
		batches.Coming, batches.Patience = l.coming, l.patience
	}
	l.seq = sequencer.New(batches)
	l.background("sequencer", func() error { return l.seq.Run(run) })
	if err := l.startWitnesses(ctx, run); err != nil {
		return err
	}
	if l.cluster == nil {
		l.publishAgain(ctx)
	}
	l.pub = newPublisher(l.tlog.PublishedSize(), l.cfg.Now)
	l.pub.publish, l.pub.turn = l.publish, l.signs
	l.pub.grown, l.pub.size, l.pub.every, l.pub.log = l.seq.Changed, l.seq.Size, l.cfg.PublishEvery, l.log
	l.background("publisher", func() error { l.pub.run(run); return nil })
	l.background("disk", func() error { l.disk.run(run); return nil })
	l.background("views", func() error { return l.views.follow.Run(run) })

	cfg := intake.Config{
		Origin: l.id.Origin, Tenant: l.id.Tenant, TenantKey: l.keys.TenantKey().Bytes(),
		Signer: l.event.signer, Signed: l.check.signed,
		Stream: publisherTo{l.stream, l.trace}, Index: l.index, Vault: keysIn{l.vault, l.metrics.VaultFailed},
		Random: l.cfg.Random, Now: l.cfg.Now, Logger: l.log, RetryEvery: 250 * time.Millisecond,
	}
	if l.cluster != nil {
		cfg.Newest = l.stream.Newest
	}
	l.intake = intake.New(cfg)
	// Decisions need an index that has seen the whole stream.
	st, err := l.stream.State(ctx)
	if err != nil {
		return err
	}
	if err := l.index.WaitFor(ctx, st.Last); err != nil {
		return err
	}
	if l.signingStopped() != nil {
		return nil // a notice would be a new event
	}
	return l.announceGap(ctx)
}
