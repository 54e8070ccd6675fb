// Package app puts a ledger together and runs it: start and stop order, and
// what the surfaces are served from.
//
// Start: lock the directory, keys, vault, stream, log (with the guard's
// checks), heal one from the other, index, then sequencer, publisher, follower,
// and only then the API. Where there is a witness policy, the witnesses are asked
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

	"counterfoil/internal/api"
	"counterfoil/internal/telemetry"
	"counterfoil/internal/telemetry/trace"
	"counterfoil/ledger/event"
	"counterfoil/ledger/index"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/keyring"
	"counterfoil/ledger/lifecycle"
	"counterfoil/ledger/sequencer"
	"counterfoil/ledger/stream"
	"counterfoil/ledger/tee"
	"counterfoil/ledger/tlog"
	"counterfoil/ledger/vault"
	"counterfoil/witness/client"
)

var errStopping = &api.Unavailable{Reason: "stopping", Message: "the ledger is stopping"}

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
	stream  *stream.Stream
	tlog    *tlog.Log
	tiles   *logReader
	index   *index.Index
	rebuilt bool // the stream was set up anew at this start
	intake  *intake.Intake
	seq     *sequencer.Sequencer
	pub     *publisher
	gather  *client.Gatherer // nil without a witness policy
	disk    *diskWatch
	views   *views
	custody custody
	cluster *cluster    // nil on a ledger alone
	vacant  bool        // there was nothing but identity and keys at the start
	opened  atomic.Bool // all fields above are set

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
		return nil, err
	}
	if l.vacant, err = l.paths.vacant(); err != nil {
		return nil, err
	}
	l.run, l.stop = context.WithCancel(context.Background())
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"traces", l.openTraces},
		{"keys", l.openKeys},
		{"disk", l.openDisk},
		{"stream", l.openStream},
		{"vault", l.openVault},
		{"log", l.openLog},
		{"cluster", l.openCluster},
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
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		l.log.Debug("started", "part", step.name, "took", cfg.Now().Sub(began))
	}
	return l, nil
}

func (l *Ledger) onClose(f func(context.Context) error) { l.closers = append(l.closers, f) }

func (l *Ledger) openKeys(ctx context.Context) error {
	if !l.id.Complete && !exists(l.paths.keys()) {
		if _, err := keyring.Generate(l.paths.keys(), l.id.Origin, l.cfg.Random); err != nil {
			return err
		}
	}
	cfg := keyring.Config{Dir: l.paths.keys(), Origin: l.id.Origin, EventKeyID: l.cfg.EventKeyID, EventSeedFile: l.cfg.EventSeedFile}
	if l.cfg.Signer != nil {
		helper, err := keyring.StartHelper(ctx, *l.cfg.Signer)
		if err != nil {
			return err
		}
		l.onClose(bounded("signer", helper.Close))
		cfg.External = helper
	}
	keys, err := keyring.Open(cfg)
	if err != nil {
		return err
	}
	if l.id.TenantKey != "" && l.id.TenantKey != keys.TenantFingerprint() {
		return fmt.Errorf("the tenant's key has fingerprint %s, this ledger was made with %s (hint: restore keys/%s)",
			keys.TenantFingerprint(), l.id.TenantKey, keyring.TenantKeyFile)
	}
	l.keys = keys
	l.event.registry, l.event.signer = keys.Registry(), keys.Event()
	if l.event.trust, err = newTrustFile(keys); err != nil {
		return err
	}
	l.check = newChecker(l.event.trust.EventKeys)
	return nil
}

func (l *Ledger) openDisk(context.Context) (err error) {
	l.disk, err = newDiskWatch(l.cfg.Dir, l.cfg.DiskReserve, diskStore{l.paths.vault(), vault.MaxRewrite},
		diskStore{l.paths.index(), maxRewrite}, diskStore{l.paths.views(), maxRewrite})
	return err
}

func (l *Ledger) openVault(ctx context.Context) error {
	// Without its vault a ledger could compare no repeat with what it recorded
	// and open no commitment: that is a loss to know of, not a first start.
	if l.id.Complete && isEmpty(l.paths.vault()) && !l.joins() {
		return fmt.Errorf("%s is missing: it holds the keys of all attempts (hint: restore it from a backup; nothing is created over it)", l.paths.vault())
	}
	opts := vault.Options{MinFree: l.disk.toWrite(), Log: l.log}
	if l.cfg.Cluster != nil {
		rows, err := l.stream.Rows(ctx, "VAULT")
		if err != nil {
			return err
		}
		opts.Replica = rows
	}
	v, err := vault.Open(l.paths.vault(), l.keys.VaultSealKey().Array(), opts)
	if err != nil {
		return err
	}
	l.vault = v
	l.onClose(bounded("vault", v.Close))
	return nil
}

