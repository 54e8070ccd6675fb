package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// Config says what to audit, and how.
type Config struct {
	// Source is the log.
	Source tiles.Source
	// Trust comes from outside of the log. Its witnesses and quorum are what the
	// checkpoint is asked for.
	Trust *trust.File
	// Policy, if set, says which witnesses count in place of the trust file; see
	// trust.File.CheckPolicy.
	Policy *trust.Policy
	// Witnessed reads the newest checkpoint that the log knows to be cosigned; nil
	// is none. It is audited if the newest one does not meet the quorum, which on a
	// busy log it may never do. What it returns is judged like any other.
	Witnessed func(ctx context.Context) ([]byte, error)
	// MaxAge asks for a checkpoint that a quorum cosigned within that time; 0 asks
	// for nothing.
	MaxAge time.Duration
	// Tenant is the one tenant whose events count; "" takes that of the first
	// signed event of the log.
	Tenant string
	// From is the first leaf to judge when nothing was judged before. Attempts
	// that began before it are not judged.
	From uint64
	// State is the path of the state file; "" remembers nothing. The fold is kept
	// in State + ".fold", and evidence in files whose names begin with State.
	State string
	// TempDir is where the fold is kept without State; "" is the system's.
	TempDir string
	// Mirror is the directory of a copy of the log to keep; "" is none.
	Mirror string
	// Views is a live server whose views are compared; nil is none.
	Views Views
	// AllowParked is how many leaves that do not count are accepted.
	AllowParked uint64
	// Workers is how many leaves are inspected at once; 0 stands for one a
	// processor.
	Workers int
	// Now is the clock, for MaxAge and the time in evidence.
	Now func() time.Time
	// Progress is told how far the audit is, after each commit of the fold and at
	// least every 64 bundles; nil is none. It is called from one goroutine.
	Progress func(Progress)
	// Each is given every finding of the report in its order; nil is none. The
	// report lists MaxListed of them.
	Each   func(Finding) error
	Logger *slog.Logger // nil discards

	// given is the checkpoint to audit under, in place of the newest one; foldOnly
	// leaves out the state file, since the fold remembers too.
	given    *Checkpoint
	foldOnly bool
	// batch, if set, is how many rows end a batch of the fold; committed is called
	// after each. They are for tests.
	batch     int
	committed func()
}

// Progress is how far an audit is.
type Progress struct {
	First, Next, Size uint64 // leaves: where the run began, the next one, the end
	Folded            uint64 // leaves that the stored fold covers
}

// MaxListed bounds the findings that a report lists.
const MaxListed = 100

// errDone ends an audit whose findings leave nothing more to look at.
var errDone = errors.New("the audit ends here")

// Run audits a log. The report is never nil, and its Status says what came of it.
// The error is why something could not be judged: trouble with the source, the
// state, the disk, or ctx; the report then says what was found before.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	r := newRun(cfg)
	err := r.open()
	if err == nil {
		err = r.audit(ctx)
		if errors.Is(err, errDone) {
			err = nil
		}
	}
	if rerr := r.finish(); err == nil {
		err = rerr
	}
	if cerr := r.close(); err == nil {
		err = cerr
	}
	if errors.Is(err, errStoreDamaged) {
		err = fmt.Errorf("%w (hint: delete %s.fold; it is derived, and the next audit makes it anew)", err, cfg.State)
	}
	r.report.conclude(err, cfg.AllowParked)
	return r.report, err
}

func newRun(cfg Config) *run {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Workers <= 0 {
		cfg.Workers = runtime.GOMAXPROCS(0)
	}
	return &run{cfg: cfg, report: newReport(cfg.Trust)}
}
