package app_test

import (
	"bufio"
	"crypto/rand"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/access"
	"counterfoil/internal/app"
)

// withToken makes a token of a running ledger, as an operator does.
func withToken(t *testing.T, dir, name string, roles access.Roles) string {
	t.Helper()
	token, err := access.Add(filepath.Join(dir, access.File), name, roles, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// requestOf is a request for a route of the table: method, path, body and what its
// protocol needs in the header.
func requestOf(route, attempt, event string) (method, path, body string) {
	method, path, ok := strings.Cut(route, " ")
	if !ok {
		method, path = "POST", route
		if strings.HasPrefix(route, "/.well-known/") {
			method = "GET"
		}
	}
	path = strings.NewReplacer("{attemptId}", attempt, "{eventId}", event, "{digest}", "sha256:"+strings.Repeat("0", 64),
		"{keyId}", "k", "{holdId}", "h").Replace(path)
	switch path {
	case "/":
		method, path = "GET", "/nothing"
	case "/v1/events":
		path += "?follow=false"
	case "/log/":
		path += "checkpoint"
	case "/v1/bundle":
		path += "?attempt=" + attempt
	}
	if method == "POST" {
		body = "{}"
	}
	return method, path, body
}

// Every route of every protocol on the port, with every role: each has a row in the
// table, each row is served, and what the table says is what happens.
func TestEVI05_PRV15_EveryRouteWithEveryRole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir)
	rc := l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody("inv", `1`))
	attempt, event := text(rc, "attemptId"), text(rc, "eventId")

	served := l.Routes()
	for _, route := range served {
		if !access.Known(route) {
			t.Errorf("%s is served and has no row in the table of package access: say who may use it", route)
		}
	}
	for _, route := range access.Routes() {
		if !strings.HasPrefix(route, "mcp ") && !slices.Contains(served, route) {
			t.Errorf("%s has a row in the table of package access and is not served", route)
		}
	}

	roles := map[string]access.Roles{"nobody": 0, "writer": access.Writer, "auditor": access.Auditor, "admin": access.Admin}
	tokens := map[string]string{"nobody": "", "writer": withToken(t, dir, "w", access.Writer), "auditor": withToken(t, dir, "a", access.Auditor), "admin": withToken(t, dir, "x", access.Admin)}
	for _, route := range served {
		method, path, body := requestOf(route, attempt, event)
		public := access.Needs(route)&access.Public != 0
		for who, role := range roles {
			auth := ""
			if tokens[who] != "" {
				auth = "Bearer " + tokens[who]
			}
			code, _, answer := l.json(method, path, auth, body)
			switch {
			case who == "nobody" && !public:
				if code != http.StatusUnauthorized {
					t.Errorf("%s %s by nobody: %d %s", method, path, code, answer)
				}
			case public || role&access.Needs(route) != 0:
				if code == http.StatusUnauthorized || code == http.StatusForbidden || code >= 500 && code != http.StatusServiceUnavailable {
					t.Errorf("%s %s by %s: %d %s", method, path, who, code, answer)
				}
			case code != http.StatusForbidden || !strings.Contains(answer, "forbidden") && !strings.Contains(answer, "permission_denied"):
				t.Errorf("%s %s by %s: %d %s, want it refused", method, path, who, code, answer)
			}
		}
	}
}

// The rules that the table follows, stated apart from it.
func TestEVI21_WhatNoRoleButAdminMay(t *testing.T) {
	for _, route := range access.Routes() {
		needs := access.Needs(route)
		method, path, _ := strings.Cut(route, " ")
		if needs&access.Public == 0 && needs&access.Admin == 0 {
			t.Errorf("%s: the admin may do everything", route)
		}
		if method == "POST" && needs&access.Auditor != 0 {
			t.Errorf("%s: an auditor changes nothing", route)
		}
		for _, sharp := range []string{"/v1/keys", "/v1/erasures", "/v1/holds", "/v1/retention", "/v1/backup"} {
			if method == "POST" && strings.HasPrefix(path, sharp) && needs != access.Admin {
				t.Errorf("%s is for %s, want admin alone", route, needs)
			}
		}
		if strings.Contains(route, "/List") || strings.Contains(route, "StreamEvents") || slices.Contains([]string{"GET /v1/attempts", "GET /v1/receipts", "GET /v1/events", "GET /metrics", "mcp tools/call receipt_search", "mcp resources/list"}, route) {
			if needs&access.Writer != 0 {
				t.Errorf("%s: a writer lists nothing", route)
			}
		}
		for _, name := range []string{"Begin", "Append", "receipt_begin", "receipt_append"} {
			if strings.HasSuffix(route, name) && needs != access.Writer|access.Admin {
				t.Errorf("%s is for %s, want writer and admin", route, needs)
			}
		}
	}
	if access.Known("GET /v1/new") || access.Needs("GET /v1/new") != access.Admin {
		t.Error("a route without a row is not for the admin alone")
	}
}

