package npm

import (
	"bytes"
	"context"
	"crypto/sha1" // compared only: it binds nothing
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/internal/jsonrpc"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/archive"
	"counterfoil/ledger/admission/evidence/fetch"
)

// metadata is what is read of a registry's document about one version.
type metadata struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Dist    struct {
		Tarball      string         `json:"tarball"`
		Integrity    string         `json:"integrity"`
		Shasum       string         `json:"shasum"`
		Attestations jsontext.Value `json:"attestations"`
	} `json:"dist"`
}

func escape(name string) string { return strings.Replace(name, "/", "%2f", 1) }

// metadata asks for one version: the document of all versions can be very large.
func (r *Resolver) metadata(ctx context.Context, base string, p *admission.Package) (*metadata, error) {
	at := base + "/" + escape(p.Identifier) + "/" + url.PathEscape(p.Version)
	b, _, err := r.cfg.Fetch.Bytes(ctx, fetch.Request{Locator: at, MaxBytes: maxMetadata, Accept: "application/json", Header: r.cfg.Header})
	if err != nil {
		return nil, err
	}
	m := new(metadata)
	// Members of no interest may be as odd as publishers make them; a member of
	// dist that stands twice would be read differently by others.
	top, twice := jsonrpc.Fields(b, "name", "version", "dist")
	dist, distTwice := jsonrpc.Fields(top["dist"], "tarball", "integrity", "shasum", "attestations")
	if twice || distTwice || top["dist"] == nil {
		return nil, &failed{admission.ArtifactUnresolved, at + ": no document of a version, or one with a member twice"}
	}
	m.Name, m.Version = jsonrpc.Text(top["name"]), jsonrpc.Text(top["version"])
	m.Dist.Tarball, m.Dist.Integrity, m.Dist.Shasum = jsonrpc.Text(dist["tarball"]), jsonrpc.Text(dist["integrity"]), jsonrpc.Text(dist["shasum"])
	m.Dist.Attestations = dist["attestations"]
	if m.Name != p.Identifier || m.Version != p.Version {
		return nil, &failed{admission.ArtifactVersionMismatch, fmt.Sprintf("%s is about %.300q %.300q, expected %s %s", at, m.Name, m.Version, p.Identifier, p.Version)}
	}
	return m, nil
}

// integrity compares the metadata's digests with the bytes.
func (m *metadata) integrity(blob *fetch.Blob) (admission.Check, error) {
	alg, stated := strongest(m.Dist.Integrity)
	shasum := m.Dist.Shasum
	if alg == "" && shasum == "" {
		return admission.Check{ID: admission.CheckIntegrity, State: admission.CheckAbsent, Detail: "the registry states no digest"}, nil
	}
	h384, h1 := sha512.New384(), sha1.New()
	if _, err := io.Copy(io.MultiWriter(h384, h1), io.NewSectionReader(blob, 0, blob.Size)); err != nil {
		return admission.Check{}, err
	}
	got := map[string]string{
		"sha1": hex.EncodeToString(h1.Sum(nil)), "sha256": blob.Digests["sha256"],
		"sha384": hex.EncodeToString(h384.Sum(nil)), "sha512": blob.Digests["sha512"],
	}
	c := admission.Check{ID: admission.CheckIntegrity, State: admission.CheckPass, Expected: alg + ":" + strings.Join(stated, " or "), Got: alg + ":" + got[alg]}
	switch {
	case shasum != "" && shasum != got["sha1"]:
		c.State, c.Expected, c.Got = admission.CheckFail, "sha1:"+shasum, "sha1:"+got["sha1"]
	case alg == "":
		c.State, c.Expected, c.Got = admission.CheckAbsent, "", ""
		c.Detail = "the registry states no digest but a SHA-1, which agrees and binds nothing"
	case !slices.Contains(stated, got[alg]):
		c.State = admission.CheckFail
	}
	if c.State == admission.CheckFail {
		c.Code = admission.ArtifactIntegrity
	}
	c.Expected = fetch.Clip(c.Expected)
	return c, nil
}

// strongest reads Subresource Integrity: the digests, in hex, of the strongest
// algorithm that is stated. What cannot be read is no statement.
func strongest(integrity string) (alg string, digests []string) {
	found := map[string][]string{}
	for _, part := range strings.Fields(integrity) {
		a, value, _ := strings.Cut(part, "-")
		value, _, _ = strings.Cut(value, "?")
		raw, err := base64.StdEncoding.DecodeString(value)
		if err == nil && len(raw) == map[string]int{"sha256": 32, "sha384": 48, "sha512": 64}[a] && len(raw) > 0 && len(found[a]) < 8 {
			found[a] = append(found[a], hex.EncodeToString(raw))
		}
	}
	for _, a := range []string{"sha512", "sha384", "sha256"} {
		if found[a] != nil {
			return a, found[a]
		}
	}
	return "", nil
}

// manifest is what is read of package.json.
type manifest struct{ Name, Version, MCPName string }

// readManifest finds package.json in the tarball. npm drops the first folder of
// every name, whatever it is called, so there must be one such file in all.
func readManifest(ctx context.Context, blob *fetch.Blob, limits archive.Limits) (*manifest, error) {
	files, err := archive.TarGz(ctx, blob, blob.Size, limits, func(name string) bool {
		return strings.Count(name, "/") == 1 && strings.HasSuffix(name, "/package.json")
	})
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		return nil, &failed{admission.ArtifactUnsafe, fmt.Sprintf("the tarball has %d files package.json at its top, expected 1", len(files))}
	}
	for _, b := range files {
		b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
		f, twice := jsonrpc.Fields(b, "name", "version", "mcpName")
		if twice || !jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true)) {
			return nil, &failed{admission.ArtifactUnsafe, "package.json is no JSON object, or has a member twice"}
		}
		return &manifest{jsonrpc.Text(f["name"]), jsonrpc.Text(f["version"]), jsonrpc.Text(f["mcpName"])}, nil
	}
	return nil, nil
}

// attestations asks the registry for the attestations of the version.
func (r *Resolver) attestations(ctx context.Context, base string, p *admission.Package, m *metadata, res admission.Resolution) (admission.Resolution, error) {
	at := base + "/-/npm/v1/attestations/" + escape(p.Identifier) + "@" + url.PathEscape(p.Version)
	b, blob, err := r.cfg.Fetch.Bytes(ctx, fetch.Request{Locator: at, MaxBytes: admission.MaxEvidenceBytes, Accept: "application/json", Header: r.cfg.Header})
	if err != nil && fetch.KindOf(err) == "" {
		return admission.Resolution{}, err
	}
	state := fetch.SourceState(err)
	if state == admission.SourceNone && m.Dist.Attestations.Kind() == '{' {
		state = admission.SourceUnavailable // the metadata says that there are some
	}
	if err == nil {
		res.Evidence = append(res.Evidence, admission.Evidence{MediaType: blob.MediaType, Locator: at, Body: b})
	}
	res.Sources = append(res.Sources, admission.Source{Locator: at, State: state})
	return res, nil
}
