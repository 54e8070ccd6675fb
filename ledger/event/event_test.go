package event

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"counterfoil/internal/testkit/seeds"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sample() *Event {
	return &Event{
		Schema: Schema, Ledger: "ledger.example/log", Tenant: "default",
		AttemptID: NewAttemptID(ScopeOf("default", "runtime:any", "invocation-001").Shard(), [15]byte{1, 2, 3}),
		Revision:  1, Lifecycle: Attempt, Subject: Subject{Kind: ToolAction, ID: "external_tool_call"},
		OccurredAt: "2026-07-28T00:00:00.000Z", CapturedAt: "2026-07-28T00:00:00.120Z",
		Source: Source{RuntimeID: "runtime:any", AgentID: "agent:any", InvocationID: "invocation-001", Protocol: "mcp",
			Implementation: "external-agent-runtime", Assurance: SelfAsserted},
		TraceID:       "trace-001",
		Action:        Action{Name: "external_tool_call", EffectKind: "org.example/declared-effect", EffectMode: "one_time"},
		Status:        StatusRequested,
		Commitments:   map[string]string{"input": "sha256:" + strings.Repeat("ab", 32)},
		Tags:          map[string]string{"request": "hmac-sha256:" + strings.Repeat("cd", 32)},
		ClaimBoundary: ClaimBoundaryFor(Attempt, ToolAction),
	}
}

func outcome(of *Event) *Event {
	e := *of
	e.Revision, e.Previous, e.Lifecycle, e.Status = 2, DigestOf(of.Append(nil)).String(), Outcome, StatusUnknown
	e.Source.EventID, e.ReasonCodes = "observation-1", []string{"timeout"}
	e.ClaimBoundary = ClaimBoundaryFor(Outcome, ToolAction)
	return &e
}