// A tool of MCP is a route like another, in both revisions of the protocol, and a
// session is its token's.
func TestEVI05_ToolsOfMCPWithEveryRole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir)
	attempt := text(l.begin("inv"), "attemptId")
	tokens := map[access.Roles]string{access.Writer: withToken(t, dir, "w", access.Writer), access.Auditor: withToken(t, dir, "a", access.Auditor), access.Admin: l.Token}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bare","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	_, _, list := l.mcp(l.Token, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")
	var found int
	for _, route := range access.Routes() {
		rest, ok := strings.CutPrefix(route, "mcp ")
		if !ok {
			continue
		}
		method, name, _ := strings.Cut(rest, " ")
		params := `{"name":"` + name + `","arguments":{}`
		switch {
		case method == "tools/call":
			found++
			if !strings.Contains(list, `"name":"`+name+`"`) {
				t.Errorf("%s has a row and is no tool: %s", route, list)
			}
		case method == "resources/list":
			params = `{`
		default:
			params = `{"uri":"counterfoil://attempt/` + attempt + `"`
		}
		for role, token := range tokens {
			may := role&access.Needs(route) != 0
			if method != "resources/subscribe" { // answered by a stream in the newer one
				p := params + `,` + meta + `}`
				if params == `{` {
					p = `{` + meta + `}`
				}
				_, _, answer := l.mcp(token, "", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+p+`}`, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
				if strings.Contains(answer, "forbidden") == may {
					t.Errorf("%s by %s without a session: %s", route, role, answer)
				}
			}
			session := l.session(token)
			_, _, answer := l.mcp(token, session, `{"jsonrpc":"2.0","id":2,"method":"`+method+`","params":`+params+`}}`)
			if strings.Contains(answer, "forbidden") == may {
				t.Errorf("%s by %s in a session: %s", route, role, answer)
			}
			for other, stranger := range tokens {
				if other == role {
					continue
				}
				if code, _, answer := l.mcp(stranger, session, `{"jsonrpc":"2.0","id":3,"method":"ping"}`); code == http.StatusOK {
					t.Errorf("the session of %s answers %s: %s", role, other, answer)
				}
			}
		}
	}
	if n := strings.Count(list, `"inputSchema"`); n != found || n == 0 {
		t.Errorf("%d tools and %d rows for tools", n, found)
	}
}

// A token that is revoked ends what it holds open, and opens nothing again.
func TestEVI05_ARevokedTokenEndsItsStreams(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir)
	l.begin("inv")
	tail, stays := withToken(t, dir, "tail", access.Auditor), withToken(t, dir, "stays", access.Auditor)
	follow := func(token string) *http.Response {
		req, err := http.NewRequest("GET", l.Ready.Listening+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusOK {
			t.Fatalf("events: %d", res.StatusCode)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	a, b := follow(tail), bufio.NewScanner(follow(stays).Body)
	b.Scan()
	if err := access.Revoke(filepath.Join(dir, access.File), "tail"); err != nil {
		t.Fatal(err)
	}
	for sc := bufio.NewScanner(a.Body); sc.Scan(); { // until it ends
	}
	if code, _, _ := l.call("GET", "/v1/status", "Bearer "+tail, ""); code != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d", code)
	}
	l.begin("inv-2")
	for b.Scan() && b.Text() == "" { // signs of life
	}
	if !strings.Contains(b.Text(), `"leafIndex":1`) {
		t.Errorf("the other stream: %q %v", b.Text(), b.Err())
	}
}

func TestLimitsOfTokensAndAddresses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir, func(c *app.Config) { c.RatePerToken = 1 })
	a, b := "Bearer "+withToken(t, dir, "a", access.Auditor), "Bearer "+withToken(t, dir, "b", access.Auditor)
	limited := func(auth, path string) bool {
		t.Helper()
		for range 100 {
			code, h, body := l.call("GET", path, auth, "")
			if code != http.StatusTooManyRequests {
				continue
			}
			if !strings.Contains(body, `"rate_limited"`) || h.Get("Retry-After") == "" || h.Get("Retry-After") == "0" {
				t.Errorf("%s: %v %s", path, h, body)
			}
			return true
		}
		return false
	}
	if !limited(a, "/v1/status") {
		t.Error("100 calls at once of one token, 1 a second admitted: none is refused")
	}
	if code, _, body := l.call("GET", "/v1/status", b, ""); code != http.StatusOK {
		t.Errorf("another token: %d %s", code, body)
	}
	if code, _, body := l.json("POST", "/counterfoil.v1.LedgerService/GetStatus", a, "{}"); code != http.StatusTooManyRequests || !strings.Contains(body, "resource_exhausted") {
		t.Errorf("the same token over RPC: %d %s", code, body)
	}
	if limited(a, "/v1/trust") {
		t.Error("a public route counts for the token")
	}

	l2 := startLedger(t, filepath.Join(t.TempDir(), "data"), func(c *app.Config) { c.RatePerAddress = 1 })
	l = l2
	if !limited("", "/log/checkpoint") || !limited("Bearer "+l2.Token, "/v1/status") {
		t.Error("one address is not limited")
	}
	if limited("", "/healthz") || limited("", "/readyz") {
		t.Error("whoever watches the ledger is kept out")
	}
}
