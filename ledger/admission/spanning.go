package admission

import (
	"fmt"
)

// SpanningSet is what one admission binds together. Its digest is the SHA-256 of
// its canonical JSON, and the root of an archive receipt. The member names are
// those of the published format, in snake_case; Records is ours and absent from
// sets of others. A digest of nothing is the empty string: it is never invented.
type SpanningSet struct {
	RegistrySnapshot SpanSnapshot `json:"registry_snapshot"`
	EvidenceBundle   SpanEvidence `json:"evidence_bundle"`
	PolicyDecision   SpanDecision `json:"policy_decision"`
	RetentionClass   string       `json:"retention_class"`
	Records          *SpanRecords `json:"records,omitempty"`
}

// SpanSnapshot is the registry snapshot in short.
type SpanSnapshot struct {
	Registry       string `json:"registry"`
	ServerName     string `json:"server_name"`
	MetadataDigest string `json:"metadata_digest"` // of the raw bytes of server.json
	NamespaceAuth  string `json:"namespace_auth"`  // method:result
}

// SpanEvidence is artifact and evidence in short.
type SpanEvidence struct {
	ArtifactDigest          string `json:"artifact_digest"` // sha256 of the bytes
	SignatureBundleDigest   string `json:"signature_bundle_digest"`
	AttestationDigest       string `json:"attestation_digest"`
	ProvenanceSummaryDigest string `json:"provenance_summary_digest"`
}

// SpanDecision is the policy decision in short.
type SpanDecision struct {
	PolicyDigest    string   `json:"policy_digest"`
	VerifierVersion string   `json:"verifier_version"`
	Decision        string   `json:"decision"`
	ReasonCodes     []string `json:"reason_codes"`
}

// SpanRecords are the digests of the whole records. With them no member of any
// record can change without the set's digest.
type SpanRecords struct {
	RegistrySnapshot string `json:"registry_snapshot,omitempty"`
	ArtifactBinding  string `json:"artifact_binding,omitempty"`
	EvidenceBundle   string `json:"evidence_bundle"`
	PolicyDecision   string `json:"policy_decision"`
}

// ParseSpanningSet reads a set from its canonical bytes.
func ParseSpanningSet(b []byte) (*SpanningSet, error) { return parse[SpanningSet](b) }

// Validate implements [Record]. It accepts sets of others, whose reason codes may
// be spelled otherwise.
func (s *SpanningSet) Validate() error {
	r, e, d := s.RegistrySnapshot, s.EvidenceBundle, s.PolicyDecision
	if err := first(
		checkOptionalText("/registry_snapshot/registry", r.Registry, MaxLocatorBytes),
		checkOptionalText("/registry_snapshot/server_name", r.ServerName, maxNameBytes),
		checkOptionalDigest("/registry_snapshot/metadata_digest", r.MetadataDigest),
		checkText("/registry_snapshot/namespace_auth", r.NamespaceAuth, 64),
		checkOptionalDigest("/evidence_bundle/artifact_digest", e.ArtifactDigest),
		checkOptionalDigest("/evidence_bundle/signature_bundle_digest", e.SignatureBundleDigest),
		checkOptionalDigest("/evidence_bundle/attestation_digest", e.AttestationDigest),
		checkOptionalDigest("/evidence_bundle/provenance_summary_digest", e.ProvenanceSummaryDigest),
		checkDigest("/policy_decision/policy_digest", d.PolicyDigest),
		checkText("/policy_decision/verifier_version", d.VerifierVersion, MaxLocatorBytes),
		checkRetention("/retention_class", s.RetentionClass),
	); err != nil {
		return err
	}
	decision, err := ParseDecision(d.Decision)
	if err != nil {
		err.(*Error).Path = "/policy_decision/decision"
		return err
	}
	if decision == Admit && (r.Registry == "" || r.ServerName == "" || r.MetadataDigest == "") {
		return bad("/registry_snapshot", "has no registry, server_name or metadata_digest in an admit")
	}
	if len(d.ReasonCodes) == 0 || len(d.ReasonCodes) > maxCodes {
		return bad("/policy_decision/reason_codes", "%d codes, want 1 to %d", len(d.ReasonCodes), maxCodes)
	}
	for i, c := range d.ReasonCodes {
		if err := checkToken(fmt.Sprintf("/policy_decision/reason_codes/%d", i), c); err != nil {
			return err
		}
	}
	if k := s.Records; k != nil {
		return first(checkOptionalDigest("/records/registry_snapshot", k.RegistrySnapshot),
			checkOptionalDigest("/records/artifact_binding", k.ArtifactBinding),
			checkDigest("/records/evidence_bundle", k.EvidenceBundle),
			checkDigest("/records/policy_decision", k.PolicyDecision))
	}
	return nil
}

