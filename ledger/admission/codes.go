package admission

import (
	"maps"
	"slices"
)

// Code is a reason code of an admission: lower_snake. The registry is append-only;
// a code keeps its meaning for ever.
type Code string

// Gate is one of the five gates that an admission passes in this order (ADM-10).
type Gate string

// The gates in order.
const (
	GateDiscovery Gate = "discovery"
	GateArtifact  Gate = "artifact"
	GateEvidence  Gate = "evidence"
	GatePolicy    Gate = "policy"
	GateArchive   Gate = "archive"
)

// Gates lists the gates in order. It must not be changed.
var Gates = []Gate{GateDiscovery, GateArtifact, GateEvidence, GatePolicy, GateArchive}

// Route is who has to act on a code: a failure of the archive and a gap in the
// evidence both block, but they wake different people (ARC-05).
type Route string

// Routes. RouteNone is for codes of what went well.
const (
	RouteNone      Route = "none"
	RoutePublisher Route = "publisher"
	RoutePolicy    Route = "policy"
	RoutePlatform  Route = "platform"
)

// Codes of what went well, in the order in which an admit lists them (ADM-15).
const (
	NamespaceAuthenticated    Code = "namespace_authenticated"
	ArtifactDigestBound       Code = "artifact_digest_bound"
	ArtifactIdentityBound     Code = "artifact_identity_bound"
	ArtifactStatementAccepted Code = "artifact_statement_accepted"
	AttestationPolicyPass     Code = "attestation_policy_pass"
)

// Codes of gate discovery.
const (
	EntryTooLarge            Code = "registry_entry_too_large"
	EntryInvalidJSON         Code = "registry_entry_invalid_json"
	EntryDuplicateMember     Code = "registry_entry_duplicate_member"
	EntrySnakeCase           Code = "registry_entry_snake_case"
	EntryInvalid             Code = "registry_entry_invalid"
	EntryUnavailable         Code = "registry_entry_unavailable"
	EntryWithdrawn           Code = "registry_entry_withdrawn"
	SchemaVersionUnsupported Code = "schema_version_unsupported"
	NamespaceAuthMissing     Code = "namespace_auth_missing"
	NamespaceUnverified      Code = "namespace_unverified"
)

// Codes of gate artifact. ArtifactDigestMismatch is also the code of evidence
// about other bytes.
const (
	MissingArtifactBinding   Code = "missing_artifact_binding"
	ArtifactUnresolved       Code = "artifact_unresolved"
	ArtifactUnsupported      Code = "artifact_type_unsupported"
	ArtifactTooLarge         Code = "artifact_too_large"
	ArtifactUnsafe           Code = "artifact_unsafe"
	ArtifactDigestMismatch   Code = "artifact_digest_mismatch"
	ArtifactIntegrity        Code = "artifact_integrity_mismatch"
	ArtifactVersionMismatch  Code = "artifact_version_mismatch"
	FileSHA256Mismatch       Code = "file_sha256_mismatch"
	MCPNameMismatch          Code = "mcp_name_mismatch"
	TagMoved                 Code = "artifact_tag_moved"
	RemoteNotBytePinnable    Code = "remote_not_byte_pinnable"
	BindingNotAccepted       Code = "artifact_binding_not_accepted"
	TLSIdentityMismatch      Code = "tls_identity_mismatch"
	ToolContractMismatch     Code = "tool_contract_mismatch"
	RequiredCheckNotPassed   Code = "required_check_not_passed"
	RequiredAlgorithmMissing Code = "required_algorithm_missing"
)

// Codes of gate evidence. EvidenceGap leads, the failed demand follows (ADM-13).
const (
	EvidenceGap               Code = "evidence_gap"
	EvidenceUnavailable       Code = "evidence_unavailable"
	EvidenceTooLarge          Code = "evidence_too_large"
	AttestationMissing        Code = "attestation_missing"
	AttestationTypeMismatch   Code = "attestation_type_mismatch"
	AttestationMalformed      Code = "attestation_malformed"
	AttestationTampered       Code = "attestation_tampered"
	AttestationSignature      Code = "attestation_signature_invalid"
	AttestationSignatureCount Code = "attestation_signature_count"
	SubjectNameMismatch       Code = "subject_name_mismatch"
	SignerIdentityMismatch    Code = "signer_identity_mismatch"
	SignerCertificate         Code = "signer_certificate_invalid"
	SignerKeyUnknown          Code = "signer_key_unknown"
	SignerKeyNotValid         Code = "signer_key_not_valid_at_signing"
	SigningTimeUnverified     Code = "signing_time_unverified"
	TrustRootLogUnknown       Code = "trust_root_log_unknown"
	ProvenanceRegressed       Code = "provenance_regressed"
)

// Codes of gate policy.
const (
	PolicyNoMatch      Code = "policy_no_match"
	PolicyRuleFailed   Code = "policy_rule_failed"
	PolicyRuleError    Code = "policy_rule_error"
	PolicyCostExceeded Code = "policy_cost_exceeded"
)

// Codes of gate archive. ArchiveWriteFailure leads, the kind of failure follows
// (ADM-14, ARC-04).
const (
	ArchiveWriteFailure     Code = "archive_write_failure"
	ArchiveUnreachable      Code = "archive_unreachable"
	ArchiveFull             Code = "archive_full"
	ArchivePermissionDenied Code = "archive_permission_denied"
	ArchiveRetentionDenied  Code = "archive_retention_denied"
	ArchiveDigestEncoding   Code = "archive_digest_encoding"
	ArchiveDigestMismatch   Code = "archive_digest_mismatch"
	ArchiveUnsigned         Code = "archive_receipt_unsigned"
)

// CodeInfo is what the registry says about a code.
type CodeInfo struct {
	Gate    Gate
	Route   Route
	Meaning string
	// Aliases are other spellings in use elsewhere. They are read, never written.
	Aliases []string
}

// Info returns the registry's entry of a code.
func (c Code) Info() (CodeInfo, bool) {
	i, ok := codes[c]
	return i, ok
}

// bad reports whether the code is registered and says that something went wrong.
func (c Code) bad() bool {
	i, ok := codes[c]
	return ok && i.Route != RouteNone
}

// Codes lists the registry in alphabetical order.
func Codes() []Code { return slices.Sorted(maps.Keys(codes)) }

// ParseCode reads a code or an alias of one.
func ParseCode(s string) (Code, bool) {
	if _, ok := codes[Code(s)]; ok {
		return Code(s), true
	}
	c, ok := aliases[s]
	return c, ok
}

var aliases = func() map[string]Code {
	m := make(map[string]Code)
	for c, i := range codes {
		for _, a := range i.Aliases {
			m[a] = c
		}
	}
	return m
}()
