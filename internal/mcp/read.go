package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/api"
	"counterfoil/ledger/event"
	"counterfoil/ledger/toolresult"
)

// Bounds of pages (MCP-01) and of attempts that are named at once.
const (
	maxPage     = 256
	defaultPage = 64
	pageSize    = 128 // of resources/list: about 40 KiB
	maxAttempts = 256
)

// gotten is the answer to receipt_get: one of the two. An attempt of a call has
// its result beside it.
type gotten struct {
	Attempt *api.Attempt            `json:"attempt,omitempty"`
	Receipt *api.Receipt            `json:"receipt,omitempty"`
	Result  *toolresult.ModelResult `json:"result,omitempty"`
	Claims  []claim                 `json:"claimBoundaries"`
}

func (s *Server) get(ctx context.Context, _ *sdk.CallToolRequest, args []byte) (any, error) {
	var a struct {
		AttemptID string `json:"attemptId"`
		EventID   string `json:"eventId"`
	}
	if err := decodeArgs(args, &a); err != nil {
		return nil, err
	}
	switch {
	case (a.AttemptID == "") == (a.EventID == ""):
		return nil, invalid("", "name an attempt (att_…) or an event (evt_…)", "want one of attemptId and eventId")
	case a.AttemptID != "":
		return s.attempt(ctx, a.AttemptID)
	}
	return s.receipt(ctx, a.EventID)
}

func (s *Server) attempt(ctx context.Context, id string) (*gotten, error) {
	if !isAttempt(id) {
		return nil, invalid("/attemptId", "receipt_search shows some", `want "att_" and 32 lower-case hex digits`)
	}
	at, err := s.cfg.Ledger.Attempt(ctx, id)
	if err != nil {
		return nil, err
	}
	out := *at
	out.Receipts = make([]*api.Receipt, len(at.Receipts))
	for i, rc := range at.Receipts {
		out.Receipts[i] = shown(rc)
	}
	return &gotten{Attempt: &out, Result: resultOf(&out), Claims: claims(at.Receipts...)}, nil
}

func (s *Server) receipt(ctx context.Context, id string) (*gotten, error) {
	if !isEvent(id) {
		return nil, invalid("/eventId", "receipt_search shows some", `want "evt_" and 64 lower-case hex digits`)
	}
	rc, err := s.cfg.Ledger.Receipt(ctx, id)
	if err != nil {
		return nil, err
	}
	return &gotten{Receipt: shown(rc), Claims: claims(rc)}, nil
}

// found is the answer to receipt_search; the list that was not asked for is
// empty.
type found struct {
	TreeSize  uint64                `json:"treeSize"`
	Receipts  []foundReceipt        `json:"receipts"`
	Attempts  []*api.AttemptSummary `json:"attempts"`
	NextToken string                `json:"nextPageToken,omitempty"`
}

// foundReceipt is a receipt in a list: enough to choose by.
type foundReceipt struct {
	EventID    string          `json:"eventId"`
	EventType  string          `json:"eventType"`
	AttemptID  string          `json:"attemptId"`
	Lifecycle  event.Lifecycle `json:"lifecycle"`
	Revision   int64           `json:"revision"`
	Status     string          `json:"status"`
	Tool       string          `json:"tool"`
	AgentID    string          `json:"agentId"`
	RuntimeID  string          `json:"runtimeId"`
	OccurredAt string          `json:"occurredAt"`
	LeafIndex  uint64          `json:"leafIndex"`
	Stage      string          `json:"stage"`
}

