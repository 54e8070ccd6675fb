package admission

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/canon"
)

// Bounds of a registry entry.
const (
	MaxEntryBytes   = 1 << 20 // entries in use are a few KiB
	maxEntryDepth   = 64
	maxEntryPaths   = 64 // packages, and remotes
	maxNameBytes    = 200
	maxVersionBytes = 255
	maxDescription  = 100 // characters
)

// entryProfile is any JSON that RFC 8785 carries exactly: publishers put what
// they like into _meta.
var entryProfile = canon.Profile{MaxBytes: MaxEntryBytes, MaxDepth: maxEntryDepth, Floats: true, Noncharacters: true}

// Schema versions of server.json and how each spells its members.
const (
	schemaPrefix = "https://static.modelcontextprotocol.io/schemas/"
	schemaSuffix = "/server.schema.json"
	snakeSchema  = "2025-07-09"
)

// SchemaVersions are the versions of server.json that are read. The first spells
// its members in snake_case, all others in camelCase; what is read here has the
// same names and meaning in all of those. It must not be changed.
var SchemaVersions = []string{snakeSchema, "2025-09-16", "2025-09-29", "2025-10-11", "2025-10-17", "2025-12-11"}

// Discovered is what reading an entry gave.
type Discovered struct {
	Raw       Blob
	Canonical string
	Response  *ResponseMeta
	// Entry is nil if the entry was refused.
	Entry   *Entry
	Refused *Failure
}

// ParseEntry reads a server.json, or a registry's response {"server":…,"_meta":…}
// with one in it. It always returns what it found out; an entry that cannot be
// used is Refused with a reason code of gate discovery.
func ParseEntry(b []byte) *Discovered {
	d := &Discovered{Raw: Blob{Digest: Digest(b), Size: int64(len(b))}}
	if err := d.read(b); err != nil {
		d.Entry, d.Refused = nil, err
	}
	return d
}

func refuse(code Code, format string, args ...any) *Failure {
	detail := fmt.Sprintf(format, args...)
	if len(detail) > MaxDetailBytes {
		detail = strings.ToValidUTF8(detail[:MaxDetailBytes-4], "") + "…"
	}
	return &Failure{code, detail}
}

func (d *Discovered) read(b []byte) *Failure {
	if len(b) > MaxEntryBytes {
		return refuse(EntryTooLarge, "%d bytes, limit %d", len(b), MaxEntryBytes)
	}
	if err := entryProfile.Check(b); err != nil {
		if ce := (*canon.Error)(nil); errors.As(err, &ce) {
			code := EntryInvalidJSON
			if ce.Reason == canon.ReasonDuplicate {
				code = EntryDuplicateMember
			}
			return refuse(code, "%s: %s: %s", where(ce.Path), ce.Reason, quotable(ce.Detail))
		}
		return refuse(EntryInvalidJSON, "%s", quotable(err.Error()))
	}
	if jsontext.Value(b).Kind() != '{' {
		return refuse(EntryInvalid, "the document is no object; give one entry, not a list of them")
	}
	raw, failure := d.unwrap(b)
	if failure != nil {
		return failure
	}
	canonical, err := entryProfile.Canonical(raw)
	if err != nil {
		return refuse(EntryInvalidJSON, "%s", quotable(err.Error()))
	}
	d.Raw, d.Canonical = Blob{Digest(raw), int64(len(raw))}, Digest(canonical)
	return d.parse(raw)
}

// unwrap returns the bytes of the entry and notes the response's metadata.
func (d *Discovered) unwrap(b []byte) ([]byte, *Failure) {
	var response struct {
		Name   jsontext.Value `json:"name"`
		Server jsontext.Value `json:"server"`
		Meta   jsontext.Value `json:"_meta"`
	}
	if err := json.Unmarshal(b, &response); err != nil {
		return nil, refuse(EntryInvalid, "%s", quotable(err.Error()))
	}
	if response.Name != nil || response.Server.Kind() != '{' {
		return b, nil
	}
	if response.Meta == nil {
		return response.Server, nil
	}
	canonical, err := entryProfile.Canonical(response.Meta)
	if err != nil {
		return nil, refuse(EntryInvalidJSON, "/_meta: %s", quotable(err.Error()))
	}
	d.Response = &ResponseMeta{Digest: Digest(canonical)}
	var meta struct {
		Official struct {
			Status string `json:"status"`
		} `json:"io.modelcontextprotocol.registry/official"`
	}
	if err := json.Unmarshal(response.Meta, &meta); err != nil {
		return nil, refuse(EntryInvalid, "/_meta: %s", quotable(err.Error()))
	}
	d.Response.Status = meta.Official.Status
	return response.Server, nil
}

