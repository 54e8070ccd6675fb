package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"counterfoil/ledger/trust"
)

// Fit is how a checkpoint that the log's key signed stands to the log's tree.
type Fit int

// The ways in which it can.
const (
	// Holds: it is the beginning of the tree.
	Holds Fit = iota + 1
	// Behind: the tree is smaller, and will reach its size without new events.
	Behind
	// SetBack: the tree is smaller, and nothing is on its way to it.
	SetBack
	// Differs: the tree has another root at its size.
	Differs
)

// Tree is the log's own tree. It is safe for concurrent use.
type Tree interface {
	// Consistency proves that the tree of size old is the beginning of that of
	// size, which was offered to the gatherer. It is empty for old = 0.
	Consistency(ctx context.Context, old, size uint64) ([][]byte, error)
	// Judge compares size and root of a checkpoint that the log's key signed
	// with the durable tree.
	Judge(ctx context.Context, size uint64, root [32]byte) (Fit, error)
}

// Defaults of a Config.
const (
	DefaultRecosignEvery = time.Hour
	// DefaultRequestLimit lets a witness that needs ten seconds count.
	DefaultRequestLimit = 15 * time.Second
)

// Config says for which log cosignatures are gathered, and from whom.
type Config struct {
	// Policy names the log and the witnesses. Witnesses without a URL count and
	// are not asked.
	Policy *trust.Policy
	// Log is the log's key, whose name is the origin. It must be in the policy.
	Log trust.VerifierKey
	// Dir keeps what witnesses said; made with mode 0700.
	Dir string
	// Tree is the log's tree.
	Tree Tree
	// RecosignEvery is how old a witness's cosignature gets before it is asked
	// for a new one of the same checkpoint. Default: DefaultRecosignEvery.
	RecosignEvery time.Duration
	// AskEvery is the shortest time between the beginnings of two requests to one
	// witness that both succeed. Default: none.
	AskEvery time.Duration
	// RequestLimit bounds one request. Default: DefaultRequestLimit.
	RequestLimit time.Duration
	// Idle reports whether another node of the same ledger asks the witnesses now,
	// with a channel that is closed when that changes. Default: never.
	Idle func() (bool, <-chan struct{})
	// Transport carries the requests. Default: one with TLS and keep-alive.
	Transport http.RoundTripper
	// Asking is told that a witness, which cosigned size from before, is asked for
	// size, and its answer the class of the failure, "" for none; nil leaves it out.
	Asking func(witness string, from, size uint64) (asked func(class string))
	// UserAgent names the program.
	UserAgent string
	// Random spreads the waits after failures. One goroutine at a time reads it.
	Random io.Reader
	Now    func() time.Time
	Logger *slog.Logger
}

// validate fills in defaults and reports every problem at once.
func (c *Config) validate() error {
	var errs []error
	if !slices.ContainsFunc(c.Policy.Logs, func(l trust.PolicyLog) bool { return l.Key.String() == c.Log.String() }) {
		var others []string
		for _, l := range c.Policy.Logs {
			others = append(others, l.Key.Name)
		}
		errs = append(errs, fmt.Errorf("the witness policy has no line for this log, but for %q (hint: log %s)", others, c.Log))
	}
	for _, w := range c.Policy.Witnesses {
		if w.URL == "" {
			continue
		}
		if err := checkURL(w.URL); err != nil {
			errs = append(errs, fmt.Errorf("the URL of witness %s in the policy: %w", w.Name, err))
		}
	}
	for name, d := range map[string]*time.Duration{"recosignEvery": &c.RecosignEvery, "askEvery": &c.AskEvery, "requestLimit": &c.RequestLimit} {
		if *d < 0 {
			errs = append(errs, fmt.Errorf("%s is %s", name, *d))
		}
	}
	if c.RecosignEvery == 0 {
		c.RecosignEvery = DefaultRecosignEvery
	}
	if c.RequestLimit == 0 {
		c.RequestLimit = DefaultRequestLimit
	}
	return errors.Join(errs...)
}

// ErrEnded is what waiters get once Run has ended.
var ErrEnded = errors.New("cosignatures are not gathered any more")

