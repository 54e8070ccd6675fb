package record

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// groupSize bounds how many entries are waited for together.
const groupSize = 64

// Lane records what is put into it, in that order, for as long as it takes. It
// has no goroutine while it is empty. It is safe for concurrent use.
type Lane struct {
	r *Recorder

	// Under mu.
	mu      sync.Mutex
	queue   []*entry
	running bool
}

// entry is something to record. It is idempotent.
type entry struct {
	what string // for the log
	send func(ctx context.Context, stage client.Stage) error
	size int // of its private values
	done chan struct{}
}

// Lane makes a lane.
func (r *Recorder) Lane() *Lane { return &Lane{r: r} }

func (l *Lane) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

func (l *Lane) put(e *entry) <-chan struct{} {
	e.done = make(chan struct{})
	l.r.waiting.add(e.size)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, e)
	if !l.running {
		l.running = true
		l.r.background(l.run)
	}
	return e.done
}

// run records group after group until the lane is empty. A recorder that stops
// leaves the rest.
func (l *Lane) run() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 || l.r.ctx.Err() != nil {
			l.running = false
			l.mu.Unlock()
			return
		}
		group := slices.Clone(l.queue[:min(len(l.queue), groupSize)])
		l.mu.Unlock()
		if !l.record(group) {
			continue // stopped
		}
		l.mu.Lock()
		l.queue = slices.Delete(l.queue, 0, len(group))
		l.mu.Unlock()
		for _, e := range group {
			l.r.waiting.remove(e.size)
			close(e.done)
		}
	}
}

// record records a group: each entry is accepted before the next is sent, and
// the last is waited for. It returns false if the recorder stops.
func (l *Lane) record(group []*entry) bool {
	var last *entry
	for i, e := range group {
		stage := client.Accepted
		if i == len(group)-1 {
			stage = client.Logged
		}
		err := l.r.persist(func(ctx context.Context) error { return e.send(ctx, stage) })
		if l.r.ctx.Err() != nil {
			return false
		}
		if err != nil {
			l.r.cfg.Log.Error("evidence was refused", "what", e.what, "error", err.Error())
			continue
		}
		if last = e; stage == client.Logged {
			return true
		}
	}
	if last == nil {
		return true
	}
	err := l.r.persist(func(ctx context.Context) error { return last.send(ctx, client.Logged) })
	return err == nil || l.r.ctx.Err() == nil
}

// Outcome is how a call ended.
type Outcome struct {
	Status  string   // a word of an outcome
	Reasons []string // registered codes
	Result  []byte   // private; nil if there is none
	At      time.Time
}

// sourceEvent is the source event id of every outcome: an attempt has one, and
// whoever records it first, this run or the next, is right.
const sourceEvent = "outcome"

// End records the outcome of an attempt. The channel is closed when it is
// durable, or refused for good.
func (l *Lane) End(a *Attempt, o Outcome) <-chan struct{} {
	body := &client.Append{AttemptID: a.ID, Lifecycle: string(event.Outcome), SourceEventID: sourceEvent,
		OccurredAt: event.FormatTime(o.At), Status: o.Status, ReasonCodes: o.Reasons, Refs: a.refs, KeepBody: l.r.cfg.KeepBody}
	size := len(o.Result)
	if l.r.waiting.full(size) {
		body.PrivateResult, size = summary(o.Result), 0
	} else {
		body.PrivateResult, body.PrivateResultRaw = private(o.Result)
	}
	return l.put(&entry{what: "outcome of " + a.ID, size: size, send: func(ctx context.Context, stage client.Stage) error {
		ans, err := l.r.cfg.Ledger.Append(ctx, body, stage)
		if err == nil {
			a.newest = ans.Value.EventID
		}
		return err
	}})
}

// note is the body of a review that says that something came late.
type note struct {
	AttemptID        string            `json:"attemptId"`
	Lifecycle        string            `json:"lifecycle"`
	SourceEventID    string            `json:"sourceEventId"`
	OccurredAt       string            `json:"occurredAt"`
	Status           string            `json:"status"`
	Reviewer         string            `json:"reviewer"`
	ReasonCodes      []string          `json:"reasonCodes"`
	Refs             map[string]string `json:"refs"`
	PrivateResult    jsontext.Value    `json:"privateResult,omitzero"`
	PrivateResultRaw []byte            `json:"privateResultRaw,omitempty"`
	KeepBody         bool              `json:"keepBody,omitzero"`
}

// reviewer is who notes late answers.
const reviewer = "counterfoil-proxy"

// maxNotes bounds the late answers of one call that are noted.
const maxNotes = 8

// Late notes an answer that arrived after the outcome of its call was recorded:
// the outcome stays, since only a reconciliation leads on from unknown.
func (l *Lane) Late(a *Attempt, result []byte, at time.Time) {
	n := note{AttemptID: a.ID, Lifecycle: string(event.Review), OccurredAt: event.FormatTime(at), Status: "noted", Reviewer: reviewer,
		ReasonCodes: []string{"late_answer"}, KeepBody: l.r.cfg.KeepBody}
	size := len(result)
	if l.r.waiting.full(size) {
		n.PrivateResult, size = summary(result), 0
	} else {
		n.PrivateResult, n.PrivateResultRaw = private(result)
	}
	var body []byte
	l.put(&entry{what: "late answer of " + a.ID, size: size, send: func(ctx context.Context, stage client.Stage) error {
		if body == nil {
			if a.answers++; a.answers > maxNotes {
				return nil
			}
			n.SourceEventID, n.Refs = fmt.Sprintf("late-answer-%d", a.answers), map[string]string{"reviews": a.newest}
			var err error
			if body, err = json.Marshal(n); err != nil {
				return err
			}
		}
		_, err := l.r.cfg.Ledger.AppendRaw(ctx, a.ID, body, stage)
		return err
	}})
}

// ending is an outcome without a result.
type ending struct {
	status  string
	reasons []string
	refs    map[string]string
	at      time.Time
}

// whole records an attempt with its outcome, both late.
func (l *Lane) whole(b *client.Begin, o ending, size int) {
	if size > 0 && l.r.waiting.full(size) {
		size = 0
		if b.PrivateInputRaw != nil {
			b.PrivateInput, b.PrivateInputRaw = summary(b.PrivateInputRaw), nil
		} else {
			b.PrivateInput = summary(b.PrivateInput)
		}
	}
	l.put(&entry{what: "attempt of " + b.Action.Name, size: size, send: func(ctx context.Context, stage client.Stage) error {
		ans, err := l.r.cfg.Ledger.Begin(ctx, b, client.Accepted)
		if err != nil {
			return err
		}
		_, err = l.r.cfg.Ledger.Append(ctx, &client.Append{AttemptID: ans.Value.AttemptID, Lifecycle: string(event.Outcome), SourceEventID: sourceEvent,
			OccurredAt: event.FormatTime(o.at), Status: o.status, ReasonCodes: o.reasons, Refs: o.refs}, stage)
		return err
	}})
}
