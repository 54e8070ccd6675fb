package mcp_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"counterfoil/internal/app"
	"counterfoil/internal/mcp"
	"counterfoil/internal/testkit/natskit"
	"counterfoil/ledger/client"
)

const (
	hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bare","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`
	bareBegin = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"receipt_begin","arguments":{"invocationId":"i","occurredAt":"2026-07-28T00:00:00.000Z","action":{"name":"pay","effectKind":"k","effectMode":"m"}}}}
`
)

// lines are the messages on standard output: every line is one, whatever else
// there is.
func lines(t *testing.T, out string) (byID map[float64]obj) {
	t.Helper()
	byID = map[float64]obj{}
	for line := range strings.Lines(out) {
		var m obj
		if err := json.Unmarshal([]byte(line), &m); err != nil || m["jsonrpc"] != "2.0" || !strings.HasSuffix(line, "\n") {
			t.Errorf("not a message: %q", line)
		}
		if id, ok := m["id"].(float64); ok {
			byID[id] = m
		}
	}
	return byID
}

func serve(t *testing.T, c *client.Client, in string) (out, log string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	server := mcp.New(mcp.Config{Ledger: mcp.Remote{Client: c}, Logger: slog.New(slog.NewJSONHandler(&stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err := server.ServeStdio(t.Context(), strings.NewReader(in), &stdout); err != nil {
		t.Errorf("serve: %v", err)
	}
	server.Close()
	return stdout.String(), stderr.String()
}

// TestCaseMCPStdout: with debug logs on and the ledger down each line of stdout
// is JSON-RPC, and errors are tool results.
func TestCaseMCPStdout(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close() // nobody listens there
	c, err := client.New(client.Config{Server: "http://" + ln.Addr().String(), Token: "t", Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	var in strings.Builder
	in.WriteString(hello + bareBegin + "\n  \r\nnot JSON\n")
	att := "att_" + strings.Repeat("0", 32)
	for i, call := range []string{
		`{"name":"receipt_append","arguments":{"attemptId":"` + att + `","lifecycle":"outcome","sourceEventId":"o","occurredAt":"2026-07-28T00:00:00.000Z","status":"failed"}}`,
		`{"name":"receipt_get","arguments":{"attemptId":"` + att + `"}}`,
		`{"name":"receipt_search","arguments":{}}`,
		`{"name":"bundle_export","arguments":{"attemptIds":["` + att + `"]}}`,
		`{"name":"receipt_verify","arguments":{"attemptIds":["` + att + `"]}}`,
	} {
		b, _ := json.Marshal(obj{"jsonrpc": "2.0", "id": i + 2, "method": "tools/call", "params": json.RawMessage(call)})
		in.Write(append(b, '\n'))
	}
	in.WriteString(`{"jsonrpc":"2.0","id":7,"method":"resources/list"}`) // without a line end
	out, log := serve(t, c, in.String())
	byID := lines(t, out)
	for id := 1.0; id <= 6; id++ {
		if code := at(byID[id], "result.structuredContent.error.code"); code != mcp.CodeUnreachable || at(byID[id], "result.isError") != true {
			t.Errorf("call %v: %v", id, byID[id])
		}
	}
	if code := at(byID[7], "error.data.code"); code != mcp.CodeUnreachable {
		t.Errorf("list: %v", byID[7])
	}
	if !strings.Contains(log, `"level":"DEBUG"`) || !strings.Contains(log, "tool failed") {
		t.Errorf("no debug log: %s", log)
	}
}

// TestCaseMCPStdout_NATSDown: with the stream gone the ledger says so, and so
// does the tool.
func TestCaseMCPStdout_NATSDown(t *testing.T) {
	nats := natskit.Start(t, t.TempDir())
	l := startLedger(t, func(c *app.Config) { c.NATS = nats.URL })
	c, err := client.New(client.Config{Server: l.Ready.Listening, Token: l.Token, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	nats.Kill()
	out, _ := serve(t, c, hello+bareBegin)
	if got := lines(t, out)[1]; at(got, "result.structuredContent.error.reason") != "stream_unavailable" || at(got, "result.isError") != true {
		t.Errorf("stdio: %v", got)
	}
	overHTTP(t, sessions, l).refused("receipt_begin", beginArgs("i"), "unavailable", "")
}

// TestStdioLeavesNothingBehind: what a session starts ends with it.
func TestStdioLeavesNothingBehind(t *testing.T) {
	l := startLedger(t)
	id := overHTTP(t, sessions, l).begin("i")
	c := l.client(t)
	before := goleak.IgnoreCurrent()
	out, _ := serve(t, c, hello+`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"counterfoil://attempt/`+id+`"}}`)
	if got := lines(t, out)[1]; got["result"] == nil {
		t.Errorf("subscribe: %v", got)
	}
	c.Close()
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("net/http.(*conn).serve")) // of the ledger
}

// TestStdioAnswersWhatWasAskedBeforeTheEnd: a client that pipes its calls in
// gets every answer.
func TestStdioAnswersWhatWasAskedBeforeTheEnd(t *testing.T) {
	l := startLedger(t)
	out, _ := serve(t, l.client(t), hello+bareBegin)
	if got := lines(t, out)[1]; at(got, "result.structuredContent.created") != true {
		t.Errorf("%v", got)
	}
}

func TestTRS27_LinesAreBoundedOverStdio(t *testing.T) {
	l := startLedger(t)
	long := func(id string, size int) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"receipt_begin","arguments":{"privateInput":"` + strings.Repeat("x", size) + "\"}}}\n"
	}
	out, _ := serve(t, l.client(t), hello+long("2", 70_000)+long("3", 6<<20)+
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"x","arguments":`+strings.Repeat("[", 4096)+"\n"+
		`{"jsonrpc":"2.0","method":"notifications/x","params":7}`+"\n"+bareBegin)
	byID := lines(t, out)
	for id, code := range map[float64]string{2: "too_large", 3: "too_large", 4: "invalid_request"} {
		if got := at(byID[id], "result.structuredContent.error.code"); got != code {
			t.Errorf("call %v: %v", id, byID[id])
		}
	}
	if at(byID[1], "result.structuredContent.created") != true {
		t.Errorf("the session did not go on: %s", out)
	}
	if n := strings.Count(out, "\n"); n != 5 {
		t.Errorf("%d lines: %s", n, out)
	}
}

// A request with an id that is not lawful gets an answer, with the id null: only
// what has no id at all is a notification, to which nobody answers.
func TestTRS27_StdioAnswersABadID(t *testing.T) {
	c, err := client.New(client.Config{Server: "http://127.0.0.1:1", Token: "t", Retries: -1}) // is not asked
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, id := range []string{`1.5`, `""`, `null`, `{}`, `true`, `[1]`, `10000000000000000000000`, `1e2`, `"` + strings.Repeat("x", 256) + `"`} {
		for _, method := range []string{`"ping"`, `"tools/call"`} {
			out, _ := serve(t, c, hello+`{"jsonrpc":"2.0","id":`+id+`,"method":`+method+"}\n")
			if n := strings.Count(out, `"id":null,"error":{"code":-32600,`); n != 1 {
				t.Errorf("%s with id %.20s: %s", method, id, out)
			}
		}
	}
	// What is cut before its id may be a request.
	out, _ := serve(t, c, hello+`{"jsonrpc":"2.0","method":"tools/call","params":{"x":"`+strings.Repeat("x", 5<<20)+`"},"id":1}`+"\n")
	if strings.Count(out, `"id":null,"error":{"code":-32600,`) != 1 {
		t.Errorf("%.1000s", out)
	}
	out, _ = serve(t, c, hello+`{"jsonrpc":"2.0","method":"notifications/cancelled","unknown":1}`+"\n")
	if strings.Contains(out, `"id":null`) {
		t.Errorf("a notification is answered: %s", out)
	}
}
