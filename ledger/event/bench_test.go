package event

import "testing"

func benchEvent() *Event {
	return &Event{Schema: Schema, Ledger: "counterfoil.local/589197f6e4ff30f6", Tenant: "default", AttemptID: "att_d457a2010172c76fa9722fd033f57bc2",
		Revision: 1, Lifecycle: Attempt, Subject: Subject{Kind: ToolAction, ID: "write_file"},
		OccurredAt: "2026-07-28T00:00:00.000Z", CapturedAt: "2026-07-28T00:00:00.000Z",
		Source:  Source{RuntimeID: "bench", AgentID: "agent:bench", InvocationID: "call-1", Protocol: "mcp/2025-11-25", Implementation: "bench/1", Assurance: SelfAsserted},
		TraceID: "trace-1", Action: Action{Name: "write_file", EffectKind: "mcp.tools/call", EffectMode: "unspecified"}, Status: StatusRequested,
		Commitments:   map[string]string{"input": Digest{1}.String()},
		Tags:          map[string]string{"request": "hmac-sha256:" + Digest{2}.String()[7:], "expectedEffect": "hmac-sha256:" + Digest{3}.String()[7:]},
		ClaimBoundary: ClaimBoundaryFor(Attempt, ToolAction)}
}

func BenchmarkAppend(b *testing.B) {
	e, buf := benchEvent(), make([]byte, 0, 2048)
	b.ReportAllocs()
	for b.Loop() {
		buf = e.Append(buf[:0])
	}
}

func BenchmarkValidate(b *testing.B) {
	e := benchEvent()
	e.AttemptID = NewAttemptID(ScopeOf(e.Tenant, e.Source.RuntimeID, e.Source.InvocationID).Shard(), [15]byte{})
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScopeOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		ScopeOf("default", "bench", "call-1234")
	}
}
