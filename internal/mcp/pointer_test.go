package mcp

import (
	"strings"
	"testing"
)

// A message that is no strict JSON is refused with the place of the fault, by the
// names that the caller chose; text within it is private.
func TestTRS24_MalformedMessagesQuoteNoPrivateText(t *testing.T) {
	for _, value := range []string{`{"CANARY":1,"CANARY":2}`, `{"CANARY":"\ud800CANARY"}`, `{"a":{"CANARY":CANARY}}`, "{\"CANARY\":\"\xff\"}", `{"CANARY":"CANARY`} {
		raw := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"receipt_begin","arguments":{"privateInput":` + value + `}}}`
		_, bad := new(message).envelope([]byte(raw))
		if bad == nil {
			t.Errorf("%q is taken", raw)
		} else if said := bad.doc.Message + bad.doc.Hint; strings.Contains(said, "CANARY") || !strings.HasPrefix(bad.doc.Path, "/params/arguments") {
			t.Errorf("%q: at %s: %s", raw, bad.doc.Path, said)
		}
	}
}
