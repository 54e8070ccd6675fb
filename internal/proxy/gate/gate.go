// Package gate asks a ledger whether tools may be called under a contract, and
// keeps the answer for a while (docs/spec/review.md, "What a proxy has to do").
//
// # Answers
//
// An answer counts for 30 seconds from when it was asked for. When the ledger gives
// none after that, the last one stands for the grace, and one that refuses for
// ever. Only an answer takes the place of an answer. The newest one is kept in the state
// directory, so that a proxy that starts again knows what was refused and how
// large the log was: an answer about a smaller log is none.
//
// # Tools
//
// If the contract pins the server's list of tools, calls are refused until a whole
// list with that digest was seen, and again as soon as the server says that its
// tools changed, or shows a tool that the list did not have. The newest list counts
// for all connections; one that was shown another is refused whatever others saw.
package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"counterfoil/internal/proxy/state"
	"counterfoil/internal/wait"
	"counterfoil/ledger/client"
)

// Times of answers.
const (
	// Fresh is how long an answer counts without asking again.
	Fresh = 30 * time.Second
	// DefaultGrace is how long the last answer stands when there is no newer one.
	DefaultGrace = 5 * time.Minute
	// briefly bounds one try with a ledger that did not answer before, or in
	// whose place the last answer stands.
	briefly      = 2 * time.Second
	firstPause   = 25 * time.Millisecond
	longestPause = time.Second
)

// Ledger says whether tools may be called. *client.Client is one; it must not repeat
// by itself.
type Ledger interface {
	Disposition(ctx context.Context, contract string) (*client.Answer[client.Disposition], error)
}

// Config says what to ask. All fields are required.
type Config struct {
	Ledger   Ledger
	State    *state.Dir
	Contract string
	// Grace is how long the last answer stands after Fresh.
	Grace time.Duration
	// Patience bounds how long a call waits for the first answer.
	Patience time.Duration
	// FailOpen lets calls pass without an answer.
	FailOpen bool
	Now      func() time.Time
	Log      *slog.Logger
}

// Gate is what is known of one contract. It is safe for concurrent use. A nil Gate
// lets everything pass.
type Gate struct {
	cfg  Config
	ctx  context.Context
	stop context.CancelFunc
	runs sync.WaitGroup

	// Under mu.
	mu     sync.Mutex
	last   *answer
	asking chan struct{} // closed when the question that is open is answered
	fault  error         // of the last question
	seen   tools
}

// answer is an answer and when it was asked for.
type answer struct {
	client.Disposition
	at time.Time // zero if it is from before this start
}

// kept is the newest answer on the disk.
type kept struct {
	FormatVersion int                           `json:"formatVersion"`
	Contracts     map[string]client.Disposition `json:"contracts"`
}

const document = "disposition"

// Open reads what an earlier start was told, and begins to ask.
func Open(cfg Config) (*Gate, error) {
	g := &Gate{cfg: cfg}
	var k kept
	found, err := cfg.State.Load(document, &k)
	if err != nil {
		return nil, err
	}
	if found && k.FormatVersion != 1 {
		return nil, fmt.Errorf("%s.json has format version %d, expected 1 (hint: choose another --state)", document, k.FormatVersion)
	}
	if d, ok := k.Contracts[cfg.Contract]; ok {
		g.last = &answer{Disposition: d}
	}
	g.ctx, g.stop = context.WithCancel(context.Background())
	g.mu.Lock()
	g.ask()
	g.mu.Unlock()
	return g, nil
}

// Close ends a question that is open.
func (g *Gate) Close() {
	if g == nil {
		return
	}
	g.stop()
	g.runs.Wait()
}

