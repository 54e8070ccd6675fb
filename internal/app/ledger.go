// Package app puts a ledger together and runs it: start and stop order, and
// what the surfaces are served from.
//
// Start: lock the directory, keys, vault, stream, log (with the guard's
// checks), heal one from the other, index, then sequencer, publisher, follower,
// and only then the API. The vault of a node of several opens beside what comes until
// the index runs. Where there is a witness policy, the witnesses are asked
// before the publisher signs anything. Stop is the reverse: the API first, so that whatever
// was acknowledged is on its way, the databases last.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"counterfoil/internal/telemetry"
	"counterfoil/internal/telemetry/trace"
	"counterfoil/ledger/index"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/keyring"
	"counterfoil/ledger/sequencer"
	"counterfoil/ledger/stream"
	"counterfoil/ledger/tlog"
	"counterfoil/ledger/vault"
	"counterfoil/witness/client"
)

// Ledger is a running ledger. It implements api.Ledger.
type Ledger struct {
	cfg   Config
	paths paths
	id    *identity
	keys  *keyring.Keyring
	event eventKeys
	check *checker
	log   *slog.Logger

	vault   *vault.Vault
	opening *openingVault // what vault comes from

	endStart context.CancelCauseFunc // ends the start, with the reason
	stream   *stream.Stream
	tlog     *tlog.Log
	tiles    *logReader
	index    *index.Index
	rebuilt  bool // the stream was set up anew at this start
	intake   *intake.Intake
	seq      *sequencer.Sequencer
	pub      *publisher
	gather   *client.Gatherer // nil without a witness policy
	disk     *diskWatch
	views    *views
	custody  custody
	cluster  *cluster     // nil on a ledger alone
	vacant   bool         // there was nothing but identity and keys at the start
	refused  bool         // the cluster has no place for this node
	opened   atomic.Bool  // all fields above are set
	taking   atomic.Int64 // calls of the intake

	// refilled: its log was fetched, and it has no private values yet.
	refilled atomic.Bool

	run     context.Context // of the background parts
	stop    context.CancelFunc
	running sync.WaitGroup
	closers []func(context.Context) error // in the order of opening

	trace        *trace.Tracer                       // nil without traces
	observeStage func(stage string, d time.Duration) // nil without metrics
	metrics      *telemetry.Metrics
	gauged       gauged

	mu       sync.Mutex
	fatal    map[string]error // parts that ended for good
	address  string           // base URL of the API, once it listens
	draining chan struct{}    // closed when the ledger stops
	failed   chan error       // the first of fatal
}

// Open starts a ledger; ctx bounds the start. Close must be called after it.
func Open(ctx context.Context, cfg Config) (_ *Ledger, err error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	l := &Ledger{cfg: cfg, paths: paths{cfg.Dir}, log: cfg.Logger, fatal: map[string]error{}, draining: make(chan struct{}), failed: make(chan error, 1)}
	l.metrics = telemetry.New(l.gauges())
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close(context.WithoutCancel(ctx)))
		}
	}()
	lock, err := lockDir(l.paths)
	if err != nil {
		return nil, err
	}
	l.closers = append(l.closers, func(context.Context) error { return lock.Unlock() })
	if l.id, err = readIdentity(l.paths, &l.cfg); err != nil {
		return nil, l.partlyDeleted(err)
	}
	if err := l.paths.checkNode(l.cfg.Cluster); err != nil {
		return nil, err
	}
	if l.vacant, err = l.paths.vacant(); err != nil {
		return nil, err
	}
	l.refilled.Store(l.isRefilled())
	if err := l.checkPrepared(); err != nil {
		return nil, err
	}
	ctx, l.endStart = context.WithCancelCause(ctx)
	l.run, l.stop = context.WithCancel(context.Background())
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"traces", l.openTraces},
		{"keys", l.openKeys},
		{"disk", l.openDisk},
		{"stream", l.openStream},
		{"node", l.checkPlace},
		{"node", l.markNode},
		{"log", l.openLog},
		{"nodes", l.openNodes},
		{"vault", l.openVault},
		{"cluster", l.openCluster},
		{"log", l.steadily(l.fetchBehind)},
		{"identity", l.completeIdentity},
		{"keys", l.clearStale},
		{"index", l.openIndex},
		{"views", l.openViews},
		{"healing", l.heal},
		{"index", l.steadily(l.fitIndex)},
		{"witnesses", l.openWitnesses},
		{"start", l.start},
		{"cluster", l.takePart},
		{"notices", l.steadily(l.openCustody)},
		{"notices", l.steadily(l.repeatNotices)},
		{"evidence", l.startExpiry},
	} {
		began := cfg.Now()
		if err := step.run(ctx); err != nil {
			if verr := l.vaultError(); verr != nil && !errors.Is(err, verr) {
				err = fmt.Errorf("vault: %w", verr) // which ended the step
			}
			return nil, fmt.Errorf("%s: %w", step.name, l.partlyDeleted(err))
		}
		l.log.Debug("started", "part", step.name, "took", cfg.Now().Sub(began))
	}
	return l, nil
}

func (l *Ledger) onClose(f func(context.Context) error) { l.closers = append(l.closers, f) }

// completeIdentity marks the end of creation: from here on a missing part is a
// loss, never a first start.
func (l *Ledger) completeIdentity(context.Context) error {
	if l.id.Complete {
		return nil
	}
	l.id.Complete, l.id.TenantKey = true, l.keys.TenantFingerprint()
	return l.id.write(l.paths)
}

// background runs a part; one that ends with an error makes the ledger unready.
func (l *Ledger) background(name string, f func() error) {
	l.running.Go(func() {
		if err := f(); err != nil {
			l.partFailed(name, err)
		}
	})
}

// partFailed says that a part ended for good. It ends [Serve].
func (l *Ledger) partFailed(name string, err error) {
	l.mu.Lock()
	known := l.fatal[name] != nil
	l.fatal[name] = err
	l.mu.Unlock()
	if known {
		return
	}
	l.log.Error("a part of the ledger stopped", "part", name, "error", err)
	select {
	case l.failed <- fmt.Errorf("%s: %w", name, err):
	default: // another part failed first
	}
}
