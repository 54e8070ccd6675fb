// Package leaftest makes leaves and logs for tests of the read side.
package leaftest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"time"

	"counterfoil/ledger/event"
)

// Origin and Tenant are those of all events that are made here.
const (
	Origin = "ledger.example/log"
	Tenant = "default"
)

// Key is the signing key of all leaves, Other one that nobody knows.
var (
	Key   = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	Other = ed25519.NewKeyFromSeed([]byte("0123456789abcdef0123456789abcdef"))
)

// BadSignature is the error of Check.
type BadSignature struct{ code string }

func (e *BadSignature) Error() string { return "signature: " + e.code }

// Code is "unknown_key" or "signature_wrong".
func (e *BadSignature) Code() string { return e.code }

// Check accepts leaves that Key signed.
func Check(rec *event.Record, _ []byte, _ uint64) error {
	pub := Key.Public().(ed25519.PublicKey)
	if rec.VerifyWith(pub) >= 0 {
		return nil
	}
	for _, s := range rec.Signatures {
		if s.KeyID == event.KeyID(pub) {
			return &BadSignature{"signature_wrong"}
		}
	}
	return &BadSignature{"unknown_key"}
}

// NoCheck accepts everything. It is for tests of speed and size only.
func NoCheck(*event.Record, []byte, uint64) error { return nil }

// Start is the time of the first event of every history.
var Start = time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)

// Begin makes the attempt of an invocation; change may alter it before it is
// completed (attempt id and claim boundary follow from the rest).
func Begin(invocation string, change func(*event.Event)) *event.Event {
	now := event.FormatTime(Start)
	e := &event.Event{
		Schema: event.Schema, Ledger: Origin, Tenant: Tenant, Revision: 1, Lifecycle: event.Attempt, Status: event.StatusRequested,
		Subject: event.Subject{Kind: event.ToolAction, ID: "send_mail"}, OccurredAt: now, CapturedAt: now,
		Source: event.Source{RuntimeID: "runtime-1", AgentID: "agent-1", InvocationID: invocation, Protocol: "mcp",
			Implementation: "test 1.0", Assurance: event.SelfAsserted},
		Action: event.Action{Name: "send_mail", EffectKind: "message", EffectMode: "write"},
		Tags:   map[string]string{"request": tag("request:" + invocation)},
	}
	if change != nil {
		change(e)
	}
	if e.AttemptID == "" {
		sum := sha256.Sum256([]byte("attempt:" + invocation))
		e.AttemptID = event.NewAttemptID(event.ScopeOf(e.Tenant, e.Source.RuntimeID, e.Source.InvocationID).Shard(), [15]byte(sum[:15]))
	}
	e.ClaimBoundary = event.ClaimBoundaryFor(e.Lifecycle, e.Subject.Kind)
	return e
}

// After makes the event that follows another one of the same attempt.
func After(prev *event.Event, l event.Lifecycle, status, sourceEvent string, change func(*event.Event)) *event.Event {
	e := *prev
	e.Revision, e.Previous = prev.Revision+1, Digest(prev).String()
	e.Lifecycle, e.Status, e.Source.EventID = l, status, sourceEvent
	e.ReasonCodes, e.Refs, e.Statement = nil, nil, nil
	e.Tags = map[string]string{"request": tag("request:" + e.AttemptID + sourceEvent)}
	switch l {
	case event.Reconciliation:
		e.Statement = event.ReadBack{Source: "mailbox", Observed: event.ObservedUnreachable}.Value()
	case event.Review:
		e.Statement = event.Judgement{Reviewer: "ada"}.Value()
	}
	if change != nil {
		change(&e)
	}
	e.ClaimBoundary = event.ClaimBoundaryFor(e.Lifecycle, e.Subject.Kind)
	return &e
}

// Refers makes a change that sets one ref.
func Refers(name string, to *event.Event) func(*event.Event) {
	return func(e *event.Event) { e.Refs = map[string]string{name: Digest(to).EventID()} }
}

// ReadBack makes a change that sets the read-back of a reconciliation.
func ReadBack(observed, readbackTag string) func(*event.Event) {
	return func(e *event.Event) {
		rb := event.ReadBack{Source: "mailbox", Observed: observed}
		if observed == event.ObservedPresent {
			rb.Count = 1
		}
		e.Statement = rb.Value()
		if readbackTag != "" {
			e.Tags["readback"] = readbackTag
		}
	}
}

// Digest is the digest of an event.
func Digest(e *event.Event) event.Digest { return event.DigestOf(e.Append(nil)) }

// Leaf signs an event with Key.
func Leaf(e *event.Event) []byte { return LeafBy(Key, e) }

// LeafBy signs an event.
func LeafBy(key ed25519.PrivateKey, e *event.Event) []byte {
	b := e.Append(nil)
	sig := ed25519.Sign(key, event.PAE(event.PayloadType, b))
	return event.AppendLeaf(nil, b, event.AppendSignatures(nil, []event.Signature{{KeyID: event.KeyID(key.Public().(ed25519.PublicKey)), Sig: sig}}))
}

var dummy = event.AppendSignatures(nil, []event.Signature{{KeyID: event.KeyID(Key.Public().(ed25519.PublicKey)), Sig: make([]byte, 64)}})

// Unsigned makes a leaf that only NoCheck accepts, at a fraction of the cost.
func Unsigned(e *event.Event) []byte { return event.AppendLeaf(nil, e.Append(nil), dummy) }

func tag(s string) string {
	return fmt.Sprintf("hmac-sha256:%x", sha256.Sum256([]byte(s)))
}

// Tag makes an effect tag.
func Tag(value string) string { return tag("effect:" + value) }
