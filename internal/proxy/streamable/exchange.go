package streamable

import (
	"bytes"
	"io"
	"net/http"

	"counterfoil/internal/proxy/record"
	"counterfoil/internal/proxy/traffic"
	"counterfoil/internal/toolcall"
	"counterfoil/ledger/event"
)

// peers is what a request says of its protocol, and what is known of the server.
func (h *Handler) peers(r *http.Request) record.Peers {
	p := record.Peers{Protocol: toolcall.Protocol(r.Header.Get(headerProtocol))}
	if known := h.server.Load(); known != nil {
		p.Implementation = *known
	}
	return p
}

// exchange is one request with its answer.
type exchange struct {
	h      *Handler
	w      http.ResponseWriter
	r      *http.Request
	s      *session
	packet *traffic.Packet

	resumable bool // the stream has event ids
	broken    bool // the stream ended with an error
}

func (x *exchange) run(body []byte) {
	conn := x.s.conn
	if x.packet.HoldsCall() {
		conn.Decide(x.r.Context(), x.packet)
	}
	if x.packet.Refused() {
		x.refuse()
		return
	}
	conn.Leaving(x.packet)
	res, sent, err := x.h.forward(x.r, bytes.NewReader(body))
	if err != nil {
		conn.NotSent(x.packet, !sent, x.lost())
		badGateway(x.w, x.r)
		return
	}
	defer res.Body.Close()
	conn.Left(x.packet)
	x.h.sessions.name(x.s, res.Header.Get(headerSession))
	if isStream(res) {
		copyHeader(x.w, res)
		x.stream(res.Body)
		x.afterStream()
	} else {
		x.whole(res)
	}
	x.learn()
}

// refuse answers in the server's place. It is an answer of JSON-RPC, so that
// clients read it as one.
func (x *exchange) refuse() {
	answer := x.packet.Refusal()
	if len(answer) == 0 && x.packet.Denied() {
		http.Error(x.w, "counterfoil: this call may not be made under its contract, so it was not sent", http.StatusForbidden)
		return
	}
	if len(answer) == 0 {
		http.Error(x.w, "counterfoil: no evidence of this call could be recorded, so it was not sent", http.StatusServiceUnavailable)
		return
	}
	x.w.Header().Set("Content-Type", "application/json")
	_, _ = x.w.Write(answer) // a client that is gone reads nothing
}

// whole passes on an answer that is no stream.
func (x *exchange) whole(res *http.Response) {
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(x.h.cfg.MaxMessage)+1))
	conn := x.s.conn
	if err != nil { // the answer breaks off: so it does for the client
		x.end(conn.Refuse(x.packet, event.StatusUnknown, []string{x.lost()}, nil))
		copyHeader(x.w, res)
		_, _ = x.w.Write(body)
		panic(http.ErrAbortHandler)
	}
	answered := traffic.Read(body)
	outcomes := conn.Answered(answered)
	if res.StatusCode != http.StatusAccepted || x.s.id == "" { // else it comes on the session's stream
		status, reason := byStatus(res.StatusCode)
		outcomes = append(outcomes, conn.Refuse(x.packet, status, []string{reason}, short(body))...)
	}
	x.end(outcomes)
	copyHeader(x.w, res)
	_, _ = x.w.Write(body)
	if len(body) > x.h.cfg.MaxMessage {
		_, _ = io.Copy(x.w, res.Body)
	}
	conn.Forwarded(answered)
}

// short is the body of an answer as far as it is worth keeping: what is no
// JSON-RPC explains a status, at most.
func short(body []byte) []byte { return body[:min(len(body), 64<<10)] }

// byStatus says what an answer without an answer means by its HTTP status. What
// the server refused has failed; of what went wrong inside it nothing is known.
func byStatus(code int) (status, reason string) {
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return event.StatusFailed, "access_denied"
	case code == http.StatusRequestTimeout || code == http.StatusGatewayTimeout:
		return event.StatusUnknown, "timeout"
	case code >= 400 && code < 500:
		return event.StatusFailed, "protocol_error"
	}
	return event.StatusUnknown, "response_missing"
}

// end waits for outcomes, unless answers do not.
func (x *exchange) end(outcomes []<-chan struct{}) {
	if !x.h.cfg.Async {
		x.s.conn.Wait(x.r.Context(), outcomes)
	}
}

// lost is why a call has no answer when its connection ends.
func (x *exchange) lost() string {
	if x.r.Context().Err() != nil && x.r.Header.Get(headerProtocol) >= statelessSince {
		return "cancelled" // the client closed the stream of the call
	}
	return "connection_lost"
}

// learn remembers the server's name for requests without a session.
func (x *exchange) learn() {
	if name := x.s.conn.Peers().Implementation; name != toolcall.UnknownImplementation {
		x.h.server.Store(&name)
	}
}
