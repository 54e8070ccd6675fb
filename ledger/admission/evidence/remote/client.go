package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/internal/jsonrpc"
	"counterfoil/internal/toolcontract"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/canon"
)

// Revisions of the protocol that are spoken: one with initialize, one without.
const (
	revision          = "2025-11-25"
	revisionStateless = "2026-07-28"
)

// Bounds of what a server says.
const (
	maxAnswer = 8 << 20  // one answer
	maxTotal  = 32 << 20 // all lists
	maxPages  = 256      // of one list
	maxItems  = toolcontract.MaxTools
)

// JSON-RPC errors that say that a method is not there.
const methodNotFound = -32601

var errTooMuch = errors.New("the server's lists are too long")

// closed is a server that shows nothing to us.
type closed struct{ status int }

func (c *closed) Error() string {
	return fmt.Sprintf("status %d: the server shows its tools only to clients that it knows", c.status)
}

// keyChanged is a server that spoke with two keys.
type keyChanged struct{ first, then string }

func (k *keyChanged) Error() string {
	return fmt.Sprintf("the server's TLS key changed while it was asked: first %s, then %s", k.first, k.then)
}

// rpcError is an error that the server answered.
type rpcError struct {
	code    int
	message string
}

func (e *rpcError) Error() string {
	return fmt.Sprintf("the server answered error %d: %s", e.code, fetch.Clip(e.message))
}

// client speaks to one server. It is for one goroutine.
type client struct {
	url    string
	header http.Header
	guard  *fetch.Guard

	id       int
	revision string // agreed on, "" before
	session  string
	key      string // digest of the server's TLS key, "" without TLS
	total    int
}

// observe asks for everything that the server shows.
func (c *client) observe(ctx context.Context) (*observation, error) {
	greeting, err := c.greet(ctx)
	if err != nil {
		return nil, err
	}
	canonical, err := canon.Private.Canonical(greeting)
	if err != nil {
		return nil, fmt.Errorf("the server's description of itself: %w", err)
	}
	var tools []toolcontract.Tool
	rawTools, err := c.list(ctx, "tools/list", "tools")
	if err != nil {
		return nil, err
	}
	for _, raw := range rawTools {
		f, _ := jsonrpc.Fields(raw, "name")
		name := jsonrpc.Text(f["name"])
		if name == "" {
			return nil, errors.New("tools/list: a tool without a name")
		}
		tools = append(tools, toolcontract.Tool{Name: name, Raw: raw})
	}
	lists := map[string][][]byte{}
	for _, l := range [][2]string{{"resources/list", "resources"}, {"resources/templates/list", "resourceTemplates"}, {"prompts/list", "prompts"}} {
		if lists[l[1]], err = c.list(ctx, l[0], l[1]); err != nil {
			return nil, err
		}
	}
	return &observation{
		surface:   toolcontract.NewSurface(tools, lists["resources"], lists["resourceTemplates"], lists["prompts"]),
		discovery: admission.Digest(canonical),
	}, nil
}

// greet introduces us and returns how the server describes itself.
func (c *client) greet(ctx context.Context) ([]byte, error) {
	const who = `{"name":"counterfoil","version":"1"}`
	result, err := c.call(ctx, "initialize", `{"protocolVersion":"`+revision+`","capabilities":{},"clientInfo":`+who+`}`)
	var answered *rpcError
	var status *statusError
	switch {
	case err == nil:
		f, _ := jsonrpc.Fields(result, "protocolVersion")
		if c.revision = jsonrpc.Text(f["protocolVersion"]); c.revision == "" || len(c.revision) > 32 {
			return nil, errors.New("initialize: the answer has no protocolVersion")
		}
		return result, c.notify(ctx, "notifications/initialized")
	case errors.As(err, &answered), errors.As(err, &status):
	default:
		return nil, err
	}
	// A server of the later revision has no initialize.
	c.revision, c.session = revisionStateless, ""
	result, later := c.call(ctx, "server/discover", `{}`)
	if later != nil {
		return nil, fmt.Errorf("initialize: %w; server/discover: %w", err, later)
	}
	return result, nil
}

