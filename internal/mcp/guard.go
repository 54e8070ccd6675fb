package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"counterfoil/internal/api"
)

// Bounds of a message (TRS-27). A larger private value goes over HTTP.
const (
	// MaxMessageBytes bounds one JSON-RPC message.
	MaxMessageBytes = 65_536
	// MaxDepth bounds how deep a message nests, the message itself included.
	MaxDepth = 32
	// maxID bounds a JSON-RPC id that is text, in bytes.
	maxID = 255
	// maxSeen bounds what is read of a message that is too large, to find out
	// which call it was; of a larger one not even that is known.
	maxSeen = 4 << 20
	// maxURI and maxCursor bound what resources are asked for by (MCP-03).
	maxURI    = 2_048
	maxCursor = 1_024
)

// newRevision is the first revision without sessions and without initialize.
const newRevision = "2026-07-28"

// message is what the guard learned of a message.
type message struct {
	id       jsontext.Value // as it was sent; nil if there is none, or none that is lawful
	method   string         // "" for an answer
	notifies bool           // it was read to its end, has a method and no member id: nobody waits for an answer
	revision string         // that the message names in its own _meta; "" for sessions
	// refusal is the answer to a message that goes no further; nil lets it pass.
	refusal []byte
}

// exact are the members of params that requests about resources may have
// (MCP-04). The library skips others in silence.
var exact = map[string][]string{
	"resources/list":           {"cursor", "_meta"},
	"resources/templates/list": {"cursor", "_meta"},
	"resources/read":           {"uri", "_meta", "inputResponses", "requestState"},
	"resources/subscribe":      {"uri", "_meta"},
	"resources/unsubscribe":    {"uri", "_meta"},
}

// guard checks a message before the protocol library parses it: its size and
// depth without parsing, then that it is strict JSON (each name once, valid
// UTF-8), a JSON-RPC message and nothing else, and within the bounds of what it
// asks for. A call of a tool is refused with a tool result, everything else
// with an error of the protocol.
func guard(raw []byte) *message {
	if len(raw) > MaxMessageBytes {
		return overBound(raw, api.CodeTooLarge, fmt.Sprintf("the message has %d bytes, limit %d", len(raw), MaxMessageBytes),
			"send larger private values over HTTP: POST /v1/attempts takes up to 16 MiB")
	}
	if d := depth(raw); d > MaxDepth {
		return overBound(raw, api.CodeInvalid, fmt.Sprintf("the message nests deeper than %d levels", MaxDepth), "send deeper private values over HTTP, or as text")
	}
	m := new(message)
	params, bad := m.envelope(raw)
	if bad == nil && m.method != "" {
		bad = m.checkParams(params)
	}
	if bad != nil {
		m.refuse(bad)
	}
	return m
}

// overBound refuses a message that is not parsed. Its id is looked for, so that
// the one who waits for the answer gets it.
func overBound(raw []byte, code, what, hint string) *message {
	m := new(message)
	m.look(raw)
	m.refuse(&fault{code: jsonrpc.CodeInvalidRequest, doc: &api.Error{Code: code, Message: what, Hint: hint}})
	return m
}

// fault is a reason to refuse a message.
type fault struct {
	code int64 // of JSON-RPC
	doc  *api.Error
}

func badMessage(code int64, path, format string, args ...any) *fault {
	return &fault{code: code, doc: &api.Error{Code: api.CodeInvalid, Path: path, Message: fmt.Sprintf(format, args...),
		Hint: "docs/mcp.md has the members and bounds"}}
}

// depth is how deep brackets nest, without parsing anything.
func depth(raw []byte) (deepest int) {
	level, inText, escaped := 0, false, false
	for _, b := range raw {
		switch {
		case escaped:
			escaped = false
		case inText:
			escaped, inText = b == '\\', b != '"'
		case b == '"':
			inText = true
		case b == '{' || b == '[':
			level++
			deepest = max(deepest, level)
		case b == '}' || b == ']':
			level--
		}
	}
	return deepest
}

// envelope reads a message strictly and returns its params.
func (m *message) envelope(raw []byte) (params jsontext.Value, bad *fault) {
	switch kind := jsontext.Value(raw).Kind(); kind {
	case '{':
	case '[':
		return nil, badMessage(jsonrpc.CodeInvalidRequest, "", "batches of messages are not taken: send one message at a time")
	default:
		return nil, badMessage(jsonrpc.CodeParseError, "", "the message is not a JSON object")
	}
	m.look(raw)
	var e struct {
		Version string         `json:"jsonrpc"`
		ID      jsontext.Value `json:"id"`
		Method  *string        `json:"method"`
		Params  jsontext.Value `json:"params"`
		Result  jsontext.Value `json:"result"`
		Error   jsontext.Value `json:"error"`
	}
	err := json.Unmarshal(raw, &e, json.RejectUnknownMembers(true)) // each name once, valid UTF-8, one value
	var se *json.SemanticError
	switch {
	case errors.As(err, &se):
		return nil, badMessage(jsonrpc.CodeInvalidRequest, string(se.JSONPointer), "not a member of a JSON-RPC message, or of another type")
	case err != nil:
		return nil, malformed(err)
	case e.Version != "2.0":
		return nil, badMessage(jsonrpc.CodeInvalidRequest, "/jsonrpc", `not "2.0"`)
	case !validID(e.ID):
		return nil, badMessage(jsonrpc.CodeInvalidRequest, "/id", "an id is an integer, or a text of 1 to %d bytes", maxID)
	case (e.Method == nil) == (e.Result == nil && e.Error == nil):
		return nil, badMessage(jsonrpc.CodeInvalidRequest, "", "want a method, or a result or an error")
	case e.Method == nil && e.ID == nil:
		return nil, badMessage(jsonrpc.CodeInvalidRequest, "/id", "an answer names its request")
	case e.Params != nil && e.Params.Kind() != '{':
		return nil, badMessage(jsonrpc.CodeInvalidParams, "/params", "not an object")
	}
	return e.Params, nil
}

