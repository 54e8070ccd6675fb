// Package record keeps the evidence of a proxy: attempts that are logged before
// their calls leave, outcomes, and what could not be recorded in time.
//
// # Durability
//
// [Recorder.Begin] returns when the attempts are durable leaves, or says which
// are not. From then on a crash loses no attempt: the next start of a proxy with
// the same state directory finds those without an outcome and records `unknown`
// (recover.go). Outcomes wait in memory for the ledger, in order, and never on
// disk: results are private.
//
// # Order
//
// The ledger's log has one order. Attempts of one Begin, and what is put into
// one [Lane], are handed over one after the other, and only the last is waited
// for: that it is logged says the same of those before it.
//
// # Trust
//
// Runtime id and invocation ids are the proxy's own. Nothing that identifies the
// source comes from the arguments of a call (TRS-24).
package record

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"counterfoil/internal/proxy/state"
	"counterfoil/internal/toolcall"
	"counterfoil/internal/wait"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// Ledger takes evidence. *client.Client is one; it must not repeat by itself
// (Retries: -1), the recorder does.
type Ledger interface {
	Begin(ctx context.Context, b *client.Begin, wait client.Stage) (*client.Answer[client.Receipt], error)
	Append(ctx context.Context, a *client.Append, wait client.Stage) (*client.Answer[client.Receipt], error)
	AppendRaw(ctx context.Context, attemptID string, body []byte, wait client.Stage) (*client.Answer[client.Receipt], error)
	Attempt(ctx context.Context, attemptID string) (*client.Answer[client.Attempt], error)
	Attempts(ctx context.Context, query url.Values) (*client.Answer[client.Attempts], error)
	Status(ctx context.Context) (*client.Answer[client.Status], error)
}

// Config says how to record. All fields without "default" are required.
type Config struct {
	Ledger Ledger
	State  *state.Dir
	// Instance names this start of the proxy: it is part of every invocation
	// id and must be new at each start, such as 16 random hex digits.
	Instance string
	// Patience bounds how long a call waits for its attempt, and an answer for
	// its outcome; default 10 s. While the ledger is known to be gone neither
	// waits.
	Patience time.Duration
	// FailOpen lets calls pass without evidence, and records how many.
	FailOpen bool
	// KeepBody asks the ledger to keep private values, encrypted.
	KeepBody bool
	Now      func() time.Time
	// Pause waits between two tries; it returns early with the error of ctx.
	// Default: real time.
	Pause func(ctx context.Context, d time.Duration) error
	Log   *slog.Logger
}

// Bounds of what waits for a ledger that is gone.
const (
	// DefaultPatience is that of Config.
	DefaultPatience = 10 * time.Second
	// briefly is the patience with a ledger that is known to be gone: enough
	// for one try.
	briefly      = 2 * time.Second
	firstPause   = 25 * time.Millisecond
	longestPause = 5 * time.Second
	// maxWaiting bounds the private values that wait in memory. Above it their
	// digests are recorded in their place.
	maxWaiting = 256 << 20
	// maxRefused bounds the refused calls that wait to be recorded. What is
	// above it is not recorded, which is said.
	maxRefused = 1024
)

// Recorder records. It is safe for concurrent use.
type Recorder struct {
	cfg   Config
	ctx   context.Context // of what goes on by itself
	stop  context.CancelFunc
	calls atomic.Uint64
	gone  atomic.Bool // the ledger did not answer for as long as patience lasts
	gap   *gapKeeper
	extra *Lane // refused calls and gaps

	waiting waiting

	mu     sync.Mutex // guards closed
	closed bool
	loops  sync.WaitGroup
}

// New starts a recorder. It announces gaps that an earlier run left, and then
// finds the attempts that it left open.
func New(cfg Config) (*Recorder, error) {
	if cfg.Patience == 0 {
		cfg.Patience = DefaultPatience
	}
	if cfg.Pause == nil {
		cfg.Pause = wait.For
	}
	r := &Recorder{cfg: cfg}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.extra = r.Lane()
	var err error
	if r.gap, err = openGaps(r); err != nil {
		r.stop()
		return nil, err
	}
	announced := r.gap.announce()
	r.background(func() {
		select {
		case <-announced: // or recovery would end the notice of a gap itself
			r.recover()
		case <-r.ctx.Done():
		}
	})
	return r, nil
}

// Close waits until everything is recorded, or until ctx ends, and stops. It
// returns how many events are not recorded; attempts among them that have no
// outcome are found by the next start.
func (r *Recorder) Close(ctx context.Context) (lost int) {
	r.waiting.idle(ctx)
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.loops.Wait()
	return r.waiting.count()
}

// background runs f, unless the recorder has stopped.
func (r *Recorder) background(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.loops.Go(f)
	}
}

// Patience is how long an answer may wait for its outcome now.
func (r *Recorder) Patience() time.Duration {
	if r.gone.Load() {
		return 0
	}
	return r.cfg.Patience
}

// Peers are who speaks through the proxy, as they named themselves.
type Peers struct {
	Agent, Protocol, Implementation string
}

// Call is a call that is about to leave.
type Call struct {
	Peers   Peers
	TraceID string // of the connection
	Tool    string // as the client named it
	Mode    string // effect mode
	Input   []byte // private; nil if there is none
	At      time.Time
	// Refs are those of the outcome, whatever it is: an attempt has none.
	Refs map[string]string
	// Denied are the reason codes of a call that must not leave, whether its
	// attempt is recorded or not.
	Denied []string
	// Unasked says that the call leaves although nobody could say whether it may.
	// It counts as a call without evidence.
	Unasked bool
}

// Attempt is a recorded attempt. Only its lane writes to it.
type Attempt struct {
	ID      string
	newest  string            // id of the event that a note is about
	refs    map[string]string // of the outcome
	answers int               // late ones
}

// source is the proxy's own identity with the names of the peers.
func (r *Recorder) source(p Peers, invocation string) client.Source {
	return client.Source{RuntimeID: r.cfg.State.RuntimeID(), AgentID: p.Agent, InvocationID: invocation, Protocol: p.Protocol, Implementation: p.Implementation}
}

// invocation is an id that no other call of any start of this proxy has.
func (r *Recorder) invocation() string {
	return fmt.Sprintf("%s-%d", r.cfg.Instance, r.calls.Add(1))
}

func (r *Recorder) begin(c *Call) *client.Begin {
	b := &client.Begin{
		Source:     r.source(c.Peers, r.invocation()),
		OccurredAt: event.FormatTime(c.At),
		TraceID:    c.TraceID,
		Action:     client.Action{Name: toolcall.Fit(c.Tool, toolcall.UnnamedTool), EffectKind: toolcall.EffectKind, EffectMode: c.Mode},
		KeepBody:   r.cfg.KeepBody,
	}
	b.PrivateInput, b.PrivateInputRaw = private(c.Input)
	return b
}
