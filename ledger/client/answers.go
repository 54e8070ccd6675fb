package client

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Answer is a document of the ledger: typed where this package knows it, and as
// it came. Members that this version does not know are in Raw alone.
type Answer[T any] struct {
	Value T
	// Raw is the body, byte for byte but for the line end.
	Raw []byte
	// New is true if a begin or append recorded something, false if it was
	// recorded before.
	New bool
}

// Receipt is a record with its place in the log (schemaVersion
// counterfoil.receipt.v1).
type Receipt struct {
	SchemaVersion     string            `json:"schemaVersion"`
	EventID           string            `json:"eventId"`
	EventType         string            `json:"eventType"`
	AttemptID         string            `json:"attemptId"`
	Lifecycle         string            `json:"lifecycle"`
	Revision          int64             `json:"revision"`
	Ledger            string            `json:"ledger"`
	Tenant            string            `json:"tenant"`
	Subject           Subject           `json:"subject"`
	OccurredAt        string            `json:"occurredAt"`
	CapturedAt        string            `json:"capturedAt"`
	ClockSkew         bool              `json:"clockSkew,omitzero"`
	TraceID           string            `json:"traceId,omitempty"`
	Action            Action            `json:"action"`
	ReasonCodes       []string          `json:"reasonCodes,omitempty"`
	Commitments       map[string]string `json:"commitments,omitempty"`
	Refs              map[string]string `json:"refs,omitempty"`
	Source            Source            `json:"source"`
	SourceAttestation Assurance         `json:"sourceAttestation"`
	ClaimBoundary     string            `json:"claimBoundary"`
	Commitment        Commitment        `json:"commitment"`
	LeafIndex         uint64            `json:"leafIndex"`
	Stage             Stage             `json:"stage"`
	TreeSize          uint64            `json:"treeSize,omitzero"`
	Checkpoint        string            `json:"checkpoint,omitempty"`
	Witnesses         *Witnesses        `json:"witnesses,omitempty"`
}

// Witnesses says how many witnesses cosigned the checkpoint that covers a
// receipt, and how few can meet the ledger's quorum.
type Witnesses struct {
	Have uint64 `json:"have"`
	Need uint64 `json:"need"`
}

// StageText is the stage with what is missing of the next: "published (1 of 2)".
func (r *Receipt) StageText() string {
	if r.Stage == Published && r.Witnesses != nil {
		return fmt.Sprintf("%s (%d of %d)", r.Stage, r.Witnesses.Have, r.Witnesses.Need)
	}
	return string(r.Stage)
}

// Subject is what an attempt is about.
type Subject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// Assurance is what the ledger knows about the source.
type Assurance struct {
	Level  string `json:"level"`
	Status string `json:"status"`
}

// Commitment is the digest of the signed event.
type Commitment struct {
	Digest      string `json:"digest"`
	PayloadType string `json:"payloadType"`
}

// Attempt is the state and the history of an attempt (schemaVersion
// counterfoil.attempt.v1).
type Attempt struct {
	SchemaVersion  string    `json:"schemaVersion"`
	AttemptID      string    `json:"attemptId"`
	State          string    `json:"state"`
	Outcome        string    `json:"outcome,omitempty"`
	Reconciliation string    `json:"reconciliation,omitempty"`
	Reversal       string    `json:"reversal,omitempty"`
	Review         string    `json:"review,omitempty"`
	InDoubt        bool      `json:"inDoubt,omitzero"`
	Corrected      bool      `json:"corrected,omitzero"`
	Revision       int64     `json:"revision"`
	Subject        Subject   `json:"subject"`
	Action         Action    `json:"action"`
	Source         Source    `json:"source"`
	Stage          Stage     `json:"stage"`
	TreeSize       uint64    `json:"treeSize"`
	Receipts       []Receipt `json:"receipts"`
}

// AttemptSummary is an attempt in a list.
type AttemptSummary struct {
	AttemptID  string  `json:"attemptId"`
	State      string  `json:"state"`
	Review     string  `json:"review,omitempty"`
	InDoubt    bool    `json:"inDoubt,omitzero"`
	Corrected  bool    `json:"corrected,omitzero"`
	Revision   int64   `json:"revision"`
	Subject    Subject `json:"subject"`
	Tool       string  `json:"tool"`
	AgentID    string  `json:"agentId"`
	RuntimeID  string  `json:"runtimeId"`
	OccurredAt string  `json:"occurredAt"` // of the attempt
	CapturedAt string  `json:"capturedAt"` // of the attempt, by the ledger's clock
	FirstIndex uint64  `json:"firstIndex"` // leaf of its first event
	LastIndex  uint64  `json:"lastIndex"`
}

// Attempts is one page of attempts (schemaVersion counterfoil.attempts.v1).
type Attempts struct {
	TreeSize      uint64           `json:"treeSize"` // that the page reflects
	Attempts      []AttemptSummary `json:"attempts"`
	NextPageToken string           `json:"nextPageToken,omitempty"`
}

// Receipts is one page of receipts (schemaVersion counterfoil.receipts.v1).
type Receipts struct {
	TreeSize      uint64    `json:"treeSize"` // that the page reflects
	Receipts      []Receipt `json:"receipts"`
	NextPageToken string    `json:"nextPageToken,omitempty"`
}

// Status is the ledger's own state (schemaVersion counterfoil.status.v1).
type Status struct {
	Origin        string  `json:"origin"`
	Tenant        string  `json:"tenant"`
	Version       string  `json:"version"`
	Durability    string  `json:"durability"`
	StreamLast    uint64  `json:"streamLast"`
	LogSize       uint64  `json:"logSize"`
	PublishedSize uint64  `json:"publishedSize"`
	WitnessedSize uint64  `json:"witnessedSize"`
	ViewSize      uint64  `json:"viewSize"`
	Parked        uint64  `json:"parked"`
	Ready         bool    `json:"ready"`
	Checks        []Check `json:"checks"`
}

// Check is one named condition of the ledger's readiness.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// StreamedEvent is one published leaf of the event stream. A leaf that does not
// count has Parked, the reason, and no Record.
type StreamedEvent struct {
	LeafIndex uint64         `json:"leafIndex"`
	LeafHash  string         `json:"leafHash"`
	EventID   string         `json:"eventId,omitempty"`
	Record    jsontext.Value `json:"record,omitzero"`
	Parked    string         `json:"parked,omitempty"`
	TreeSize  uint64         `json:"treeSize"`

	// Raw is the line as it came.
	Raw []byte `json:"-"`
}