// Gatherer gathers cosignatures. It is safe for concurrent use; Run runs once.
type Gatherer struct {
	cfg       Config
	http      *exchange
	store     *store
	witnesses []*witness
	save      chan struct{} // one token: the board has changed

	mu      sync.Mutex // guards these, the board, and the witnesses
	board   *board
	offered chan struct{}  // closed and replaced when there is a newer checkpoint
	met     *sheet         // largest that meets the quorum and is stored
	metAt   time.Time      // when it was stored
	held    map[int]*shown // by witness: what the log must grow to before it signs
	stopped *StoppedError
	unsaved error // why the last storing failed
	dirty   bool  // something is not stored yet
	// later are stored checkpoints that the log has yet to grow to, up to laterSize.
	later     []cosignedNote
	laterSize uint64
	ended     bool
	changed   chan struct{} // closed and replaced when met, stopped or ended change
	stopWork  context.CancelFunc
}

// Open reads what is stored and compares it with the tree; ctx bounds that. It
// asks nobody. A log that was stopped, or that does not hold a checkpoint that
// is stored, opens all the same: see Stopped.
func Open(ctx context.Context, cfg Config) (*Gatherer, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	g := &Gatherer{cfg: cfg, http: newExchange(cfg.Transport, cfg.UserAgent, cfg.Now), board: newBoard(newQuorum(cfg.Policy)), save: make(chan struct{}, 1),
		offered: make(chan struct{}), held: map[int]*shown{}, changed: make(chan struct{})}
	for i, p := range cfg.Policy.Witnesses {
		g.witnesses = append(g.witnesses, &witness{i: i, policy: p, failures: map[string]uint64{}, first: make(chan struct{})})
		g.board.w[i].down = p.URL == ""
	}
	var err error
	if g.store, err = openStore(cfg.Dir); err != nil {
		return nil, err
	}
	if i := g.store.stopped(); i != nil {
		g.stopped = &StoppedError{i, g.store.stoppedFile()}
	}
	if err := g.load(ctx); err != nil {
		return nil, err
	}
	list, errs := g.store.incidents()
	for _, err := range errs {
		cfg.Logger.Error("an incident cannot be read", "error", err)
	}
	for _, i := range list {
		for _, w := range g.witnesses {
			if w.policy.Key.String() != i.VKey {
				continue
			}
			w.incidents++
			if at, err := time.Parse(timeLayout, i.ObservedAt); i.Kind != KindForgot && (err != nil || at.After(w.last)) {
				w.open = i
			}
		}
	}
	return g, nil
}

// load puts the stored checkpoints on the board.
func (g *Gatherer) load(ctx context.Context) error {
	c, aside, err := g.store.load(g.cfg.Log.Name)
	if err != nil {
		return fmt.Errorf("read the stored cosignatures: %w", err)
	}
	if aside != nil {
		g.cfg.Logger.Error("the stored cosignatures are asked for again", "why", aside)
	}
	if c == nil {
		return nil
	}
	for _, note := range c.Checkpoints {
		s, err := g.restore(note)
		if err != nil {
			g.cfg.Logger.Error("a stored cosignature does not count", "why", err)
			continue
		}
		fit, err := g.cfg.Tree.Judge(ctx, s.cp.Size, s.cp.Root)
		if err != nil {
			return fmt.Errorf("compare the stored checkpoint of size %d with the log: %w", s.cp.Size, err)
		}
		for i, l := range s.lines {
			if l.time == 0 {
				continue
			}
			w := g.witnesses[i]
			if fit != Holds { // the witness's own checkpoint, in our own files
				g.judge(ctx, w, &Incident{Kind: KindAhead, TheirSize: s.cp.Size, Detail: "found among the stored cosignatures"}, &shown{s.cp, string(s.bytes())})
				continue
			}
			g.board.w[i].old, w.size, w.last, w.stated = s.cp.Size, s.cp.Size, l.receivedAt, l.time
		}
		if fit == Behind {
			g.later, g.laterSize = append(g.later, note), max(g.laterSize, s.cp.Size)
		}
		if fit == Holds {
			g.board.add(s)
			if g.board.quorum.met(s.has) {
				g.board.metSize, g.met, g.metAt = s.cp.Size, s, g.cfg.Now()
			}
		}
	}
	return nil
}

