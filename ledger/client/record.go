package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
)

// Begin records a new attempt, or finds the one that was recorded before. It
// returns once the event has reached the stage. It is repeated while the ledger
// is unavailable: that never makes a second attempt.
func (c *Client) Begin(ctx context.Context, b *Begin, wait Stage) (*Answer[Receipt], error) {
	body, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode a begin: %w", err)
	}
	return c.BeginRaw(ctx, body, wait)
}

// BeginRaw is [Client.Begin] for a body that is sent as it is.
func (c *Client) BeginRaw(ctx context.Context, body []byte, wait Stage) (*Answer[Receipt], error) {
	return c.record(ctx, "/v1/attempts", body, wait)
}

// Append records a further event of a.AttemptID, or finds the one that was
// recorded before; otherwise like [Client.Begin].
func (c *Client) Append(ctx context.Context, a *Append, wait Stage) (*Answer[Receipt], error) {
	body, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode an append: %w", err)
	}
	return c.AppendRaw(ctx, a.AttemptID, body, wait)
}

// AppendRaw is [Client.Append] for a body that is sent as it is.
func (c *Client) AppendRaw(ctx context.Context, attemptID string, body []byte, wait Stage) (*Answer[Receipt], error) {
	return c.record(ctx, "/v1/attempts/"+url.PathEscape(attemptID)+"/events", body, wait)
}

func (c *Client) record(ctx context.Context, path string, body []byte, wait Stage) (*Answer[Receipt], error) {
	if body == nil {
		body = []byte{}
	}
	query := url.Values{}
	if wait != "" {
		query.Set("wait", string(wait))
	}
	var raw []byte
	var status int
	err := c.repeat(ctx, func() (err error) {
		raw, status, err = c.read(ctx, http.MethodPost, path, query, body, MaxAnswerBytes)
		return err
	})
	if err != nil {
		return nil, err
	}
	a, err := parse[Receipt](path, raw)
	if err != nil {
		return nil, err
	}
	a.New = status == http.StatusCreated
	return a, nil
}
