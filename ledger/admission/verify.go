package admission

import "context"

// Bounds of what adapters hand over.
const (
	MaxEvidenceBytes  = 4 << 20 // one file of evidence
	MaxEvidenceFiles  = 32      // files of evidence of one admission
	MaxFindings       = 64      // attestations judged in one admission
	MaxSubjects       = 256     // subjects of one attestation
	MaxChecks         = 32      // checks of one admission
	MaxDetailBytes    = 1024    // a detail, for people
	MaxLocatorBytes   = 2048    // a URL or a file name
	MaxTrustMaterials = 16      // of one verifier
)

// Selection is the one path through a registry entry that is to be admitted
// (ADM-22): one package or one remote, never both.
type Selection struct {
	Server  *Entry   // the whole entry
	Package *Package // the chosen package, or nil
	Remote  *Remote  // the chosen remote, or nil
	// Override is where the artifact is to be read instead of where the entry
	// says: a file name or URL that the operator gave. It may be empty. A
	// resolver reads from here or fails; it never goes on to another source
	// (ADM-21).
	Override string
	// Expected is what an earlier admission or a tag seen at discovery bound, or
	// nil. A resolver compares as soon as it has measured, before it looks for
	// evidence, and fails with both digests if they differ (ADM-26).
	Expected *ArtifactBinding
}

// Resolver finds the artifact that an entry names and binds it by what can be
// measured. One resolver serves one package type. Implementations do I/O with
// bounds and time limits of their own and are safe for concurrent use.
type Resolver interface {
	// PackageType is npm, oci, pypi, mcpb or remote; see the Type constants.
	PackageType() string
	// Resolve reads the artifact once. What goes wrong with the artifact or its
	// source is a Resolution with a Failure, not an error. An error says that
	// nothing was found out: the context ended, or the resolver is broken. The
	// caller retries within [RetryRights], never the resolver on another source.
	Resolve(ctx context.Context, s Selection) (Resolution, error)
}

// Resolution is what a resolver found out.
type Resolution struct {
	// Binding is the artifact, or nil if there is a Failure. Digests are
	// computed from the bytes that were read, never copied from metadata.
	Binding *ArtifactBinding
	// Failure says why there is no binding: [ArtifactUnresolved] and others.
	Failure *Failure
	// Checks are the comparisons made on the way: the Check constants.
	Checks []Check
	// Evidence is what lay beside the artifact: attestations from the package
	// registry, OCI referrers, a signature block in the file.
	Evidence []Evidence
	// Sources are the places that were asked for evidence, with what they had.
	Sources []Source
}

// Evidence is one file of evidence as it was read. Nothing in it is believed.
type Evidence struct {
	// MediaType is the form of the file as its source names it, such as
	// application/vnd.dev.sigstore.bundle.v0.3+json. It may be empty.
	MediaType string
	// Locator is where it came from: a URL or a file name.
	Locator string
	// Body is the file, at most MaxEvidenceBytes.
	Body []byte
}

// Source is a place that was asked for evidence.
type Source struct {
	Locator string `json:"locator"`
	// State is found, none or unavailable. None is no proof that nothing
	// exists: a mirror may strip it.
	State string `json:"state"`
}

// States of a Source.
const (
	SourceFound       = "found"
	SourceNone        = "none"
	SourceUnavailable = "unavailable"
)

// Verifier judges evidence about an artifact by signatures and trust material.
// It knows nothing of policies: which signer is good enough is for [Decide] to
// say, so a verifier reports a valid signature of anybody as verified.
// Implementations are safe for concurrent use and deterministic: same evidence,
// artifact and trust material, same findings.
type Verifier interface {
	// Info names the verifier, its version and its trust material. It is part of
	// the decision, and a change of it is a reason to review (OPS-01).
	Info() VerifierInfo
	// Handles reports, from form alone and cheaply, whether this verifier reads
	// the evidence. The first verifier that does judges it.
	Handles(e Evidence) bool
	// Verify judges one file and returns one Finding for each attestation in it,
	// in the order of the file; a file that cannot be read is one failed finding.
	// Signature, log inclusion, time, and that one subject has a digest of the
	// artifact, all hold for a verified finding. An error says that nothing was
	// found out: the context ended, or the verifier is broken.
	Verify(ctx context.Context, e Evidence, a *ArtifactBinding) ([]Finding, error)
}

// VerifierInfo names a verifier.
type VerifierInfo struct {
	ID      string          `json:"id"`      // sigstore, mcpb, …; [a-z0-9_-]
	Version string          `json:"version"` // changes when its answers may change
	Trust   []TrustMaterial `json:"trust,omitempty"`
}

// TrustMaterial is a file that a verifier believes, by the digest of its bytes.
type TrustMaterial struct {
	Name   string `json:"name"`   // trusted_root, npm_keys, …
	Digest string `json:"digest"` // sha256:…
}

