package admission

import "strings"

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
	// Locator is where the artifact was asked for: a URL, an OCI reference by
	// digest, or a file name. Check [CheckSource] has the host that answered.
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
	// Content is what a signature block inside the file covers: the bytes before
	// it. Nil if the file has no such block.
	Content *ContentBinding `json:"content,omitempty"`
}

// ContentBinding binds the first bytes of a file.
type ContentBinding struct {
	Digests DigestSet `json:"digests"`
	Size    int64     `json:"size"` // in bytes, less than the file's
}

// DeploymentBinding binds a remote server by what it shows to every client.
type DeploymentBinding struct {
	// ToolContract is the digest of the canonical lists of tools, resources and
	// prompts.
	ToolContract string `json:"toolContract"`
	// Tools is the digest of the list of tools alone, which is all that a proxy in
	// front of the server sees.
	Tools string `json:"tools,omitempty"`
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

// Bounds of a binding.
const (
	maxReleaseBytes   = 255
	maxStatementBytes = 1024
)

// ParseBinding reads a binding from its canonical bytes.
func ParseBinding(b []byte) (*ArtifactBinding, error) { return parse[ArtifactBinding](b) }

// Validate implements [Record].
func (a *ArtifactBinding) Validate() error {
	if err := first(
		checkSchema(a.Schema, BindingSchema),
		checkToken("/packageType", a.PackageType),
		checkText("/identifier", a.Identifier, MaxLocatorBytes),
		checkOptionalText("/version", a.Version, maxVersionBytes),
		checkText("/transport", a.Transport, 64),
		checkText("/locator", a.Locator, MaxLocatorBytes),
		checkTime("/retrievedAt", a.RetrievedAt),
	); err != nil {
		return err
	}
	members := []struct {
		kind    BindingKind
		name    string
		present bool
	}{
		{KindBytes, "/bytes", a.Bytes != nil},
		{KindPinnedDeployment, "/deployment", a.Deployment != nil},
		{KindAttestedRelease, "/release", a.Release != nil},
		{KindNotBytePinnable, "/statement", a.Statement != nil},
	}
	known := false
	for _, m := range members {
		switch {
		case m.kind == a.Kind && !m.present:
			return &Error{m.name, "is missing: a binding of kind " + string(a.Kind) + " has it",
				"a version is a label and never takes the place of a digest"}
		case m.kind != a.Kind && m.present:
			return bad(m.name, "is present in a binding of kind %q", clip(string(a.Kind)))
		}
		known = known || m.kind == a.Kind
	}
	if !known {
		return bad("/kind", "is %q, want bytes, pinned_deployment, attested_release or not_byte_pinnable", clip(string(a.Kind)))
	}
	return a.validateMember()
}

func (a *ArtifactBinding) validateMember() error {
	switch {
	case a.Bytes != nil:
		if a.Bytes.Size < 0 {
			return bad("/bytes/size", "is %d", a.Bytes.Size)
		}
		if c := a.Bytes.Content; c != nil {
			if c.Size < 0 || c.Size >= a.Bytes.Size {
				return bad("/bytes/content/size", "is %d of a file of %d bytes", c.Size, a.Bytes.Size)
			}
			if err := c.Digests.validate("/bytes/content/digests"); err != nil {
				return err
			}
		}
		return first(a.Bytes.Digests.validate("/bytes/digests"), checkOptionalText("/bytes/mediaType", a.Bytes.MediaType, 255))
	case a.Deployment != nil:
		return first(checkDigest("/deployment/toolContract", a.Deployment.ToolContract),
			checkOptionalDigest("/deployment/tools", a.Deployment.Tools),
			checkOptionalDigest("/deployment/tlsKey", a.Deployment.TLSKey),
			checkOptionalDigest("/deployment/discovery", a.Deployment.Discovery))
	case a.Release != nil:
		return first(checkText("/release/release", a.Release.Release, maxReleaseBytes), checkDigest("/release/attestation", a.Release.Attestation))
	}
	return first(checkText("/statement/reason", a.Statement.Reason, maxStatementBytes), checkText("/statement/statedBy", a.Statement.StatedBy, 255))
}

// validate wants sha256 and no weak or unknown algorithm.
func (d DigestSet) validate(path string) error {
	if d["sha256"] == "" {
		return bad(path+"/sha256", "is missing")
	}
	for alg, value := range d {
		n, known := digestBytes[alg]
		if !known {
			return bad(path, "has algorithm %q, want sha256, sha384 or sha512", clip(alg))
		}
		if !isHex(value, n) {
			return bad(path+"/"+alg, "is %q, want %d lower-case hex digits", clip(value), 2*n)
		}
	}
	return nil
}

// SHA256 is the artifact's own digest, sha256:…; empty if it has no bytes.
func (a *ArtifactBinding) SHA256() string {
	if a == nil || a.Bytes == nil {
		return ""
	}
	return "sha256:" + a.Bytes.Digests["sha256"]
}

// SubjectNames are the names under which an attestation may speak of the
// artifact. Equal bytes under another name are another package's (ADM-10).
//
//	npm   pkg:npm/<name>@<version>, with @scope spelled %40scope
//	pypi  the file's name
//	oci   the repository without tag and digest; docker.io also as index.docker.io
//	mcpb  the file's name
func (a *ArtifactBinding) SubjectNames() []string {
	switch a.PackageType {
	case TypeNPM:
		name := a.Identifier
		if scope, ok := strings.CutPrefix(name, "@"); ok {
			name = "%40" + scope
		}
		return []string{"pkg:npm/" + name + "@" + a.Version}
	case TypeOCI:
		repository, _, _ := strings.Cut(a.Identifier, "@")
		if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
			repository = repository[:i]
		}
		names := []string{repository}
		if rest, ok := strings.CutPrefix(repository, "docker.io/"); ok {
			names = append(names, "index.docker.io/"+rest)
		}
		return names
	case TypePyPI, TypeMCPB:
		base, _, _ := strings.Cut(a.Locator, "?")
		base, _, _ = strings.Cut(base, "#")
		return []string{base[strings.LastIndexByte(base, '/')+1:]}
	}
	return nil
}
