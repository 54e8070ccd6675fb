// Package traffic follows the messages between one MCP client and its server,
// and turns tool calls into evidence. It never changes a byte: a [Packet] is
// what was received, and whoever owns the wires passes that on or does not.
//
// # The way of a call
//
//	Read        the bytes are parsed, as far as they can be
//	Decide      attempts are recorded; a packet with a call of which the attempt
//	            is not durable is refused
//	Leaving     the packet is about to be written: from here on its calls may
//	            happen, and end as `unknown` if nothing is heard of them
//	NotSent     … unless nothing of it was written: `not_started`
//	Answered    answers end their calls; the outcome waits in a lane
//	Forwarded   the packet was passed to the client: what it says of tools is
//	            compared with what was known
//	End         the connection is gone: what is open ends as `unknown`
//
// # What becomes what
//
//	result                             succeeded
//	result with isError true           failed      tool_error
//	error                              failed      protocol_error
//	result that asks for more input    unknown     input_required
//	cancelled by the client            unknown     cancelled
//	no answer in time                  unknown     timeout
//	no answer until the server ended   unknown     server_exited
//	no answer, connection lost         unknown     connection_lost
//	cannot be answered                 unknown     response_missing
//	never sent                         not_started not_dispatched
//	refused under the contract         not_started access_denied, not_dispatched
//
// A call that becomes a task is answered by the result of tasks/result. An
// answer that could belong to two open calls with one id belongs to neither. An
// answer after the outcome is a note on it (late_answer).
//
// Bytes that are no JSON-RPC pass, since a peer may read them all the same; where
// they could hold a tools/call they are an attempt, of the tool "unnamed" with
// all bytes as input.
package traffic

import (
	"bytes"
	"log/slog"
	"time"

	"counterfoil/internal/jsonrpc"
	"counterfoil/internal/proxy/contract"
	"counterfoil/internal/proxy/gate"
	"counterfoil/internal/proxy/record"
	"counterfoil/internal/toolcall"
	"counterfoil/internal/toolcontract"
)

// Bounds of one connection.
const (
	// MaxOpen bounds the requests that wait for an answer. A call above it is
	// refused; other requests pass and are not followed.
	MaxOpen = 1 << 14
	// maxEnded bounds the calls that have an outcome and may still be answered.
	maxEnded = 1 << 10
	// maxModes bounds the tools whose annotations are kept.
	maxModes = toolcontract.MaxTools
)

// Config is what connections have in common.
type Config struct {
	Recorder *record.Recorder
	Book     *contract.Book
	// Gate says whether calls may leave. Nil lets all of them.
	Gate *gate.Gate
	// CallTimeout ends the wait for an answer as `unknown`, `timeout`. The
	// client is told nothing, and a late answer passes. 0 waits for ever.
	CallTimeout time.Duration
	Now         func() time.Time
	Log         *slog.Logger
}

// Packet is what was received as one: a line, or a body.
type Packet struct {
	Raw []byte

	messages []jsonrpc.Message
	suspect  bool // no JSON-RPC, and could be read as a call
	batch    bool

	calls   []*call
	refusal []byte
	denied  bool
	seen    []contract.Observation
}

// Read parses what was received. It keeps raw.
func Read(raw []byte) *Packet {
	p := &Packet{Raw: raw}
	var err error
	p.messages, p.batch, err = jsonrpc.ParseAll(raw)
	if err != nil {
		p.suspect = couldCall(raw)
	}
	return p
}

// couldCall reports whether bytes that are no JSON to us could be a tools/call
// to somebody else: they name the method, or hold an escape that could spell it.
func couldCall(raw []byte) bool {
	return bytes.Contains(raw, []byte(toolcall.Call)) || bytes.Contains(raw, []byte(`\u00`)) || bytes.Contains(raw, []byte(`\U00`)) ||
		bytes.Contains(raw, []byte(`\x`)) || bytes.Contains(raw, []byte(`tools\/`))
}

// HoldsCall reports whether any call is in the packet.
func (p *Packet) HoldsCall() bool {
	if p.suspect {
		return true
	}
	for i := range p.messages {
		if p.messages[i].MayBe(toolcall.Call) {
			return true
		}
	}
	return false
}

// Refusal is what the client gets in place of the server's answer, without a
// line end; nil if the packet passes, empty if nothing can be answered.
func (p *Packet) Refusal() []byte { return p.refusal }

// Refused reports whether the packet must not pass.
func (p *Packet) Refused() bool { return p.refusal != nil }
