package intake

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/commit"
	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// Begin records a new attempt, or returns the one that this begin already
// became. Errors: *RequestError, *Conflict, ErrErased, or trouble.
func (in *Intake) Begin(ctx context.Context, b *Begin) (*Result, error) {
	scope := event.ScopeOf(in.cfg.Tenant, b.Source.RuntimeID, b.Source.InvocationID)
	shard := int(scope[0])
	if err := in.lock(ctx, shard); err != nil {
		return nil, err
	}
	defer in.unlock(shard)

	var (
		draft *event.Event
		keys  attemptKeys
		opens []Opening
	)
	res, err := in.place(ctx, shard, func() (*event.Event, *Result, error) {
		taken, err := in.cfg.Index.Scope(scope)
		if err != nil {
			return nil, nil, err
		}
		if taken != "" {
			row, err := in.cfg.Index.Attempt(taken)
			if err != nil {
				return nil, nil, err
			}
			if row == nil {
				return nil, nil, fmt.Errorf("the index knows attempt %s by its scope alone", taken)
			}
			res, err := in.repeat(ctx, taken, row.Seqs[0], b.canonical, func(k attemptKeys) []Opening { return b.openings(k, taken) })
			return nil, res, err
		}
		if draft != nil {
			return draft, nil, nil // decided before; nothing in it depends on what came between
		}
		draft, keys, err = in.draftBegin(ctx, b, scope)
		if err != nil {
			return nil, nil, err
		}
		opens = b.openings(keys, draft.AttemptID)
		for _, o := range opens {
			setMember(&draft.Commitments, o.Name, commit.FormatDigest(o.Digest))
		}
		if err := draft.Validate(); err != nil {
			return nil, nil, fromEvent(err)
		}
		return draft, nil, in.keep(draft.AttemptID, commit.SlotBegin, b.KeepBody, b.values())
	})
	if err == nil && res.New {
		res.Openings = opens
		in.begins.put(res.Rec.Event)
	}
	return res, err
}

func (in *Intake) draftBegin(ctx context.Context, b *Begin, scope event.Scope) (*event.Event, attemptKeys, error) {
	fresh, err := in.stock.take(ctx, int(scope[0]))
	if err != nil {
		return nil, attemptKeys{}, err
	}
	keys := in.keysOf(fresh.key)
	e := &event.Event{
		Schema: event.Schema, Ledger: in.cfg.Origin, Tenant: in.cfg.Tenant,
		AttemptID: fresh.id,
		Revision:  1, Lifecycle: event.Attempt, Subject: b.Subject,
		OccurredAt: b.OccurredAt, CapturedAt: event.FormatTime(in.cfg.Now()),
		Source: event.Source{RuntimeID: b.Source.RuntimeID, AgentID: b.Source.AgentID, InvocationID: b.Source.InvocationID,
			Protocol: b.Source.Protocol, Implementation: b.Source.Implementation, Assurance: event.SelfAsserted},
		TraceID: b.TraceID, Action: b.Action, Status: event.StatusRequested, Statement: b.statement,
		ClaimBoundary: event.ClaimBoundaryFor(event.Attempt, b.Subject.Kind),
	}
	in.cfg.Index.Fresh(e.AttemptID)
	setMember(&e.Tags, commit.TagRequest, commit.FormatTag(commit.RequestTag(keys.tag, b.canonical)))
	if len(b.ExpectedEffect) > 0 {
		setMember(&e.Tags, lifecycle.TagExpectedEffect, commit.FormatTag(commit.EffectTag(keys.tag, b.ExpectedEffect)))
	}
	return e, keys, nil
}

// value is one private value of a request.
type value struct {
	name     string
	encoding commit.Encoding
	bytes    []byte
}

func (b *Begin) values() []value {
	return appendValue(appendValue(nil, commit.NameInput, b.PrivateInput, b.raw), commit.NameExpectedEffect, b.ExpectedEffect, nil)
}

func (b *Begin) openings(k attemptKeys, attemptID string) []Opening {
	return k.open(attemptID, commit.SlotBegin, b.values())
}

func appendValue(vs []value, name string, canonical jsontext.Value, raw []byte) []value {
	switch {
	case raw != nil:
		return append(vs, value{name, commit.Raw, raw})
	case len(canonical) > 0:
		return append(vs, value{name, commit.JCS, canonical})
	}
	return vs
}

// attemptKeys are the secrets of one attempt.
type attemptKeys struct {
	secret [32]byte
	tag    []byte
}

func (in *Intake) keysOf(secret [32]byte) attemptKeys {
	return attemptKeys{secret: secret, tag: commit.TagKey(in.cfg.TenantKey, secret[:])}
}

func (k attemptKeys) open(attemptID, slot string, vs []value) []Opening {
	out := make([]Opening, len(vs))
	for i, v := range vs {
		salt := commit.DeriveSalt(k.secret[:], attemptID, slot, v.name)
		out[i] = Opening{Name: v.name, Encoding: v.encoding, Salt: salt, Digest: commit.Commitment(v.name, salt, v.bytes)}
	}
	return out
}

// keep stores the bodies where the caller asked for it, and makes them durable before
// the event that commits to them is published. The attempt's key is durable already.
func (in *Intake) keep(attemptID, slot string, bodies bool, vs []value) error {
	if !bodies || len(vs) == 0 {
		return nil
	}
	for _, v := range vs {
		if err := in.cfg.Vault.PutBody(attemptID, slot, v.name, string(v.encoding), v.bytes); err != nil {
			return fmt.Errorf("store the body of %s: %w", v.name, err)
		}
	}
	if err := in.cfg.Vault.Sync(); err != nil {
		return fmt.Errorf("make the bodies durable: %w", err)
	}
	return nil
}

// keepKeys stores keys of attempts to come, durably.
func (in *Intake) keepKeys(keys map[string][32]byte) error {
	if err := in.cfg.Vault.PutNew(keys); err != nil {
		return err
	}
	return in.cfg.Vault.Sync()
}

func (in *Intake) keys(attemptID string) (attemptKeys, error) {
	secret, err := in.cfg.Vault.Key(attemptID)
	switch {
	case errors.Is(err, ErrErased):
		return attemptKeys{}, err
	case err != nil:
		return attemptKeys{}, fmt.Errorf("key of attempt %s: %w", attemptID, err)
	}
	return in.keysOf(secret), nil
}

// repeat answers a source event that is on the stream at seq: the stored event
// if the content is the same, a *Conflict if not.
func (in *Intake) repeat(ctx context.Context, attemptID string, seq uint64, canonical []byte, open func(attemptKeys) []Opening) (*Result, error) {
	keys, err := in.keys(attemptID)
	if err != nil {
		return nil, err
	}
	res, err := in.stored(ctx, seq)
	if err != nil {
		return nil, err
	}
	stored, offered := res.Rec.Event.Tags[commit.TagRequest], commit.FormatTag(commit.RequestTag(keys.tag, canonical))
	if stored != offered {
		return nil, &Conflict{EventID: res.Rec.Digest().EventID(), Stored: stored, Offered: offered}
	}
	res.Openings = open(keys)
	return res, nil
}

func (in *Intake) random(parts ...[]byte) error {
	in.randMu.Lock()
	defer in.randMu.Unlock()
	for _, p := range parts {
		if _, err := io.ReadFull(in.cfg.Random, p); err != nil {
			return fmt.Errorf("read randomness: %w", err)
		}
	}
	return nil
}

func setMember(m *map[string]string, name, v string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[name] = v
}
