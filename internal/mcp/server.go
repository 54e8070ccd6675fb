package mcp

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/ledger/trust"
)

// Config says what a server works on, and what no caller can state.
type Config struct {
	// Ledger is what the tools work on. Required.
	Ledger Ledger
	// Version of this program, shown to clients.
	Version string
	// Trust returns the trust file that receipt_verify judges by; it is asked
	// at every call, so that a file that was replaced counts at once. nil, or
	// nil from it without an error, is no trust file, and nothing is judged.
	Trust func() (*trust.File, error)
	// RuntimeID and AgentID are the source's ids of everything that is begun
	// here. Empty ones come from the session: HTTP headers, or the name that the
	// client gave itself.
	RuntimeID, AgentID string
	// ExternalURL is the base URL that clients know the port by, like
	// https://ledger.example; "" for the Host header of each request.
	ExternalURL string
	// Logger hears of trouble; never of what was sent.
	Logger *slog.Logger
}

// Server is an MCP server over a ledger. It is safe for concurrent use, and
// serves any number of sessions.
type Server struct {
	cfg  Config
	sdk  *sdk.Server
	subs *subscriptions

	mounted atomic.Bool // on a ledger's port, where every request has a caller

	ctx  context.Context // of what goes on beside calls; ends with Close
	stop context.CancelFunc
	done sync.WaitGroup
}

const instructions = `This server keeps evidence of actions in a counterfoil ledger. Before an action, call receipt_begin; after it, ` +
	`receipt_append with lifecycle "outcome" and what came of it: succeeded, failed, not_started, or unknown where nobody knows. Unknown is not failed, ` +
	`and no answer says that an action is safe to repeat. An unknown or open attempt is resolved by receipt_append with lifecycle "reconciliation" ` +
	`and what an authoritative source shows now. Sending the same call again records nothing twice. Private values are kept as commitments only.`

// New makes a server. Close must be called after it.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.subs = newSubscriptions(s)
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "counterfoil", Title: "Counterfoil evidence ledger", Version: cfg.Version}, &sdk.ServerOptions{
		Instructions: instructions, Logger: quieter(cfg.Logger), PageSize: pageSize,
		SubscribeHandler: s.subs.subscribe, UnsubscribeHandler: s.subs.unsubscribe,
		// Nothing here changes but the ledger, and lists of it are never cached.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{Subscribe: true}},
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	})
	s.addTools()
	s.addResources()
	return s
}

// Close ends all sessions and what goes on beside them.
func (s *Server) Close() {
	s.stop()
	for session := range s.sdk.Sessions() {
		s.done.Go(func() { _ = session.Close() }) // the client sees the connection end
	}
	s.done.Wait()
}

// quieter takes the protocol library's narration of every message for what it
// is: debugging.
func quieter(l *slog.Logger) *slog.Logger { return slog.New(&debugHandler{l.Handler()}) }

type debugHandler struct{ slog.Handler }

func (h *debugHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.Handler.Enabled(ctx, demoted(level))
}

func (h *debugHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demoted(r.Level)
	return h.Handler.Handle(ctx, r)
}

func (h *debugHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return &debugHandler{h.Handler.WithAttrs(as)}
}

func (h *debugHandler) WithGroup(name string) slog.Handler {
	return &debugHandler{h.Handler.WithGroup(name)}
}

// demoted makes everything below a warning a matter of debugging.
func demoted(l slog.Level) slog.Level {
	if l < slog.LevelWarn {
		return slog.LevelDebug
	}
	return l
}

// trustFile is the operator's trust file, nil without one.
func (s *Server) trustFile() (*trust.File, error) {
	if s.cfg.Trust == nil {
		return nil, nil
	}
	return s.cfg.Trust()
}

// header returns a header of the HTTP request that carries a call; "" over
// stdio.
func header(extra *sdk.RequestExtra, name string) string {
	if extra == nil || extra.Header == nil {
		return ""
	}
	return extra.Header.Get(name)
}
