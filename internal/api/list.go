package api

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"counterfoil/ledger/event"
	"counterfoil/projections/query"
)

// Schemas of the lists.
const (
	AttemptsSchema = "counterfoil.attempts.v1"
	ReceiptsSchema = "counterfoil.receipts.v1"
	ParkedSchema   = "counterfoil.parked.v1"
)

const (
	defaultPage = 64
	maxPage     = 256
)

// viewWait is how long a look-up by event id waits for the views to reach what
// was in the log when it came.
const viewWait = 5 * time.Second

// AttemptSummary is an attempt in a list.
type AttemptSummary struct {
	AttemptID      string        `json:"attemptId"`
	State          string        `json:"state"`
	Outcome        string        `json:"outcome,omitempty"`
	Reconciliation string        `json:"reconciliation,omitempty"`
	Reversal       string        `json:"reversal,omitempty"`
	Review         string        `json:"review,omitempty"`
	InDoubt        bool          `json:"inDoubt,omitzero"`
	Corrected      bool          `json:"corrected,omitzero"`
	Revision       int64         `json:"revision"`
	Subject        event.Subject `json:"subject"`
	Tool           string        `json:"tool"`
	AgentID        string        `json:"agentId"`
	RuntimeID      string        `json:"runtimeId"`
	OccurredAt     string        `json:"occurredAt"`
	CapturedAt     string        `json:"capturedAt"` // of the attempt event: what an age is counted from
	FirstIndex     uint64        `json:"firstIndex"`
	LastIndex      uint64        `json:"lastIndex"`
}

// Attempts is a page of attempts.
type Attempts struct {
	SchemaVersion string            `json:"schemaVersion"`
	TreeSize      uint64            `json:"treeSize"` // that the page reflects
	Attempts      []*AttemptSummary `json:"attempts"`
	NextPageToken string            `json:"nextPageToken,omitempty"`
}

// Receipts is a page of receipts.
type Receipts struct {
	SchemaVersion string     `json:"schemaVersion"`
	TreeSize      uint64     `json:"treeSize"` // that the page reflects
	Receipts      []*Receipt `json:"receipts"`
	NextPageToken string     `json:"nextPageToken,omitempty"`
}

// ParkedLeaf is a leaf that does not count.
type ParkedLeaf struct {
	LeafIndex uint64 `json:"leafIndex"`
	LeafHash  string `json:"leafHash"` // standard base64
	Reason    string `json:"reason"`
	Code      string `json:"code,omitempty"`
	Detail    string `json:"detail,omitempty"`
}

// Parked is a page of parked leaves.
type Parked struct {
	SchemaVersion string        `json:"schemaVersion"`
	TreeSize      uint64        `json:"treeSize"`
	Parked        []*ParkedLeaf `json:"parked"`
	NextPageToken string        `json:"nextPageToken,omitempty"`
}

// page reads limit, pageToken and order.
func page(q url.Values) (query.Page, error) {
	p := query.Page{Limit: defaultPage, Token: q.Get("pageToken")}
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxPage {
			return p, invalid("", "use 1 to "+strconv.Itoa(maxPage), "limit is out of range")
		}
		p.Limit = n
	}
	switch q.Get("order") {
	case "", "oldest":
	case "newest":
		p.Newest = true
	default:
		return p, invalid("", "use oldest or newest", "unknown order")
	}
	return p, nil
}

// span reads a page between two times.
func span(q url.Values) (p query.Page, from, to time.Time, err error) {
	p, errP := page(q)
	from, errF := timeOf(q, "from")
	to, errT := timeOf(q, "to")
	return p, from, to, errors.Join(errP, errF, errT)
}

func timeOf(q url.Values, name string) (time.Time, error) {
	v := q.Get(name)
	if v == "" {
		return time.Time{}, nil
	}
	t, ok := event.ParseTime(v)
	if !ok {
		return t, invalid("", "write it like 2026-07-28T00:00:00.000Z", name+" is not RFC 3339 in UTC with milliseconds")
	}
	return t, nil
}

// known refuses query parameters that would be ignored.
func known(q url.Values, names ...string) error {
	for name := range q {
		ok := false
		for _, n := range names {
			ok = ok || n == name
		}
		if !ok {
			return invalid("", "see docs/spec/http.md", "unknown query parameter "+strconv.Quote(name))
		}
	}
	return nil
}

func viewError(err error) error {
	var inv *query.InvalidError
	switch {
	case errors.As(err, &inv):
		return invalid("", inv.Hint, inv.Field+": "+inv.Detail)
	case errors.Is(err, query.ErrNotFound):
		return notFound("no such event", "check the id; parked leaves are under /v1/parked")
	}
	return err
}

// byQuery serves what its query parameters say.
func byQuery[T any](read func(context.Context, url.Values) (*T, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		out, err := read(r.Context(), r.URL.Query())
		if err == nil {
			writeJSON(w, http.StatusOK, out)
		}
		return err
	}
}

// byID serves what an id in the path names.
func byID[T any](id string, read func(context.Context, string) (*T, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		out, err := read(r.Context(), r.PathValue(id))
		if err == nil {
			writeJSON(w, http.StatusOK, out)
		}
		return err
	}
}

