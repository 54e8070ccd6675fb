package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/api"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
)

// HTTP headers by which a host says who it is, in its own configuration. They
// go before the name of the client, and behind the server's configuration.
const (
	RuntimeHeader = "Counterfoil-Runtime-Id"
	AgentHeader   = "Counterfoil-Agent-Id"
)

// beginArgs are the arguments of receipt_begin. The rest of a begin, the source
// but for the invocation, comes from the session (TRS-24).
type beginArgs struct {
	InvocationID    string         `json:"invocationId"`
	OccurredAt      string         `json:"occurredAt"`
	TraceID         string         `json:"traceId"`
	Action          event.Action   `json:"action"`
	Subject         event.Subject  `json:"subject"`
	PrivateInput    jsontext.Value `json:"privateInput"`
	PrivateInputRaw string         `json:"privateInputRaw"`
	ExpectedEffect  jsontext.Value `json:"expectedEffect"`
	KeepBody        bool           `json:"keepBody"`
	Wait            string         `json:"wait"`
}

// appendArgs are the arguments of receipt_append. The reviewer of a review is
// the agent of the session.
type appendArgs struct {
	AttemptID        string            `json:"attemptId"`
	Lifecycle        event.Lifecycle   `json:"lifecycle"`
	SourceEventID    string            `json:"sourceEventId"`
	OccurredAt       string            `json:"occurredAt"`
	Status           string            `json:"status"`
	PrivateResult    jsontext.Value    `json:"privateResult"`
	PrivateResultRaw string            `json:"privateResultRaw"`
	ReasonCodes      []string          `json:"reasonCodes"`
	Refs             map[string]string `json:"refs"`
	Readback         *intake.ReadBack  `json:"readback"`
	Rubric           string            `json:"rubric"`
	KeepBody         bool              `json:"keepBody"`
	Wait             string            `json:"wait"`
}

// recorded is the answer to both.
type recorded struct {
	Created bool         `json:"created"`
	Receipt *api.Receipt `json:"receipt"`
	Claims  []claim      `json:"claimBoundaries"`
}

func (s *Server) begin(ctx context.Context, req *sdk.CallToolRequest, args []byte) (any, error) {
	var a beginArgs
	if err := decodeArgs(args, &a); err != nil {
		return nil, err
	}
	body, err := json.Marshal(&intake.Begin{
		Source:     s.source(req, a.InvocationID),
		OccurredAt: a.OccurredAt, TraceID: a.TraceID, Action: a.Action, Subject: a.Subject,
		PrivateInput: a.PrivateInput, PrivateRaw: a.PrivateInputRaw, ExpectedEffect: a.ExpectedEffect, KeepBody: a.KeepBody,
	})
	if err != nil {
		return nil, err
	}
	rc, created, err := s.cfg.Ledger.Begin(ctx, body, a.Wait)
	return s.recorded("receipt_begin", rc, created, err)
}

func (s *Server) append(ctx context.Context, req *sdk.CallToolRequest, args []byte) (any, error) {
	var a appendArgs
	if err := decodeArgs(args, &a); err != nil {
		return nil, err
	}
	if !isAttempt(a.AttemptID) {
		return nil, invalid("/attemptId", "use the attemptId that receipt_begin answered with", `want "att_" and 32 lower-case hex digits`)
	}
	reviewer := ""
	if a.Lifecycle == event.Review {
		_, reviewer = s.who(req)
	}
	body, err := json.Marshal(&intake.Append{
		AttemptID: a.AttemptID, Lifecycle: a.Lifecycle, SourceEventID: a.SourceEventID, OccurredAt: a.OccurredAt, Status: a.Status,
		PrivateResult: a.PrivateResult, PrivateRaw: a.PrivateResultRaw, ReasonCodes: a.ReasonCodes, Refs: a.Refs, ReadBack: a.Readback,
		Reviewer: reviewer, Rubric: a.Rubric, KeepBody: a.KeepBody,
	})
	if err != nil {
		return nil, err
	}
	rc, created, err := s.cfg.Ledger.Append(ctx, body, a.AttemptID, a.Wait)
	return s.recorded("receipt_append", rc, created, err)
}

func (s *Server) recorded(call string, rc *api.Receipt, created bool, err error) (any, error) {
	if err != nil {
		e := *s.explain(call, err)
		// A begin has its invocation at the top, not in a source.
		e.Path = strings.Replace(e.Path, "/source/invocationId", "/invocationId", 1)
		return nil, &e
	}
	return &recorded{created, shown(rc), claims(rc)}, nil
}

// source is the source of what a session begins: configured, or what the host
// said of itself when it connected. Only the invocation is the caller's to name:
// it tells one action of this runtime from another, and collides with no other
// runtime's.
func (s *Server) source(req *sdk.CallToolRequest, invocation string) intake.BeginSource {
	runtime, agent := s.who(req)
	return intake.BeginSource{RuntimeID: runtime, AgentID: agent, InvocationID: invocation,
		Protocol: identifier("mcp/" + cmp.Or(req.ProtocolVersion(), "unknown")), Implementation: identifier(clientName(req, true))}
}

// who is the runtime and the agent of a session.
func (s *Server) who(req *sdk.CallToolRequest) (runtime, agent string) {
	runtime = cmp.Or(s.cfg.RuntimeID, header(req.Extra, RuntimeHeader), "mcp:"+clientName(req, false))
	agent = cmp.Or(s.cfg.AgentID, header(req.Extra, AgentHeader), "agent:"+clientName(req, true))
	return identifier(runtime), identifier(agent)
}

// clientName is NAME or NAME@VERSION as the host gave them.
func clientName(req *sdk.CallToolRequest, version bool) string {
	info := req.ClientInfo()
	if info == nil || info.Name == "" {
		return "unknown"
	}
	if version && info.Version != "" {
		return info.Name + "@" + info.Version
	}
	return info.Name
}

// identifier is a text that an event can carry: itself, or its digest.
func identifier(s string) string {
	if event.CheckID("", s) == nil {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}