func (l *Ledger) openStream(ctx context.Context) error {
	cfg := stream.Config{Tenant: l.id.Tenant, Origin: l.id.Origin, Fingerprint: l.keys.TenantFingerprint(), Logger: l.log}
	switch c := l.cfg.Cluster; {
	case l.cfg.NATS != "":
		var err error
		if cfg.URL, err = stream.WithPassword(l.cfg.NATS, l.cfg.NATSPasswordFile); err != nil {
			return err
		}
		cfg.CredsFile = l.cfg.NATSCreds
		if c != nil {
			cfg.Replicas = c.Replicas
		}
	case c != nil:
		secret, err := l.routeSecret()
		if err != nil {
			return err
		}
		cfg.Dir, cfg.Replicas = l.paths.clusterStream(), c.Replicas
		cfg.Cluster = &stream.ClusterConfig{Name: c.Name, Node: c.Node, Listen: c.Listen, Routes: c.Routes, Secret: secret}
	default:
		cfg.Dir = l.paths.stream()
	}
	if l.cfg.NATSListen != "" {
		token, err := secretFile(l.paths.consumerToken(), l.cfg.Random)
		if err != nil {
			return err
		}
		cfg.ListenAddr, cfg.ConsumerUser, cfg.ConsumerToken = l.cfg.NATSListen, "consumer", token
	}
	s, err := stream.Open(ctx, cfg)
	if err != nil {
		return err
	}
	l.stream = s
	l.onClose(s.Close)
	return nil
}

func (l *Ledger) openLog(ctx context.Context) error {
	l.tiles = newLogReader(l.paths.log())
	cfg := tlog.Config{
		Dir: l.paths.log(), GuardDir: l.paths.guard(), Origin: l.id.Origin, Signer: l.keys.Log(), VerifierKey: l.keys.LogVerifierKey(),
		Create: !l.id.Complete, CheckLeaf: l.checkUnguarded(ctx), Logger: l.log,
	}
	if l.cfg.Cluster != nil {
		cfg.Fence, cfg.Join, cfg.Create = fence{l}, l.joins(), !l.id.Complete && !l.joins()
	}
	log, err := tlog.Open(ctx, cfg)
	if err != nil {
		return err
	}
	l.tlog = log
	l.onClose(log.Close)
	return nil
}

// completeIdentity marks the end of creation: from here on a missing part is a
// loss, never a first start.
func (l *Ledger) completeIdentity(context.Context) error {
	if l.id.Complete {
		return nil
	}
	l.id.Complete, l.id.TenantKey = true, l.keys.TenantFingerprint()
	return l.id.write(l.paths)
}

// start runs the background parts.
func (l *Ledger) start(ctx context.Context) error {
	run := l.run
	next := l.indexNext()
	both := tee.New(func(ctx context.Context, from uint64) tee.Source { return source{l.stream.Tail(ctx, from)} }, l.stream.LastSeen()+1)
	l.background("stream reader", func() error { return both.Run(run) })
	l.background("index", func() error { return l.index.Run(run, indexReader{both.Reader(run, next)}) })
	l.seq = sequencer.New(sequencer.Config{
		Log: l.tracedLog(), Beside: l.syncVault, Final: func(err error) bool { return errors.Is(err, vault.ErrFailed) }, Logger: l.log, RetryEvery: 100 * time.Millisecond, Now: l.cfg.Now,
		Open: func(from uint64) sequencer.Reader { return seqReader{both.Reader(run, from)} },
		Last: l.stream.LastSeen,
	})
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
		Stream: publisherTo{l.stream, l.trace}, Index: l.index, Vault: keysIn{l.vault, l.cfg.NATS != ""},
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

// Close stops everything in order. What is in flight becomes durable.
func (l *Ledger) Close(ctx context.Context) error {
	l.drain()
	var errs []error
	if l.stop != nil {
		l.stop()
		errs = append(errs, bounded("background parts", func() error { l.running.Wait(); return nil })(ctx))
	}
	for i := len(l.closers) - 1; i >= 0; i-- {
		errs = append(errs, l.closers[i](ctx))
	}
	l.closers = nil
	return errors.Join(errs...)
}

// closeLimit bounds the end of one part. Badger tries for ever to write what it
// holds when its files are gone; what is derived is not worth waiting for, and
// the end of the process closes the rest.
const closeLimit = 10 * time.Second

// bounded ends a part, or says that it did not end.
func bounded(name string, end func() error) func(context.Context) error {
	return func(context.Context) error {
		done := make(chan error, 1)
		go func() { done <- end() }()
		t := time.NewTimer(closeLimit)
		defer t.Stop()
		select {
		case err := <-done:
			return err
		case <-t.C:
			return fmt.Errorf("%s did not end within %s (hint: see the log; the next start checks everything)", name, closeLimit)
		}
	}
}

// drain makes the ledger unready and ends event streams; calls in flight go on.
func (l *Ledger) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.draining:
	default:
		close(l.draining)
	}
}