// checkRetention refuses a set without a retention class: it is chosen before
// anything is stored (ARC-06).
func checkRetention(path, s string) error {
	if s == "" {
		return &Error{path, "is missing", "choose the retention class before storage"}
	}
	return checkToken(path, s)
}

// Digest is the spanning-set digest.
func (s *SpanningSet) Digest() (string, error) {
	digest, _, err := Name(s)
	return digest, err
}

// Set is the four records that a receipt binds. Snapshot is nil if no entry could
// be read, Binding if there is no artifact.
type Set struct {
	Snapshot *RegistrySnapshot
	Binding  *ArtifactBinding
	Evidence *EvidenceBundle
	Decision *PolicyDecision
}

// Records are the digests of the records and their canonical bytes, by name.
type namedRecord struct {
	name   string
	record Record
	digest *string
}

// names computes the digests of the records.
func (s *Set) names() (*SpanRecords, error) {
	var d SpanRecords
	var list []namedRecord
	if s.Snapshot != nil {
		list = append(list, namedRecord{"registry_snapshot", s.Snapshot, &d.RegistrySnapshot})
	}
	if s.Binding != nil {
		list = append(list, namedRecord{"artifact_binding", s.Binding, &d.ArtifactBinding})
	}
	if s.Evidence == nil || s.Decision == nil {
		return nil, bad("", "a set has an evidence bundle and a policy decision")
	}
	list = append(list, namedRecord{"evidence_bundle", s.Evidence, &d.EvidenceBundle},
		namedRecord{"policy_decision", s.Decision, &d.PolicyDecision})
	for _, r := range list {
		digest, _, err := Name(r.record)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		*r.digest = digest
	}
	return &d, nil
}

// Span puts the records together. It refuses a set whose records do not name
// each other, and an admit without the attestation that its class demands
// (ADM-16).
func (s *Set) Span(retentionClass string) (*SpanningSet, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	if err := s.linked(names); err != nil {
		return nil, err
	}
	d := s.Decision
	if d.Decision == Admit && d.AttestationRequired && s.Evidence.Attestation == "" {
		return nil, bad("/evidence_bundle/attestation_digest", "admitted tool evidence must keep attestation binding")
	}
	span := &SpanningSet{
		RegistrySnapshot: SpanSnapshot{NamespaceAuth: NamespaceAuth{}.String()},
		EvidenceBundle: SpanEvidence{
			ArtifactDigest: s.Binding.SHA256(), SignatureBundleDigest: s.Evidence.SignatureBundle,
			AttestationDigest: s.Evidence.Attestation, ProvenanceSummaryDigest: s.Evidence.ProvenanceSummary,
		},
		PolicyDecision: SpanDecision{
			PolicyDigest: d.Policy.Digest, VerifierVersion: d.VerifierVersion(), Decision: string(d.Decision),
		},
		RetentionClass: retentionClass, Records: names,
	}
	if r := s.Snapshot; r != nil {
		span.RegistrySnapshot = SpanSnapshot{r.Registry, r.ServerName, r.Raw.Digest, r.Namespace.String()}
	}
	for _, c := range d.ReasonCodes {
		span.PolicyDecision.ReasonCodes = append(span.PolicyDecision.ReasonCodes, string(c))
	}
	return span, span.Validate()
}

// linked checks that decision and evidence name the records beside them.
func (s *Set) linked(names *SpanRecords) error {
	for _, l := range []struct{ record, got, want string }{
		{"registry_snapshot", names.RegistrySnapshot, s.Decision.Snapshot},
		{"artifact_binding", names.ArtifactBinding, s.Decision.Binding},
		{"artifact_binding", names.ArtifactBinding, s.Evidence.Binding},
		{"evidence_bundle", names.EvidenceBundle, s.Decision.Evidence},
	} {
		if l.got != l.want {
			return &Mismatch{l.record, l.want, l.got}
		}
	}
	return nil
}

// Mismatch says which record of a set is not the one that was bound (ADM-25).
type Mismatch struct {
	// Record is registry_snapshot, artifact_binding, evidence_bundle,
	// policy_decision or spanning_set.
	Record string
	// Expected is the digest that was bound, Got that of what is there; empty
	// if nothing was bound or is there.
	Expected, Got string
}

func (m *Mismatch) Error() string {
	return fmt.Sprintf("spanning-set digest mismatch: %s: expected %s, got %s", m.Record, orNone(m.Expected), orNone(m.Got))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
