package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"counterfoil/ledger/event"
)

// Contract is a contract in force with its latest reviews.
type Contract struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	event.ContractTerms
	EventID   string `json:"eventId"` // of the attempt that set it
	AttemptID string `json:"attemptId"`
	LeafIndex uint64 `json:"leafIndex"`
	SetAt     string `json:"setAt"`
	// Call is allow, queue or refuse; Reason says why it is not allow.
	Call   string `json:"call"`
	Reason string `json:"reason,omitempty"`
	// Enforced and Reported are the latest reviews of each mode.
	Enforced *Review `json:"enforced,omitempty"`
	Reported *Review `json:"reported,omitempty"`
}

// Latest is the newest review of any mode; nil without one.
func (c *Contract) Latest() *Review {
	if c.Enforced == nil || c.Reported != nil && c.Reported.LeafIndex > c.Enforced.LeafIndex {
		return c.Reported
	}
	return c.Enforced
}

// Contracts is one page of contracts (schemaVersion counterfoil.contract-list.v1).
type Contracts struct {
	TreeSize      uint64      `json:"treeSize"` // that the page reflects
	Contracts     []*Contract `json:"contracts"`
	NextPageToken string      `json:"nextPageToken,omitempty"`
}

// Review is a review of a contract. Digests and event ids are as in the event.
type Review struct {
	Contract       string           `json:"contract"`
	EventID        string           `json:"eventId"`
	AttemptID      string           `json:"attemptId"`
	LeafIndex      uint64           `json:"leafIndex"`
	ReviewedAt     string           `json:"reviewedAt"`
	Since          string           `json:"since,omitempty"`
	Disposition    string           `json:"disposition"`
	ReasonCodes    []string         `json:"reasonCodes,omitempty"`
	Reviewer       string           `json:"reviewer,omitempty"`
	Rubric         string           `json:"rubric,omitempty"`
	Run            *event.ReviewRun `json:"run,omitempty"`
	Receipt        string           `json:"receipt,omitempty"`
	Policy         string           `json:"policy,omitempty"`
	ContractDigest string           `json:"contractDigest,omitempty"`
	Recheck        string           `json:"recheck,omitempty"`
	Evidence       string           `json:"evidence,omitempty"`
	Verifiers      string           `json:"verifiers,omitempty"`
}

// Reviews is one page of reviews (schemaVersion counterfoil.reviews.v1).
type Reviews struct {
	TreeSize      uint64    `json:"treeSize"` // that the page reflects
	Reviews       []*Review `json:"reviews"`
	NextPageToken string    `json:"nextPageToken,omitempty"`
}

// Disposition says whether tools may be called under a contract now
// (schemaVersion counterfoil.disposition.v1). docs/spec/review.md says what a
// caller has to do with it.
type Disposition struct {
	TreeSize       uint64   `json:"treeSize"`
	Contract       string   `json:"contract"`
	Known          bool     `json:"known"`
	Call           string   `json:"call"` // allow, queue or refuse
	Reason         string   `json:"reason,omitempty"`
	Message        string   `json:"message,omitempty"`
	ContractDigest string   `json:"contractDigest,omitempty"`
	Impact         string   `json:"impact,omitempty"`
	Receipt        string   `json:"receipt,omitempty"`
	Artifact       string   `json:"artifact,omitempty"`
	Tools          string   `json:"tools,omitempty"`
	Disposition    string   `json:"disposition,omitempty"`
	Mode           string   `json:"mode,omitempty"`
	ReasonCodes    []string `json:"reasonCodes,omitempty"`
	ReviewEventID  string   `json:"reviewEventId,omitempty"`
	ReviewedAt     string   `json:"reviewedAt,omitempty"`
}

// Contracts reads one page of contracts. The query holds limit and pageToken.
func (c *Client) Contracts(ctx context.Context, query url.Values) (*Answer[Contracts], error) {
	return get[Contracts](ctx, c, "/v1/contracts", query)
}

// Contract reads the contract of a name; a page with one contract.
func (c *Client) Contract(ctx context.Context, name string) (*Answer[Contracts], error) {
	a, err := get[Contracts](ctx, c, "/v1/contracts", url.Values{"name": {name}})
	if err == nil && len(a.Value.Contracts) != 1 {
		return nil, fmt.Errorf("the ledger answered with %d contracts of name %q", len(a.Value.Contracts), name)
	}
	return a, err
}

// Disposition reads whether tools may be called under a contract.
func (c *Client) Disposition(ctx context.Context, contract string) (*Answer[Disposition], error) {
	return get[Disposition](ctx, c, "/v1/dispositions", url.Values{"contract": {contract}})
}

// Reviews reads one page of the reviews of contracts. The query holds run, or from,
// to and order, and limit and pageToken.
func (c *Client) Reviews(ctx context.Context, query url.Values) (*Answer[Reviews], error) {
	return get[Reviews](ctx, c, "/v1/reviews", query)
}

// ReviewSummary reads a review of a contract as a SLSA verification summary: a Sigstore
// bundle that the ledger signs. There is none of a review by a person, nor where no bytes
// of an artifact are named: *[Error] with status 404.
func (c *Client) ReviewSummary(ctx context.Context, eventID string) ([]byte, error) {
	b, _, err := c.read(ctx, http.MethodGet, "/v1/reviews/"+url.PathEscape(eventID)+"/vsa", nil, nil, MaxAnswerBytes)
	return b, err
}

// ArchiveBody reads a body of the archive by its digest, of at most limit bytes.
// The bytes are not compared with the digest.
func (c *Client) ArchiveBody(ctx context.Context, digest string, limit int64) ([]byte, error) {
	b, _, err := c.read(ctx, http.MethodGet, "/v1/archive/"+url.PathEscape(digest), nil, nil, limit)
	return b, err
}

// Retained says how long a body is kept.
type Retained struct {
	Owner     string // an attempt
	Class     string
	Kind      string // security_evidence or discovery_telemetry
	Days      int
	Sensitive bool // never as telemetry
}

// PutRecheck keeps the record of a recheck. Keeping the same again is no error.
func (c *Client) PutRecheck(ctx context.Context, recheck []byte, r Retained) error {
	query := url.Values{"owner": {r.Owner}, "class": {r.Class}, "kind": {r.Kind}, "days": {strconv.Itoa(r.Days)}}
	if r.Sensitive {
		query.Set("sensitive", "true")
	}
	_, _, err := c.read(ctx, http.MethodPost, "/v1/rechecks", query, recheck, MaxAnswerBytes)
	return err
}
