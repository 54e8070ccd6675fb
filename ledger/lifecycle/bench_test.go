package lifecycle_test

import (
	"testing"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

func BenchmarkIdentity(b *testing.B) {
	e := &event.Event{Ledger: "counterfoil.local/589197f6e4ff30f6", Tenant: "default", AttemptID: "att_d457a2010172c76fa9722fd033f57bc2",
		Subject: event.Subject{Kind: event.ToolAction, ID: "write_file"},
		Source:  event.Source{RuntimeID: "bench", AgentID: "agent:bench", InvocationID: "call-1", Protocol: "mcp/2025-11-25", Implementation: "bench/1", Assurance: event.SelfAsserted},
		Action:  event.Action{Name: "write_file", EffectKind: "mcp.tools/call", EffectMode: "unspecified"}}
	b.ReportAllocs()
	for b.Loop() {
		lifecycle.Identity(e)
	}
}
