package archive

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ReplayFields are what a review run needs of an old admission: JSON pointers whose
// first part is the role of the record. A compaction that would leave one of them
// nowhere is refused (ARC-08).
var ReplayFields = []string{
	"/receipt/receipt/receivedAt",
	"/receipt/receipt/retentionClass",
	"/receipt/receipt/spanningSet",
	"/receipt/receipt/records/evidence_bundle",
	"/receipt/receipt/records/policy_decision",
	"/spanning_set/registry_snapshot/registry",
	"/spanning_set/registry_snapshot/server_name",
	"/spanning_set/registry_snapshot/metadata_digest",
	"/spanning_set/registry_snapshot/namespace_auth",
	"/spanning_set/evidence_bundle/artifact_digest",
	"/spanning_set/evidence_bundle/signature_bundle_digest",
	"/spanning_set/evidence_bundle/attestation_digest",
	"/spanning_set/evidence_bundle/provenance_summary_digest",
	"/spanning_set/policy_decision/policy_digest",
	"/spanning_set/policy_decision/verifier_version",
	"/spanning_set/policy_decision/decision",
	"/spanning_set/policy_decision/reason_codes",
	"/spanning_set/retention_class",
	"/policy_decision/class",
	"/policy_decision/policy/id",
	"/policy_decision/policy/version",
	"/policy_decision/verdicts",
	"/policy_decision/decidedAt",
}

// AuditSchema is the schema of a FieldAudit.
const AuditSchema = "counterfoil.field-audit.v1"

// FieldAudit says that every field which a later review needs is in what a
// compaction leaves. It is kept, durably, before the first tombstone.
type FieldAudit struct {
	Schema   string   `json:"schema"`
	Required []string `json:"required"` // JSON pointers, sorted
	At       string   `json:"at"`       // event.TimeLayout
}

// MissingFields refuses a compaction: nothing was dropped.
type MissingFields struct{ Fields []string }

func (e *MissingFields) Error() string {
	return fmt.Sprintf("the summary lacks %d fields that a review needs: %s (hint: keep the records that have them)", len(e.Fields), strings.Join(e.Fields, ", "))
}

// missing returns the pointers that lead nowhere in the records of these roles. A
// member that is null leads nowhere; one that is empty was empty.
func missing(records map[string]jsontext.Value, required []string) (out []string) {
	for _, p := range required {
		role, rest, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		doc, ok := records[role]
		if !ok || !strings.HasPrefix(p, "/") || !leads(doc, rest) {
			out = append(out, p)
		}
	}
	return out
}

func leads(doc jsontext.Value, pointer string) bool {
	for pointer != "" {
		var part string
		part, pointer, _ = strings.Cut(pointer, "/")
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch doc.Kind() {
		case '{':
			var members map[string]jsontext.Value
			if json.Unmarshal(doc, &members) != nil {
				return false
			}
			doc = members[part]
		case '[':
			var items []jsontext.Value
			i, err := strconv.Atoi(part)
			if json.Unmarshal(doc, &items) != nil || err != nil || i < 0 || i >= len(items) {
				return false
			}
			doc = items[i]
		default:
			return false
		}
	}
	return len(doc) > 0 && doc.Kind() != 'n'
}

// members lists the names of an object's members, sorted; none of anything else.
func members(doc []byte) []string {
	var m map[string]jsontext.Value
	if json.Unmarshal(doc, &m) != nil {
		return nil
	}
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
