package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// GateLog is a log whose trees are audited before a witness cosigns them.
type GateLog struct {
	Source      tiles.Source
	Trust       *trust.File // its origin names the log
	AllowParked uint64      // see Config
}

// GateConfig is what a gate needs.
type GateConfig struct {
	// Dir holds the folds, one directory a log. It belongs to the gate alone.
	Dir  string
	Logs []GateLog
	// Wait bounds how long Check waits; the audit goes on behind it. Default 5 s.
	Wait time.Duration
	// Limit bounds one run of an audit; the next one goes on where it ended.
	// Default 10 minutes.
	Limit  time.Duration
	Now    func() time.Time
	Logger *slog.Logger // nil discards
}

// MaxGateLogs bounds the logs of a gate: each has an open database, about 50 MiB
// of memory while it is busy.
const MaxGateLogs = 32

// Refused: a tree that a witness should not cosign.
type Refused struct {
	Report *Report
}

func (e *Refused) Error() string {
	if len(e.Report.Findings.Listed) == 0 {
		return "the audit of the tree failed"
	}
	f := e.Report.Findings.Listed[0]
	text := fmt.Sprintf("the audit of the tree has %d findings: %s: %s", e.Report.Findings.Total, f.Kind, f.Detail)
	return text
}

// ErrPending: the audit has not come to an end yet, or could not; ask again.
var ErrPending = errors.New("the tree is not audited yet")

// ErrNoGateLog: no line says where to audit this log.
var ErrNoGateLog = errors.New("no log of that origin is audited here")

// Gate lets trees through whose leaves were audited. What was audited is kept on
// disk: after a restart only new leaves are read. It is safe for concurrent use.
type Gate struct {
	cfg    GateConfig
	logs   map[string]*gateLog
	ctx    context.Context
	cancel context.CancelFunc
	jobs   sync.WaitGroup
}

// gateLog is one log. Its store is used by one job at a time.
type gateLog struct {
	GateLog
	gate  *Gate
	dir   string
	store *store

	mu      sync.Mutex
	passed  *Checkpoint // the newest tree that was let through
	job     *job        // that runs; nil if none does
	stopped bool
}

// job is one run of an audit.
type job struct {
	of   *Checkpoint
	done chan struct{}
	err  error // nil: let it through
}

// OpenGate opens the folds.
func OpenGate(cfg GateConfig) (_ *Gate, err error) {
	if cfg.Wait == 0 {
		cfg.Wait = 5 * time.Second
	}
	if cfg.Limit == 0 {
		cfg.Limit = 10 * time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if len(cfg.Logs) > MaxGateLogs {
		return nil, fmt.Errorf("%d logs to audit, limit %d", len(cfg.Logs), MaxGateLogs)
	}
	g := &Gate{cfg: cfg, logs: map[string]*gateLog{}}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	for _, l := range cfg.Logs {
		origin := l.Trust.Origin()
		if g.logs[origin] != nil {
			return nil, fmt.Errorf("log %s is to be audited twice", origin)
		}
		sum := sha256.Sum256([]byte(origin))
		gl := &gateLog{GateLog: l, gate: g, dir: filepath.Join(cfg.Dir, hex.EncodeToString(sum[:]))}
		if err := os.MkdirAll(gl.dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the audit state of %s: %w", origin, err)
		}
		r := gl.run(nil)
		if err := r.open(); err != nil {
			return nil, fmt.Errorf("audit state of %s: %w", origin, err)
		}
		gl.store = r.store
		g.logs[origin] = gl
		gl.recall()
	}
	return g, nil
}

// Close ends the audits that run and closes the folds.
func (g *Gate) Close() error {
	g.cancel()
	for _, l := range g.logs {
		l.stop()
	}
	g.jobs.Wait()
	var err error
	for _, l := range g.logs {
		err = errors.Join(err, l.store.close())
	}
	return err
}

// stop lets no further job begin.
func (l *gateLog) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
}

// recall takes over from the fold which tree was let through before.
func (l *gateLog) recall() {
	p, err := l.store.position()
	if err != nil || p == nil || p.Counts.parked() > l.AllowParked {
		return
	}
	c, f, err := ParseCheckpoint([]byte(p.Under), l.Trust.Log)
	if err == nil && f == nil && c.Size == p.Size && c.Root == tiles.EdgeRoot(p.Range) {
		l.passed = c
	}
}

// Check returns nil if the tree of a signed checkpoint was audited and passed. It
// returns *Refused if it did not, and an error that wraps ErrPending if that is
// not known yet. raw is the signed note.
func (g *Gate) Check(ctx context.Context, origin string, raw []byte) error {
	l := g.logs[origin]
	if l == nil {
		return fmt.Errorf("%w: %s", ErrNoGateLog, origin)
	}
	c, f, err := ParseCheckpoint(raw, l.Trust.Log)
	if err != nil {
		return err
	}
	if f != nil {
		r := newReport(l.Trust)
		r.count(f.Kind)
		r.Findings.Listed = append(r.Findings.Listed, *f)
		return &Refused{r}
	}
	if c.Size == 0 {
		return nil // it holds nothing that could be wrong, and its root is the witness's affair
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Wait)
	defer cancel()
	return l.check(ctx, c)
}

