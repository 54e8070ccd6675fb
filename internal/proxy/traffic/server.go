package traffic

import (
	"counterfoil/internal/jsonrpc"
	"counterfoil/internal/proxy/contract"
	"counterfoil/internal/toolcall"
	"counterfoil/internal/toolcontract"
	"counterfoil/ledger/event"
)

// Answered follows packets of the server, in their order, and returns the
// outcomes that are being recorded.
func (c *Conn) Answered(packets ...*Packet) (outcomes []<-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range packets {
		for i := range p.messages {
			m := &p.messages[i]
			if m.Method == toolcall.ListChanged {
				c.cfg.Log.Info("the server says that its tools changed")
				c.shown = c.cfg.Gate.Changed()
			}
			if done := c.answer(p, m); done != nil {
				outcomes = append(outcomes, done)
			}
		}
	}
	return outcomes
}

func (c *Conn) answer(p *Packet, m *jsonrpc.Message) <-chan struct{} {
	w := c.waiting[m.Key]
	if !m.IsAnswer() || w == nil {
		return nil
	}
	if w.answers++; w.answers >= len(w.requests) {
		delete(c.waiting, m.Key)
		c.pending -= len(w.requests)
	}
	if len(w.requests) > 1 { // of which of them it is, is not known
		if w.answers >= len(w.requests) {
			for _, q := range w.requests {
				if q.call != nil {
					c.finish(q.call, event.StatusUnknown, []string{"response_missing"}, nil)
				}
			}
		}
		return nil
	}
	q := w.requests[0]
	switch q.method {
	case toolcall.Initialize:
		c.learnServer(m.Result)
	case toolcall.Discover:
		c.learnMeta(m.Result)
	case toolcall.List:
		c.learnMeta(m.Result)
		c.learnTools(p, q.cursor, m.Result)
	case toolcall.TaskResult:
		// An error here may be about the question or about the task.
		if k := c.tasks[q.task]; k != nil && m.Err == nil {
			delete(c.tasks, q.task)
			return c.ends(k, m)
		}
	case toolcall.Call:
		if k := q.call; k.isTask || resultType(m) == "task" {
			if id := toolcall.TaskID(m.Result); id != "" {
				k.asTask = true
				if _, twice := c.tasks[id]; twice {
					k = nil
				}
				c.tasks[id] = k
				return nil
			}
		}
		return c.ends(q.call, m)
	}
	return nil
}

// ends ends a call by its answer, or notes an answer that comes too late.
func (c *Conn) ends(k *call, m *jsonrpc.Message) <-chan struct{} {
	if k.ended {
		if k.attempt != nil {
			c.cfg.Log.Info("an answer came after the outcome of its call", "attempt", k.attempt.ID)
			c.lane.Late(k.attempt, m.Answer(), c.cfg.Now())
		}
		return nil
	}
	status, reasons := toolcall.Status(m)
	if m.Err == nil && resultType(m) == "input_required" {
		status, reasons = event.StatusUnknown, []string{"input_required"}
	}
	return c.finish(k, status, reasons, m.Answer())
}

// resultType is the kind of a result, since MCP 2026-07-28.
func resultType(m *jsonrpc.Message) string {
	f, _ := jsonrpc.Fields(m.Result, "resultType")
	return jsonrpc.Text(f["resultType"])
}

func (c *Conn) learnServer(result []byte) {
	f, _ := jsonrpc.Fields(result, "protocolVersion", "serverInfo")
	if p := toolcall.Protocol(jsonrpc.Text(f["protocolVersion"])); p != "" {
		c.peers.Protocol = p
	}
	c.nameServer(f["serverInfo"])
}

// learnMeta reads the server's name from a result of MCP 2026-07-28.
func (c *Conn) learnMeta(result []byte) {
	f, _ := jsonrpc.Fields(result, "_meta", "serverInfo")
	meta, _ := jsonrpc.Fields(f["_meta"], metaServer)
	if meta[metaServer] != nil {
		c.nameServer(meta[metaServer])
	} else if f["serverInfo"] != nil {
		c.nameServer(f["serverInfo"])
	}
}

func (c *Conn) nameServer(info []byte) {
	if s := toolcall.Implementation(info); s != toolcall.UnknownImplementation {
		c.peers.Implementation = s
	}
	f, _ := jsonrpc.Fields(info, "name")
	if name := jsonrpc.Text(f["name"]); name != "" {
		c.server = name
	}
}

// learnTools reads a page of tools. What there is to record of it waits until
// the packet was passed on: it must not delay it.
func (c *Conn) learnTools(p *Packet, cursor string, result []byte) {
	if result == nil {
		return
	}
	tools, err := toolcontract.Tools(result)
	if err != nil {
		c.cfg.Log.Warn("a list of tools is not recorded", "error", err.Error())
		c.shown = c.cfg.Gate.Changed()
		return
	}
	for _, t := range tools {
		f, _ := jsonrpc.Fields(t.Raw, "annotations")
		if _, known := c.modes[t.Name]; known || len(c.modes) < maxModes {
			c.modes[t.Name] = toolcall.EffectMode(f["annotations"])
		}
	}
	f, twice := jsonrpc.Fields(result, "nextCursor")
	all, whole := c.pages.add(cursor, jsonrpc.Text(f["nextCursor"]), tools)
	if c.shown = c.cfg.Gate.Saw(c.shown, all, whole); twice { // peers may read another list than this one
		c.shown = c.cfg.Gate.Changed()
	}
	p.seen = append(p.seen, contract.Observation{Peers: c.peers, Server: c.server, TraceID: c.trace, Tools: all, Whole: whole, At: c.cfg.Now()})
}

// Forwarded says that packets of the server were passed to the client.
func (c *Conn) Forwarded(packets ...*Packet) {
	for _, p := range packets {
		for _, o := range p.seen {
			c.cfg.Book.Observe(o)
		}
	}
}

// pages collects the pages of one list of tools.
type pages struct {
	next  string // cursor of the page that follows
	tools []toolcontract.Tool
	over  bool // more tools than are watched
}

// add takes a page. It returns the page alone, or all tools when it is the last.
func (g *pages) add(cursor, next string, page []toolcontract.Tool) (tools []toolcontract.Tool, whole bool) {
	switch {
	case cursor == "":
		*g = pages{next: next, tools: page}
	case cursor != g.next:
		*g = pages{} // a page of a list whose beginning was not seen
		return page, false
	default:
		g.next = next
		if g.over = g.over || len(g.tools)+len(page) > toolcontract.MaxTools; !g.over {
			g.tools = append(g.tools, page...)
		}
	}
	if next != "" || g.over {
		return page, false
	}
	tools = g.tools
	*g = pages{}
	return tools, true
}