// list reads a list, page by page. A server that does not have it has an empty one.
func (c *client) list(ctx context.Context, method, member string) (items [][]byte, err error) {
	cursors := map[string]bool{}
	for cursor := jsontext.Value(`{}`); ; {
		result, err := c.call(ctx, method, string(cursor))
		var answered *rpcError
		if errors.As(err, &answered) && answered.code == methodNotFound && len(cursors) == 0 {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		f, twice := jsonrpc.Fields(result, member, "nextCursor")
		var page []jsontext.Value
		if twice || f[member] == nil || json.Unmarshal(f[member], &page, jsonrpc.Lax...) != nil {
			return nil, fmt.Errorf("%s: the answer has no list %s, or a member twice", method, member)
		}
		c.total += len(result)
		if len(items)+len(page) > maxItems || c.total > maxTotal {
			return nil, fmt.Errorf("%s: %w: more than %d items, or %d bytes of all lists", method, errTooMuch, maxItems, maxTotal)
		}
		for _, p := range page {
			items = append(items, p)
		}
		next := f["nextCursor"]
		if next == nil || string(next) == "null" || jsonrpc.Text(next) == "" {
			return items, nil
		}
		if cursors[string(next)] || len(cursors) >= maxPages {
			return nil, fmt.Errorf("%s: %w: the list has more than %d pages, or leads in a circle", method, errTooMuch, maxPages)
		}
		cursors[string(next)] = true
		cursor = append(append([]byte(`{"cursor":`), next...), '}')
	}
}

// call makes a request and returns its result. Params is a JSON object.
func (c *client) call(ctx context.Context, method, params string) ([]byte, error) {
	c.id++
	if c.revision == revisionStateless && c.session == "" {
		// Each request says what a session would have agreed on.
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + revisionStateless + `","io.modelcontextprotocol/clientCapabilities":{}}`
		if params == "{}" {
			params = "{" + meta + "}"
		} else {
			params = "{" + meta + "," + params[1:]
		}
	}
	res, err := c.post(ctx, method, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.id, method, params))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	message, err := answer(res, fmt.Sprint(c.id))
	if err != nil {
		return nil, err
	}
	if s := res.Header.Get("Mcp-Session-Id"); s != "" && method == "initialize" {
		c.session = s
	}
	if message.Err != nil {
		f, _ := jsonrpc.Fields(message.Err, "code", "message")
		e := &rpcError{message: jsonrpc.Text(f["message"])}
		if json.Unmarshal(f["code"], &e.code) != nil {
			return nil, fmt.Errorf("%s: an error without a code", method)
		}
		return nil, e
	}
	if message.Duplicates {
		return nil, fmt.Errorf("%s: an answer with a member twice", method)
	}
	return message.Result, nil
}

func (c *client) notify(ctx context.Context, method string) error {
	res, err := c.post(ctx, method, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method))
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// statusError is an answer of HTTP that carries no message.
type statusError struct {
	status int
	detail string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.detail) }

// post sends a message. Redirects are refused: an entry names the server itself.
func (c *client) post(ctx context.Context, method, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", "counterfoil")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.revision != "" {
		req.Header.Set("Mcp-Protocol-Version", c.revision)
	}
	if c.revision == revisionStateless {
		req.Header.Set("Mcp-Method", method)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	res, err := c.guard.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := c.identify(res.TLS); err != nil {
		res.Body.Close()
		return nil, err
	}
	switch code := res.StatusCode; {
	case code == http.StatusOK, code == http.StatusAccepted:
		return res, nil
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		res.Body.Close()
		return nil, &closed{code}
	default:
		defer res.Body.Close()
		// An error of the protocol may come with a status of HTTP.
		if code >= 400 && code < 500 && mediaType(res) == "application/json" {
			if b, err := io.ReadAll(io.LimitReader(res.Body, 64<<10)); err == nil {
				res.Body, res.StatusCode = io.NopCloser(bytes.NewReader(b)), http.StatusOK
				if m, err := jsonrpc.Parse(bytes.TrimSpace(b)); err == nil && m.Err != nil {
					return res, nil
				}
			}
		}
		return nil, &statusError{code, "expected 200"}
	}
}

// identify notes by which key the server speaks.
func (c *client) identify(state *tls.ConnectionState) error {
	key := ""
	if state != nil && len(state.PeerCertificates) > 0 {
		key = admission.Digest(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
	}
	if c.id > 1 && key != c.key {
		return &keyChanged{c.key, key}
	}
	c.key = key
	return nil
}

// end lets the server forget the session. Its answer is of no interest.
func (c *client) end(ctx context.Context) {
	if c.session == "" {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, c.url, nil)
	if err != nil {
		return
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	req.Header.Set("Mcp-Protocol-Version", c.revision)
	req.Header.Set("Mcp-Session-Id", c.session)
	if res, err := c.guard.RoundTrip(req); err == nil {
		res.Body.Close()
	}
}

func mediaType(res *http.Response) string {
	m, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return m
}

// answer finds the answer to a request in a response: its body, or one of the
// events of a stream.
func answer(res *http.Response, id string) (*jsonrpc.Message, error) {
	switch m := mediaType(res); m {
	case "application/json":
		b, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		message, err := jsonrpc.Parse(bytes.TrimSpace(b))
		switch {
		case err != nil:
			return nil, err
		case message.Key != id && (message.Err == nil || message.Key != ""):
			return nil, fmt.Errorf("an answer to request %.40q, expected %s", message.ID, id)
		}
		return &message, nil
	case "text/event-stream":
		return fromEvents(res.Body, id)
	default:
		return nil, fmt.Errorf("an answer of type %.100q, expected application/json or text/event-stream", m)
	}
}

// fromEvents reads events until one is the answer. Notifications and requests of
// the server pass.
func fromEvents(r io.Reader, id string) (*jsonrpc.Message, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	var data []byte
	for {
		line, err := in.ReadBytes('\n') // the body is bounded
		line = bytes.TrimRight(line, "\r\n")
		if field, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(append(data, bytes.TrimPrefix(field, []byte(" "))...), '\n')
		}
		if (len(line) == 0 || err != nil) && len(data) > 0 {
			message, bad := jsonrpc.Parse(bytes.TrimSpace(data))
			if bad == nil && message.Key == id && message.IsAnswer() {
				return &message, nil
			}
			data = nil
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("the stream ended without an answer to request %s", id)
		case err != nil:
			return nil, err
		}
	}
}
