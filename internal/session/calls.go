package session

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"counterfoil/internal/jsonrpc"
	"counterfoil/internal/toolcall"
	"counterfoil/ledger/client"
)

// connection is what is known between two initialisations.
type connection struct {
	agent, protocol, implementation string
	tools                           map[string]string // effect mode by name, as listed last
	// waiting holds the client's requests without an answer, by id. The
	// server's own requests have ids of their own and are not in it.
	waiting map[string]*waiting
	pending int                // requests in waiting
	open    map[int]*call      // calls without an outcome, by number
	tasks   map[string][]*call // calls that became tasks, by task id
}

func newConnection() *connection {
	return &connection{agent: toolcall.UnknownAgent, protocol: toolcall.UnknownProtocol, implementation: toolcall.UnknownImplementation,
		tools: map[string]string{}, waiting: map[string]*waiting{}, open: map[int]*call{}, tasks: map[string][]*call{}}
}

// waiting is the requests under one id. There is one, unless the client reuses
// an id before its answer; then answers cannot be told apart.
type waiting struct {
	requests []request
	answers  int
}

type request struct {
	method string
	call   *call  // of tools/call
	task   string // of tasks/result
}

// call is a tools/call without an outcome.
type call struct {
	number      int
	line        int
	isTask      bool   // the client asked for a task
	cancelledAt string // "" unless cancelled
}

// fromClient follows a message of the client.
func (r *Reader) fromClient(m jsonrpc.Message) error {
	c := r.conn
	switch m.Method {
	case "":
		return nil // an answer to a request of the server
	case toolcall.Initialize:
		r.endOpenCalls()
		r.conn = newConnection()
		c = r.conn
		c.agent = agentOf(m.Params)
	case toolcall.Cancelled:
		f, _ := jsonrpc.Fields(m.Params, "requestId")
		if id := f["requestId"]; id != nil {
			if w := c.waiting[jsonrpc.IDKey(id)]; w != nil && len(w.requests) == 1 && w.requests[0].call != nil {
				w.requests[0].call.cancelledAt = r.at
			}
		}
		return nil
	}
	req := request{method: m.Method}
	switch m.Method {
	case toolcall.Call:
		var err error
		if req.call, err = r.begin(m); err != nil {
			return err
		}
	case toolcall.TaskResult:
		f, _ := jsonrpc.Fields(m.Params, "taskId")
		req.task = jsonrpc.Text(f["taskId"])
	}
	if m.Key == "" {
		return nil // a notification: nothing will answer it
	}
	if c.pending++; c.pending > MaxOpen {
		return fmt.Errorf("more than %d requests wait for an answer", MaxOpen)
	}
	w := c.waiting[m.Key]
	if w == nil {
		w = new(waiting)
		c.waiting[m.Key] = w
	}
	w.requests = append(w.requests, req)
	return nil
}

// begin queues the begin of a tools/call.
func (r *Reader) begin(m jsonrpc.Message) (*call, error) {
	if r.calls++; r.calls > MaxCalls {
		return nil, fmt.Errorf("more than %d calls", MaxCalls)
	}
	req := toolcall.ReadRequest(&m)
	c := &call{number: r.calls, line: r.line, isTask: req.IsTask}
	r.conn.open[c.number] = c
	invocation := strconv.Itoa(c.number)
	if m.Key != "" {
		invocation = toolcall.Fit(invocation+":"+m.Key, "")
	}
	b := &client.Begin{
		Source: client.Source{RuntimeID: r.RuntimeID(), AgentID: r.conn.agent, InvocationID: invocation,
			Protocol: r.conn.protocol, Implementation: r.conn.implementation},
		OccurredAt: r.at,
		TraceID:    r.TraceID(),
		Action:     client.Action{Name: toolcall.Fit(req.Tool, toolcall.UnnamedTool), EffectKind: toolcall.EffectKind, EffectMode: r.conn.effectMode(req.Tool)},
	}
	b.PrivateInput, b.PrivateInputRaw = toolcall.Private(req.Input)
	r.queue = append(r.queue, &Step{Call: c.number, Line: r.line, Begin: b})
	return c, nil
}

// fromServer follows a message of the server: only answers to the client's
// requests matter.
func (r *Reader) fromServer(m jsonrpc.Message) {
	c := r.conn
	w := c.waiting[m.Key]
	if !m.IsAnswer() || w == nil {
		return
	}
	if w.answers++; w.answers == len(w.requests) {
		delete(c.waiting, m.Key)
		c.pending -= len(w.requests)
	}
	if len(w.requests) > 1 {
		return // of which of them it is, is not known
	}
	req := w.requests[0]
	switch req.method {
	case toolcall.Initialize:
		c.learnServer(m.Result)
	case toolcall.List:
		c.learnTools(m.Result)
	case toolcall.TaskResult:
		// An error here may be about the question or about the task.
		if calls := c.tasks[req.task]; len(calls) == 1 && m.Err == nil && c.open[calls[0].number] != nil {
			r.answered(calls[0], m)
		}
	case toolcall.Call:
		if req.call.isTask {
			if id := toolcall.TaskID(m.Result); id != "" {
				c.tasks[id] = append(c.tasks[id], req.call)
				return
			}
		}
		r.answered(req.call, m)
	}
}

// answered queues the outcome of a call that has an answer.
func (r *Reader) answered(c *call, m jsonrpc.Message) {
	status, reasons := toolcall.Status(&m)
	r.end(c, r.line, r.at, status, reasons, m.Answer())
}

// endOpenCalls queues the outcome of every call that nothing was heard of.
// Unknown is not failed: the action may have happened.
func (r *Reader) endOpenCalls() {
	for _, n := range slices.Sorted(maps.Keys(r.conn.open)) {
		c := r.conn.open[n]
		if c.cancelledAt != "" {
			r.end(c, c.line, c.cancelledAt, "unknown", []string{"cancelled"}, nil)
		} else {
			r.end(c, c.line, r.at, "unknown", []string{"response_missing"}, nil)
		}
	}
}

func (r *Reader) end(c *call, line int, at, status string, reasons []string, answer []byte) {
	delete(r.conn.open, c.number)
	a := &client.Append{Lifecycle: "outcome", SourceEventID: "outcome", OccurredAt: at, Status: status, ReasonCodes: reasons}
	a.PrivateResult, a.PrivateResultRaw = toolcall.Private(answer)
	r.queue = append(r.queue, &Step{Call: c.number, Line: line, Outcome: a})
}
