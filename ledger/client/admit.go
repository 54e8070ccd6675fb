package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ArchiveEntry says what the archive keeps (schemaVersion
// counterfoil.archive-entry.v1).
type ArchiveEntry struct {
	SchemaVersion string `json:"schemaVersion"`
	Digest        string `json:"digest"`
	Owner         string `json:"owner"`
	Role          string `json:"role"`
	Size          int64  `json:"size"` // in bytes
}

// AdmissionRecords are the records that a receipt binds, each as JSON of
// docs/spec/admission.md. The first two may be absent.
type AdmissionRecords struct {
	RegistrySnapshot jsontext.Value `json:"registry_snapshot,omitzero"`
	ArtifactBinding  jsontext.Value `json:"artifact_binding,omitzero"`
	EvidenceBundle   jsontext.Value `json:"evidence_bundle"`
	PolicyDecision   jsontext.Value `json:"policy_decision"`
}

// ReceiptRequest asks for the archive receipt of an admission.
type ReceiptRequest struct {
	Records   AdmissionRecords `json:"records"`
	Retention RetentionClass   `json:"retention"`
	// Sensitive is set for a tool that reads secrets.
	Sensitive bool `json:"sensitive,omitzero"`
	// Refers names the old admission of a backfill.
	Refers string `json:"refers,omitempty"`
}

// RetentionClass is a retention class as a policy defines it.
type RetentionClass struct {
	Class string `json:"class"`
	Kind  string `json:"kind"` // security_evidence or discovery_telemetry
	Days  int    `json:"days"`
}

// AdmissionReceipt is an archive receipt that is kept (schemaVersion
// counterfoil.admission-receipt.v1).
type AdmissionReceipt struct {
	SchemaVersion     string `json:"schemaVersion"`
	AttemptID         string `json:"attemptId"`
	Receipt           string `json:"receipt"` // digest of the sealed receipt
	SpanningSetDigest string `json:"spanningSetDigest"`
	ReceivedAt        string `json:"receivedAt"`
	KeyID             string `json:"keyId"`
	// VSA is the digest of the decision as a SLSA verification summary, in a
	// Sigstore bundle that [Client.ArchiveBody] reads; "" if there is none.
	VSA string `json:"vsa,omitempty"`
}

// KeepBody keeps a body of at most 4 MiB in the archive, under a role. It counts
// as kept once a receipt is. The same again is no error.
func (c *Client) KeepBody(ctx context.Context, role string, body []byte, r Retained) (*Answer[ArchiveEntry], error) {
	query := url.Values{"owner": {r.Owner}, "role": {role}, "class": {r.Class}, "kind": {r.Kind}, "days": {strconv.Itoa(r.Days)}}
	if r.Sensitive {
		query.Set("sensitive", "true")
	}
	if body == nil {
		body = []byte{}
	}
	raw, _, err := c.read(ctx, http.MethodPost, "/v1/archive", query, body, MaxAnswerBytes)
	if err != nil {
		return nil, err
	}
	return parse[ArchiveEntry]("/v1/archive", raw)
}

// SealReceipt makes the ledger keep the records of an admission and its receipt,
// which it signs. It is not repeated here: the archive phase of an admission has
// its own right to.
func (c *Client) SealReceipt(ctx context.Context, attemptID string, req *ReceiptRequest) (*Answer[AdmissionReceipt], error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("encode the records of an admission: %w", err)
	}
	path := "/v1/admissions/" + url.PathEscape(attemptID) + "/receipt"
	raw, _, err := c.read(ctx, http.MethodPost, path, nil, body, MaxAnswerBytes)
	if err != nil {
		return nil, err
	}
	return parse[AdmissionReceipt](path, raw)
}