func (d *Discovered) parse(raw []byte) *Failure {
	var head struct {
		Schema string `json:"$schema"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return refuse(EntryInvalid, "%s", quotable(err.Error()))
	}
	version, isDate := strings.CutPrefix(head.Schema, schemaPrefix)
	version, isSchema := strings.CutSuffix(version, schemaSuffix)
	if !isDate || !isSchema || !slices.Contains(SchemaVersions, version) {
		return refuse(SchemaVersionUnsupported, "/$schema is %q; known are the versions %s of %s<version>%s",
			clip(quotable(head.Schema)), strings.Join(SchemaVersions, ", "), schemaPrefix, schemaSuffix)
	}
	if failure := checkSpelling(raw, version == snakeSchema); failure != nil {
		return failure
	}
	e, err := readEntry(raw, version)
	if err != nil {
		return refuse(EntryInvalid, "%s", quotable(err.Error()))
	}
	d.Entry = e
	return nil
}

// wire is server.json in both spellings; only one is filled in, because
// checkSpelling refuses the other.
type wire struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Version     string        `json:"version"`
	Repository  *Repository   `json:"repository"`
	Packages    []wirePackage `json:"packages"`
	Remotes     []Remote      `json:"remotes"`
}

type wirePackage struct {
	RegistryType    string    `json:"registryType"`
	RegistryBaseURL string    `json:"registryBaseUrl"`
	FileSHA256      string    `json:"fileSha256"`
	SnakeType       string    `json:"registry_type"`
	SnakeBaseURL    string    `json:"registry_base_url"`
	SnakeSHA256     string    `json:"file_sha256"`
	Identifier      string    `json:"identifier"`
	Version         string    `json:"version"`
	Transport       Transport `json:"transport"`
}

func readEntry(raw []byte, version string) (*Entry, error) {
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, err
	}
	e := &Entry{SchemaVersion: version, Name: w.Name, Version: w.Version, Repository: w.Repository, Remotes: w.Remotes}
	for _, p := range w.Packages {
		e.Packages = append(e.Packages, Package{
			RegistryType: p.RegistryType + p.SnakeType, RegistryBaseURL: p.RegistryBaseURL + p.SnakeBaseURL,
			Identifier: p.Identifier, Version: p.Version, FileSHA256: p.FileSHA256 + p.SnakeSHA256, Transport: p.Transport,
		})
	}
	if n := utf8.RuneCountInString(w.Description); n < 1 || n > maxDescription {
		return nil, bad("/description", "has %d characters, want 1 to %d", n, maxDescription)
	}
	if err := e.validate(""); err != nil {
		return nil, err
	}
	if _, err := encode(e); err != nil {
		return nil, err
	}
	return e, nil
}

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)

func (e *Entry) validate(path string) error {
	if !slices.Contains(SchemaVersions, e.SchemaVersion) {
		return bad(path+"/schemaVersion", "is %q, known are %s", clip(e.SchemaVersion), strings.Join(SchemaVersions, ", "))
	}
	if len(e.Name) < 3 || len(e.Name) > maxNameBytes || !namePattern.MatchString(e.Name) {
		return bad(path+"/name", "is %q, want a namespace and a name with one slash between them, at most %d bytes", clip(e.Name), maxNameBytes)
	}
	if err := checkVersion(path+"/version", e.Version); err != nil {
		return err
	}
	if r := e.Repository; r != nil {
		if err := first(checkText(path+"/repository/url", r.URL, MaxLocatorBytes), checkText(path+"/repository/source", r.Source, 255),
			checkOptionalText(path+"/repository/id", r.ID, 255), checkOptionalText(path+"/repository/subfolder", r.Subfolder, 1024)); err != nil {
			return err
		}
	}
	if len(e.Packages) > maxEntryPaths || len(e.Remotes) > maxEntryPaths {
		return bad(path, "%d packages and %d remotes, limit %d of each", len(e.Packages), len(e.Remotes), maxEntryPaths)
	}
	for i := range e.Packages {
		if err := e.Packages[i].validate(fmt.Sprintf("%s/packages/%d", path, i), e.SchemaVersion); err != nil {
			return err
		}
	}
	for i, r := range e.Remotes {
		at := fmt.Sprintf("%s/remotes/%d", path, i)
		if r.Type == "stdio" {
			return bad(at+"/type", "is stdio, want streamable-http or sse")
		}
		if err := r.validate(at); err != nil {
			return err
		}
	}
	return nil
}

func (p *Package) validate(path, schemaVersion string) error {
	if err := first(checkText(path+"/registryType", p.RegistryType, 64),
		checkOptionalText(path+"/registryBaseUrl", p.RegistryBaseURL, MaxLocatorBytes),
		checkText(path+"/identifier", p.Identifier, MaxLocatorBytes),
		p.Transport.validate(path+"/transport")); err != nil {
		return err
	}
	if p.Version != "" {
		if err := checkVersion(path+"/version", p.Version); err != nil {
			return err
		}
	} else if schemaVersion < "2025-10-11" || p.RegistryType != TypeOCI && p.RegistryType != TypeMCPB {
		return bad(path+"/version", "is missing")
	}
	if p.FileSHA256 != "" && !isHex(p.FileSHA256, 32) {
		return bad(path+"/fileSha256", "is %q, want 64 lower-case hex digits", clip(p.FileSHA256))
	}
	return nil
}

func (t Transport) validate(path string) error {
	switch t.Type {
	case "stdio":
		if t.URL != "" {
			return bad(path+"/url", "is given with stdio")
		}
		return nil
	case "streamable-http", "sse":
		return checkText(path+"/url", t.URL, MaxLocatorBytes)
	}
	return bad(path+"/type", "is %q, want stdio, streamable-http or sse", clip(t.Type))
}

// rangeVersion finds what names more than one version.
var rangeVersion = regexp.MustCompile(`^[\^~<>=]|\|\||(^|\.)[xX*]($|\.)| - `)

func checkVersion(path, v string) error {
	if err := checkText(path, v, maxVersionBytes); err != nil {
		return err
	}
	if v == "latest" || rangeVersion.MatchString(v) {
		return bad(path, "is %q, which names no one version", clip(v))
	}
	return nil
}

func where(path string) string {
	if path == "" {
		return "entry"
	}
	return quotable(path)
}

// quotable makes text of others fit for a record: one line of valid UTF-8.
func quotable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == utf8.RuneError || r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe {
			return '?'
		}
		return r
	}, s)
}
