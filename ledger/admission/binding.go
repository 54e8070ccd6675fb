package admission

// Package types of a registry entry, and remote for a server that is reached by
// URL. A registry may name others; no resolver serves them.
const (
	TypeNPM    = "npm"
	TypePyPI   = "pypi"
	TypeOCI    = "oci"
	TypeMCPB   = "mcpb"
	TypeNuGet  = "nuget"
	TypeCargo  = "cargo"
	TypeRemote = "remote"
)

// BindingKind says what binds an artifact.
type BindingKind string

// Kinds of binding (ADM-18).
const (
	KindBytes            BindingKind = "bytes"
	KindPinnedDeployment BindingKind = "pinned_deployment"
	KindAttestedRelease  BindingKind = "attested_release"
	KindNotBytePinnable  BindingKind = "not_byte_pinnable"
)

// BindingSchema is the schema of an [ArtifactBinding].
const BindingSchema = "counterfoil.artifact-binding.v1"

// ArtifactBinding says which artifact the admission is about. Exactly the member
// that Kind names is present. A version is a label: it never stands in for a
// digest (ADM-17).
type ArtifactBinding struct {
	Schema      string      `json:"schema"`
	Kind        BindingKind `json:"kind"`
	PackageType string      `json:"packageType"`
	// Identifier and Version are the entry's words: package name, OCI reference
	// or URL, and the version if the entry states one.
	Identifier string `json:"identifier"`
	Version    string `json:"version,omitempty"`
	// Transport is how the server is reached: stdio, streamable-http or sse.
	Transport string `json:"transport"`
	// Locator is where the artifact was read: a resolved URL, an OCI reference
	// by digest, or a file name.
	Locator string `json:"locator"`
	// RetrievedAt is when, in event.TimeLayout.
	RetrievedAt string `json:"retrievedAt"`

	Bytes      *BytesBinding      `json:"bytes,omitempty"`
	Deployment *DeploymentBinding `json:"deployment,omitempty"`
	Release    *ReleaseBinding    `json:"release,omitempty"`
	Statement  *StatementBinding  `json:"statement,omitempty"`
}

// BytesBinding binds the bytes that were read.
type BytesBinding struct {
	// Digests are computed from the bytes: sha256 always, others if wanted. Of
	// an OCI image they are digests of the manifest.
	Digests   DigestSet `json:"digests"`
	Size      int64     `json:"size"` // in bytes
	MediaType string    `json:"mediaType,omitempty"`
}

// DeploymentBinding binds a remote server by what it shows to every client.
type DeploymentBinding struct {
	// ToolContract is the digest of the canonical lists of tools, resources and
	// prompts.
	ToolContract string `json:"toolContract"`
	// TLSKey is the digest of the server certificate's public key
	// (SubjectPublicKeyInfo, DER); empty without TLS.
	TLSKey string `json:"tlsKey,omitempty"`
	// Discovery is the digest of the canonical answer to initialize or
	// server/discover.
	Discovery string `json:"discovery,omitempty"`
}

// ReleaseBinding binds a release that somebody attested, without its bytes.
type ReleaseBinding struct {
	// Release is the publisher's name for it.
	Release string `json:"release"`
	// Attestation is the digest of the signed payload that names the release.
	Attestation string `json:"attestation"`
}

// StatementBinding says in so many words that nothing pins the artifact.
type StatementBinding struct {
	Reason   string `json:"reason"`   // why not
	StatedBy string `json:"statedBy"` // the operator or policy that says so
}
