package app

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"counterfoil/internal/api"
	"counterfoil/internal/durable"
	"counterfoil/internal/wait"
	"counterfoil/ledger/lease"
	"counterfoil/ledger/stream"
	"counterfoil/ledger/tlog"
	"counterfoil/ledger/trust"
)

// cluster is what a node shares with the others. It is nil on a ledger alone.
type cluster struct {
	lease  *lease.Lease
	signer *stream.Register // the record that the lease is in
	keys   sharedKeys
	nodes  *nodes
}

// fence lets one node at a time sign. The lease is there before the first
// signature is asked for.
type fence struct{ l *Ledger }

func (f fence) Reserve(ctx context.Context, size uint64, root [32]byte) error {
	return f.l.cluster.lease.Reserve(ctx, size, root)
}

func (f fence) Publish(ctx context.Context, note []byte) error {
	return f.l.cluster.lease.Publish(ctx, note)
}

// routeSecret lets the nodes into the cluster: whoever has the ledger's keys is one.
func (l *Ledger) routeSecret() (string, error) {
	b, err := hkdf.Key(sha256.New, l.keys.TenantKey().Bytes(), nil, "counterfoil cluster route v1", 32)
	return hex.EncodeToString(b), err
}

// openNodes begins to tell the other nodes where this one is, and hears of them.
func (l *Ledger) openNodes(ctx context.Context) error {
	if l.cfg.Cluster == nil {
		return nil
	}
	r, err := l.stream.Register(ctx, "nodes")
	if err != nil {
		return err
	}
	n := newNodes(r, l.cfg.Cluster.Node, l.report, l.cfg.Now, l.log)
	l.cluster = &cluster{nodes: n}
	l.background("nodes", func() error { n.run(l.run); return nil })
	return nil
}

// openCluster reads the record of who signs, and begins to take part in it.
func (l *Ledger) openCluster(ctx context.Context) error {
	if l.cluster == nil {
		return nil
	}
	c := l.cluster
	var err error
	if c.signer, err = l.stream.Register(ctx, "signer"); err != nil {
		return err
	}
	if c.keys.reg, err = l.stream.Register(ctx, "keys"); err != nil {
		return err
	}
	c.lease, err = lease.New(lease.Config{
		Register: c.signer, Node: l.cfg.Cluster.Node, Origin: l.id.Origin, LogKey: l.event.trust.Log, Random: l.cfg.Random, Logger: l.log,
		Fit: l.fit, Contains: l.tlog.Contains,
		Own: func() (lease.Guard, []byte) {
			size, root := l.tlog.Guard()
			return lease.Guard{Size: size, Root: root}, l.tlog.Checkpoint().Note
		},
	})
	if err != nil {
		return err
	}
	if err := l.shareRegistry(ctx); err != nil {
		return fmt.Errorf("share the event keys: %w", err)
	}
	l.check.missing = l.missingKey
	l.background("lease", func() error { return c.lease.Run(l.run) })
	l.background("event keys of all nodes", func() error { return l.followRegistry(l.run) })
	l.onClose(l.release)
	return l.knowRecord(ctx)
}

// releaseLimit bounds how long a stop tries to hand the lease over. It is a courtesy:
// the others wait for the lease to run out without it.
const releaseLimit = 2 * time.Second

func (l *Ledger) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	if err := l.cluster.lease.Release(ctx); err != nil {
		l.log.Warn("the lease could not be handed over", "error", err)
	}
	return nil
}

// knowRecord waits until the record of who signs was read, or made.
func (l *Ledger) knowRecord(ctx context.Context) error {
	defer wait.Every(ctx, tellEvery, l.tellNoSigner)()
	for {
		changed := l.cluster.lease.Changed()
		if rec, _ := l.cluster.lease.Record(); rec.Epoch > 0 {
			if !exists(l.paths.founding()) {
				return nil
			}
			return durable.Remove(l.paths.founding()) // there is a ledger from here on
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no node signs, and this one cannot begin (hint: a new ledger is begun by the node in whose directory it was prepared): %w",
				errors.Join(ctx.Err(), l.cluster.lease.Trouble()))
		case err := <-l.failed:
			return err
		case <-changed:
		}
	}
}

// tellEvery is how often a start that waits for other nodes says so.
const tellEvery = 10 * time.Second

