package api

import (
	"testing"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/event"
)

func fullReceipt() *Receipt {
	return &Receipt{SchemaVersion: ReceiptSchema, EventID: "evt_1", EventType: "tool_action.outcome", AttemptID: "att_1", Lifecycle: event.Outcome,
		Revision: 2, Previous: "sha256:00", Ledger: "ledger.example/1", Tenant: "default", Subject: event.Subject{Kind: event.ToolAction, ID: "sub \"quoted\" \\ ü \u2028 <&>"},
		OccurredAt: "2026-07-28T00:00:00.000Z", CapturedAt: "2026-07-28T00:02:00.000Z", ClockSkew: true, TraceID: "trace\x1f😀",
		Action:      ReceiptAction{Name: "a", EffectKind: "b", EffectMode: "c", Phase: "d", Status: "e"},
		ReasonCodes: []string{"one", "two"}, Commitments: map[string]string{"result": "sha256:11", "input": "sha256:22"},
		Refs: map[string]string{"zeta": "1", "Alpha": "2", "a_b": "3"}, Statement: []byte(`{"a":[1,2],"b":"x"}`),
		Source:            ReceiptSource{RuntimeID: "r", AgentID: "a", InvocationID: "i", Protocol: "p", Implementation: "m", EventID: "o-1"},
		SourceAttestation: event.SelfAsserted, ClaimBoundary: "cb",
		Commitment: Commitment{Digest: "sha256:33", PayloadType: event.PayloadType, Signatures: []byte(`[{"keyId":"ed25519:00","sig":"AA=="}]`)},
		LeafIndex:  1<<63 + 7, Stage: StageWitnessed, TreeSize: 99, InclusionProof: []string{"AA==", "BB=="}, Checkpoint: "note\n\n— x y\n",
		Witnesses: &Witnesses{Have: 0, Need: 2},
		Openings:  []Opening{{"input", "jcs", "AA==", "sha256:44"}, {"result", "raw", "BB==", "sha256:55"}},
	}
}

// TestEVI14_AReceiptIsWrittenAsReflectionWould: member by member, with and
// without each that may be absent.
func TestEVI14_AReceiptIsWrittenAsReflectionWould(t *testing.T) {
	cases := map[string]func(*Receipt){
		"all": func(*Receipt) {}, "previous": func(r *Receipt) { r.Previous = "" }, "skew": func(r *Receipt) { r.ClockSkew = false },
		"trace": func(r *Receipt) { r.TraceID = "" }, "reasons": func(r *Receipt) { r.ReasonCodes = nil }, "one reason": func(r *Receipt) { r.ReasonCodes = r.ReasonCodes[:1] },
		"commitments": func(r *Receipt) { r.Commitments = nil }, "empty refs": func(r *Receipt) { r.Refs = map[string]string{} },
		"statement": func(r *Receipt) { r.Statement = nil }, "source event": func(r *Receipt) { r.Source.EventID = "" },
		"tree":     func(r *Receipt) { r.TreeSize, r.InclusionProof, r.Checkpoint, r.Witnesses = 0, nil, "", nil },
		"openings": func(r *Receipt) { r.Openings = nil }, "one opening": func(r *Receipt) { r.Openings = r.Openings[:1] },
		"empty": func(r *Receipt) { *r = Receipt{Commitment: Commitment{Signatures: []byte("[]")}} },
	}
	for name, change := range cases {
		r := fullReceipt()
		change(r)
		want, err := json.Marshal(r, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Append(nil); string(got) != string(want) {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
		for _, a := range []*batchAnswer{{Line: 3, Status: 201, Receipt: r}, {Line: 4, Status: 409, Error: &Error{Code: CodeConflict, Message: "m", Hint: "h"}}} {
			want, err := json.Marshal(a, json.Deterministic(true))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := a.append(nil); err != nil || string(got) != string(want) {
				t.Errorf("%s, in a batch:\ngot  %s %v\nwant %s", name, got, err, want)
			}
		}
	}
}

func BenchmarkReceipt(b *testing.B) {
	r := fullReceipt()
	r.Subject.ID, r.TraceID, r.Statement, r.InclusionProof, r.Checkpoint, r.Witnesses = "write_file", "trace-1", nil, nil, "", nil
	b.Run("appended", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = r.Append(buf[:0])
		}
	})
	b.Run("reflected", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(r, json.Deterministic(true)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
