package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/internal/toolcontract"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

type in struct {
	Text string `json:"text"`
}

// newServer is a real MCP server.
func newServer(description string, pageSize int) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "hello", Version: "1.0.0"}, &mcp.ServerOptions{PageSize: pageSize})
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: description}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, any, error) {
			return nil, nil, errors.New("no tool is called")
		})
	}
	read := func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return nil, errors.New("nothing is read")
	}
	s.AddResource(&mcp.Resource{URI: "x:a", Name: "a"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "x:{y}", Name: "y"}, read)
	s.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return nil, errors.New("nothing is prompted")
	})
	return s
}

func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func handler(s *mcp.Server, o *mcp.StreamableHTTPOptions) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, o)
}

func resolver(t *testing.T, transport http.RoundTripper, header http.Header) *Resolver {
	t.Helper()
	f, err := fetch.New(fetch.Config{Transport: transport, Now: func() time.Time { return now }, Pause: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewResolver(Config{Fetch: f, Header: header})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func selection(url string) admission.Selection {
	return admission.Selection{Server: &admission.Entry{Name: "com.example/hello"}, Remote: &admission.Remote{Type: "streamable-http", URL: url}}
}

func resolve(t *testing.T, s *httptest.Server, sel admission.Selection) admission.Resolution {
	t.Helper()
	return evidencekit.Resolve(t, resolver(t, s.Client().Transport, nil), sel)
}

func TestADM18_ARealServerIsBoundByWhatItShows(t *testing.T) {
	for name, o := range map[string]*mcp.StreamableHTTPOptions{
		"sessions":         nil,
		"JSON answers":     {JSONResponse: true},
		"without sessions": {Stateless: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, handler(newServer("says it", 2), o))
			res := resolve(t, s, selection(s.URL+"/mcp?key=secret"))
			if res.Failure != nil {
				t.Fatal(res.Failure)
			}
			a, d := res.Binding, res.Binding.Deployment
			if a.Kind != admission.KindPinnedDeployment || a.Bytes != nil || a.Locator != s.URL+"/mcp" || a.Version != "" || a.RetrievedAt != "2026-03-04T05:06:07.000Z" {
				t.Errorf("%+v", a)
			}
			if want := admission.Digest(s.Certificate().RawSubjectPublicKeyInfo); d.TLSKey != want || d.Discovery == "" {
				t.Errorf("key %s, want %s; discovery %s", d.TLSKey, want, d.Discovery)
			}
			// Another client, of the protocol's own library, sees the same tools.
			ctx := t.Context()
			session, err := mcp.NewClient(&mcp.Implementation{Name: "other", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: s.Client()}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			var tools []toolcontract.Tool
			for tool, err := range session.Tools(ctx, nil) {
				if err != nil {
					t.Fatal(err)
				}
				raw, err := json.Marshal(tool)
				if err != nil {
					t.Fatal(err)
				}
				tools = append(tools, toolcontract.Tool{Name: tool.Name, Raw: raw})
			}
			want := toolcontract.NewSurface(tools, [][]byte{[]byte(`{"uri":"x:a","name":"a"}`)}, [][]byte{[]byte(`{"uriTemplate":"x:{y}","name":"y"}`)}, [][]byte{[]byte(`{"name":"p"}`)})
			if len(tools) != 5 || d.Tools != want.Tools || d.ToolContract != want.Digest {
				t.Errorf("%d tools: %s %s, want %+v", len(tools), d.Tools, d.ToolContract, want)
			}
			if got := evidencekit.States(res.Checks); got["tool_contract"] != "absent" || got["tls_identity"] != "absent" || got["source"] != "pass" {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestADM26_ToolsThatChangedAndKeysThatChangedAreTwoThings(t *testing.T) {
	first := serve(t, handler(newServer("says it", 0), nil))
	sel := selection(first.URL)
	before := resolve(t, first, sel).Binding
	sel.Expected = before
	if got := evidencekit.States(resolve(t, first, sel).Checks); got["tool_contract"] != "pass" || got["tls_identity"] != "pass" {
		t.Errorf("%v", got)
	}
	changed := serve(t, handler(newServer("says something else", 0), nil))
	sel = selection(changed.URL)
	sel.Expected = before
	res := resolve(t, changed, sel)
	if got := evidencekit.States(res.Checks); got["tool_contract"] != "fail tool_contract_mismatch" || got["tls_identity"] != "pass" {
		t.Errorf("%v", got)
	}
	for _, c := range res.Checks {
		if c.ID == admission.CheckToolContract && (c.Expected != before.Deployment.ToolContract || c.Got != res.Binding.Deployment.ToolContract) {
			t.Errorf("%+v", c)
		}
	}
	other := *before.Deployment
	other.TLSKey = admission.Digest([]byte("another key"))
	sel = selection(first.URL)
	sel.Expected = &admission.ArtifactBinding{Kind: admission.KindPinnedDeployment, Deployment: &other}
	if got := evidencekit.States(resolve(t, first, sel).Checks); got["tool_contract"] != "pass" || got["tls_identity"] != "fail tls_identity_mismatch" {
		t.Errorf("%v", got)
	}
	sel.Expected = &admission.ArtifactBinding{Kind: admission.KindBytes, Bytes: &admission.BytesBinding{}}
	if got := evidencekit.States(resolve(t, first, sel).Checks); got["tool_contract"] != "fail tool_contract_mismatch" {
		t.Errorf("%v", got)
	}
}

// script is a server that answers as it is told, by method.
type script map[string]string

func (s script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer, ok := s[m.Method]
	if !ok {
		answer = `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no such method"}}`
	}
	if status, rest, found := strings.Cut(answer, "!"); found && len(status) == 3 {
		var code int
		fmt.Sscan(status, &code)
		w.Header().Set("Location", "/elsewhere")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		answer = rest
	} else if strings.HasPrefix(answer, "data:") || strings.HasPrefix(answer, "event:") {
		w.Header().Set("Content-Type", "text/event-stream")
	} else if strings.HasPrefix(answer, "<") {
		w.Header().Set("Content-Type", "text/html")
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	io.WriteString(w, strings.ReplaceAll(answer, "$ID", string(m.ID)))
}

func result(v string) string { return `{"jsonrpc":"2.0","id":$ID,"result":` + v + `}` }

func TestADM18_ServersThatCannotBeBoundSayWhy(t *testing.T) {
	hello := result(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`)
	tools := result(`{"tools":[{"name":"a"}]}`)
	tests := []struct {
		name string
		s    script
		code admission.Code // "" for a binding
		says string
	}{
		{"tools alone", script{"initialize": hello, "tools/list": tools}, "", ""},
		{"nothing at all", script{"initialize": hello}, "", ""},
		{"events", script{"initialize": "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\r\n\r\ndata:" + hello + "\n\n", "tools/list": tools}, "", ""},
		{"stateless only", script{"initialize": "400!" + `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32022,"message":"unsupported"}}`, "server/discover": result(`{"supportedVersions":["2026-07-28"]}`), "tools/list": tools}, "", ""},
		{"closed", script{"initialize": "401!"}, admission.RemoteNotBytePinnable, "only to clients that it knows"},
		{"closed later", script{"initialize": hello, "tools/list": "403!"}, admission.RemoteNotBytePinnable, "only to clients that it knows"},
		{"redirect", script{"initialize": "302!", "server/discover": "302!"}, admission.ArtifactUnresolved, "status 302"},
		{"no MCP", script{"initialize": "<html>"}, admission.ArtifactUnresolved, "text/html"},
		{"not there", script{"initialize": "404!", "server/discover": "404!"}, admission.ArtifactUnresolved, "status 404"},
		{"other answer", script{"initialize": strings.Replace(hello, "$ID", "77", 1)}, admission.ArtifactUnresolved, "answer to request"},
		{"stream without answer", script{"initialize": "data: {}\n\n"}, admission.ArtifactUnresolved, "without an answer"},
		{"no revision", script{"initialize": result(`{}`)}, admission.ArtifactUnresolved, "no protocolVersion"},
		{"description that no record holds", script{"initialize": result(`{"protocolVersion":"2025-11-25","x":12345678901234567890}`)}, admission.ArtifactUnresolved, "description of itself"},
		{"no list", script{"initialize": hello, "tools/list": result(`{}`)}, admission.ArtifactUnresolved, "no list tools"},
		{"list twice", script{"initialize": hello, "tools/list": result(`{"tools":[],"tools":[{"name":"x"}]}`)}, admission.ArtifactUnresolved, "a member twice"},
		{"answer twice", script{"initialize": hello, "tools/list": `{"jsonrpc":"2.0","id":$ID,"result":{"tools":[]},"result":{"tools":[{"name":"x"}]}}`}, admission.ArtifactUnresolved, "a member twice"},
		{"no name", script{"initialize": hello, "tools/list": result(`{"tools":[{}]}`)}, admission.ArtifactUnresolved, "without a name"},
		{"circle", script{"initialize": hello, "tools/list": result(`{"tools":[],"nextCursor":"x"}`)}, admission.ArtifactTooLarge, "in a circle"},
		{"many", script{"initialize": hello, "tools/list": result(`{"tools":[` + strings.Repeat(`{"name":"a"},`, maxItems) + `{"name":"a"}]}`)}, admission.ArtifactTooLarge, "more than"},
		{"large", script{"initialize": hello, "tools/list": result(`{"tools":["` + strings.Repeat("x", maxAnswer) + `"]}`)}, admission.ArtifactTooLarge, "more than"},
		{"error", script{"initialize": hello, "tools/list": `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"broken\u001b[2J"}}`}, admission.ArtifactUnresolved, "error -32603: broken [2J"},
		{"error without a code", script{"initialize": hello, "tools/list": `{"jsonrpc":"2.0","id":$ID,"error":"x"}`}, admission.ArtifactUnresolved, "without a code"},
		{"broken", script{"initialize": "500!"}, admission.ArtifactUnresolved, "status 500"},
	}
	for _, tt := range tests {
		s := serve(t, tt.s)
		res := resolve(t, s, selection(s.URL))
		switch {
		case tt.code == "" && res.Failure != nil:
			t.Errorf("%s: %+v", tt.name, res.Failure)
		case tt.code != "" && (res.Failure == nil || res.Failure.Code != tt.code || !strings.Contains(res.Failure.Detail, tt.says)):
			t.Errorf("%s: %+v, want %s saying %q", tt.name, res.Failure, tt.code, tt.says)
		}
	}
}

func TestADM21_TheServerItselfIsAskedAndNoOther(t *testing.T) {
	asked := 0
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Header.Get("Authorization") != "Bearer x" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler(newServer("says it", 0), &mcp.StreamableHTTPOptions{Stateless: true}).ServeHTTP(w, r)
	}))
	for name, sel := range map[string]admission.Selection{
		"variables": selection("https://{host}/mcp"),
		"user":      selection("https://u:p@example.com/mcp"),
		"no URL":    selection("nowhere"),
		"plain":     selection(strings.Replace(s.URL, "https", "http", 1)),
		"transport": {Remote: &admission.Remote{Type: "sse", URL: s.URL}},
	} {
		res := resolve(t, s, sel)
		if res.Failure == nil || asked > 0 {
			t.Errorf("%s: %+v after %d requests", name, res.Failure, asked)
		}
	}
	if res := resolve(t, s, selection(s.URL)); res.Failure == nil || res.Failure.Code != admission.RemoteNotBytePinnable {
		t.Errorf("%+v", res.Failure)
	}
	r := resolver(t, s.Client().Transport, http.Header{"Authorization": {"Bearer x"}})
	sel := selection("https://{host}/mcp")
	sel.Override = s.URL
	res, err := r.Resolve(t.Context(), sel)
	if err != nil || res.Failure != nil || res.Binding.Identifier != "https://{host}/mcp" || res.Binding.Locator != s.URL {
		t.Errorf("%+v, %v", res, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := r.Resolve(ctx, selection(s.URL)); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
	if _, err := r.Resolve(t.Context(), admission.Selection{}); err == nil {
		t.Error("nothing is resolved")
	}
	if _, err := NewResolver(Config{}); err == nil {
		t.Error("a resolver that cannot ask")
	}
}

// A server behind two keys is not one server.
func TestADM18_AKeyThatChangesMeanwhileIsNoIdentity(t *testing.T) {
	c := &client{id: 1}
	s := serve(t, http.NotFoundHandler())
	conn, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn.Body.Close()
	if err := c.identify(conn.TLS); err != nil || c.key == "" {
		t.Fatal(err)
	}
	c.id = 2
	if err := c.identify(conn.TLS); err != nil {
		t.Error(err)
	}
	if err := c.identify(nil); err == nil || code(err) != admission.TLSIdentityMismatch {
		t.Errorf("%v", err)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n\n"))
	f.Add([]byte("data: {\"id\":3,\ndata: \"error\":{}}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := fromEvents(strings.NewReader(string(b)), "3")
		if err == nil && (m.Key != "3" || !m.IsAnswer()) {
			t.Errorf("%+v", m)
		}
	})
}
