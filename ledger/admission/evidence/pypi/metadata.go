package pypi

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/archive"
	"counterfoil/ledger/admission/evidence/fetch"
)

// metadata is what is read of a distribution's metadata.
type metadata struct {
	name, version string
	servers       []string // names of MCP servers in the description
}

// readMetadata finds the metadata in a wheel or a source distribution, by the
// ending of the file's name.
func readMetadata(ctx context.Context, blob *fetch.Blob, locator string, limits archive.Limits) (*metadata, error) {
	read, want := archive.TarGz, func(name string) bool {
		return strings.Count(name, "/") == 1 && path.Base(name) == "PKG-INFO"
	}
	switch {
	case strings.HasSuffix(locator, ".whl"):
		read, want = archive.Zip, func(name string) bool {
			return strings.Count(name, "/") == 1 && strings.HasSuffix(name, ".dist-info/METADATA")
		}
	case !strings.HasSuffix(locator, ".tar.gz"):
		return nil, &archive.Error{Reason: archive.Malformed, Detail: "the file's name ends neither in .whl nor in .tar.gz"}
	}
	files, err := read(ctx, blob, blob.Size, limits, want)
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		return nil, &archive.Error{Reason: archive.Malformed, Detail: fmt.Sprintf("has %d files of metadata, expected 1", len(files))}
	}
	for name, b := range files {
		m, err := parseMetadata(b)
		if err != nil {
			return nil, &archive.Error{Reason: archive.Malformed, Name: name, Err: err}
		}
		return m, nil
	}
	return nil, nil
}

// parseMetadata reads the fields Name and Version, which stand once each, and the
// names of servers anywhere.
func parseMetadata(b []byte) (*metadata, error) {
	m := &metadata{servers: serverNames(b)}
	seen := map[string]int{}
	for line := range bytes.Lines(b) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break // the description
		}
		field, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || line[0] == ' ' || line[0] == '\t' {
			continue // a field that goes on
		}
		text := strings.TrimSpace(string(value))
		switch strings.ToLower(string(field)) {
		case "name":
			m.name = text
			seen["name"]++
		case "version":
			m.version = text
			seen["version"]++
		}
	}
	if seen["name"] != 1 || seen["version"] != 1 {
		return nil, fmt.Errorf("has %d names and %d versions, expected one of each", seen["name"], seen["version"])
	}
	return m, nil
}

var serverForm = regexp.MustCompile(`mcp-name:[ \t]*([A-Za-z0-9.-]+/[A-Za-z0-9._-]+)`)

// serverNames are the names in tokens "mcp-name: NAME", by which a description
// says which server it is of.
func serverNames(b []byte) (names []string) {
	const most = 16
	for _, found := range serverForm.FindAllSubmatch(b, most) {
		if name := strings.TrimRight(string(found[1]), "."); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// nameCheck wants the server's name whole: a longer name is another server's.
func (m *metadata) nameCheck(server string) admission.Check {
	if slices.Contains(m.servers, server) {
		return fetch.Compared(admission.CheckMCPName, server, server, admission.MCPNameMismatch)
	}
	return fetch.Compared(admission.CheckMCPName, server, strings.Join(m.servers, " "), admission.MCPNameMismatch)
}
