package api

import (
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/commit"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
	"counterfoil/projections/receipts"
)

// ReceiptSchema is the schemaVersion of a Receipt.
const ReceiptSchema = "counterfoil.receipt.v1"

// Stages of a receipt, in order.
const (
	StageAccepted  = "accepted"
	StageLogged    = "logged"
	StagePublished = "published"
	StageWitnessed = "witnessed"
)

// Receipt is a record with its place in the log, as answers carry it (EVI-14).
// The signed event is what the members above commitment are taken from; the
// commitment (digest and signatures) stands beside them (EVI-16), and place and
// proof are outside of what is signed.
type Receipt struct {
	SchemaVersion     string            `json:"schemaVersion"`
	EventID           string            `json:"eventId"`
	EventType         string            `json:"eventType"` // <subject kind>.<lifecycle>
	AttemptID         string            `json:"attemptId"`
	Lifecycle         event.Lifecycle   `json:"lifecycle"`
	Revision          int64             `json:"revision"`
	Previous          string            `json:"previous,omitempty"`
	Ledger            string            `json:"ledger"`
	Tenant            string            `json:"tenant"`
	Subject           event.Subject     `json:"subject"`
	OccurredAt        string            `json:"occurredAt"`
	CapturedAt        string            `json:"capturedAt"`
	ClockSkew         bool              `json:"clockSkew,omitzero"` // the two times are more than 60 s apart
	TraceID           string            `json:"traceId,omitempty"`
	Action            ReceiptAction     `json:"action"`
	ReasonCodes       []string          `json:"reasonCodes,omitempty"`
	Commitments       map[string]string `json:"commitments,omitempty"`
	Refs              map[string]string `json:"refs,omitempty"`
	Statement         jsontext.Value    `json:"statement,omitzero"`
	Source            ReceiptSource     `json:"source"`
	SourceAttestation event.Assurance   `json:"sourceAttestation"`
	ClaimBoundary     string            `json:"claimBoundary"`
	Commitment        Commitment        `json:"commitment"`
	LeafIndex         uint64            `json:"leafIndex"`
	Stage             string            `json:"stage"`
	TreeSize          uint64            `json:"treeSize,omitzero"`
	InclusionProof    []string          `json:"inclusionProof,omitempty"`
	Checkpoint        string            `json:"checkpoint,omitempty"`
	Witnesses         *Witnesses        `json:"witnesses,omitempty"`
	Openings          []Opening         `json:"openings,omitempty"`
}

// ReceiptAction is the action with its phase and status.
type ReceiptAction struct {
	Name       string `json:"name"`
	EffectKind string `json:"effectKind"`
	EffectMode string `json:"effectMode"`
	Phase      string `json:"phase"`
	Status     string `json:"status"`
}

// ReceiptSource is the source as it named itself.
type ReceiptSource struct {
	RuntimeID      string `json:"runtimeId"`
	AgentID        string `json:"agentId"`
	InvocationID   string `json:"invocationId"`
	Protocol       string `json:"protocol"`
	Implementation string `json:"implementation"`
	EventID        string `json:"eventId,omitempty"`
}

// Commitment is the digest of the event and the signatures over it.
type Commitment struct {
	Digest      string         `json:"digest"`
	PayloadType string         `json:"payloadType"`
	Signatures  jsontext.Value `json:"signatures"`
}

// Opening is what opens a commitment together with the value, which the caller
// has. It is given once, to the caller of begin or append.
type Opening struct {
	Name     string `json:"name"`
	Encoding string `json:"encoding"` // jcs or raw
	Salt     string `json:"salt"`     // standard base64 of 32 bytes
	Digest   string `json:"digest"`
}

// Witnesses says how many of the witnesses that the ledger's quorum asks for
// cosigned the checkpoint, and how few can meet the quorum.
type Witnesses struct {
	Have uint64 `json:"have"`
	Need uint64 `json:"need"`
}

// Place is where a record stands in the log.
type Place struct {
	LeafIndex  uint64
	Stage      string
	TreeSize   uint64     // of the checkpoint; 0 before publication
	Proof      [][]byte   // inclusion proof to the checkpoint's root
	Checkpoint string     // signed note
	Witnesses  *Witnesses // nil before publication, and on a ledger without a quorum of witnesses
}

// NewReceipt words a record and its place.
func NewReceipt(rec *event.Record, p Place, openings []intake.Opening) *Receipt {
	e := rec.Event
	r := &Receipt{
		SchemaVersion: ReceiptSchema, EventID: rec.Digest().EventID(), EventType: string(e.Subject.Kind) + "." + string(e.Lifecycle),
		AttemptID: e.AttemptID, Lifecycle: e.Lifecycle, Revision: e.Revision, Previous: e.Previous,
		Ledger: e.Ledger, Tenant: e.Tenant, Subject: e.Subject, OccurredAt: e.OccurredAt, CapturedAt: e.CapturedAt,
		ClockSkew: skewed(e), TraceID: e.TraceID,
		Action:      ReceiptAction{e.Action.Name, e.Action.EffectKind, e.Action.EffectMode, e.Lifecycle.Phase(), e.Status},
		ReasonCodes: e.ReasonCodes, Commitments: e.Commitments, Refs: e.Refs, Statement: e.Statement,
		Source: ReceiptSource{e.Source.RuntimeID, e.Source.AgentID, e.Source.InvocationID, e.Source.Protocol,
			e.Source.Implementation, e.Source.EventID},
		SourceAttestation: e.Source.Assurance, ClaimBoundary: e.ClaimBoundary,
		Commitment: Commitment{Digest: rec.Digest().String(), PayloadType: event.PayloadType, Signatures: rec.SignatureBytes},
		LeafIndex:  p.LeafIndex, Stage: p.Stage, TreeSize: p.TreeSize, Checkpoint: p.Checkpoint, Witnesses: p.Witnesses,
	}
	for _, h := range p.Proof {
		r.InclusionProof = append(r.InclusionProof, base64.StdEncoding.EncodeToString(h))
	}
	for _, o := range openings {
		r.Openings = append(r.Openings, Opening{Name: o.Name, Encoding: string(o.Encoding),
			Salt: base64.StdEncoding.EncodeToString(o.Salt[:]), Digest: commit.FormatDigest(o.Digest)})
	}
	return r
}

// skewed compares the source's clock with the ledger's. Equal is no error, and
// neither is a skew: the order is the leaf index.
func skewed(e *event.Event) bool {
	a, okA := event.ParseTime(e.OccurredAt)
	b, okB := event.ParseTime(e.CapturedAt)
	return okA && okB && receipts.Skewed(a, b)
}
