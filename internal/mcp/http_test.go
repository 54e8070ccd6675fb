package mcp_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"counterfoil/internal/app"
	"counterfoil/internal/mcp"
)

func do(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

func TestEVI05_MCPNeedsTheTokenAndSaysWhere(t *testing.T) {
	l := startLedger(t)
	url := l.Ready.Listening + mcp.Path
	metadata := l.Ready.Listening + mcp.MetadataPath
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, auth := range []string{"", "Bearer wrong-token-4711", "Basic " + l.Token} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			res, body := do(t, method, url, ping, "Authorization", auth)
			if res.StatusCode != 401 || !strings.Contains(res.Header.Get("WWW-Authenticate"), `resource_metadata="`+metadata+`"`) || strings.Contains(body, "4711") || strings.Contains(body, l.Token) {
				t.Errorf("%s %q: %d %v %s", method, auth, res.StatusCode, res.Header, body)
			}
		}
	}
	res, body := do(t, "GET", metadata, "")
	var doc struct {
		Resource string
		Methods  []string `json:"bearer_methods_supported"`
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || res.StatusCode != 200 || doc.Resource != url || len(doc.Methods) != 1 || doc.Methods[0] != "header" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, _ := do(t, "POST", metadata, "{}"); res.StatusCode != 405 {
		t.Errorf("POST of the metadata: %d", res.StatusCode)
	}
}

func TestExternalURLIsWhatClientsAreTold(t *testing.T) {
	l := startLedger(t, func(c *app.Config) { c.ExternalURL = "https://ledger.example" })
	if _, body := do(t, "GET", l.Ready.Listening+mcp.MetadataPath, ""); !strings.Contains(body, `"resource":"https://ledger.example/mcp"`) {
		t.Error(body)
	}
	res, _ := do(t, "POST", l.Ready.Listening+mcp.Path, "{}")
	if got := res.Header.Get("WWW-Authenticate"); !strings.Contains(got, `"https://ledger.example`+mcp.MetadataPath) {
		t.Error(got)
	}
}

func TestTRS27_BodiesAreBoundedOverHTTP(t *testing.T) {
	l := startLedger(t)
	url := l.Ready.Listening + mcp.Path
	call := func(size int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"receipt_begin","arguments":{"privateInput":"` + strings.Repeat("x", size) + `"}}}`
	}
	for _, c := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"a tool call over 64 KiB is a tool result", call(70_000), 200, `"isError":true`},
		{"over 4 MiB", call(5 << 20), 413, `"too_large"`},
		{"deep", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":` + strings.Repeat("[", 4096), 200, `nests deeper`},
		{"no JSON", `x`, 400, `-32700`},
		{"a batch", `[]`, 400, `-32600`},
	} {
		res, body := do(t, "POST", url, c.body, "Authorization", "Bearer "+l.Token)
		if res.StatusCode != c.status || !strings.Contains(body, c.want) || !json.Valid([]byte(body)) {
			t.Errorf("%s: %d %.300s", c.name, res.StatusCode, body)
		}
	}
	// DNS rebinding: a page of another host reaches the loopback address.
	req, _ := http.NewRequestWithContext(t.Context(), "POST", url, bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)))
	req.Host = "evil.example"
	req.Header.Set("Authorization", "Bearer "+l.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 403 {
		t.Errorf("host evil.example: %d", res.StatusCode)
	}
}

// TestBothRevisions speaks the revision with sessions and the one without.
func TestEVI03_BothRevisionsOfTheProtocol(t *testing.T) {
	l := startLedger(t)
	url, auth := l.Ready.Listening+mcp.Path, "Bearer "+l.Token
	const begin = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"receipt_begin","arguments":{"invocationId":"i","occurredAt":"2026-07-28T00:00:00.000Z",` +
		`"action":{"name":"pay","effectKind":"k","effectMode":"m"}}`
	meta := `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bare","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	_, body := do(t, "POST", url, begin+meta+`}}`, "Authorization", auth, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "receipt_begin")
	if !strings.Contains(body, `"created":true`) || !strings.Contains(body, `mcp/2026-07-28`) || !strings.Contains(body, "mcp:bare") {
		t.Errorf("without a session: %s", body)
	}
	if _, body := do(t, "POST", url, begin+`}}`, "Authorization", auth); strings.Contains(body, `"created"`) {
		t.Errorf("a session that was not begun: %s", body)
	}
	for _, want := range []string{"2025-06-18", "2025-11-25"} {
		init := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + want + `","capabilities":{},"clientInfo":{"name":"bare","version":"1"}}}`
		res, body := do(t, "POST", url, init, "Authorization", auth)
		if !strings.Contains(body, `"protocolVersion":"`+want+`"`) || res.Header.Get("Mcp-Session-Id") == "" {
			t.Errorf("%s: %s", want, body)
		}
	}
}

// TestStopEndsSessions stops a ledger while clients hold streams open.
func TestStopEndsSessions(t *testing.T) {
	for _, revision := range []string{sessions, single} {
		l := startLedger(t)
		s := overHTTP(t, revision, l)
		s.subscribe("counterfoil://attempt/" + s.begin("i"))
		l.stop() // fails if calls in flight do not end
	}
}