// Finding is what a verifier found out about one attestation or signature. What
// the signed statement says is filled in for a verified finding, and as far as
// known for any other.
type Finding struct {
	// Evidence is the digest of the file's bytes, sha256:….
	Evidence string `json:"evidence"`
	// Locator is where the file came from.
	Locator string `json:"locator"`
	// MediaType is the form in which the verifier read it.
	MediaType string `json:"mediaType"`
	// Verifier is the id of the verifier.
	Verifier string `json:"verifier"`
	// State is verified, failed or unavailable.
	State FindingState `json:"state"`
	// Code says why it is not verified; empty if it is. It is a code of gate
	// evidence, see [Codes].
	Code Code `json:"code,omitempty"`
	// Detail is for people, with expected and got; at most MaxDetailBytes.
	Detail string `json:"detail,omitempty"`
	// Payload is the digest of the signed payload's bytes (the in-toto
	// statement), sha256:…. For a plain signature over the artifact it is empty.
	Payload string `json:"payload,omitempty"`
	// PredicateType is the type of the attestation, exactly as signed; empty
	// for a plain signature.
	PredicateType string `json:"predicateType,omitempty"`
	// Subjects are all subjects of the statement.
	Subjects []Subject `json:"subjects,omitempty"`
	// Signer is who signed, as the certificate or the key says.
	Signer *Signer `json:"signer,omitempty"`
	// SignedAt is a verified time of the signature (log or timestamp authority),
	// in event.TimeLayout; empty if there is none.
	SignedAt string `json:"signedAt,omitempty"`
	// Provenance is what a provenance predicate says, if it is one.
	Provenance *Provenance `json:"provenance,omitempty"`
}

// FindingState is how the judgement of an attestation ended.
type FindingState string

// States of a finding. Unavailable is not failed: nothing was found out, or the
// bytes are gone (ARC-11).
const (
	FindingVerified    FindingState = "verified"
	FindingFailed      FindingState = "failed"
	FindingUnavailable FindingState = "unavailable"
)

// Subject is a subject of an in-toto statement.
type Subject struct {
	Name    string    `json:"name"`
	Digests DigestSet `json:"digests"`
}

// Signer is who signed. Either KeyID is set, or Issuer and Identity are.
type Signer struct {
	// KeyID is the name of a public key in the trust material.
	KeyID string `json:"keyId,omitempty"`
	// Issuer is the OIDC issuer of a certificate.
	Issuer string `json:"issuer,omitempty"`
	// Identity is the certificate's subject alternative name: a workflow URL or
	// an e-mail address.
	Identity string `json:"identity,omitempty"`
	// The rest are extensions of the certificate, as they stand there.
	SourceRepository       string `json:"sourceRepository,omitempty"`
	SourceRepositoryRef    string `json:"sourceRepositoryRef,omitempty"`
	SourceRepositoryDigest string `json:"sourceRepositoryDigest,omitempty"`
	RunnerEnvironment      string `json:"runnerEnvironment,omitempty"`
	BuildSigner            string `json:"buildSigner,omitempty"`
	RunInvocation          string `json:"runInvocation,omitempty"`
}

// Provenance is a short form of a provenance predicate. It says where and how
// bytes were built, never how they behave (CLM-06).
type Provenance struct {
	BuilderID    string `json:"builderId,omitempty"`
	BuildType    string `json:"buildType,omitempty"`
	SourceURI    string `json:"sourceUri,omitempty"`
	SourceRef    string `json:"sourceRef,omitempty"`
	SourceDigest string `json:"sourceDigest,omitempty"` // alg:hex, such as gitCommit:…
	Invocation   string `json:"invocation,omitempty"`
}

// Check is a comparison that somebody made besides signatures.
type Check struct {
	ID    string     `json:"id"` // one of the Check constants
	State CheckState `json:"state"`
	// Code says why it failed; empty unless it did.
	Code     Code   `json:"code,omitempty"`
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// CheckState is how a check ended.
type CheckState string

// States of a check. Absent: there was nothing to compare with. Unavailable: it
// could not be read.
const (
	CheckPass        CheckState = "pass"
	CheckFail        CheckState = "fail"
	CheckAbsent      CheckState = "absent"
	CheckUnavailable CheckState = "unavailable"
)

// Checks that are known by name. A policy can demand them.
const (
	CheckMCPName       = "mcp_name"       // the artifact names the server: npm mcpName, OCI label, README token
	CheckFileSHA256    = "file_sha256"    // the entry's fileSha256 against the bytes
	CheckIntegrity     = "integrity"      // the package registry's own digest against the bytes
	CheckVersion       = "version"        // name and version inside the artifact against the entry
	CheckTag           = "tag"            // an OCI tag still points to the digest that was fetched
	CheckSource        = "source"         // the host that was asked and the one that answered; it passes where the redirect was lawful
	CheckNamespaceDNS  = "namespace_dns"  // the namespace's DNS proof
	CheckNamespaceHTTP = "namespace_http" // the namespace's proof at /.well-known
	CheckTLSIdentity   = "tls_identity"   // a remote server's key against the pinned one
	CheckToolContract  = "tool_contract"  // a remote server's tools against the pinned digest
)

// Failure says why there is no record.
type Failure struct {
	Code   Code   `json:"code"`
	Detail string `json:"detail,omitempty"`
}