func (l *gateLog) check(ctx context.Context, c *Checkpoint) error {
	for {
		l.mu.Lock()
		if p := l.passed; p != nil && p.Size == c.Size && p.Root == c.Root {
			l.mu.Unlock()
			return nil
		}
		j := l.job
		if j == nil {
			if l.stopped {
				l.mu.Unlock()
				return fmt.Errorf("%w: the witness stops", ErrPending)
			}
			j = &job{of: c, done: make(chan struct{})}
			l.job = j
			older := l.passed != nil && l.passed.Size > c.Size
			l.gate.jobs.Go(func() { l.work(j, older) })
		}
		l.mu.Unlock()
		select {
		case <-j.done:
		case <-ctx.Done():
			return fmt.Errorf("%w: ask again", ErrPending)
		}
		if j.of.Size == c.Size && j.of.Root == c.Root {
			return j.err
		}
	}
}

// work runs a job.
func (l *gateLog) work(j *job, older bool) {
	ctx, cancel := context.WithTimeoutCause(l.gate.ctx, l.gate.cfg.Limit, fmt.Errorf("the audit did not end within %s, and goes on later", l.gate.cfg.Limit))
	defer cancel()
	if older {
		j.err = l.begins(ctx, j.of)
	} else {
		j.err = l.audit(ctx, j.of)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.err == nil && !older {
		l.passed = j.of
	}
	l.job = nil
	close(j.done)
}

// audit judges the leaves of a tree that were not judged before.
func (l *gateLog) audit(ctx context.Context, c *Checkpoint) error {
	r := l.run(c)
	r.store = l.store
	if err := r.store.reset(); err != nil { // an earlier run may have failed
		return fmt.Errorf("%w: %w", ErrPending, err)
	}
	err := r.store.wipe(nsRun)
	if err == nil {
		err = r.audit(ctx)
	}
	if errors.Is(err, errDone) {
		err = nil
	}
	if ferr := r.finish(); err == nil {
		err = ferr
	}
	if errors.Is(err, errStoreDamaged) {
		err = errors.Join(err, l.store.startOver()) // it is derived
	}
	if err == nil {
		err = l.store.sync() // from here on the audited tree is remembered
	}
	r.report.conclude(err, l.AllowParked)
	log := l.gate.cfg.Logger.With("origin", c.Origin, "size", c.Size, "leaves", r.report.Leaves.Read)
	switch {
	case r.report.Status == Verified:
		log.Debug("audited")
		return nil
	case r.report.Status == NotJudged:
		log.Warn("not audited", "why", err.Error())
		return fmt.Errorf("%w: %s", ErrPending, r.report.Error)
	case r.report.Findings.ByKind[RolledBack] == r.report.Findings.Total:
		log.Warn("a tree smaller than one that was seen is not audited")
		return fmt.Errorf("%w: a larger tree was offered before; offer the newest", ErrPending)
	}
	refused := &Refused{r.report}
	log.Error("refused", "why", refused.Error(), "findings", r.report.Findings.Total)
	return refused
}

// begins checks that a smaller tree is a beginning of the one that was let through.
func (l *gateLog) begins(ctx context.Context, c *Checkpoint) error {
	l.mu.Lock()
	passed := l.passed
	l.mu.Unlock()
	r := newReport(l.Trust)
	found := func(f Finding) {
		r.count(f.Kind)
		r.Findings.Listed = append(r.Findings.Listed, f)
	}
	p, err := newProver(ctx, l.Source, passed.Size, passed.Root, found)
	var edge []tiles.Hash
	if err == nil {
		edge, err = p.edgeAt(ctx, c.Size)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPending, err)
	}
	if got := tiles.EdgeRoot(edge); got != c.Root {
		found(about(Forked, "", fmt.Sprintf("root %x", got), fmt.Sprintf("root %x", c.Root), "the log signed a tree of size %d that is no beginning of the tree of size %d that it signed", c.Size, passed.Size))
		return &Refused{r}
	}
	return nil
}

// run prepares an audit under a given checkpoint, with the gate's fold.
func (l *gateLog) run(c *Checkpoint) *run {
	cfg := Config{Source: l.Source, Trust: l.Trust, State: filepath.Join(l.dir, "log"), AllowParked: l.AllowParked,
		Now: l.gate.cfg.Now, Logger: l.gate.cfg.Logger, given: c, foldOnly: true}
	return newRun(cfg)
}
