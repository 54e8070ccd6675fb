package mcp

import (
	"strings"
	"testing"
)

// A message that is no strict JSON is refused by the argument that holds the
// fault; names and text within it are private.
func TestTRS24_MalformedMessagesQuoteNoPrivateName(t *testing.T) {
	for _, value := range []string{`{"CANARY":1,"CANARY":2}`, `{"CANARY":"\ud800CANARY"}`, `{"a":{"CANARY":CANARY}}`, "{\"CANARY\":\"\xff\"}", `{"CANARY":"CANARY`} {
		raw := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"receipt_begin","arguments":{"privateInput":` + value + `}}}`
		_, bad := new(message).envelope([]byte(raw))
		if bad == nil {
			t.Errorf("%q is taken", raw)
		} else if said := bad.doc.Path + " " + bad.doc.Message; strings.Contains(said, "CANARY") {
			t.Errorf("%q: quoted: %s", raw, said)
		}
	}
}
