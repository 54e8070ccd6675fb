package client

import (
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/event"
)

// Begin is the body of POST /v1/attempts (EVI-06). The source's runtimeId and
// invocationId together are its identity: the same pair with the same content
// is the same attempt, for ever.
type Begin struct {
	Source     Source `json:"source"`
	OccurredAt string `json:"occurredAt"` // RFC 3339, UTC, milliseconds: 2026-07-28T00:00:00.000Z
	TraceID    string `json:"traceId,omitempty"`
	Action     Action `json:"action"`
	// Subject is what the attempt is about; without one the action by its name.
	Subject Subject `json:"subject,omitzero"`
	// PrivateInput is JSON, PrivateInputRaw bytes that JSON cannot carry
	// exactly; one of them, or none. The ledger keeps commitments only.
	PrivateInput    jsontext.Value `json:"privateInput,omitzero"`
	PrivateInputRaw []byte         `json:"privateInputRaw,omitempty"` // standard base64 on the wire
	ExpectedEffect  jsontext.Value `json:"expectedEffect,omitzero"`
	KeepBody        bool           `json:"keepBody,omitzero"`
	// Contract is for subjects of kind contract only.
	Contract *event.ContractTerms `json:"contract,omitempty"`
}

// Source names who acts, in the words of the one who reports it. Each member
// has 1 to 255 bytes.
type Source struct {
	RuntimeID      string `json:"runtimeId"`
	AgentID        string `json:"agentId"`
	InvocationID   string `json:"invocationId"`
	Protocol       string `json:"protocol"`
	Implementation string `json:"implementation"`
	EventID        string `json:"eventId,omitempty"` // in receipts of appended events only
}

// Action is what is done. Phase and Status are set in receipts only.
type Action struct {
	Name       string `json:"name"`
	EffectKind string `json:"effectKind"`
	EffectMode string `json:"effectMode"`
	Phase      string `json:"phase,omitempty"`
	Status     string `json:"status,omitempty"`
}

// Append is the body of POST /v1/attempts/{attemptId}/events (EVI-07) for the
// lifecycles that programs report: outcome and reversal. Other lifecycles go
// through [Client.AppendRaw].
type Append struct {
	AttemptID        string            `json:"attemptId"`
	Lifecycle        string            `json:"lifecycle"`
	SourceEventID    string            `json:"sourceEventId"` // unique within the attempt
	OccurredAt       string            `json:"occurredAt"`
	Status           string            `json:"status,omitempty"`
	PrivateResult    jsontext.Value    `json:"privateResult,omitzero"`
	PrivateResultRaw []byte            `json:"privateResultRaw,omitempty"`
	ReasonCodes      []string          `json:"reasonCodes,omitempty"`
	Refs             map[string]string `json:"refs,omitempty"`
	KeepBody         bool              `json:"keepBody,omitzero"`
}

// Stage is how far an event has come: what a begin or append waits for, and
// what a receipt states.
type Stage string

// The stages that a caller can wait for. An empty stage leaves the choice to
// the ledger's durability profile.
const (
	Accepted  Stage = "accepted"  // stored in the stream
	Logged    Stage = "logged"    // a durable leaf of the log
	Published Stage = "published" // under a signed checkpoint
	Witnessed Stage = "witnessed" // under one that enough witnesses cosigned
)
