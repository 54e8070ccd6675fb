package traffic

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"counterfoil/internal/proxy/gate"
)

// The page shows a call that is refused under its contract as it is, but for
// white space.
func TestREV30_ADenialIsThatOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	p := Read([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`))
	p.deny(&gate.Refusal{Reason: "contract_quarantined", Contract: "mcp/files", ReviewEventID: "evt_11…", ReasonCodes: []string{"receipt_evidence_unavailable"},
		Message: "contract mcp/files is in quarantine until its evidence is restored or its receipt replaced, by review evt_11…: receipt_evidence_unavailable"})
	shown := regexp.MustCompile(`\n *`).ReplaceAllString(string(page), "")
	if !strings.Contains(shown, "```json"+string(p.Refusal())+"```") {
		t.Errorf("docs/proxy.md does not show %s", p.Refusal())
	}
	if !p.Denied() || !p.Refused() {
		t.Error("it passes")
	}
}