// malformed words what is wrong with the JSON of a message.
func malformed(err error) *fault {
	f := badMessage(jsonrpc.CodeParseError, "", "not strict JSON: %v", strings.TrimPrefix(err.Error(), "jsontext: "))
	f.doc.Hint = "send each name once, in valid UTF-8"
	var se *jsontext.SyntacticError
	if errors.As(err, &se) {
		f.doc.Path = string(se.JSONPointer)
		f.doc.Message = "not strict JSON"
		if se.Err != nil {
			f.doc.Message += ": " + syntax(se.Err)
		}
	}
	return f
}

// syntax is the kind of a fault without the text around it, which may be
// private.
func syntax(err error) string {
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return "a name twice in one object"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it breaks off"
	case strings.Contains(err.Error(), "UTF-8"):
		return "invalid UTF-8"
	}
	return "unexpected characters"
}

// validID accepts integers and short texts, and their absence.
func validID(id jsontext.Value) bool {
	if id == nil {
		return true
	}
	switch id.Kind() {
	case '"':
		var s string
		return json.Unmarshal(id, &s) == nil && len(s) > 0 && len(s) <= maxID
	case '0':
		return len(id) <= 16 && !bytes.ContainsAny(id, ".eE")
	}
	return false
}

// checkParams checks what the library would let pass.
func (m *message) checkParams(params jsontext.Value) *fault {
	if params == nil {
		return nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(params, &members); err != nil {
		return badMessage(jsonrpc.CodeInvalidParams, "/params", "not an object")
	}
	if meta := members["_meta"]; meta != nil {
		var named struct {
			Revision string `json:"io.modelcontextprotocol/protocolVersion"`
		}
		if json.Unmarshal(meta, &named) == nil {
			m.revision = named.Revision
		}
	}
	allowed, checked := exact[m.method]
	if !checked {
		return nil
	}
	for name := range members {
		if !slices.Contains(allowed, name) {
			return badMessage(jsonrpc.CodeInvalidParams, "/params/"+pointer(name), "unknown member of the params of %s", m.method)
		}
	}
	var p struct {
		URI    *string `json:"uri"`
		Cursor *string `json:"cursor"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return badMessage(jsonrpc.CodeInvalidParams, "/params", "uri and cursor are texts")
	}
	if p.URI != nil && (len(*p.URI) == 0 || len(*p.URI) > maxURI) {
		return badMessage(jsonrpc.CodeInvalidParams, "/params/uri", "a URI has 1 to %d bytes, this has %d", maxURI, len(*p.URI))
	}
	if p.Cursor != nil && (len(*p.Cursor) == 0 || len(*p.Cursor) > maxCursor) {
		return badMessage(jsonrpc.CodeInvalidParams, "/params/cursor", "a cursor has 1 to %d bytes, this has %d", maxCursor, len(*p.Cursor))
	}
	return nil
}

// look finds id and method at the top of a message that is not otherwise read.
// It gives up at the first thing that is no JSON; a message with an unlawful id,
// or of which the end is not known, is no notification.
func (m *message) look(raw []byte) {
	dec := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return
	}
	named := false // there is a member id
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return
		}
		member := name.String()
		if member != "id" && member != "method" {
			if dec.SkipValue() != nil {
				return
			}
			continue
		}
		v, err := dec.ReadValue()
		if err != nil {
			return
		}
		if member == "id" {
			named = true
			if validID(v) {
				m.id = bytes.Clone(v)
			}
		} else {
			_ = json.Unmarshal(v, &m.method) // no method is known then
		}
	}
	m.notifies = dec.PeekKind() == '}' && !named && m.method != ""
}

// refuse makes the answer: a tool result for the call of a tool, an error of
// the protocol else, with id null if none is known.
func (m *message) refuse(f *fault) {
	answer := struct {
		Version string         `json:"jsonrpc"`
		ID      jsontext.Value `json:"id"`
		Result  any            `json:"result,omitzero"`
		Error   any            `json:"error,omitzero"`
	}{Version: "2.0", ID: m.id}
	if answer.ID == nil {
		answer.ID = jsontext.Value("null")
	}
	if m.method == "tools/call" && m.id != nil && f.code != jsonrpc.CodeInvalidParams {
		f.doc.Path = strings.TrimPrefix(f.doc.Path, "/params/arguments")
		answer.Result = refused(f.doc, m.revision >= newRevision)
	} else {
		answer.Error = struct {
			Code    int64      `json:"code"`
			Message string     `json:"message"`
			Data    *api.Error `json:"data"`
		}{f.code, f.doc.Message, f.doc}
	}
	var err error
	if m.refusal, err = json.Marshal(answer); err != nil {
		m.refusal = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message is refused"}}`)
	}
}

// pointer escapes a name for a JSON pointer.
func pointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
