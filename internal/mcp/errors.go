package mcp

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/api"
)

// CodeUnreachable is the one code of tools that the HTTP interface does not
// have: no answer of the ledger arrived. What was sent may be recorded; sending
// the same again is safe and tells.
const CodeUnreachable = "unreachable"

// invalid refuses an argument. path is a JSON pointer into the arguments.
func invalid(path, hint, message string) *api.Error {
	return &api.Error{Code: api.CodeInvalid, Path: path, Hint: hint, Message: message}
}

// toolError is the structured content of a result that is an error.
type toolError struct {
	Error *api.Error `json:"error"`
}

// failed makes the result of a tool that failed.
func failed(e *api.Error) *sdk.CallToolResult {
	b, err := json.Marshal(toolError{e}, json.Deterministic(true))
	if err != nil { // texts that are not valid UTF-8
		b = []byte(`{"error":{"code":"internal","message":"the error could not be worded"}}`)
	}
	return &sdk.CallToolResult{IsError: true, StructuredContent: jsontext.Value(b), Content: []sdk.Content{&sdk.TextContent{Text: string(b)}}}
}

// refused is the result of a call that does not reach the protocol library, in
// the form that the library would give it.
func refused(e *api.Error, newProtocol bool) any {
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	b, err := json.Marshal(toolError{e}, json.Deterministic(true))
	if err != nil {
		b = []byte(`{"error":{"code":"internal","message":"the error could not be worded"}}`)
	}
	out := struct {
		Type       string         `json:"resultType,omitempty"`
		Content    []text         `json:"content"`
		Structured jsontext.Value `json:"structuredContent"`
		IsError    bool           `json:"isError"`
	}{Content: []text{{"text", string(b)}}, Structured: b, IsError: true}
	if newProtocol {
		out.Type = "complete"
	}
	return out
}

// protocolError words an error where there is no tool result to carry it: the
// reading of resources.
func protocolError(e *api.Error) error {
	code := int64(jsonrpc.CodeInternalError)
	if e.Code == api.CodeInvalid {
		code = jsonrpc.CodeInvalidParams
	}
	data, err := json.Marshal(e)
	if err != nil {
		data = nil
	}
	return &jsonrpc.Error{Code: code, Message: e.Code + ": " + e.Message, Data: data}
}

// explain words an error of the ledger or of this package.
func (s *Server) explain(call string, err error) *api.Error {
	var own *api.Error
	if errors.As(err, &own) {
		return own
	}
	return s.cfg.Ledger.Explain(call, err)
}
