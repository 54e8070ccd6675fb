package record

import (
	"context"
	"fmt"
	"time"

	"counterfoil/internal/toolcall"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// contractPrefix begins the invocation ids of contracts.
const contractPrefix = "contract-"

// Definition is a tool, or a list of tools, as a server describes it.
type Definition struct {
	Peers   Peers
	TraceID string
	Subject string            // id of the contract
	Value   []byte            // what was described: private
	Refs    map[string]string // digests by name
	Reasons []string          // registered codes; none for what is new
	At      time.Time
}

// Define records definitions as attempts of kind contract, each with an outcome
// that carries digests and reasons. recorded is called once all of them are
// durable; its error is retried.
func (l *Lane) Define(defs []Definition, recorded func() error) {
	bodies := make([]*client.Begin, len(defs))
	size := 0
	for i := range defs {
		d := &defs[i]
		bodies[i] = &client.Begin{
			Source:     l.r.source(d.Peers, contractPrefix+l.r.invocation()),
			OccurredAt: event.FormatTime(d.At), TraceID: d.TraceID,
			Action:   client.Action{Name: toolcall.List, EffectKind: "mcp." + toolcall.List, EffectMode: "read_only"},
			Subject:  client.Subject{Kind: string(event.Contract), ID: toolcall.Fit(d.Subject, toolcall.UnnamedTool)},
			KeepBody: l.r.cfg.KeepBody,
		}
		bodies[i].PrivateInput, bodies[i].PrivateInputRaw = private(d.Value)
		size += len(d.Value)
	}
	next := 0 // the first that is not recorded
	l.put(&entry{what: fmt.Sprintf("%d contracts", len(defs)), size: size, send: func(ctx context.Context, stage client.Stage) error {
		for ; next < len(defs); next++ {
			at := client.Accepted
			if next == len(defs)-1 {
				at = client.Logged // what is remembered as recorded must be
			}
			if err := l.define(ctx, bodies[next], &defs[next], at); err != nil {
				return err
			}
		}
		if err := recorded(); err != nil {
			return &laterError{err}
		}
		return nil
	}})
}

func (l *Lane) define(ctx context.Context, b *client.Begin, d *Definition, stage client.Stage) error {
	ans, err := l.r.cfg.Ledger.Begin(ctx, b, client.Accepted)
	if err != nil {
		return err
	}
	_, err = l.r.cfg.Ledger.Append(ctx, &client.Append{AttemptID: ans.Value.AttemptID, Lifecycle: string(event.Outcome), SourceEventID: sourceEvent,
		OccurredAt: event.FormatTime(d.At), Status: event.StatusSucceeded, ReasonCodes: d.Reasons, Refs: d.Refs}, stage)
	return err
}
