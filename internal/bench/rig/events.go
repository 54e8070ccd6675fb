package rig

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

var invocation atomic.Int64

// Agents is how many agents the events speak of, one after the other.
const Agents = 100

// AgentID names one of them.
func AgentID(n int64) string { return fmt.Sprintf("agent:bench-%02d", n%Agents) }

// BeginBody is the begin of an attempt that was not there before.
func BeginBody() []byte {
	n := invocation.Add(1)
	return fmt.Appendf(nil, `{"source":{"runtimeId":"bench","agentId":%q,"invocationId":"call-%d","protocol":"mcp/2025-11-25","implementation":"bench/1"},`+
		`"occurredAt":"2026-07-28T00:00:00.000Z","traceId":"trace-%d","action":{"name":"write_file","effectKind":"mcp.tools/call","effectMode":"unspecified"},`+
		`"privateInput":{"path":"/srv/agent/workspace/summary.md","content":"total %d"}}`, AgentID(n), n, n, n)
}

// OutcomeBody is the outcome of an attempt.
func OutcomeBody(attempt string) []byte {
	return fmt.Appendf(nil, `{"attemptId":%q,"lifecycle":"outcome","sourceEventId":"result","occurredAt":"2026-07-28T00:00:01.000Z","status":"succeeded",`+
		`"privateResult":{"content":[{"type":"text","text":"Successfully wrote"}]}}`, attempt)
}

// BatchEvents is how many events a batch of the ledger has.
const BatchEvents = 1000

// BatchBody is a batch of begins.
func BatchBody(events int) []byte {
	var body []byte
	for range events {
		body = append(append(append(body, `{"begin":`...), BeginBody()...), "}\n"...)
	}
	return body
}

// attemptOf finds the attempt id in an answer.
func attemptOf(answer []byte) (string, error) {
	const name, length = `"attemptId":"`, 36
	if i := bytes.Index(answer, []byte(name)); i >= 0 && len(answer) >= i+len(name)+length {
		return string(answer[i+len(name) : i+len(name)+length]), nil
	}
	return "", fmt.Errorf("no attempt id in %.200q", answer)
}
