package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/api"
)

// rpcError is the error of the protocol that an error is.
func rpcError(t *testing.T, err error) (code int64, data api.Error) {
	t.Helper()
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no error of the protocol", err)
	}
	_ = json.Unmarshal(e.Data, &data) // has none where the library made it
	return e.Code, data
}

func TestMCP02_MCP05_MCP06_MCP07_ReceiptsAreResources(t *testing.T) {
	surfaces(t, func(t *testing.T, _ *ledger, s *session) {
		begun := s.must("receipt_begin", beginArgs("i", "wait", "published"))
		event, id := at(begun, "receipt.eventId").(string), at(begun, "receipt.attemptId").(string)
		s.must("receipt_get", obj{"eventId": event})
		var templates []string
		for tmpl, err := range s.ResourceTemplates(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			templates = append(templates, tmpl.URITemplate+" "+tmpl.MIMEType)
		}
		if got := strings.Join(templates, "\n"); got != "counterfoil://attempt/{attemptId} application/json\ncounterfoil://receipt/{eventId} application/json" {
			t.Errorf("templates %s", got)
		}
		page, err := s.ListResources(t.Context(), nil)
		if err != nil || len(page.Resources) != 1 || page.Resources[0].URI != "counterfoil://receipt/"+event || page.Resources[0].MIMEType != "application/json" {
			t.Fatalf("%+v %v", page, err)
		}
		for _, c := range []struct{ uri, member, path string }{
			{page.Resources[0].URI, "receipt.eventId", event},
			{"counterfoil://attempt/" + id, "attempt.attemptId", id},
		} {
			res, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: c.uri})
			if err != nil {
				t.Fatal(err)
			}
			var doc obj
			// One content, of the URI that was asked for, text and no blob.
			if len(res.Contents) != 1 || res.Contents[0].URI != c.uri || res.Contents[0].Blob != nil || len(res.Contents[0].Text) > 64<<10 ||
				json.Unmarshal([]byte(res.Contents[0].Text), &doc) != nil || at(doc, c.member) != c.path {
				t.Errorf("%s: %+v", c.uri, res.Contents)
			}
		}
		for _, uri := range []string{
			"counterfoil://receipt/evt_" + strings.Repeat("0", 64), "counterfoil://attempt/att_" + strings.Repeat("0", 32),
			"counterfoil://receipt/" + id, "counterfoil://attempt/" + event, "counterfoil://receipt/" + event + "x", "counterfoil://attempt/../" + id,
			"counterfoil://attempt/" + strings.ToUpper(id), "file:///etc/passwd", "x",
		} {
			_, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
			if code, _ := rpcError(t, err); code != jsonrpc.CodeInvalidParams && code != -32002 {
				t.Errorf("%s: %v", uri, err)
			}
		}
	})
}

func TestMCP09_MCP15_SubscribersHearOfTheirAttempt(t *testing.T) {
	surfaces(t, func(t *testing.T, _ *ledger, s *session) {
		mine, other := s.begin("mine"), s.begin("other")
		uri := func(id string) string { return "counterfoil://attempt/" + id }
		n := 0
		event := func(id string) {
			n++
			first := at(s.must("receipt_get", obj{"attemptId": id}), "attempt.receipts").([]any)[0]
			s.must("receipt_append", appendArgs(id, fmt.Sprint(n), "review", "noted", "refs", obj{"reviews": at(first, "eventId")}, "wait", "published"))
		}
		// Failed subscriptions are none.
		for _, bad := range []string{uri("att_" + strings.Repeat("0", 32)), uri(mine[:20]), "counterfoil://receipt/evt_" + strings.Repeat("0", 64), "x:y"} {
			if err := s.Subscribe(t.Context(), &sdk.SubscribeParams{URI: bad}); err == nil && s.revision() < single {
				t.Errorf("subscribed to %s", bad)
			}
		}
		event(mine)
		s.subscribe(uri(mine))
		event(other)
		event(mine)
		if got := <-s.updated; got != uri(mine) {
			t.Errorf("told of %s", got)
		}
		event(other)
		event(mine)
		if got := <-s.updated; got != uri(mine) {
			t.Errorf("told of %s", got)
		}
		// Nobody is told of what nobody follows any more: the next that is told is
		// of another attempt.
		if err := s.Unsubscribe(t.Context(), &sdk.UnsubscribeParams{URI: uri(mine)}); err != nil {
			t.Fatal(err)
		}
		s.subscribe(uri(other))
		event(mine)
		event(other)
		if got := <-s.updated; got != uri(other) {
			t.Errorf("told of %s", got)
		}
	})
}
