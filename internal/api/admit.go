package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
)

// Admitter keeps what an admission was judged on. It judges nothing and asks
// nobody: resolvers and verifiers run where the caller is (EVI-02).
type Admitter interface {
	// SealReceipt keeps the records of an admission and signs their receipt.
	SealReceipt(ctx context.Context, attemptID string, r ReceiptRequest) (*AdmissionReceipt, error)
	// ReviewSummary returns a review as a SLSA verification summary in a Sigstore
	// bundle. e is the event of that id. Errors of the archive come as they are.
	ReviewSummary(ctx context.Context, eventID string, e *event.Event) ([]byte, error)
}

// ReceiptRequest asks for the archive receipt of an admission.
type ReceiptRequest struct {
	Records struct {
		RegistrySnapshot jsontext.Value `json:"registry_snapshot"`
		ArtifactBinding  jsontext.Value `json:"artifact_binding"`
		EvidenceBundle   jsontext.Value `json:"evidence_bundle"`
		PolicyDecision   jsontext.Value `json:"policy_decision"`
	} `json:"records"`
	Retention struct {
		Class string `json:"class"`
		Kind  string `json:"kind"`
		Days  int    `json:"days"`
	} `json:"retention"`
	Sensitive bool   `json:"sensitive"`
	Refers    string `json:"refers"`
}

// Schemas of answers.
const (
	AdmissionReceiptSchema = "counterfoil.admission-receipt.v1"
	ArchiveEntrySchema     = "counterfoil.archive-entry.v1"
)

// AdmissionReceipt names a receipt that is kept.
type AdmissionReceipt struct {
	SchemaVersion     string `json:"schemaVersion"`
	AttemptID         string `json:"attemptId"`
	Receipt           string `json:"receipt"` // digest of the sealed receipt
	SpanningSetDigest string `json:"spanningSetDigest"`
	ReceivedAt        string `json:"receivedAt"`
	KeyID             string `json:"keyId"`
	// VSA is the digest of the decision as a SLSA verification summary, in a
	// Sigstore bundle; "" if there is none.
	VSA string `json:"vsa,omitempty"`
}

// ArchiveEntry is the answer to POST /v1/archive.
type ArchiveEntry struct {
	SchemaVersion string `json:"schemaVersion"`
	Digest        string `json:"digest"`
	Owner         string `json:"owner"`
	Role          string `json:"role"`
	Size          int64  `json:"size"`
}

// RolePolicy is the role of a policy document, in its canonical form.
const RolePolicy = "policy"

// keptRoles are the roles of bodies that callers keep one by one. Records and
// receipts come through SealReceipt, which looks at them.
var keptRoles = []string{admission.ExternalEntry, admission.ExternalEvidence, admission.ExternalTrust, RolePolicy}

// keepBody serves POST /v1/archive: it keeps a body that an admission depended on.
func (s *Server) keepBody(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if !slices.Contains(keptRoles, q.Get("role")) {
		return invalid("", "use "+strings.Join(keptRoles, ", "), "bodies are not kept under this role")
	}
	item, err := s.archiveItem(q.Get, q.Get("role"))
	if err != nil {
		return err
	}
	b, err := body(w, r, admission.MaxEvidenceBytes)
	if err != nil {
		return err
	}
	entry, err := s.cfg.Archive.Put(r.Context(), item, bytes.NewReader(b))
	if err != nil {
		return archiveError(err)
	}
	writeJSON(w, http.StatusCreated, &ArchiveEntry{ArchiveEntrySchema, entry.Digest, entry.Owner, entry.Role, entry.Size})
	return nil
}

// archiveItem reads owner and retention from a query.
func (s *Server) archiveItem(get func(string) string, role string) (archive.Item, error) {
	if err := checkAttemptID(get("owner")); err != nil {
		return archive.Item{}, err
	}
	days, err := strconv.Atoi(get("days"))
	if err != nil {
		return archive.Item{}, invalid("", "use 1 to "+strconv.Itoa(archive.MaxDays), "days is no number")
	}
	ret := archive.Retention{Class: get("class"), Kind: get("kind"), Days: days}
	if err := checkRetention(ret); err != nil {
		return archive.Item{}, err
	}
	return archive.Item{Owner: get("owner"), Role: role, Sensitive: get("sensitive") == "true", At: s.cfg.Now(), Retention: ret}, nil
}

func checkRetention(r archive.Retention) error {
	if r.Class == "" || r.Kind != event.RetentionEvidence && r.Kind != event.RetentionTelemetry {
		return invalid("", "choose class, kind (security_evidence or discovery_telemetry) and days before storage", "no retention class")
	}
	if r.Days < 1 || r.Days > archive.MaxDays {
		return invalid("", "use 1 to "+strconv.Itoa(archive.MaxDays), "days is out of range")
	}
	return nil
}

// maxReceiptBody bounds four records with what stands around them.
const maxReceiptBody = 4*admission.MaxRecordBytes + 4<<10

// sealReceipt serves POST /v1/admissions/{attemptId}/receipt.
func (s *Server) sealReceipt(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("attemptId")
	if err := checkAttemptID(id); err != nil {
		return err
	}
	b, err := body(w, r, maxReceiptBody)
	if err != nil {
		return err
	}
	var req ReceiptRequest
	if err := json.Unmarshal(b, &req, json.RejectUnknownMembers(true)); err != nil {
		return invalid("", "the members are in docs/spec/http.md", "not the records of an admission: "+err.Error())
	}
	if err := checkRetention(archive.Retention(req.Retention)); err != nil {
		return err
	}
	out, err := s.cfg.Ledger.SealReceipt(r.Context(), id, req)
	if err != nil {
		return sealError(err)
	}
	writeJSON(w, http.StatusCreated, out)
	return nil
}

// sealError words trouble of the archive by its own codes, all else as usual.
func sealError(err error) error {
	if failure := (*archive.Failure)(nil); errors.As(err, &failure) {
		return archiveError(err)
	}
	return err
}