func (l *Ledger) isDraining() bool {
	select {
	case <-l.draining:
		return true
	default:
		return false
	}
}

// Begin records a new attempt; see package intake.
func (l *Ledger) Begin(ctx context.Context, b *intake.Begin) (_ *intake.Result, err error) {
	defer func() { l.countRefusal(err) }()
	if err := l.admit(); err != nil {
		return nil, err
	}
	ctx, span := l.trace.Begin(ctx, "intake")
	res, err := l.intake.Begin(ctx, b)
	took(span, res, err)
	return res, l.explain(err)
}

// Append records a further event; see package intake.
func (l *Ledger) Append(ctx context.Context, a *intake.Append) (_ *intake.Result, err error) {
	defer func() { l.countRefusal(err) }()
	if err := l.admit(); err != nil {
		return nil, err
	}
	ctx, span := l.trace.Begin(ctx, "intake")
	res, err := l.intake.Append(ctx, a)
	took(span, res, err)
	return res, l.explain(err)
}

// Attempt returns the recorded events of an attempt.
func (l *Ledger) Attempt(ctx context.Context, id string) ([]*intake.Result, *lifecycle.State, error) {
	rs, st, err := l.intake.Attempt(ctx, id)
	return rs, st, l.explain(err)
}

// maxBacklog is how far the log may be behind the stream before intake waits
// for it to catch up.
const maxBacklog = 50_000

// admit says whether events can be taken now.
func (l *Ledger) admit() error {
	if l.signingStopped() != nil {
		return errSignsNothing
	}
	waiting := l.waiting()
	if err := l.disk.admit(waiting); err != nil {
		return err
	}
	if l.isDraining() {
		return errStopping
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, part := range []string{"vault", "sequencer", "index"} {
		if err := l.fatal[part]; err != nil {
			return &api.Unavailable{Reason: reasonLogUnavailable, Message: "the " + part + " stopped; see the ledger's log"}
		}
	}
	if waiting > maxBacklog {
		return &api.Unavailable{Reason: "log_behind", Message: fmt.Sprintf("%d events wait to be logged", waiting)}
	}
	return nil
}

const reasonLogUnavailable = "log_unavailable"

// waiting is how many events are on the stream and not in the log.
func (l *Ledger) waiting() uint64 {
	last, size := l.stream.LastSeen(), l.seq.Size()
	return last - min(last, size)
}

// explain turns trouble below into words for callers.
func (l *Ledger) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stream.ErrUnavailable), errors.Is(err, intake.ErrUnanswered):
		return errors.Join(&api.Unavailable{Reason: "stream_unavailable", Message: "the stream does not take events now"}, err)
	case errors.Is(err, intake.ErrNotSigned):
		return errors.Join(&api.Unavailable{Reason: "signer_unavailable", Message: "the event could not be signed; nothing was recorded"}, err)
	case errors.Is(err, vault.ErrNoSpace):
		return errors.Join(&api.Unavailable{Reason: reasonDiskFull, Message: "too little disk space to keep the attempt's key and private values"}, err)
	case errors.Is(err, vault.ErrUnavailable):
		return errors.Join(&api.Unavailable{Reason: "stream_unavailable", Message: "the nodes cannot agree on the attempt's key and private values now"}, err)
	case errors.Is(err, vault.ErrFailed):
		l.partFailed("vault", err)
		return errors.Join(&api.Unavailable{Reason: "vault_unavailable", Message: "the vault failed; the ledger ends and must be started again"}, err)
	case errors.Is(err, intake.ErrNoKey):
		return errors.Join(&api.Unavailable{Reason: "key_missing", Message: "the vault has no key of this attempt, so its content cannot be compared"}, err)
	}
	return err
}

// Check verifies the signatures of a record.
func (l *Ledger) Check(rec *event.Record, leaf []byte, leafIndex uint64) error {
	return l.check.check(rec, leaf, leafIndex)
}
