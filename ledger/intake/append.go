package intake

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"counterfoil/ledger/commit"
	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// Append records a further event of an attempt, or returns the one that this
// append already became. Errors: *RequestError, *Conflict, *Unlawful,
// ErrNoAttempt, ErrErased, or trouble.
func (in *Intake) Append(ctx context.Context, a *Append) (*Result, error) {
	shard, ok := shardOf(a.AttemptID)
	if !ok {
		return nil, ErrNoAttempt
	}
	if err := in.lock(ctx, shard); err != nil {
		return nil, err
	}
	defer in.unlock(shard)

	var (
		captured string
		opens    []Opening
		kept     bool
	)
	slot := commit.SlotAppend(a.SourceEventID)
	res, err := in.place(ctx, shard, func() (*event.Event, *Result, error) {
		row, err := in.cfg.Index.Attempt(a.AttemptID)
		if err != nil {
			return nil, nil, err
		}
		if row == nil {
			return nil, nil, ErrNoAttempt
		}
		if i := row.State.FindSource(a.SourceEventID); i >= 0 {
			res, err := in.repeat(ctx, a.AttemptID, row.Seqs[i], a.canonical, func(k attemptKeys) []Opening {
				return k.open(a.AttemptID, slot, a.values())
			})
			return nil, res, err
		}
		keys, err := in.keys(a.AttemptID)
		if err != nil {
			return nil, nil, err
		}
		begin, err := in.beginOf(ctx, a.AttemptID, row.Seqs[0])
		if err != nil {
			return nil, nil, err
		}
		if err := a.checkReasons(begin.Subject.Kind == event.Admission); err != nil {
			return nil, nil, err
		}
		if captured == "" {
			captured = event.FormatTime(in.cfg.Now())
		}
		e := a.draft(begin, &row.State, keys, captured)
		opens = keys.open(a.AttemptID, slot, a.values())
		for _, o := range opens {
			setMember(&e.Commitments, o.Name, commit.FormatDigest(o.Digest))
		}
		if err := e.Validate(); err != nil {
			return nil, nil, fromEvent(err)
		}
		if v := row.State.Check(e, event.DigestOf(e.Append(nil))); v != nil {
			return nil, nil, &Unlawful{Violation: v, State: row.State.Summary()}
		}
		if !kept {
			kept = true
			if err := in.keep(a.AttemptID, slot, a.KeepBody, a.values()); err != nil {
				return nil, nil, err
			}
		}
		return e, nil, nil
	})
	if err == nil && res.New {
		res.Openings = opens
	}
	return res, err
}

// draft makes the event that would follow in the given state. The source,
// subject, action and trace are those of the begin.
func (a *Append) draft(begin *event.Event, state *lifecycle.State, k attemptKeys, captured string) *event.Event {
	head, _ := state.Head()
	e := &event.Event{
		Schema: event.Schema, Ledger: begin.Ledger, Tenant: begin.Tenant, AttemptID: begin.AttemptID,
		Revision: state.Revision() + 1, Previous: head.String(), Lifecycle: a.Lifecycle, Subject: begin.Subject,
		OccurredAt: a.OccurredAt, CapturedAt: captured, Source: begin.Source, TraceID: begin.TraceID, Action: begin.Action,
		Status: a.Status, ReasonCodes: a.ReasonCodes, Refs: maps.Clone(a.Refs),
		ClaimBoundary: event.ClaimBoundaryFor(a.Lifecycle, begin.Subject.Kind),
	}
	e.Source.EventID = a.SourceEventID
	setMember(&e.Tags, commit.TagRequest, commit.FormatTag(commit.RequestTag(k.tag, a.canonical)))
	switch a.Lifecycle {
	case event.Reconciliation:
		rb := event.ReadBack{Source: a.ReadBack.Source, Observed: a.ReadBack.Observed, Count: a.ReadBack.Count}
		tag := ""
		if len(a.ReadBack.Value) > 0 {
			tag = commit.FormatTag(commit.EffectTag(k.tag, a.ReadBack.Value))
			setMember(&e.Tags, lifecycle.TagReadBack, tag)
		}
		e.Statement, e.Status = rb.Value(), state.Derive(rb, tag)
	case event.Review:
		e.Statement = event.Judgement{Reviewer: a.Reviewer, Rubric: a.Rubric, Run: a.Run}.Value()
	default:
		for _, v := range a.values() {
			setMember(&e.Tags, lifecycle.TagResult, commit.FormatTag(commit.EffectTag(k.tag, v.bytes)))
		}
	}
	if len(e.Refs) == 0 {
		e.Refs = nil
	}
	return e
}

func (a *Append) values() []value {
	vs := appendValue(nil, commit.NameResult, a.PrivateResult, a.raw)
	if a.ReadBack != nil {
		vs = appendValue(vs, commit.NameReadback, a.ReadBack.Value, nil)
	}
	return vs
}

// ownWrites is how long a reader waits for the index to have what this intake
// acknowledged. The index is a moment behind the stream; where the stream is away,
// a reader gets what there is.
const ownWrites = 2 * time.Second

// Attempt returns all events of an attempt that are on the stream, in order,
// and its state: at least those that this intake acknowledged, and those that others
// did where there are any. ErrNoAttempt if there is none.
func (in *Intake) Attempt(ctx context.Context, attemptID string) ([]*Result, *lifecycle.State, error) {
	var unsure error
	if shard, ok := shardOf(attemptID); ok {
		wait, cancel := context.WithTimeout(ctx, ownWrites)
		seen := in.need[shard].Load()
		if in.cfg.Newest != nil {
			newest, err := in.cfg.Newest(wait, in.filters[shard])
			seen, unsure = max(seen, newest), err
		}
		_ = in.cfg.Index.WaitFor(wait, seen)
		cancel()
	}
	row, err := in.cfg.Index.Attempt(attemptID)
	if err != nil {
		return nil, nil, err
	}
	if row == nil && unsure != nil {
		return nil, nil, fmt.Errorf("ask for the newest event: %w", unsure)
	}
	if row == nil {
		return nil, nil, ErrNoAttempt
	}
	out := make([]*Result, len(row.Seqs))
	for i, seq := range row.Seqs {
		if out[i], err = in.stored(ctx, seq); err != nil {
			return nil, nil, err
		}
	}
	return out, &row.State, nil
}

// shardOf is the shard that the id of an attempt names.
func shardOf(attemptID string) (int, bool) {
	hex, _ := event.ShardOfAttempt(attemptID)
	n, err := strconv.ParseUint(hex, 16, 8)
	return int(n), err == nil
}