func (l *Ledger) tellNoSigner() {
	likely := "the node that signed is away and none of the others has all leaves"
	if l.vacant {
		likely = "the ledger was not begun: the node in whose directory it was prepared begins it, and does not run"
	}
	l.log.Warn("this node does not answer yet: it waits for a node that signs", "node", l.cfg.Cluster.Node, "likely", likely, "trouble", l.cluster.lease.Trouble())
}

// fit reports whether this node may become the one that signs, beside what its tree
// says.
func (l *Ledger) fit() bool {
	if l.isDraining() || l.tlog.Err() != nil {
		return false
	}
	if l.opened.Load() {
		return l.signingStopped() == nil
	}
	// A node that has nothing yet would take a record that is lost for a new ledger.
	return !l.vacant && !l.refilled.Load() || exists(l.paths.founding())
}

// yield hands the lease over once this node must not sign any more.
func (l *Ledger) yield(ctx context.Context) error {
	for l.fit() {
		changed, stopped := l.tlog.Changed(), (<-chan struct{})(nil)
		if l.gather != nil {
			stopped = l.gather.Changed()
		}
		if !l.fit() {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-stopped:
		}
	}
	if l.isDraining() {
		return nil // the end of the ledger hands it over
	}
	l.log.Warn("this node does not sign any more, and leaves that to the others")
	return l.release(ctx)
}

// takePart begins to follow the node that signs, or to sign, and waits until the own
// tree is that of all nodes.
func (l *Ledger) takePart(ctx context.Context) error {
	l.opened.Store(true)
	if err := l.hasValues(); err != nil {
		return err
	}
	if l.cluster == nil {
		return nil
	}
	l.background("checkpoints of the node that signs", func() error { return l.followSigner(l.run) })
	l.background("lease", func() error { return l.yield(l.run) })
	if l.gather != nil {
		l.background("cosignatures for all nodes", func() error { return l.shareWitnessed(l.run) })
	}
	return l.catchUp(ctx)
}

// signs reports whether this node is the one that signs now, and what to wait for.
func (l *Ledger) signs() (bool, <-chan struct{}) {
	if l.cluster == nil {
		return true, nil
	}
	changed := l.cluster.lease.Changed()
	return l.cluster.lease.Held(), changed
}

// How long a batch of the log may wait on a node where nobody waits for it. The
// others wait for the checkpoints of the one that signs.
const (
	signerPatience   = 20 * time.Millisecond
	followerPatience = 50 * time.Millisecond
)

func (l *Ledger) patience() time.Duration {
	if l.cluster.lease.Held() {
		return signerPatience
	}
	return followerPatience
}

// coming is how many calls are on their way to the stream.
func (l *Ledger) coming() int { return int(l.taking.Load()) }

const reasonNotSigner = "not_signer"

// mayChange refuses what only the node that signs does: changes of keys, holds,
// erasures and retention, which must not run beside one another.
func (l *Ledger) mayChange() error {
	if signs, _ := l.signs(); signs {
		return nil
	}
	rec, _ := l.cluster.lease.Record()
	if to := l.cluster.nodes.url(rec.Node); to != "" {
		return &api.Unavailable{Reason: reasonNotSigner, Message: fmt.Sprintf("only the node that signs does this: ask %s at %s", rec.Node, to)}
	}
	return &api.Unavailable{Reason: reasonNotSigner, Message: "no node signs now; try again in some seconds"}
}

// retryAdopt is the pause after a checkpoint of another node that could not be
// stored.
const retryAdopt = 250 * time.Millisecond

