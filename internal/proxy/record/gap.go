package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"counterfoil/internal/toolcall"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// GapAction is the action of the attempt that says that calls passed without
// evidence.
const GapAction = "proxy.gap"

// gapPrefix begins the invocation ids of gaps.
const gapPrefix = "gap-"

// gap is a time in which calls passed without evidence. It is on the disk before
// the first of them leaves, and until its notice is in the log.
type gap struct {
	ID    string `json:"id"`
	From  string `json:"from"` // the first call
	To    string `json:"to"`   // the last call
	Count int64  `json:"count"`
	// Closed gaps are being announced: what a notice says never changes.
	Closed bool `json:"closed"`
}

type gapDoc struct {
	FormatVersion int   `json:"formatVersion"`
	Gaps          []gap `json:"gaps"`
}

// gapKeeper keeps the gaps that are not announced yet.
type gapKeeper struct {
	r *Recorder

	// Under mu.
	mu   sync.Mutex
	doc  gapDoc
	next int
}

func openGaps(r *Recorder) (*gapKeeper, error) {
	g := &gapKeeper{r: r, doc: gapDoc{FormatVersion: 1}}
	if _, err := r.cfg.State.Load("gap", &g.doc); err != nil {
		return nil, err
	}
	if g.doc.FormatVersion != 1 {
		return nil, fmt.Errorf("gap.json has format version %d, expected 1", g.doc.FormatVersion)
	}
	return g, nil
}

// add counts calls that pass at a time. When it returns nil the count is on the
// disk.
func (g *gapKeeper) add(at time.Time, calls int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := event.FormatTime(at)
	n := len(g.doc.Gaps)
	fresh := n == 0 || g.doc.Gaps[n-1].Closed
	if fresh {
		g.next++
		g.doc.Gaps = append(g.doc.Gaps, gap{ID: fmt.Sprintf("%s-%d", g.r.cfg.Instance, g.next), From: now, To: now})
		n++
	}
	before := g.doc.Gaps[n-1]
	open := &g.doc.Gaps[n-1]
	open.From, open.To = min(open.From, now), max(open.To, now)
	open.Count += calls
	if err := g.r.cfg.State.Save("gap", g.doc); err != nil {
		if *open = before; fresh {
			g.doc.Gaps = g.doc.Gaps[:n-1]
		}
		return err
	}
	if fresh {
		g.enqueue()
	}
	return nil
}

// announce records what an earlier run left; the channel is closed when it is.
func (g *gapKeeper) announce() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.doc.Gaps) == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	return g.enqueue()
}

func (g *gapKeeper) enqueue() <-chan struct{} {
	return g.r.Lane().put(&entry{what: "notice of a gap", send: g.send})
}

// send announces all gaps. The one that still grows is closed as soon as the
// ledger answers at all, so that its notice says all of it.
func (g *gapKeeper) send(ctx context.Context, stage client.Stage) error {
	if _, err := g.r.cfg.Ledger.Status(ctx); err != nil {
		return &laterError{err} // also a refusal: the count must not be lost
	}
	closed, err := g.close()
	if err != nil {
		return err
	}
	for _, one := range closed {
		err := g.notice(ctx, one, stage)
		if err != nil && passing(err) {
			return err
		}
		if err != nil { // it would never be taken: an operator has to know
			g.r.cfg.Log.Error("the notice of a gap was refused", "from", one.From, "to", one.To, "calls", one.Count, "error", err.Error())
		}
		if err := g.forget(one.ID); err != nil {
			return err
		}
	}
	return nil
}

func (g *gapKeeper) close() ([]gap, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := false
	for i := range g.doc.Gaps {
		changed = changed || !g.doc.Gaps[i].Closed
		g.doc.Gaps[i].Closed = true
	}
	if changed {
		if err := g.r.cfg.State.Save("gap", g.doc); err != nil {
			return nil, &laterError{err}
		}
	}
	return slices.Clone(g.doc.Gaps), nil
}

func (g *gapKeeper) forget(id string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.doc.Gaps = slices.DeleteFunc(g.doc.Gaps, func(o gap) bool { return o.ID == id })
	var err error
	if len(g.doc.Gaps) == 0 {
		err = g.r.cfg.State.Remove("gap")
	} else {
		err = g.r.cfg.State.Save("gap", g.doc)
	}
	if err != nil {
		return &laterError{err}
	}
	return nil
}

// laterError is a failure that may pass, and says nothing of whether the ledger
// takes evidence: of the state directory, above all.
type laterError struct{ err error }

func (e *laterError) Error() string { return e.err.Error() }
func (e *laterError) Unwrap() error { return e.err }

// notice records one gap. What it says is a function of the gap alone, so that
// saying it again after a crash adds nothing. The subject carries count and
// range in clear, since they are not private.
func (g *gapKeeper) notice(ctx context.Context, one gap, stage client.Stage) error {
	input, err := json.Marshal(struct {
		Count int64  `json:"count"`
		From  string `json:"from"`
		To    string `json:"to"`
	}{one.Count, one.From, one.To})
	if err != nil {
		return err
	}
	ans, err := g.r.cfg.Ledger.Begin(ctx, &client.Begin{
		Source:     g.r.source(Peers{toolcall.UnknownAgent, toolcall.UnknownProtocol, toolcall.UnknownImplementation}, gapPrefix+one.ID),
		OccurredAt: one.To,
		Action:     client.Action{Name: GapAction, EffectKind: toolcall.EffectKind, EffectMode: toolcall.Unspecified},
		Subject: client.Subject{Kind: string(event.ToolAction),
			ID: fmt.Sprintf("%s count=%d from=%s to=%s", GapAction, one.Count, one.From, one.To)},
		PrivateInput: input,
	}, client.Accepted)
	if err != nil {
		return err
	}
	_, err = g.r.cfg.Ledger.Append(ctx, &client.Append{AttemptID: ans.Value.AttemptID, Lifecycle: string(event.Outcome), SourceEventID: sourceEvent,
		OccurredAt: one.To, Status: event.StatusUnknown, ReasonCodes: []string{"evidence_gap"}}, stage)
	if ended(err) {
		return nil
	}
	return err
}

// ended reports whether an outcome was refused since the attempt has one.
func ended(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && (e.Code == "conflict" || e.Code == "unlawful")
}
