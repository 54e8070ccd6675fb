package mcp

import (
	"context"
	"errors"
	"net/url"

	"github.com/go-json-experiment/json"

	"counterfoil/internal/api"
	"counterfoil/ledger/client"
)

// Remote is a Ledger that is spoken to over HTTP. Begin and append are repeated
// for some seconds while it is unavailable, as package client does it.
type Remote struct{ Client *client.Client }

// decode reads an answer into the types of the HTTP interface. Members that
// this version does not know are left out, so that every answer fits its schema.
func decode[T, V any](a *client.Answer[V], err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(a.Raw, out); err != nil {
		return nil, &api.Error{Code: api.CodeInternal, Message: "the answer is not what a ledger answers", Hint: "check that the address is that of a counterfoil ledger"}
	}
	return out, nil
}

// Begin implements [Ledger].
func (r Remote) Begin(ctx context.Context, body []byte, wait string) (*api.Receipt, bool, error) {
	a, err := r.Client.BeginRaw(ctx, body, client.Stage(wait))
	rc, err := decode[api.Receipt](a, err)
	return rc, err == nil && a.New, err
}

// Append implements [Ledger].
func (r Remote) Append(ctx context.Context, body []byte, attemptID, wait string) (*api.Receipt, bool, error) {
	a, err := r.Client.AppendRaw(ctx, attemptID, body, client.Stage(wait))
	rc, err := decode[api.Receipt](a, err)
	return rc, err == nil && a.New, err
}

// Attempt implements [Ledger].
func (r Remote) Attempt(ctx context.Context, id string) (*api.Attempt, error) {
	return decode[api.Attempt](r.Client.Attempt(ctx, id))
}

// Receipt implements [Ledger].
func (r Remote) Receipt(ctx context.Context, eventID string) (*api.Receipt, error) {
	return decode[api.Receipt](r.Client.Receipt(ctx, eventID))
}

// Attempts implements [Ledger].
func (r Remote) Attempts(ctx context.Context, q url.Values) (*api.Attempts, error) {
	return decode[api.Attempts](r.Client.Attempts(ctx, q))
}

// Receipts implements [Ledger].
func (r Remote) Receipts(ctx context.Context, q url.Values) (*api.Receipts, error) {
	return decode[api.Receipts](r.Client.Receipts(ctx, q))
}

// Bundle implements [Ledger].
func (r Remote) Bundle(ctx context.Context, attempts []string) ([]byte, error) {
	return r.Client.Bundle(ctx, attempts...)
}

// Published implements [Ledger].
func (r Remote) Published(ctx context.Context) (uint64, error) {
	a, err := r.Client.Status(ctx)
	if err != nil {
		return 0, err
	}
	return a.Value.PublishedSize, nil
}

// Follow implements [Ledger].
func (r Remote) Follow(ctx context.Context, from uint64, published func(string)) error {
	for ev, err := range r.Client.Events(ctx, client.EventsOptions{From: from}) {
		if err != nil {
			return err
		}
		if id := attemptOf(ev.Record); id != "" {
			published(id)
		}
	}
	return nil
}

// Explain implements [Ledger].
func (r Remote) Explain(_ string, err error) *api.Error {
	var refusal *client.Error
	if errors.As(err, &refusal) {
		code := refusal.Code
		if code == "" {
			code = api.CodeInternal
		}
		hint := refusal.Hint
		if code == api.CodeUnauthorized {
			hint = "the token that this server was started with is not the ledger's: see --token-file"
		}
		return &api.Error{Code: code, Message: refusal.Message, Path: refusal.Path, Hint: hint, Reason: refusal.Reason,
			EventID: refusal.EventID, Stored: refusal.Stored, Offered: refusal.Offered, State: refusal.State}
	}
	var gone *client.Unreachable
	if errors.As(err, &gone) {
		return &api.Error{Code: CodeUnreachable, Message: gone.Error(), Hint: "start the ledger, then send the same again: it is safe"}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &api.Error{Code: CodeUnreachable, Message: "the call ended before the ledger answered; what was sent may be recorded",
			Hint: "send the same again to learn; it is safe"}
	}
	return &api.Error{Code: api.CodeInternal, Message: "internal error", Hint: "see the log on standard error"}
}