// followSigner keeps this node's checkpoint that of the node that signs, as soon as
// the own tree has grown to it. It ends with an error if the own tree is another
// one: nothing of it may be served any more.
func (l *Ledger) followSigner(ctx context.Context) error {
	for {
		changed := l.cluster.lease.Changed()
		err := l.adopt(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case lease.Final(err):
			return err
		case err != nil:
			l.log.Warn("the checkpoint of another node is not taken yet", "error", err)
			if wait.For(ctx, retryAdopt) != nil {
				return nil
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// adopt takes the newest checkpoint of all nodes, once the own tree has its leaves.
func (l *Ledger) adopt(ctx context.Context) error {
	rec, _ := l.cluster.lease.Record()
	size, err := sizeOf(rec.Checkpoint)
	if err != nil {
		return err
	}
	if size > 0 && !bytes.Equal(rec.Checkpoint, l.tlog.Checkpoint().Note) { // older ones are compared too
		reach := l.seq.Follow
		if l.pub.Waiting() > 0 {
			reach = l.seq.Wait
		}
		if err := reach(ctx, size); err != nil {
			return err
		}
		cp, err := l.tlog.Adopt(ctx, rec.Checkpoint)
		if err != nil {
			return err
		}
		l.pub.advance(cp.Size)
		if l.gather != nil {
			if err := l.gather.Offer(cp.Note); err != nil {
				return err
			}
		}
	}
	if l.gather == nil || len(rec.Witnessed) == 0 {
		return nil
	}
	return l.gather.Merge(rec.Witnessed)
}

// sizeOf is the tree size of a checkpoint; 0 without one.
func sizeOf(signed []byte) (uint64, error) {
	if len(signed) == 0 {
		return 0, nil
	}
	note, err := trust.ParseNote(signed)
	if err != nil {
		return 0, fmt.Errorf("checkpoint of another node: %w", err)
	}
	cp, err := trust.ParseCheckpoint(note.Text)
	if err != nil {
		return 0, fmt.Errorf("checkpoint of another node: %w", err)
	}
	return cp.Size, nil
}

// shareWitnessed shows the other nodes what witnesses cosigned.
func (l *Ledger) shareWitnessed(ctx context.Context) error {
	var shared uint64
	for {
		changed, turn := l.gather.Changed(), l.cluster.lease.Changed()
		cp, ok := l.gather.Covering(0)
		if l.cluster.lease.Held() && ok && cp.Witnessed && cp.Size > shared {
			if err := l.cluster.lease.Witnessed(ctx, cp.Note); err == nil {
				shared = cp.Size
			} else if ctx.Err() == nil {
				l.log.Debug("a cosigned checkpoint is not shared yet", "size", cp.Size, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-turn:
		}
	}
}

// catchUp waits until the own tree holds the tree that all nodes sign, before
// anything of it is served.
func (l *Ledger) catchUp(ctx context.Context) error {
	rec, err := l.newestRecord(ctx)
	for errors.Is(err, stream.ErrUnavailable) && wait.For(ctx, steadyPause) == nil {
		rec, err = l.newestRecord(ctx)
	}
	if err != nil {
		return err
	}
	if size := l.seq.Size(); size < rec.Guard.Size {
		l.log.Info("this node catches up with the others before it answers", "leaves", size, "of", rec.Guard.Size)
	}
	defer wait.Every(ctx, tellEvery, func() {
		l.log.Warn("this node does not answer yet: it catches up with the others", "leaves", l.seq.Size(), "of", rec.Guard.Size)
	})()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		select {
		case err := <-l.failed:
			ended <- err
			stop()
		case <-waiting.Done():
		}
	}()
	if err := l.seq.Wait(waiting, rec.Guard.Size); err != nil {
		select {
		case cause := <-ended:
			return cause
		default:
			return err
		}
	}
	ok, err := l.tlog.Contains(ctx, rec.Guard.Size, rec.Guard.Root)
	if err == nil && !ok {
		err = tlog.ErrBehind
	}
	if err != nil {
		return fmt.Errorf("compare this node's tree with the others' (hint: see docs/runbooks/cluster.md): %w", err)
	}
	return l.adopt(ctx)
}

const (
	// steadyLimit bounds how long a start waits for a cluster that chooses a leader.
	steadyLimit = time.Minute
	steadyPause = 250 * time.Millisecond
)

// steadily does a step of the start again while the nodes' stream does not answer:
// another node may have gone just now. The step must bear being done twice.
func (l *Ledger) steadily(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, steadyLimit)
		defer cancel()
		for {
			err := step(ctx)
			if l.cfg.Cluster == nil || !errors.Is(err, stream.ErrUnavailable) || wait.For(limited, steadyPause) != nil {
				return err
			}
		}
	}
}

// reachesOthers refuses a call at once on a node that has been cut off for a while:
// its caller had better ask another one.
func (l *Ledger) reachesOthers() error {
	if l.cluster == nil {
		return nil
	}
	if d, off := l.cluster.nodes.cutOff(); off {
		return &api.Unavailable{Reason: "stream_unavailable", Message: fmt.Sprintf("this node has not reached the others for %.0f s; another node may take the call", d.Seconds())}
	}
	return nil
}