func (s *Server) search(ctx context.Context, _ *sdk.CallToolRequest, args []byte) (any, error) {
	var a struct {
		State     string  `json:"state"`
		Tool      string  `json:"tool"`
		Agent     string  `json:"agent"`
		Runtime   string  `json:"runtime"`
		Status    string  `json:"status"`
		Lifecycle string  `json:"lifecycle"`
		Kind      string  `json:"kind"`
		From      string  `json:"from"`
		To        string  `json:"to"`
		Order     string  `json:"order"`
		Limit     *int    `json:"limit"`
		PageToken *string `json:"pageToken"`
	}
	if err := decodeArgs(args, &a); err != nil {
		return nil, err
	}
	limit := defaultPage
	if a.Limit != nil {
		if limit = *a.Limit; limit < 1 || limit > maxPage {
			return nil, invalid("/limit", fmt.Sprintf("use 1 to %d, and pageToken to go on", maxPage), "out of range")
		}
	}
	if t := a.PageToken; t != nil && (*t == "" || len(*t) > maxCursor) {
		return nil, invalid("/pageToken", "send nextPageToken of the page before", fmt.Sprintf("a page token has 1 to %d bytes", maxCursor))
	}
	if a.State != "" {
		for name, v := range map[string]string{"runtime": a.Runtime, "status": a.Status, "lifecycle": a.Lifecycle, "kind": a.Kind} {
			if v != "" {
				return nil, invalid("/"+name, "leave one out", "a state belongs to an attempt; runtime, status, lifecycle and kind to an event")
			}
		}
	}
	q := url.Values{}
	for name, v := range map[string]string{"state": a.State, "tool": a.Tool, "agent": a.Agent, "runtime": a.Runtime, "status": a.Status,
		"lifecycle": a.Lifecycle, "kind": a.Kind, "from": a.From, "to": a.To, "order": a.Order} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if a.PageToken != nil {
		q.Set("pageToken", *a.PageToken)
	}
	return s.page(ctx, q, limit)
}

// page reads a page, or as much of it as an answer may hold: a smaller one goes
// on by its own token.
func (s *Server) page(ctx context.Context, q url.Values, limit int) (*found, error) {
	for {
		q.Set("limit", strconv.Itoa(limit))
		out, err := s.list(ctx, q)
		if err != nil {
			return nil, err
		}
		b, err := encode(out)
		if err != nil || len(b) <= MaxAnswerBytes || limit == 1 {
			return out, err
		}
		limit = max(1, limit/2)
	}
}

func (s *Server) list(ctx context.Context, q url.Values) (*found, error) {
	out := &found{Receipts: []foundReceipt{}, Attempts: []*api.AttemptSummary{}}
	if q.Has("state") {
		p, err := s.cfg.Ledger.Attempts(ctx, q)
		if err != nil {
			return nil, err
		}
		out.TreeSize, out.NextToken = p.TreeSize, p.NextPageToken
		out.Attempts = append(out.Attempts, p.Attempts...)
		return out, nil
	}
	p, err := s.cfg.Ledger.Receipts(ctx, q)
	if err != nil {
		return nil, err
	}
	out.TreeSize, out.NextToken = p.TreeSize, p.NextPageToken
	for _, rc := range p.Receipts {
		out.Receipts = append(out.Receipts, foundReceipt{rc.EventID, rc.EventType, rc.AttemptID, rc.Lifecycle, rc.Revision, rc.Action.Status,
			rc.Action.Name, rc.Source.AgentID, rc.Source.RuntimeID, rc.OccurredAt, rc.LeafIndex, rc.Stage})
	}
	return out, nil
}

// exported is the answer to bundle_export. The bundle is text, since what is
// verified are its exact bytes.
type exported struct {
	Bytes  int    `json:"bytes"`
	Digest string `json:"sha256"` // of the bytes, hex
	Bundle string `json:"bundle"`
}

func (s *Server) bundle(ctx context.Context, _ *sdk.CallToolRequest, args []byte) (any, error) {
	var a struct {
		AttemptIDs []string `json:"attemptIds"`
	}
	if err := decodeArgs(args, &a); err != nil {
		return nil, err
	}
	if err := checkAttempts(a.AttemptIDs); err != nil {
		return nil, err
	}
	b, err := s.cfg.Ledger.Bundle(ctx, a.AttemptIDs)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	out := &exported{len(b), hex.EncodeToString(sum[:]), string(b)}
	if doc, err := encode(out); err != nil || len(doc) > MaxAnswerBytes {
		return nil, tooLarge(len(doc), "write it to a file: counterfoil bundle "+ellipsis(a.AttemptIDs)+" --out bundle.json, or GET /v1/bundle?attempt=…; receipt_verify takes attemptIds too")
	}
	return out, nil
}

// ellipsis names the first of some attempts.
func ellipsis(ids []string) string {
	if len(ids) > 1 {
		return ids[0] + " …"
	}
	return strings.Join(ids, "")
}

func checkAttempts(ids []string) error {
	if len(ids) == 0 || len(ids) > maxAttempts {
		return invalid("/attemptIds", "name each attempt once", fmt.Sprintf("want 1 to %d attempts, got %d", maxAttempts, len(ids)))
	}
	for i, id := range ids {
		if !isAttempt(id) {
			return invalid("/attemptIds/"+strconv.Itoa(i), "receipt_search shows some", `want "att_" and 32 lower-case hex digits`)
		}
	}
	return nil
}
