package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
)

// EraseRequest says what to erase: attempts, or all about a subject.
type EraseRequest struct {
	Attempts []string `json:"attempts,omitempty"`
	Subject  *Subject `json:"subject,omitempty"`
	State    string   `json:"state"` // redacted or purged
	Confirm  bool     `json:"confirm"`
}

// Erasure is what an erasure did, and what it did not do.
type Erasure struct {
	SchemaVersion string   `json:"schemaVersion"`
	State         string   `json:"state"`
	Affected      int      `json:"affected"`
	Already       int      `json:"already"`
	Open          int      `json:"open"`
	Notices       []Notice `json:"notices"`
	More          bool     `json:"more"` // do the same again
	Verdict       string   `json:"verdict"`
	Kept          []Remark `json:"kept"`
	NotCovered    []Remark `json:"notCovered"`
}

// Notice is an attempt in which the ledger says what it did.
type Notice struct {
	AttemptID string `json:"attemptId"`
	LeafIndex uint64 `json:"leafIndex"`
	DoneIndex uint64 `json:"doneIndex"`
}

// Remark is a fixed code with its text.
type Remark struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Hold is a legal hold on an attempt or a subject.
type Hold struct {
	HoldID    string   `json:"holdId"`
	Attempt   string   `json:"attempt,omitempty"`
	Subject   *Subject `json:"subject,omitempty"`
	Since     string   `json:"since"`
	LeafIndex uint64   `json:"leafIndex"`
	InForce   bool     `json:"inForce"`
}

// Holds are the legal holds in force.
type Holds struct {
	SchemaVersion string `json:"schemaVersion"`
	Holds         []Hold `json:"holds"`
}

// Retention says what a change of retention did.
type Retention struct {
	SchemaVersion string `json:"schemaVersion"`
	Attempt       string `json:"attempt"`
	Changed       int    `json:"changed"`
	Notice        Notice `json:"notice"`
}

// Erase erases. Doing it again is safe and affects nothing.
func (c *Client) Erase(ctx context.Context, r EraseRequest) (*Answer[Erasure], error) {
	return post[Erasure](ctx, c, "/v1/erasures", r)
}

// Holds lists the legal holds in force.
func (c *Client) Holds(ctx context.Context) (*Answer[Holds], error) {
	return get[Holds](ctx, c, "/v1/holds", nil)
}

// AddHold puts a legal hold on an attempt or a subject. One that is there stays.
func (c *Client) AddHold(ctx context.Context, attempt string, subject *Subject) (*Answer[Hold], error) {
	return post[Hold](ctx, c, "/v1/holds", struct {
		Attempt string   `json:"attempt,omitempty"`
		Subject *Subject `json:"subject,omitempty"`
	}{attempt, subject})
}

// ReleaseHold ends a legal hold.
func (c *Client) ReleaseHold(ctx context.Context, holdID string) (*Answer[Hold], error) {
	return post[Hold](ctx, c, "/v1/holds/"+url.PathEscape(holdID)+"/release", nil)
}

// SetRetention puts the evidence of an attempt under another retention class.
func (c *Client) SetRetention(ctx context.Context, attempt, class, kind string, days int64) (*Answer[Retention], error) {
	return post[Retention](ctx, c, "/v1/retention", map[string]any{"attempt": attempt, "class": class, "kind": kind, "days": days})
}

func post[T any](ctx context.Context, c *Client, path string, v any) (*Answer[T], error) {
	body := []byte{}
	if v != nil {
		var err error
		if body, err = json.Marshal(v, json.Deterministic(true)); err != nil {
			return nil, fmt.Errorf("encode the body of %s: %w", path, err)
		}
	}
	raw, _, err := c.read(ctx, http.MethodPost, path, nil, body, MaxAnswerBytes)
	if err != nil {
		return nil, err
	}
	return parse[T](path, raw)
}
