package api

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"counterfoil/internal/access"
)

// Identifier knows the tokens. It is safe for concurrent use, and takes the same time
// for every text that is no token.
type Identifier interface {
	Identify(token string) (*access.Caller, bool)
}

// ServeHTTP looks at where a request was sent, how often its sender asks and who it
// is, in this order, and routes it. Whether the caller may use the route is looked
// at last, by [Server.permit]. Nothing of the body was read until then.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	public := s.public(r.URL.Path)
	if !public {
		h.Set("Cache-Control", "no-store")
	}
	if err := s.rightPlace(r); err != nil {
		s.refuse(w, r, err)
		return
	}
	alive := r.URL.Path == "/healthz" || r.URL.Path == "/readyz" // whoever watches the ledger must see it
	if wait, ok := s.cfg.PerAddress.Take(access.AddressKey(r.RemoteAddr), s.cfg.Now()); !ok && !alive {
		s.refuse(w, r, rateLimited("this address", wait.Seconds()))
		return
	}
	if public {
		s.mux.ServeHTTP(w, r)
		return
	}
	caller, err := s.authenticate(r)
	if err != nil {
		h.Set("WWW-Authenticate", `Bearer realm="counterfoil"`)
		s.refuse(w, r, err)
		return
	}
	if wait, ok := s.cfg.PerToken.Take(caller.Name, s.cfg.Now()); !ok {
		s.refuse(w, r, rateLimited("this token", wait.Seconds()))
		return
	}
	ctx := access.WithCaller(r.Context(), caller)
	if caller.Revoked != nil { // what is open ends with its token
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(caller.Revoked, end)()
	}
	s.mux.ServeHTTP(w, r.WithContext(ctx))
}

// public reports whether a path needs no token. What is asked of it that is not
// served, such as another method, needs none either.
func (s *Server) public(path string) bool {
	if strings.HasPrefix(path, "/log/") {
		path = "/log/"
	}
	return access.Needs(path)&access.Public != 0 || access.Needs("GET "+path)&access.Public != 0
}

// permit says whether the caller of a request may use a route.
func (s *Server) permit(r *http.Request, route string) *Error {
	if access.Needs(route)&access.Public != 0 {
		return nil
	}
	caller := access.CallerOf(r.Context())
	switch {
	case caller != nil:
		return Permit(caller, route)
	case route == "/": // something of a public path that is not served
		return nil
	}
	return &Error{Code: CodeUnauthorized, Message: "a bearer token is required", status: http.StatusUnauthorized, Hint: tokenHint}
}

// Permit says whether a caller may use a route of the table of package access; nil
// if so.
func Permit(caller *access.Caller, route string) *Error {
	if caller.May(route) {
		return nil
	}
	return &Error{Code: CodeForbidden, status: http.StatusForbidden,
		Message: fmt.Sprintf("the token %s has the role %s, which does not do this", caller.Name, strings.Join(caller.Roles.Names(), " and ")),
		Hint:    "use a token with the role " + strings.Join(access.Needs(route).Names(), " or ")}
}

const tokenHint = "send the content of the token file in the data directory: Authorization: Bearer …"

// authenticate compares in constant time, see [access.Store.Identify]. A request with
// two tokens has none: who stands between could have looked at the other one.
func (s *Server) authenticate(r *http.Request) (*access.Caller, *Error) {
	sent := r.Header.Values("Authorization")
	err := &Error{Code: CodeUnauthorized, Message: "a bearer token is required", status: http.StatusUnauthorized, Hint: tokenHint}
	switch len(sent) {
	case 0:
		return nil, err
	case 1:
	default:
		err.Message = "there are two Authorization headers"
		return nil, err
	}
	if scheme, token, ok := strings.Cut(sent[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
		if caller, ok := s.cfg.Tokens.Identify(strings.TrimSpace(token)); ok {
			return caller, nil
		}
	}
	if sent[0] != "" {
		err.Message = "this is not the ledger's bearer token"
	}
	return nil, err
}

// rightPlace refuses what was meant for somebody else: requests under a name that is
// not the ledger's, and those that a browser sends for a page of another origin.
func (s *Server) rightPlace(r *http.Request) *Error {
	host := hostOf(r.Host)
	// Without a name at all asks HTTP/1.0 alone, which no browser speaks.
	if s.cfg.Hosts != nil && r.Host != "" && !slices.Contains(s.cfg.Hosts, host) {
		return &Error{Code: CodeForbidden, Message: "this ledger is not known by the host of the request", status: http.StatusForbidden,
			Hint: "ask it by a name of this machine, or run it with --external-url"}
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 || s.public(r.URL.Path) {
		return nil
	}
	if len(origins) == 1 {
		// A port may be forwarded, so hosts alone are compared.
		if u, err := url.Parse(origins[0]); err == nil && u.Host != "" && (hostOf(u.Host) == host || slices.Contains(s.cfg.Hosts, hostOf(u.Host))) {
			return nil
		}
	}
	return &Error{Code: CodeForbidden, Message: "pages of another origin may not call this ledger", status: http.StatusForbidden,
		Hint: "call it from a program, or from a page of its own origin"}
}

// hostOf is a host without its port, in lower case.
func hostOf(hostport string) string {
	host := hostport
	if h, port, err := net.SplitHostPort(hostport); err == nil && strings.Trim(port, "0123456789") == "" {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}

func rateLimited(who string, seconds float64) *Error {
	return &Error{Code: CodeRateLimited, Message: who + " asks more often than this ledger admits", status: http.StatusTooManyRequests,
		Hint: "wait as long as Retry-After says; sending the same again is safe", retryAfter: max(1, int(math.Ceil(seconds)))}
}

// refuse answers before a handler has seen the request, in the words of the protocol
// that the request is of.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err *Error) {
	if err.RetryAfter() > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(err.RetryAfter()))
	}
	if p, ok := s.also[r.URL.Path]; ok && p.Refuse != nil {
		p.Refuse(w, r, err)
		return
	}
	s.fail(w, r, err)
}