// Offer says what the newest checkpoint is, and returns at once. One that is not
// larger than the newest is ignored.
func (g *Gatherer) Offer(note []byte) error {
	n, cp, err := g.signed(note)
	if err != nil {
		return fmt.Errorf("offer a checkpoint to the witnesses: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.board.newest(); s != nil && s.cp.Size >= cp.Size {
		return nil
	}
	g.board.add(&sheet{cp: cp, note: n, lines: make([]cosig, len(g.witnesses))})
	g.board.prune()
	close(g.offered)
	g.offered = make(chan struct{})
	return nil
}

// Run asks witnesses until ctx ends or the log is stopped.
func (g *Gatherer) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g.mu.Lock()
	g.stopWork = cancel
	if g.stopped != nil {
		cancel()
	}
	g.mu.Unlock()
	var working sync.WaitGroup
	for _, w := range g.witnesses {
		if w.policy.URL != "" {
			working.Go(func() { g.work(ctx, w) })
		}
	}
	working.Go(func() { g.saving(ctx) })
	working.Wait()
	g.write() // what came last
	g.mu.Lock()
	g.ended = true
	g.broadcastLocked()
	g.mu.Unlock()
}

// halt ends all asking.
func (g *Gatherer) halt() {
	if g.stopWork != nil {
		g.stopWork()
	}
}

func (g *Gatherer) broadcastLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *Gatherer) dirtyLocked() {
	g.dirty = true
	select {
	case g.save <- struct{}{}:
	default: // it will be seen
	}
}

// retrySave is the wait after the cosignatures could not be stored.
const retrySave = time.Second

// saving stores the board whenever it has changed. What came while it was being
// stored is stored together, next.
func (g *Gatherer) saving(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.save:
		}
		if !g.write() && !waitFor(ctx, nil, retrySave) {
			return
		}
	}
}

// write stores the board. From then on the checkpoint that meets the quorum
// counts as witnessed: a crash loses no stage that was shown.
func (g *Gatherer) write() bool {
	g.mu.Lock()
	if !g.dirty {
		g.mu.Unlock()
		return true
	}
	g.dirty = false
	g.board.prune()
	doc, met := g.board.document(g.cfg.Log.Name), g.board.met()
	if s := g.board.newest(); s == nil || len(g.later) > 0 && s.cp.Size < g.laterSize {
		doc.Checkpoints = append(doc.Checkpoints, g.later...)
	}
	g.mu.Unlock()
	err := g.store.save(doc)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		if g.unsaved == nil {
			g.cfg.Logger.Error("store cosignatures", "error", err)
		}
		g.unsaved = fmt.Errorf("store cosignatures: %w", err)
		g.dirtyLocked()
		return false
	}
	g.unsaved = nil
	if met != nil && (g.met == nil || met.cp.Size > g.met.cp.Size) {
		g.met, g.metAt = met, g.cfg.Now()
		g.broadcastLocked()
	}
	return true
}

// AskedOnce waits until every witness has answered, or failed, once; at most
// until ctx ends. A log that is stopped asks nobody: then it returns at once, also
// if what one witness answered stopped it while the others were yet to be asked.
func (g *Gatherer) AskedOnce(ctx context.Context) {
	for _, w := range g.witnesses {
		if w.policy.URL != "" && !g.asked(ctx, w) {
			return
		}
	}
}

// asked waits for the first answer of w; false if nobody waits for it any more.
func (g *Gatherer) asked(ctx context.Context, w *witness) bool {
	for {
		changed := g.Changed()
		if g.Stopped() != nil {
			return false
		}
		select {
		case <-w.first:
			return true
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// Permit says why the log must not sign a checkpoint now: a *[StoppedError], or
// that a witness has a checkpoint of ours that the log has yet to grow to.
func (g *Gatherer) Permit(ctx context.Context) error {
	if err := g.Stopped(); err != nil {
		return err
	}
	g.mu.Lock()
	held := maps.Clone(g.held)
	g.mu.Unlock()
	for i, theirs := range held {
		if f := g.judge(ctx, g.witnesses[i], &Incident{Kind: KindAhead, TheirSize: theirs.cp.Size}, theirs); f.class == classLocal {
			return f
		}
	}
	if err := g.Stopped(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, theirs := range g.held {
		return fmt.Errorf("witness %s has this log's checkpoint of size %d: nothing is signed before the log has grown to it", g.witnesses[i].policy.Name, theirs.cp.Size)
	}
	return nil
}

// Stopped is the *[StoppedError] after which nothing may be signed, nil without.
func (g *Gatherer) Stopped() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped == nil {
		return nil
	}
	return g.stopped
}
