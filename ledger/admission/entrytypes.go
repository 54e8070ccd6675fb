package admission

// Entry is a registry entry (server.json) in one form for all schema versions.
// It is a reading aid: what is bound are the digests of the entry's own bytes
// (ADM-05).
type Entry struct {
	SchemaVersion string      `json:"schemaVersion"` // such as 2025-12-11
	Name          string      `json:"name"`
	Version       string      `json:"version"`
	Repository    *Repository `json:"repository,omitempty"`
	Packages      []Package   `json:"packages,omitempty"`
	Remotes       []Remote    `json:"remotes,omitempty"`
}

// Repository is where the entry says that the source code is.
type Repository struct {
	URL       string `json:"url"`
	Source    string `json:"source"`
	ID        string `json:"id,omitempty"`
	Subfolder string `json:"subfolder,omitempty"`
}

// Package is one way to install the server.
type Package struct {
	RegistryType    string    `json:"registryType"`
	RegistryBaseURL string    `json:"registryBaseUrl,omitempty"`
	Identifier      string    `json:"identifier"`
	Version         string    `json:"version,omitempty"`
	FileSHA256      string    `json:"fileSha256,omitempty"` // hex
	Transport       Transport `json:"transport"`
}

// Transport is how a server is spoken to.
type Transport struct {
	Type string `json:"type"` // stdio, streamable-http or sse
	URL  string `json:"url,omitempty"`
}

// Remote is a server that somebody else runs.
type Remote = Transport
