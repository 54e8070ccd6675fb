package traffic

import (
	"context"
	"fmt"
	"time"

	"counterfoil/internal/jsonrpc"
	"counterfoil/internal/proxy/gate"
	"counterfoil/internal/proxy/record"
	"counterfoil/internal/toolcall"
	"counterfoil/ledger/event"
)

// Members of _meta that name the client and the protocol of one request, since
// MCP 2026-07-28. The model does not write them.
const (
	metaClient   = "io.modelcontextprotocol/clientInfo"
	metaProtocol = "io.modelcontextprotocol/protocolVersion"
	metaServer   = "io.modelcontextprotocol/serverInfo"
)

// Decide records the calls of packets that the client sent, in their order, and
// refuses the packets of which a call may not leave.
func (c *Conn) Decide(ctx context.Context, packets ...*Packet) {
	var calls []record.Call
	of := map[*Packet][2]int{} // the calls of a packet, as a range
	now := c.cfg.Now()
	c.mu.Lock()
	room := MaxOpen - c.pending
	for _, p := range packets {
		first := len(calls)
		for i := range p.messages {
			m := &p.messages[i]
			if m.Method == toolcall.Initialize {
				c.learnClient(m.Params)
			}
			if m.MayBe(toolcall.Call) {
				calls = append(calls, c.callOf(m, now))
			}
		}
		if p.suspect {
			calls = append(calls, record.Call{Peers: c.peers, TraceID: c.trace, Mode: toolcall.Unspecified, Input: p.Raw, At: now})
		}
		if len(calls) > room {
			calls = calls[:first]
			p.refuse(refusalBusy, fmt.Sprintf("more than %d requests wait for an answer of the server", MaxOpen))
			continue
		}
		of[p] = [2]int{first, len(calls)}
	}
	shown := c.shown
	c.mu.Unlock()
	if len(calls) == 0 {
		return
	}
	verdict := c.cfg.Gate.Ask(ctx, shown)
	for i := range calls {
		calls[i].Refs, calls[i].Unasked = verdict.Refs, verdict.Unasked
		if verdict.Refusal != nil {
			calls[i].Denied = deniedFor(verdict.Refusal)
		}
	}
	if verdict.Refusal != nil && verdict.Away {
		c.cfg.Recorder.Refuse(calls) // its record would keep the client waiting
		for _, p := range packets {
			if r := of[p]; r[0] < r[1] {
				p.deny(verdict.Refusal)
			}
		}
		return
	}
	begun := c.cfg.Recorder.Begin(ctx, calls)
	for _, p := range packets {
		if r := of[p]; r[0] < r[1] {
			c.decide(p, verdict.Refusal, begun[r[0]:r[1]])
		}
	}
}

// decide refuses a packet whole if its calls may not be made, or one of them has
// no evidence.
func (c *Conn) decide(p *Packet, denied *gate.Refusal, begun []record.Begun) {
	reasons := []string{"not_dispatched"}
	if denied != nil {
		reasons = deniedFor(denied)
		p.deny(denied)
	}
	for _, b := range begun {
		if denied != nil {
			break
		}
		if b.Err != nil {
			c.cfg.Log.Warn("a call is refused: there is no evidence of it", "error", b.Err.Error())
			p.refuse(refusalEvidence, reasonOf(b.Err))
			break
		}
	}
	for _, b := range begun {
		if p.Refused() && b.Attempt != nil {
			c.lane.End(b.Attempt, record.Outcome{Status: event.StatusNotStarted, Reasons: reasons, At: c.cfg.Now()})
		}
		p.calls = append(p.calls, &call{attempt: b.Attempt})
	}
}

// callOf words a tools/call.
func (c *Conn) callOf(m *jsonrpc.Message, now time.Time) record.Call {
	req := toolcall.ReadRequest(m)
	peers := c.peers
	f, _ := jsonrpc.Fields(m.Params, "_meta")
	meta, _ := jsonrpc.Fields(f["_meta"], metaClient, metaProtocol)
	if a := toolcall.Agent(meta[metaClient]); a != toolcall.UnknownAgent {
		peers.Agent = a
	}
	if p := toolcall.Protocol(jsonrpc.Text(meta[metaProtocol])); p != "" {
		peers.Protocol = p
	}
	mode := c.modes[req.Tool]
	if mode == "" {
		mode = toolcall.Unspecified
	}
	return record.Call{Peers: peers, TraceID: c.trace, Tool: req.Tool, Mode: mode, Input: req.Input, At: now}
}

func (c *Conn) learnClient(params []byte) {
	f, _ := jsonrpc.Fields(params, "clientInfo", "protocolVersion")
	c.peers.Agent = toolcall.Agent(f["clientInfo"])
	if p := toolcall.Protocol(jsonrpc.Text(f["protocolVersion"])); p != "" {
		c.peers.Protocol = p // until the server chooses
	}
}

// Leaving says that a packet is about to be written to the server.
func (c *Conn) Leaving(p *Packet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := 0
	take := func() *call {
		k := p.calls[next]
		next++
		c.left++
		c.open[k], k.number = true, c.left
		if c.cfg.CallTimeout > 0 {
			k.timer = time.AfterFunc(c.cfg.CallTimeout, func() { c.timeout(k) })
		}
		return k
	}
	for i := range p.messages {
		m := &p.messages[i]
		switch {
		case m.MayBe(toolcall.Call):
			k := take()
			k.key, k.isTask = m.Key, toolcall.ReadRequest(m).IsTask
			if m.Key != "" {
				c.await(m, k)
			}
		case m.Method == toolcall.Cancelled:
			c.cancelled(m)
		case m.Method != "" && m.Key != "":
			if m.Method == toolcall.Initialize {
				c.learnClient(m.Params)
			}
			c.await(m, nil)
		}
	}
	if p.suspect {
		take()
	}
}

// Left says that a packet was written. Calls that nothing can answer end now.
func (c *Conn) Left(p *Packet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range p.calls {
		if k.key == "" {
			c.finish(k, event.StatusUnknown, []string{"response_missing"}, nil)
		}
	}
}

// NotSent says that writing a packet failed. If nothing of it was written its
// calls have not started; otherwise nobody knows.
func (c *Conn) NotSent(p *Packet, nothing bool, reason string) {
	if nothing {
		c.Refuse(p, event.StatusNotStarted, []string{"not_dispatched"}, nil)
		return
	}
	c.Refuse(p, event.StatusUnknown, []string{reason}, nil)
}

// Refuse ends the calls of a packet that are open with one outcome, but for
// those that became tasks.
func (c *Conn) Refuse(p *Packet, status string, reasons []string, result []byte) (outcomes []<-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range p.calls {
		if k.asTask {
			continue
		}
		if done := c.finish(k, status, reasons, result); done != nil {
			outcomes = append(outcomes, done)
		}
		c.forget(k)
	}
	return outcomes
}

// Unanswered is the number of calls of a packet without an outcome.
func (c *Conn) Unanswered(p *Packet) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range p.calls {
		if c.open[k] && !k.asTask {
			n++
		}
	}
	return n
}

func (c *Conn) timeout(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandon(k, "timeout")
}

// cancelled ends the call that the client gave up.
func (c *Conn) cancelled(m *jsonrpc.Message) {
	f, _ := jsonrpc.Fields(m.Params, "requestId")
	w := c.waiting[jsonrpc.IDKey(f["requestId"])]
	if w != nil && len(w.requests) == 1 && w.requests[0].call != nil {
		c.abandon(w.requests[0].call, "cancelled")
	}
}
