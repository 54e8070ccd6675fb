package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/api"
	"counterfoil/ledger/event"
)

// MaxAnswerBytes bounds the structured content of a result and what a resource
// holds (MCP-02). What is larger is not inlined: the answer says where it is.
const MaxAnswerBytes = 64 << 10

// tool is one tool: its name, what it is for, its schemas and what it does.
type tool struct {
	name, title, description string
	readOnly                 bool
	in, out                  schema
	// run gets strict JSON within the bounds of a message, which need not fit
	// the schema. Errors become results; see [Server.explain].
	run func(ctx context.Context, req *sdk.CallToolRequest, args []byte) (any, error)
}

func (s *Server) tools() []tool {
	return []tool{
		{name: "receipt_begin", title: "Record that an action begins", in: beginIn, out: recordOut, run: s.begin,
			description: "Record an attempt before the action leaves. The same invocationId with the same content gives the same attempt, for ever; with other content it is a conflict. " +
				"Who records is taken from the session, not from arguments. The private input is kept as a commitment only."},
		{name: "receipt_append", title: "Record what came of an action", in: appendIn, out: recordOut, run: s.append,
			description: "Add an outcome, reversal, reconciliation or review to an attempt. The same sourceEventId with the same content gives the same receipt. " +
				"A reconciliation carries a readback, what an authoritative source shows now, and no status: the ledger derives it. Nothing says that an action is safe to repeat."},
		{name: "receipt_get", title: "Show an attempt or a receipt", readOnly: true, in: getIn, out: getOut, run: s.get,
			description: "Show one attempt (att_…) with its receipts, its state and what that says of the call, or the receipt of one event (evt_…) with its inclusion proof and checkpoint."},
		{name: "receipt_search", title: "Search receipts or attempts", readOnly: true, in: searchIn, out: searchOut, run: s.search,
			description: "List receipts by tool, agent, runtime, status, lifecycle, kind and time; or, with state (such as open or unknown), attempts in that state. Pages go on with pageToken."},
		{name: "bundle_export", title: "Export evidence for offline verification", readOnly: true, in: bundleIn, out: bundleOut, run: s.bundle,
			description: "Export the receipts of attempts under the newest signed checkpoint, as the exact text of a bundle. A bundle over 64 KiB is not inlined: the error says how to get it."},
		{name: "receipt_verify", title: "Verify evidence", readOnly: true, in: verifyIn, out: verifyOut, run: s.verify,
			description: "Verify a bundle, or attempts of this ledger, by the trust file that the operator of this server configured. Without one nothing is judged. No argument brings keys or trust."},
	}
}

func (s *Server) addTools() {
	no := false
	for _, t := range s.tools() {
		s.sdk.AddTool(&sdk.Tool{
			Name: t.name, Title: t.title, Description: t.description, InputSchema: t.in, OutputSchema: t.out,
			Annotations: &sdk.ToolAnnotations{Title: t.title, ReadOnlyHint: t.readOnly, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
		}, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return s.call(ctx, t, req), nil
		})
	}
}

// call runs a tool. Whatever goes wrong is a result.
func (s *Server) call(ctx context.Context, t tool, req *sdk.CallToolRequest) *sdk.CallToolResult {
	args := bytes.TrimSpace(req.Params.Arguments)
	if len(args) == 0 || string(args) == "null" {
		args = []byte("{}")
	}
	if args[0] != '{' {
		return failed(invalid("", "send the arguments by name", "the arguments are not an object"))
	}
	answer, err := t.run(ctx, req, args)
	if err != nil {
		e := s.explain(t.name, err)
		s.cfg.Logger.Debug("tool failed", "tool", t.name, "code", e.Code, "reason", e.Reason)
		return failed(e)
	}
	b, err := encode(answer)
	switch {
	case err != nil:
		s.cfg.Logger.Error("answer of a tool cannot be encoded", "tool", t.name, "error", err)
		return failed(&api.Error{Code: api.CodeInternal, Message: "the answer could not be encoded", Hint: "see the log"})
	case len(b) > MaxAnswerBytes:
		return failed(tooLarge(len(b), "use the HTTP interface or the command line: docs/mcp.md says which"))
	}
	return &sdk.CallToolResult{StructuredContent: jsontext.Value(b), Content: []sdk.Content{&sdk.TextContent{Text: string(b)}}}
}

// encode writes an answer. What a report quotes of a malformed bundle may be cut
// inside a character.
func encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// tooLarge refuses to inline an answer; hint says where it is.
func tooLarge(size int, hint string) *api.Error {
	return &api.Error{Code: api.CodeTooLarge, Message: fmt.Sprintf("the answer has %d bytes, limit %d", size, MaxAnswerBytes), Hint: hint}
}

// decodeArgs reads arguments strictly: known names only (MCP-04, TRS-24).
func decodeArgs(args []byte, into any) error {
	err := json.Unmarshal(args, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	var se *json.SemanticError
	if !errors.As(err, &se) {
		return invalid("", "send one JSON object, each name once", "the arguments are not strict JSON")
	}
	if errors.Is(se.Err, json.ErrUnknownName) {
		return invalid(string(se.JSONPointer), "the arguments are those of the tool's input schema; who calls, and what is trusted, is configured and never an argument",
			"unknown argument")
	}
	return invalid(string(se.JSONPointer), "the types are in the tool's input schema", "wrong type")
}

// claim is the fixed text of a claim boundary (CLM-01).
type claim struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// claims are the texts of the codes of receipts, each once, in order of first
// use.
func claims(receipts ...*api.Receipt) []claim {
	out, seen := []claim{}, map[string]bool{}
	for _, rc := range receipts {
		if seen[rc.ClaimBoundary] {
			continue
		}
		seen[rc.ClaimBoundary] = true
		if text, ok := event.ClaimBoundaryText(rc.ClaimBoundary); ok {
			out = append(out, claim{rc.ClaimBoundary, text})
		}
	}
	return out
}

// shown is a receipt as tools and resources show it: without openings, which
// would carry salts into the context of a model.
func shown(rc *api.Receipt) *api.Receipt {
	out := *rc
	out.Openings = nil
	return &out
}

// isAttempt and isEvent say what an id is the id of.
func isAttempt(id string) bool { _, ok := event.ShardOfAttempt(id); return ok }

func isEvent(id string) bool {
	hex, ok := strings.CutPrefix(id, "evt_")
	return ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}
