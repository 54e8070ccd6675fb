package streamable

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"sync"

	"counterfoil/internal/proxy/traffic"
)

// maxSessions bounds the sessions that are followed at one time.
const maxSessions = 4096

// session is a session of the transport, or one POST where there is none.
type session struct {
	id   string // "" for one POST
	conn *traffic.Conn
	used int    // requests that run
	seen uint64 // when it was used last, in requests
}

// sessions are what is known of sessions, by id.
type sessions struct {
	mu       sync.Mutex
	byID     map[string]*session
	requests uint64
}

// session finds or makes the session of a request. It must be released.
func (h *Handler) session(r *http.Request) (*session, error) {
	h.sessions.mu.Lock()
	defer h.sessions.mu.Unlock()
	id := r.Header.Get(headerSession)
	s := h.sessions.byID[id]
	if s == nil || id == "" {
		trace, err := h.cfg.Trace()
		if err != nil {
			return nil, err
		}
		s = &session{id: id, conn: traffic.NewConn(h.cfg.Traffic, trace, h.peers(r))}
		if id != "" {
			h.sessions.keep(s)
		}
	}
	h.sessions.requests++
	s.used, s.seen = s.used+1, h.sessions.requests
	return s, nil
}

func (t *sessions) release(s *session) {
	t.mu.Lock()
	s.used--
	t.mu.Unlock()
}

// name gives the session of an initialize request the id that the server chose.
func (t *sessions) name(s *session, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id != "" && s.id == "" {
		s.id = id
		t.keep(s)
	}
}

// keep adds a session, and drops the one that was used least recently where
// there are too many.
func (t *sessions) keep(s *session) {
	if len(t.byID) >= maxSessions {
		idle := slices.Collect(maps.Values(t.byID))
		idle = slices.DeleteFunc(idle, func(o *session) bool { return o.used > 0 })
		if len(idle) > 0 {
			oldest := slices.MinFunc(idle, func(a, b *session) int { return cmp.Compare(a.seen, b.seen) })
			delete(t.byID, oldest.id)
			oldest.conn.End("connection_lost")
		}
	}
	t.byID[s.id] = s
}

// drop forgets a session that the client ended.
func (t *sessions) drop(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.byID[id]; s != nil {
		delete(t.byID, id)
		s.conn.End("connection_lost")
	}
}

func (t *sessions) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range t.byID {
		delete(t.byID, id)
		s.conn.End("connection_lost")
	}
}
