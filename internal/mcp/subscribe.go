package mcp

import (
	"context"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/api"

	"counterfoil/internal/wait"
)

// maxSubscriptions bounds the attempts that one session may follow.
const maxSubscriptions = 256

// subscriptions are the attempts that sessions follow. While there are any, one
// follower reads the published log and tells them of further events.
type subscriptions struct {
	server *Server

	mu       sync.Mutex
	sessions map[*sdk.ServerSession]map[string]bool // URIs by session
	stop     context.CancelFunc                     // of the follower; nil while none runs
}

func newSubscriptions(s *Server) *subscriptions {
	return &subscriptions{server: s, sessions: map[*sdk.ServerSession]map[string]bool{}}
}

// subscribe lets a session follow an attempt. It is active once this returned
// without an error, and not before (MCP-09): the library registers it then.
func (u *subscriptions) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	uri, s := req.Params.URI, u.server
	id, ok := strings.CutPrefix(uri, attemptURI)
	if !ok || !isAttempt(id) {
		return protocolError(invalid("/params/uri", "subscribe to "+attemptURI+"{attemptId}; a receipt never changes", "not the URI of an attempt"))
	}
	if _, err := s.cfg.Ledger.Attempt(ctx, id); err != nil {
		e := s.explain("resources/subscribe", err)
		if e.Code == api.CodeNotFound {
			return sdk.ResourceNotFoundError(uri)
		}
		return protocolError(e)
	}
	// From here on every event that is published is told, whenever the follower
	// comes to it.
	size, err := s.cfg.Ledger.Published(ctx)
	if err != nil {
		return protocolError(s.explain("resources/subscribe", err))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	uris, known := u.sessions[req.Session]
	if len(uris) >= maxSubscriptions && !uris[uri] {
		return protocolError(invalid("/params/uri", "unsubscribe from others first", "this session follows as many attempts as it may"))
	}
	if !known {
		uris = map[string]bool{}
		u.sessions[req.Session] = uris
		s.done.Go(func() {
			_ = req.Session.Wait() // however it ended
			u.drop(req.Session, "")
		})
	}
	uris[uri] = true
	if u.stop == nil && s.ctx.Err() == nil {
		follow, cancel := context.WithCancel(s.ctx)
		u.stop = cancel
		s.done.Go(func() { u.follow(follow, size) })
	}
	return nil
}

func (u *subscriptions) unsubscribe(_ context.Context, req *sdk.UnsubscribeRequest) error {
	u.drop(req.Session, req.Params.URI)
	return nil
}

// drop forgets one subscription of a session, or all with "", and stops the
// follower behind the last.
func (u *subscriptions) drop(session *sdk.ServerSession, uri string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if uri == "" {
		delete(u.sessions, session)
	} else {
		delete(u.sessions[session], uri)
	}
	for _, uris := range u.sessions {
		if len(uris) > 0 {
			return
		}
	}
	if u.stop != nil {
		u.stop()
		u.stop = nil
	}
}

// wanted reports whether anyone follows a URI, exactly this one (MCP-15).
func (u *subscriptions) wanted(uri string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, uris := range u.sessions {
		if uris[uri] {
			return true
		}
	}
	return false
}

// followPause is how long the follower waits before it begins anew.
const followPause = 2 * time.Second

// follow tells subscribers of what is published from a leaf index on, until ctx
// ends. Where the ledger does not answer it asks again: nothing is left out.
func (u *subscriptions) follow(ctx context.Context, from uint64) {
	s := u.server
	for ctx.Err() == nil {
		err := s.cfg.Ledger.Follow(ctx, from, func(attemptID string) {
			if uri := attemptURI + attemptID; u.wanted(uri) {
				_ = s.sdk.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: uri}) // never fails; sessions that are gone are left out
			}
		})
		if ctx.Err() != nil {
			return
		}
		s.cfg.Logger.Warn("following the log for subscribers broke off", "error", err)
		if wait.For(ctx, followPause) != nil {
			return
		}
	}
}