func TestATT05_EventHasOneSpelling(t *testing.T) {
	for _, e := range []*Event{sample(), outcome(sample())} {
		b := e.Append(nil)
		got, err := Parse(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if d := cmp.Diff(e, got); d != "" {
			t.Error(d)
		}
		for name, other := range map[string][]byte{
			"space":          append([]byte(" "), b...),
			"trailing":       append(bytes.Clone(b), '\n'),
			"escape":         bytes.Replace(b, []byte("external"), []byte(`\u0065xternal`), 1),
			"unknown member": bytes.Replace(b, []byte(`"tenant"`), []byte(`"surplus":1,"tenant"`), 1),
			"empty optional": bytes.Replace(b, []byte(`,"revision"`), []byte(`,"refs":{},"revision"`), 1),
			"null":           bytes.Replace(b, []byte(`,"revision"`), []byte(`,"refs":null,"revision"`), 1),
			"float":          bytes.Replace(b, []byte(`"revision":`), []byte(`"revision":1.0e0,"x":`), 1),
			"number string":  bytes.Replace(b, []byte(`"revision":1`), []byte(`"revision":"1"`), 1),
			"case":           bytes.Replace(b, []byte(`"tenant"`), []byte(`"Tenant"`), 1),
			"duplicate":      bytes.Replace(b, []byte(`"tenant":"default"`), []byte(`"tenant":"default","tenant":"default"`), 1),
		} {
			var e *Error
			if _, err := Parse(other); !bytes.Equal(other, b) && !errors.As(err, &e) {
				t.Errorf("%s: got %v, want an *Error", name, err)
			}
		}
	}
}

func TestEVI23_ValidateNamesTheMember(t *testing.T) {
	for path, change := range map[string]func(*Event){
		"/schema":                func(e *Event) { e.Schema = "counterfoil.event.v2" },
		"/ledger":                func(e *Event) { e.Ledger = "a+b" },
		"/tenant":                func(e *Event) { e.Tenant = "A" },
		"/attemptId":             func(e *Event) { e.AttemptID = "att_xyz" },
		"/revision":              func(e *Event) { e.Revision = MaxRevision + 1 },
		"/previous":              func(e *Event) { e.Previous = "sha256:" + strings.Repeat("0", 64) },
		"/lifecycle":             func(e *Event) { e.Lifecycle = Outcome },
		"/subject/kind":          func(e *Event) { e.Subject.Kind = "tool" },
		"/subject/id":            func(e *Event) { e.Subject.ID = "" },
		"/status":                func(e *Event) { e.Status = "succeeded" },
		"/claimBoundary":         func(e *Event) { e.ClaimBoundary = "everything_is_true" },
		"/occurredAt":            func(e *Event) { e.OccurredAt = "2026-07-28T00:00:00Z" },
		"/capturedAt":            func(e *Event) { e.CapturedAt = "2026-07-28T00:00:00.000+00:00" },
		"/source/eventId":        func(e *Event) { e.Source.EventID = "x" },
		"/source/runtimeId":      func(e *Event) { e.Source.RuntimeID = strings.Repeat("r", 256) },
		"/source/agentId":        func(e *Event) { e.Source.AgentID = "a\x00" },
		"/reasonCodes":           func(e *Event) { e.ReasonCodes = []string{"Not-Snake"} },
		"/commitments":           func(e *Event) { e.Commitments = map[string]string{"1": "x"} },
		"/commitments/input":     func(e *Event) { e.Commitments = map[string]string{"input": "sha256:AB"} },
		"/tags/request":          func(e *Event) { e.Tags = map[string]string{"request": "sha256:" + strings.Repeat("0", 64)} },
		"/refs/x":                func(e *Event) { e.Refs = map[string]string{"x": "free text"} },
		"/statement":             func(e *Event) { e.Statement = Judgement{Reviewer: "a"}.Value() },
		"/action/effectKind":     func(e *Event) { e.Action.EffectKind = "" },
		"/source/implementation": func(e *Event) { e.Source.Implementation = "" },
	} {
		e := sample()
		change(e)
		var got *Error
		if err := e.Validate(); !errors.As(err, &got) || got.Path != path {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

func TestATT30_ClaimBoundaryIsFixedPerKind(t *testing.T) {
	for _, l := range []Lifecycle{Attempt, Outcome, Reversal, Reconciliation, Review} {
		for _, k := range []SubjectKind{ToolAction, Admission, Contract, Retrieval, Citation, Key, Policy, Ledger} {
			if _, ok := ClaimBoundaryText(ClaimBoundaryFor(l, k)); !ok {
				t.Errorf("%s of %s has no registered claim boundary", l, k)
			}
			if len(Statuses(l, k)) == 0 {
				t.Errorf("%s of %s has no status words", l, k)
			}
		}
	}
	e := sample()
	e.ClaimBoundary = "outcome_self_asserted_v1"
	if e.Validate() == nil {
		t.Error("another kind's claim boundary was accepted")
	}
}

func TestATT03_PAE(t *testing.T) {
	if got := string(PAE("text/plain", []byte("hello"))); got != "DSSEv1 10 text/plain 5 hello" {
		t.Errorf("got %q", got)
	}
}

func TestATT04_ATT09_ATT11_SignaturesOfARecord(t *testing.T) {
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, otherPriv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := sample().Append(nil)
	good := Signature{KeyID: KeyID(pub), Sig: ed25519.Sign(priv, PAE(PayloadType, b))}
	bad := Signature{KeyID: KeyID(pub), Sig: ed25519.Sign(otherPriv, PAE(PayloadType, b))}
	wrongType := Signature{KeyID: KeyID(pub), Sig: ed25519.Sign(priv, PAE("application/json", b))}
	foreign := Signature{KeyID: "eip712:0xabc", Sig: []byte{1}}
	for _, c := range []struct {
		name string
		sigs []Signature
		want int
	}{
		{"one", []Signature{good}, 0},
		{"bad extra signatures do not hide a later valid one", []Signature{bad, foreign, good}, 2},
		{"another payload type", []Signature{wrongType}, -1},
		{"another key under this id", []Signature{bad}, -1},
	} {
		leaf := AppendLeaf(nil, b, AppendSignatures(nil, c.sigs))
		r, err := ParseRecord(leaf)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := r.VerifyWith(pub); got != c.want {
			t.Errorf("%s: signature %d, want %d", c.name, got, c.want)
		}
		if got := r.VerifyWith(other); got != -1 {
			t.Errorf("%s: verifies under a key that did not sign", c.name)
		}
		if again := AppendLeaf(nil, r.EventBytes, r.SignatureBytes); !bytes.Equal(again, leaf) {
			t.Errorf("%s: record does not splice back to its leaf", c.name)
		}
	}
	if _, err := ParseRecord(AppendLeaf(nil, b, []byte("[]"))); err == nil {
		t.Error("a record without a signature was accepted")
	}
	many := make([]Signature, MaxSignatures+1)
	for i := range many {
		many[i] = foreign
	}
	if _, err := ParseRecord(AppendLeaf(nil, b, AppendSignatures(nil, many))); err == nil {
		t.Errorf("%d signatures were accepted", len(many))
	}
}

func TestLOG02_SubjectIsAPureFunctionOfTheLeaf(t *testing.T) {
	e := sample()
	leaf := AppendLeaf(nil, e.Append(nil), AppendSignatures(nil, []Signature{{KeyID: "x:y", Sig: []byte{1}}}))
	shard, _ := ShardOfAttempt(e.AttemptID)
	if got, want := SubjectOfLeaf(leaf), "counterfoil.v1.default.tool_action.attempt."+shard; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, garbage := range []string{"", "{}", "not json", `{"event":{},"signatures":[]}`} {
		if got := SubjectOfLeaf([]byte(garbage)); got != UnparsedSubject {
			t.Errorf("%q: got %s", garbage, got)
		}
	}
}

func TestATT07_OneSpellingOfATime(t *testing.T) {
	for s, ok := range map[string]bool{
		"2026-07-28T00:00:00.000Z": true, "2026-07-28T00:00:00.999Z": true, "2024-02-29T00:00:00.000Z": true,
		"2026-07-28T00:00:00Z": false, "2026-07-28T00:00:00.000+00:00": false, "2026-07-28t00:00:00.000z": false,
		"2026-07-28T00:00:00.0000Z": false, "2025-02-29T00:00:00.000Z": false, "2026-07-28T24:00:00.000Z": false,
		"2026-07-28T00:00:60.000Z": false, "2026-07-28T00:00:00,000Z": false, "": false,
	} {
		if _, got := ParseTime(s); got != ok {
			t.Errorf("%q: got %v", s, got)
		}
	}
}

func TestATT05_AnyValidEventRoundTrips(t *testing.T) {
	id := rapid.StringMatching(`[a-zA-Z0-9 é😀"\\/<>&]{1,40}`)
	rapid.Check(t, func(t *rapid.T) {
		e := sample()
		e.Source.RuntimeID, e.Source.InvocationID = id.Draw(t, "runtime"), id.Draw(t, "invocation")
		e.AttemptID = NewAttemptID(ScopeOf(e.Tenant, e.Source.RuntimeID, e.Source.InvocationID).Shard(), [15]byte{9})
		e.Subject.ID, e.Action.Name, e.TraceID = id.Draw(t, "subject"), id.Draw(t, "action"), id.Draw(t, "trace")
		b := e.Append(nil)
		got, err := Parse(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if d := cmp.Diff(e, got); d != "" {
			t.Fatal(d)
		}
	})
}

func TestEVI10_AbsentCountIsAbsent(t *testing.T) {
	for _, c := range []struct {
		r    ReadBack
		want string
	}{
		{ReadBack{Source: "bank", Observed: ObservedAbsent}, `{"readback":{"observed":"absent","source":"bank"}}`},
		{ReadBack{Source: "bank", Observed: ObservedPresent}, `{"readback":{"observed":"present","source":"bank"}}`},
		{ReadBack{Source: "bank", Observed: ObservedPresent, Count: 2}, `{"readback":{"count":2,"observed":"present","source":"bank"}}`},
	} {
		if got := string(c.r.Value()); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	e := outcome(sample())
	e.Lifecycle, e.Status, e.ClaimBoundary = Reconciliation, StatusConfirmedAbsent, ClaimBoundaryFor(Reconciliation, ToolAction)
	e.Statement = []byte(`{"readback":{"count":0,"observed":"absent","source":"bank"}}`)
	var got *Error
	if err := e.Validate(); !errors.As(err, &got) || got.Path != "/statement" {
		t.Errorf("a count of 0 is another spelling of none: got %v", err)
	}
}

func TestATT05_EmptyStatementIsAbsent(t *testing.T) {
	for _, empty := range []string{"{}", "null"} {
		e := outcome(sample())
		e.Statement = []byte(empty)
		var got *Error
		if _, err := Parse(e.Append(nil)); !errors.As(err, &got) || got.Path != "/statement" {
			t.Errorf("statement %s: got %v", empty, err)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	seeds.Add(f, "leaf.json", "event.json")
	f.Add(AppendLeaf(nil, sample().Append(nil), AppendSignatures(nil, []Signature{{KeyID: "x:y", Sig: []byte{1}}})))
	f.Add(AppendLeaf(nil, outcome(sample()).Append(nil), AppendSignatures(nil, []Signature{{KeyID: "x:y", Sig: []byte{1}}})))
	f.Fuzz(func(t *testing.T, leaf []byte) {
		r, err := ParseRecord(leaf)
		if err != nil {
			return
		}
		if again := AppendLeaf(nil, r.Event.Append(nil), AppendSignatures(nil, r.Signatures)); !bytes.Equal(again, leaf) {
			t.Fatalf("accepted a second spelling:\n%s\n%s", leaf, again)
		}
	})
}

func BenchmarkParseRecord(b *testing.B) {
	leaf := AppendLeaf(nil, sample().Append(nil), AppendSignatures(nil, []Signature{{KeyID: KeyID(make([]byte, 32)), Sig: make([]byte, 64)}}))
	b.SetBytes(int64(len(leaf)))
	for b.Loop() {
		if _, err := ParseRecord(leaf); err != nil {
			b.Fatal(err)
		}
	}
}
