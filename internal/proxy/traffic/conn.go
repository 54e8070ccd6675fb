package traffic

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"counterfoil/internal/jsonrpc"
	"counterfoil/internal/proxy/gate"
	"counterfoil/internal/proxy/record"
	"counterfoil/internal/toolcall"
	"counterfoil/ledger/event"
)

// Conn is one connection between a client and a server. It is safe for
// concurrent use.
type Conn struct {
	cfg   *Config
	lane  *record.Lane
	trace string

	// Under mu.
	mu      sync.Mutex
	peers   record.Peers
	server  string            // name of the server, without its version
	modes   map[string]string // effect mode by tool, as listed last
	waiting map[string]*waiting
	pending int // requests in waiting
	open    map[*call]bool
	left    uint64           // calls that have left
	ended   []*call          // with an outcome, still in waiting; oldest first
	tasks   map[string]*call // by task id; nil if two calls have it
	pages   pages
	shown   gate.Shown
}

// NewConn makes a connection; trace is the trace id of its calls, known is what
// is known of the peers from elsewhere.
func NewConn(cfg *Config, trace string, known record.Peers) *Conn {
	c := &Conn{cfg: cfg, lane: cfg.Recorder.Lane(), trace: trace, peers: known, modes: map[string]string{}, waiting: map[string]*waiting{},
		open: map[*call]bool{}, tasks: map[string]*call{}}
	if at := strings.LastIndex(known.Implementation, "@"); at > 0 {
		c.server = known.Implementation[:at]
	}
	if c.peers.Agent == "" {
		c.peers.Agent = toolcall.UnknownAgent
	}
	if c.peers.Protocol == "" {
		c.peers.Protocol = toolcall.UnknownProtocol
	}
	if c.peers.Implementation == "" {
		c.peers.Implementation = toolcall.UnknownImplementation
	}
	return c
}

// Peers is what is known of the two ends.
func (c *Conn) Peers() record.Peers {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peers
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
	cursor string // of tools/list
}

// call is a tools/call that was recorded, or passes without.
type call struct {
	number  uint64 // of the calls of the connection, in the order in which they left
	key     string
	isTask  bool
	attempt *record.Attempt // nil without evidence
	timer   *time.Timer
	ended   bool
	asTask  bool // it was accepted as a task: its answer comes elsewhere
}

// finish ends a call, once. The channel is nil if there is nothing to wait for.
func (c *Conn) finish(k *call, status string, reasons []string, result []byte) <-chan struct{} {
	if k.ended {
		return nil
	}
	k.ended = true
	delete(c.open, k)
	if k.timer != nil {
		k.timer.Stop()
	}
	if k.attempt == nil {
		return nil
	}
	return c.lane.End(k.attempt, record.Outcome{Status: status, Reasons: reasons, Result: result, At: c.cfg.Now()})
}

// abandon ends a call whose answer may still come.
func (c *Conn) abandon(k *call, reason string) {
	if k.ended {
		return
	}
	c.finish(k, event.StatusUnknown, []string{reason}, nil)
	if k.key == "" {
		return
	}
	if c.ended = append(c.ended, k); len(c.ended) > maxEnded {
		c.forget(c.ended[0])
		c.ended = c.ended[1:]
	}
}

// forget stops waiting for the answer of a call.
func (c *Conn) forget(k *call) {
	w := c.waiting[k.key]
	if w == nil {
		return
	}
	for i, q := range w.requests {
		if q.call == k {
			w.requests = append(w.requests[:i:i], w.requests[i+1:]...)
			c.pending--
			break
		}
	}
	if len(w.requests) <= w.answers {
		c.pending -= len(w.requests)
		delete(c.waiting, k.key)
	}
}

// End ends every call that has left and is open, as unknown for a reason.
func (c *Conn) End(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	inOrder := slices.SortedFunc(maps.Keys(c.open), func(a, b *call) int { return cmp.Compare(a.number, b.number) })
	for _, k := range inOrder {
		c.finish(k, event.StatusUnknown, []string{reason}, nil)
	}
}

// Open is the number of calls that have left and have no outcome.
func (c *Conn) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// Wait waits until outcomes are recorded, but not longer than patience lasts:
// the calls have happened, and their answers are not withheld for ever.
func (c *Conn) Wait(ctx context.Context, outcomes []<-chan struct{}) {
	if len(outcomes) == 0 {
		return
	}
	t := time.NewTimer(c.cfg.Recorder.Patience())
	defer t.Stop()
	for _, done := range outcomes {
		select {
		case <-done:
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// await remembers a request until it is answered.
func (c *Conn) await(m *jsonrpc.Message, k *call) {
	q := request{method: m.Method, call: k}
	if k != nil {
		q.method = toolcall.Call // whatever else it may be
	}
	switch q.method {
	case toolcall.TaskResult:
		f, _ := jsonrpc.Fields(m.Params, "taskId")
		q.task = jsonrpc.Text(f["taskId"])
	case toolcall.List:
		f, _ := jsonrpc.Fields(m.Params, "cursor")
		q.cursor = jsonrpc.Text(f["cursor"])
	}
	if k == nil && c.pending >= MaxOpen {
		return
	}
	w := c.waiting[m.Key]
	if w == nil {
		w = new(waiting)
		c.waiting[m.Key] = w
	}
	w.requests = append(w.requests, q)
	c.pending++
}