// Attempts returns a page of attempts; q holds the query parameters.
func (s *Server) Attempts(ctx context.Context, q url.Values) (*Attempts, error) {
	if err := known(q, "state", "tool", "agent", "runtime", "from", "to", "limit", "pageToken", "order"); err != nil {
		return nil, err
	}
	p, from, to, err := span(q)
	if err != nil {
		return nil, err
	}
	ans, err := s.cfg.Views.Attempts(ctx, query.AttemptFilter{State: q.Get("state"), Tool: q.Get("tool"), Agent: q.Get("agent"),
		Runtime: q.Get("runtime"), From: from, To: to}, p)
	if err != nil {
		return nil, viewError(err)
	}
	out := &Attempts{SchemaVersion: AttemptsSchema, TreeSize: ans.TreeSize, NextPageToken: ans.Next, Attempts: []*AttemptSummary{}}
	for i := range ans.Attempts {
		a := &ans.Attempts[i]
		if err := s.checkAttempt(ctx, a.ID); err != nil {
			return nil, viewError(err)
		}
		out.Attempts = append(out.Attempts, &AttemptSummary{
			AttemptID: a.ID, State: a.State, Outcome: a.Outcome, Reconciliation: a.Reconciliation, Reversal: a.Reversal, Review: a.Review,
			InDoubt: a.InDoubt, Corrected: a.Corrected, Revision: a.Revision, Subject: event.Subject{Kind: a.First.Kind, ID: a.First.Subject},
			Tool: a.First.Tool, AgentID: a.First.Agent, RuntimeID: a.First.Runtime, OccurredAt: event.FormatTime(a.First.OccurredAt),
			CapturedAt: event.FormatTime(a.First.CapturedAt),
			FirstIndex: a.FirstIndex(), LastIndex: a.LastIndex(),
		})
	}
	return out, nil
}

// checkAttempt compares the rows of an attempt with its leaves, and its state
// with what they fold to, so that no list shows a row that was tampered with
// (LOG-15).
func (s *Server) checkAttempt(ctx context.Context, id string) error {
	ans, err := s.cfg.Views.Attempt(ctx, id)
	if err != nil {
		return err
	}
	_, err = s.cfg.Views.LoadAttempt(ctx, ans)
	return err
}

// Receipts returns a page of receipts; q holds the query parameters.
func (s *Server) Receipts(ctx context.Context, q url.Values) (*Receipts, error) {
	if err := known(q, "tool", "agent", "runtime", "status", "lifecycle", "kind", "from", "to", "limit", "pageToken", "order"); err != nil {
		return nil, err
	}
	p, from, to, err := span(q)
	if err != nil {
		return nil, err
	}
	ans, err := s.cfg.Views.Receipts(ctx, query.ReceiptFilter{Tool: q.Get("tool"), Agent: q.Get("agent"), Runtime: q.Get("runtime"),
		Status: q.Get("status"), Lifecycle: q.Get("lifecycle"), Kind: q.Get("kind"), From: from, To: to}, p)
	if err != nil {
		return nil, viewError(err)
	}
	out := &Receipts{SchemaVersion: ReceiptsSchema, TreeSize: ans.TreeSize, NextPageToken: ans.Next, Receipts: []*Receipt{}}
	for _, row := range ans.Receipts {
		rec, _, err := s.cfg.Views.Load(ctx, row, ans.TreeSize)
		if err != nil {
			return nil, viewError(err)
		}
		place, err := s.cfg.Ledger.Place(ctx, row.Index, false)
		if err != nil {
			return nil, err
		}
		out.Receipts = append(out.Receipts, NewReceipt(rec, place, nil))
	}
	return out, nil
}

// Receipt returns the receipt of an event with proof and checkpoint.
func (s *Server) Receipt(ctx context.Context, eventID string) (*Receipt, error) {
	row, size, err := s.find(ctx, eventID)
	if err != nil {
		return nil, err
	}
	rec, _, err := s.cfg.Views.Load(ctx, row.Receipt, size)
	if err != nil {
		return nil, viewError(err)
	}
	place, err := s.cfg.Ledger.Place(ctx, row.Receipt.Index, true)
	if err != nil {
		return nil, err
	}
	return NewReceipt(rec, place, nil), nil
}

// find looks an event up by its id. One that is not in the views yet may have
// been acknowledged a moment ago: the views get the time to reach what the log
// has now.
func (s *Server) find(ctx context.Context, eventID string) (*query.ReceiptAnswer, uint64, error) {
	ans, err := s.cfg.Views.Receipt(ctx, eventID)
	if errors.Is(err, query.ErrNotFound) {
		wait, cancel := context.WithTimeout(ctx, viewWait)
		s.cfg.Ledger.CatchUp(wait)
		cancel()
		ans, err = s.cfg.Views.Receipt(ctx, eventID)
	}
	if err != nil {
		return nil, 0, viewError(err)
	}
	return ans, ans.TreeSize, nil
}

// Parked returns a page of parked leaves; q holds the query parameters.
func (s *Server) Parked(ctx context.Context, q url.Values) (*Parked, error) {
	if err := known(q, "limit", "pageToken", "order"); err != nil {
		return nil, err
	}
	p, err := page(q)
	if err != nil {
		return nil, err
	}
	ans, err := s.cfg.Views.Parked(ctx, p)
	if err != nil {
		return nil, viewError(err)
	}
	out := &Parked{SchemaVersion: ParkedSchema, TreeSize: ans.TreeSize, NextPageToken: ans.Next, Parked: []*ParkedLeaf{}}
	for _, l := range ans.Parked {
		out.Parked = append(out.Parked, &ParkedLeaf{LeafIndex: l.Index, LeafHash: base64.StdEncoding.EncodeToString(l.LeafHash[:]),
			Reason: l.Reason, Code: l.Code, Detail: l.Detail})
	}
	return out, nil
}
