package admit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/admit"
	"counterfoil/ledger/admission"
)

// served is a TLS server under the name example.com, and the way to it.
func served(t *testing.T, h http.Handler) (http.RoundTripper, *httptest.Server) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	tr := s.Client().Transport.(*http.Transport).Clone()
	tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr, s
}

// TestADM10_ADM11_ADM21_EntriesOfARegistry reads entries by name: good ones, and those
// that nobody can use.
func TestADM10_ADM11_ADM21_EntriesOfARegistry(t *testing.T) {
	const server = "io.github.domdomegg/airtable-mcp-server"
	plain := string(read(t, entry(t, server, "1.7.2", "https://github.com/domdomegg/airtable-mcp-server", "airtable-mcp-server")))
	answer, asked := "", 0
	status := http.StatusOK
	tr, _ := served(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked++
		if want := "/v0.1/servers/io.github.domdomegg%2Fairtable-mcp-server/versions/"; !strings.HasPrefix(q.URL.EscapedPath(), want) {
			t.Errorf("asked for %s", q.URL.EscapedPath())
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	r := newRoom(t)
	run := func(arg string) *admit.Result {
		m := material(t, "")
		m.Transport = tr
		return r.run(shipped(t, "light"), m, "https://example.com/", admit.Request{Entry: arg, Class: "light", Artifact: evidence("airtable-mcp-server-1.7.2.tgz"), NoContract: true})
	}
	response := func(state string) string {
		return fmt.Sprintf(`{"server":%s,"_meta":{"io.modelcontextprotocol.registry/official":{"status":%q}}}`, plain, state)
	}
	for _, c := range []struct {
		name, arg, answer string
		status            int
		decision          admission.Decision
		codes             []admission.Code
	}{
		{"active", server, response("active"), 200, admission.Admit, allGood},
		{"by version", server + "@1.7.2", plain, 200, admission.Admit, allGood},
		{"deleted", server, response("deleted"), 200, admission.Quarantine, []admission.Code{admission.EntryWithdrawn}},
		{"another version", server + "@1.7.3", plain, 200, admission.Reject, []admission.Code{admission.EntryInvalid}},
		{"another name", server, strings.Replace(plain, "domdomegg", "mallory", 1), 200, admission.Reject, []admission.Code{admission.EntryInvalid}},
		{"twice", server, strings.Replace(plain, `"version"`, `"version":"1.0.0","version"`, 1), 200, admission.Reject, []admission.Code{admission.EntryDuplicateMember}},
		{"snake_case", server, strings.Replace(plain, "registryType", "registry_type", 1), 200, admission.Reject, []admission.Code{admission.EntrySnakeCase}},
		{"unknown schema", server, strings.Replace(plain, "2025-12-11", "2031-01-01", 1), 200, admission.Reject, []admission.Code{admission.SchemaVersionUnsupported}},
		{"10 MB", server, strings.Repeat(" ", 10<<20) + plain, 200, admission.Reject, []admission.Code{admission.EntryTooLarge}},
		{"none", server, `{}`, 404, admission.Quarantine, []admission.Code{admission.EntryUnavailable}},
	} {
		answer, status, asked = c.answer, c.status, 0
		res := run(c.arg)
		if res.Decision != c.decision || fmt.Sprint(res.ReasonCodes) != fmt.Sprint(c.codes) {
			t.Errorf("%s: %s %v, want %s %v: %+v", c.name, res.Decision, res.ReasonCodes, c.decision, c.codes, res.Failed)
		}
		if asked != 1 || res.Receipt == "" {
			t.Errorf("%s: asked %d times, receipt %q", c.name, asked, res.Receipt)
		}
	}
	// what was refused is kept as it was read
	answer, status = strings.Replace(plain, `"version"`, `"version":"1.0.0","version"`, 1), 200
	res := run(server)
	receipt, _, err := admission.Open(r.body(res.Receipt), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := parsed(t, r.body(receipt.Records.RegistrySnapshot), admission.ParseSnapshot)
	if s.Refused == nil || string(r.body(s.Raw.Digest)) != answer {
		t.Errorf("snapshot %+v", s)
	}
}

// TestADM18_ADM26_ARemoteServerWhoseToolsChange binds a real server by what it shows.
func TestADM18_ADM26_ARemoteServerWhoseToolsChange(t *testing.T) {
	description := "Says hello."
	tr, srv := served(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "hello", Version: "1.0.0"}, nil)
		mcp.AddTool(s, &mcp.Tool{Name: "hello", Description: description}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, errors.New("no tool is called")
		})
		return s
	}, nil))
	doc, err := json.Marshal(map[string]any{
		"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json", "name": "com.example/hello", "description": "Hello.", "version": "1.0.0",
		"remotes": []any{map[string]any{"type": "streamable-http", "url": srv.URL + "/mcp"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRoom(t)
	m := material(t, "")
	m.Transport = tr
	req := admit.Request{Entry: write(t, "server.json", doc), Class: "standard-remote"}
	bound := []admission.Code{admission.NamespaceAuthenticated, admission.ArtifactIdentityBound, admission.AttestationPolicyPass}
	first := r.run(shipped(t, "standard"), m, "", req)
	want(t, first, admission.Admit, bound...)
	if first.Artifact != "" || first.Binding != string(admission.KindPinnedDeployment) {
		t.Errorf("an invented digest: %+v", first)
	}
	c, err := r.client.Contract(t.Context(), "com.example/hello")
	if err != nil || c.Value.Contracts[0].Tools == "" || c.Value.Contracts[0].Artifact != "" {
		t.Fatalf("contract %+v: %v", c, err)
	}
	want(t, r.run(shipped(t, "standard"), m, "", req), admission.Admit, bound...)

	description = "Says hello, and reads your files."
	want(t, r.run(shipped(t, "standard"), m, "", req), admission.Quarantine, admission.ToolContractMismatch)
	req.Repin = true
	again := r.run(shipped(t, "standard"), m, "", req)
	want(t, again, admission.Admit, bound...)
	after, err := r.client.Contract(t.Context(), "com.example/hello")
	if err != nil || after.Value.Contracts[0].Tools == c.Value.Contracts[0].Tools || after.Value.Contracts[0].Receipt != again.Receipt {
		t.Errorf("contract %+v: %v", after, err)
	}
}

// TestADM17_ADM26_ATagThatMoves: a tag finds an image, and its digest is what counts.
func TestADM17_ADM26_ATagThatMoves(t *testing.T) {
	tr, _ := served(t, registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	push := func() string {
		img, err := random.Image(256, 1)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference("example.com/hello:1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, img, remote.WithTransport(tr)); err != nil {
			t.Fatal(err)
		}
		d, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	doc := []byte(`{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"com.example/hello","description":"Hello.","version":"1.0.0",` +
		`"packages":[{"registryType":"oci","identifier":"example.com/hello:1.0.0","transport":{"type":"stdio"}}]}`)
	r := newRoom(t)
	m := material(t, "")
	m.Transport = tr
	req := admit.Request{Entry: write(t, "server.json", doc), Class: "light"}
	digest := push()
	first := r.run(shipped(t, "light"), m, "", req)
	want(t, first, admission.Admit, allGood...)
	if first.Artifact != digest {
		t.Errorf("artifact %s, want %s", first.Artifact, digest)
	}
	moved := push()
	res := r.run(shipped(t, "light"), m, "", req)
	if res.Decision != admission.Quarantine || !strings.Contains(fmt.Sprint(res.Failed), digest) || !strings.Contains(fmt.Sprint(res.Failed), moved) {
		t.Errorf("moved tag: %s %v %+v", res.Decision, res.ReasonCodes, res.Failed)
	}
}

// TestADM21_NothingTurnsToAnotherSource: an artifact that cannot be read is a
// quarantine, though the registry that the entry names has it.
func TestADM21_NothingTurnsToAnotherSource(t *testing.T) {
	asked := 0
	tr, _ := served(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/absent.tgz" {
			asked++
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	r := newRoom(t)
	m := material(t, "")
	m.Transport, m.Now = tr, time.Now
	req := light(t)
	req.Artifact = "https://example.com/absent.tgz"
	want(t, r.run(shipped(t, "light"), m, "", req), admission.Quarantine, admission.MissingArtifactBinding, admission.ArtifactUnresolved)
	if asked != 0 {
		t.Errorf("another source was asked %d times", asked)
	}
}