// Ask says what becomes of calls that are made now on a connection. It waits for the ledger where
// no answer stands, for as long as patience lasts.
func (g *Gate) Ask(ctx context.Context, shown Shown) Verdict {
	if g == nil {
		return Verdict{}
	}
	g.mu.Lock()
	if !g.fresh() {
		done := g.ask()
		g.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	return g.verdict(shown)
}

// fresh reports whether the last answer counts without asking again.
func (g *Gate) fresh() bool { return g.within(Fresh) }

// within reports whether the last answer is of this start and at most so old.
func (g *Gate) within(d time.Duration) bool {
	if g.last == nil || g.last.at.IsZero() {
		return false
	}
	age := g.cfg.Now().Sub(g.last.at)
	return age >= 0 && age <= d
}

// stands reports whether the last answer counts if there is no newer one.
func (g *Gate) stands() bool {
	return g.last != nil && g.last.Call == callRefuse || g.within(Fresh+g.cfg.Grace)
}

// ask joins the question that is open, or asks one.
func (g *Gate) ask() <-chan struct{} {
	if g.asking == nil {
		done := make(chan struct{})
		g.asking = done
		once := g.stands() || g.fault != nil
		g.runs.Go(func() { g.question(done, once) })
	}
	return g.asking
}

// question asks until there is an answer, or once.
func (g *Gate) question(done chan struct{}, once bool) {
	d, at, err := g.insist(once)
	g.mu.Lock()
	defer g.mu.Unlock()
	defer close(done)
	g.asking = nil
	if err == nil {
		err = g.take(d, at)
	}
	if err != nil && g.fault == nil && g.ctx.Err() == nil {
		g.cfg.Log.Warn("the ledger does not say whether tools may be called", "contract", g.cfg.Contract, "error", err.Error())
	}
	g.fault = err
}

func (g *Gate) insist(once bool) (d *client.Disposition, at time.Time, err error) {
	patience := g.cfg.Patience
	if once {
		patience = min(patience, briefly)
	}
	ctx, cancel := context.WithTimeout(g.ctx, patience)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		at = g.cfg.Now()
		var ans *client.Answer[client.Disposition]
		if ans, err = g.cfg.Ledger.Disposition(ctx, g.cfg.Contract); err == nil {
			return &ans.Value, at, check(&ans.Value, g.cfg.Contract)
		}
		if once || !passing(err) {
			return nil, at, err
		}
		if wait.For(ctx, pause) != nil {
			return nil, at, err
		}
	}
}

// passing reports whether the same question may be answered in a moment.
func passing(err error) bool {
	var e *client.Error
	return !errors.As(err, &e) || e.Status >= 500
}

// take puts an answer in the place of the last. Before it counts it is on the disk.
func (g *Gate) take(d *client.Disposition, at time.Time) error {
	if g.last != nil && d.TreeSize < g.last.TreeSize {
		return fmt.Errorf("the answer is about a log of %d leaves, an earlier one about %d: it is an older state of the log, or another log "+
			"(hint: a proxy for another ledger needs another --state)", d.TreeSize, g.last.TreeSize)
	}
	if g.last == nil || g.last.TreeSize != d.TreeSize || g.last.at.IsZero() {
		if err := g.keep(d); err != nil && d.Call != callRefuse {
			return err
		} else if err != nil {
			g.cfg.Log.Error("a refusal is not kept for the next start", "contract", g.cfg.Contract, "error", err.Error())
		}
	}
	if g.last == nil || g.last.Call != d.Call || g.last.ReviewEventID != d.ReviewEventID {
		g.cfg.Log.Info("calls under the contract", "contract", g.cfg.Contract, "call", d.Call, "reason", d.Reason, "review", d.ReviewEventID)
	}
	g.last = &answer{Disposition: *d, at: at}
	return nil
}

// maxKept bounds the contracts whose answers are kept for one state directory.
const maxKept = 64

func (g *Gate) keep(d *client.Disposition) error {
	k := kept{FormatVersion: 1}
	if _, err := g.cfg.State.Load(document, &k); err != nil {
		return err
	}
	if _, ok := k.Contracts[g.cfg.Contract]; !ok && len(k.Contracts) >= maxKept {
		return fmt.Errorf("%s.json has answers about %d contracts (hint: choose another --state)", document, len(k.Contracts))
	}
	if k.Contracts == nil {
		k.Contracts = map[string]client.Disposition{}
	}
	k.Contracts[g.cfg.Contract] = *d
	return g.cfg.State.Save(document, k)
}
