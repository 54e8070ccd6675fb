package app_test

import (
	"net/http"
	"strings"
)

// json is call for a body of JSON.
func (l *ledger) json(method, path, authorization, body string) (int, http.Header, string) {
	l.t.Helper()
	return l.send(method, path, body, "Authorization", authorization, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
}

// send sends a request with headers, name after name and value; empty ones are left
// out.
func (l *ledger) send(method, path, body string, headers ...string) (int, http.Header, string) {
	l.t.Helper()
	req, err := http.NewRequest(method, l.Ready.Listening+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			req.Header.Add(headers[i], headers[i+1])
		}
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	code, header, b := l.answer(http.DefaultTransport.RoundTrip, req)
	return code, header, string(b)
}

// mcp sends one message to /mcp.
func (l *ledger) mcp(token, session, message string, headers ...string) (int, http.Header, string) {
	l.t.Helper()
	if !strings.Contains(message, "2026-07-28") && session != "" {
		headers = append(headers, "Mcp-Protocol-Version", "2025-11-25")
	}
	return l.send("POST", "/mcp", message, append([]string{"Authorization", "Bearer " + token, "Content-Type", "application/json",
		"Accept", "application/json, text/event-stream", "Mcp-Session-Id", session}, headers...)...)
}

// session begins a session of MCP.
func (l *ledger) session(token string) string {
	l.t.Helper()
	_, h, body := l.mcp(token, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bare","version":"1"}}}`)
	id := h.Get("Mcp-Session-Id")
	if id == "" {
		l.t.Fatalf("no session: %s", body)
	}
	l.mcp(token, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return id
}
