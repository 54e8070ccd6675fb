package client

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
)

// parse reads a document, keeping what it does not know in Raw.
func parse[T any](what string, raw []byte) (*Answer[T], error) {
	raw = bytes.TrimRight(raw, "\n")
	a := &Answer[T]{Raw: raw}
	if err := json.Unmarshal(raw, &a.Value); err != nil {
		return nil, fmt.Errorf("the answer to %s is not what a ledger answers: %w", what, err)
	}
	return a, nil
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*Answer[T], error) {
	raw, _, err := c.read(ctx, http.MethodGet, path, query, nil, MaxAnswerBytes)
	if err != nil {
		return nil, err
	}
	return parse[T](path, raw)
}

// Attempt reads the state and history of an attempt. What was acknowledged is
// in it, whatever the lag of the views.
func (c *Client) Attempt(ctx context.Context, attemptID string) (*Answer[Attempt], error) {
	return get[Attempt](ctx, c, "/v1/attempts/"+url.PathEscape(attemptID), nil)
}

// Receipt reads the receipt of an event.
func (c *Client) Receipt(ctx context.Context, eventID string) (*Answer[Receipt], error) {
	return get[Receipt](ctx, c, "/v1/receipts/"+url.PathEscape(eventID), nil)
}

// Attempts reads one page of attempts. The query holds state, tool, agent,
// runtime, from, to, limit, order and pageToken as the API names them.
func (c *Client) Attempts(ctx context.Context, query url.Values) (*Answer[Attempts], error) {
	return get[Attempts](ctx, c, "/v1/attempts", query)
}

// Receipts reads one page of receipts. The query holds tool, agent, status,
// lifecycle, kind, from, to, limit, order and pageToken as the API names them.
func (c *Client) Receipts(ctx context.Context, query url.Values) (*Answer[Receipts], error) {
	return get[Receipts](ctx, c, "/v1/receipts", query)
}

// Status reads the ledger's own state.
func (c *Client) Status(ctx context.Context) (*Answer[Status], error) {
	return get[Status](ctx, c, "/v1/status", nil)
}

// Bundle reads the bundle of attempts under the newest checkpoint, as exact
// bytes.
func (c *Client) Bundle(ctx context.Context, attemptIDs ...string) ([]byte, error) {
	raw, _, err := c.read(ctx, http.MethodGet, "/v1/bundle", url.Values{"attempt": attemptIDs}, nil, MaxBundleBytes)
	return raw, err
}

// TlogProof reads the receipt of an event as a C2SP tlog-proof, as exact bytes.
func (c *Client) TlogProof(ctx context.Context, eventID string) ([]byte, error) {
	raw, _, err := c.read(ctx, http.MethodGet, "/v1/receipts/"+url.PathEscape(eventID)+"/tlog-proof", nil, nil, MaxAnswerBytes)
	return raw, err
}

// Policy reads the tlog-policy text of the log and its witnesses, as exact bytes.
// It needs no token, and is worth what the way is worth that it came by.
func (c *Client) Policy(ctx context.Context) ([]byte, error) {
	raw, _, err := c.read(ctx, http.MethodGet, "/v1/policy", nil, nil, MaxAnswerBytes)
	return raw, err
}

// Trust reads the trust file, as exact bytes. It needs no token. A trust file
// is worth what the way is worth that it came by.
func (c *Client) Trust(ctx context.Context) ([]byte, error) {
	raw, _, err := c.read(ctx, http.MethodGet, "/v1/trust", nil, nil, MaxAnswerBytes)
	return raw, err
}
