package stream

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"counterfoil/internal/wait"
)

// tellEvery is how often a start that waits for other nodes says so.
const tellEvery = 10 * time.Second

// said is what a server said last of its connections to the others. Those that are
// not there are tried all the time, so what refuses a connection is kept apart.
type said struct{ refused, route atomic.Pointer[string] }

// hear keeps what an error of the server tells of the routes.
func (s *said) hear(text string) {
	switch low := strings.ToLower(text); {
	case isSecret(low), isDuplicate(low):
		s.refused.Store(&text)
	case strings.Contains(low, "route"):
		s.route.Store(&text)
	}
}

func isSecret(low string) bool {
	return strings.Contains(low, "authentication") || strings.Contains(low, "authorization")
}

func isDuplicate(low string) bool { return strings.Contains(low, "duplicate") }

// cause is the likely cause of a wait and the line that speaks for it, which may be
// empty.
func (s *said) cause() (cause, line string) {
	if p := s.refused.Load(); p != nil {
		if isDuplicate(strings.ToLower(*p)) {
			return "two nodes run under one name: --node is another on each", *p
		}
		return "nodes with other keys: all directories must be prepared from one ledger", *p
	}
	if p := s.route.Load(); p != nil {
		return "a node that does not run, or --routes and --cluster-listen that do not fit", *p
	}
	return "nodes that do not run yet", ""
}

// tellWaiting says from time to time what a start of a node waits for.
func (s *Stream) tellWaiting(ctx context.Context) (stop func()) {
	if s.cfg.Cluster == nil {
		return func() {}
	}
	every := s.cfg.tellEvery
	if every == 0 {
		every = tellEvery
	}
	return wait.Every(ctx, every, func() {
		leader, connected := "", []string(nil)
		if srv := s.emb.current(); srv != nil {
			leader, connected = metaLeader(srv)
		}
		what := "most of the nodes, to choose a leader of the cluster"
		if leader != "" {
			what = fmt.Sprintf("the stream; at the very first start %d nodes must be there", s.cfg.Replicas)
		}
		cause, line := s.emb.said.cause()
		s.log.Warn("this node does not answer yet: it waits for "+what, "node", s.cfg.Cluster.Node, "connected", list(connected),
			"routes", s.cfg.Cluster.Routes, "likely", cause, "said", line)
	})
}
