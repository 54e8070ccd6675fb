// Package toolcall says how a tools/call of the Model Context Protocol is worded
// as evidence: who acts, how the tool is named, what the answer means. Recorded
// sessions and the proxy word it alike.
//
// Source: MCP 2025-11-25 and 2026-07-28, requirements EVI-06, EVI-07, EVI-13,
// EVI-22.
package toolcall

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/internal/jsonrpc"
	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
)

// MCP methods that matter to evidence.
const (
	Initialize  = "initialize"
	Discover    = "server/discover"
	List        = "tools/list"
	Call        = "tools/call"
	TaskResult  = "tasks/result"
	Cancelled   = "notifications/cancelled"
	ListChanged = "notifications/tools/list_changed"
)

// What is said where nothing is known.
const (
	UnknownAgent          = "agent:unknown"
	UnknownProtocol       = "mcp/unknown"
	UnknownImplementation = "unknown"
	UnnamedTool           = "unnamed"
)

// EffectKind is the effect kind of every call.
const EffectKind = "mcp." + Call

// Agent names a client by its clientInfo.
func Agent(clientInfo []byte) string {
	if s := nameVersion(clientInfo); s != "" {
		return Fit("agent:"+s, "")
	}
	return UnknownAgent
}

// Implementation names a server by its serverInfo.
func Implementation(serverInfo []byte) string {
	return Fit(nameVersion(serverInfo), UnknownImplementation)
}

// Protocol names a protocol version; "" if there is none.
func Protocol(version string) string {
	if version == "" {
		return ""
	}
	return Fit("mcp/"+version, "")
}

// nameVersion is NAME@VERSION, or NAME if no version is given.
func nameVersion(info []byte) string {
	f, _ := jsonrpc.Fields(info, "name", "version")
	name, version := jsonrpc.Text(f["name"]), jsonrpc.Text(f["version"])
	if name == "" || version == "" {
		return name
	}
	return name + "@" + version
}

// Unspecified is the effect mode of a tool of which nothing is said.
const Unspecified = "unspecified"

// EffectMode words tool annotations. Only what is said counts, never a default.
// It is a hint of the server and proves nothing.
func EffectMode(annotations []byte) string {
	f, _ := jsonrpc.Fields(annotations, "readOnlyHint", "destructiveHint", "idempotentHint")
	idempotent := string(f["idempotentHint"]) == "true"
	mode := ""
	switch {
	case string(f["readOnlyHint"]) == "true":
		return "read_only"
	case string(f["destructiveHint"]) == "true":
		mode = "destructive"
	case string(f["destructiveHint"]) == "false":
		mode = "additive"
	case idempotent:
		return "idempotent"
	default:
		return Unspecified
	}
	if idempotent {
		mode += "_idempotent"
	}
	return mode
}

// Request is what a tools/call says.
type Request struct {
	Tool   string // "" if it names none
	Input  []byte // the private input, nil if there is none
	IsTask bool   // the client asks for a task
}

// ReadRequest reads a tools/call. Where it is not clear which of several members
// counted, the input is all of what holds them.
func ReadRequest(m *jsonrpc.Message) Request {
	f, twice := jsonrpc.Fields(m.Params, "name", "arguments", "task")
	r := Request{Tool: jsonrpc.Text(f["name"]), Input: f["arguments"], IsTask: f["task"] != nil}
	if m.Duplicates || !m.Clear() {
		r.Input = m.Raw
	} else if twice {
		r.Input = m.Params
	}
	return r
}

// Status says what an answer means: the status of an outcome, and why.
func Status(m *jsonrpc.Message) (status string, reasons []string) {
	if m.Err != nil {
		return event.StatusFailed, []string{"protocol_error"}
	}
	if f, _ := jsonrpc.Fields(m.Result, "isError"); string(f["isError"]) == "true" {
		return event.StatusFailed, []string{"tool_error"}
	}
	return event.StatusSucceeded, nil
}

// TaskID is the id of the task that a result says was accepted, "" if it is no
// such result.
func TaskID(result []byte) string {
	f, _ := jsonrpc.Fields(result, "task")
	task, _ := jsonrpc.Fields(f["task"], "taskId")
	return jsonrpc.Text(task["taskId"])
}

// Fit returns s where it can be an identifier of an event, the digest of s where
// it cannot, and the word for nothing where s is empty.
func Fit(s, nothing string) string {
	if s == "" {
		return nothing
	}
	if event.CheckID("", s) == nil {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Private splits a private value into the two ways in which it can travel: as
// JSON where canonical JSON carries it exactly, as the bytes that it is
// otherwise.
func Private(value []byte) (asJSON jsontext.Value, raw []byte) {
	if len(value) == 0 {
		return nil, nil
	}
	if canon.Private.Check(value) == nil {
		return value, nil
	}
	return nil, value
}
