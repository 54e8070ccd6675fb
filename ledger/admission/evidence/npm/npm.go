// Package npm resolves packages of npm registries and judges their attestations.
//
// A registry's metadata says where a tarball is and which digests it should have.
// What is bound are the digests of the tarball's own bytes; the metadata is only
// compared with them. The name of the MCP server and the package's own name and
// version are read from package.json inside the tarball, by streaming through it.
//
// Sources: requirements ADM-06, ADM-13, ADM-16, ADM-17, ADM-21, ADM-26; npm's
// registry API and attestation formats; Subresource Integrity.
package npm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/archive"
	"counterfoil/ledger/admission/evidence/fetch"
)

// DefaultRegistry is the registry that npm packages are of if their entry names none.
const DefaultRegistry = "https://registry.npmjs.org"

// Config says where packages are. Fetch is required.
type Config struct {
	// Fetch reads metadata and tarballs within its bounds.
	Fetch *fetch.Fetcher
	// Registry is the registry that is asked for entries which name none, such
	// as https://registry.example.com. Empty refuses such entries.
	Registry string
	// Mirrors names, for the base URL that an entry names, the registry that is
	// asked in its place. Others are asked as they are named.
	Mirrors map[string]string
	// SameHost reads tarballs from the host of the registry whatever host the
	// metadata names, as npm does behind a mirror.
	SameHost bool
	// Header goes to the registry, such as an authorization.
	Header http.Header
	// Limits bound what a tarball unpacks to.
	Limits archive.Limits
}

// Bounds of what a registry answers.
const (
	maxMetadata = 4 << 20 // one version of a package
	maxName     = 214
)

// Resolver finds npm packages. It implements [admission.Resolver].
type Resolver struct{ cfg Config }

// NewResolver returns a resolver.
func NewResolver(cfg Config) (*Resolver, error) {
	if cfg.Fetch == nil {
		return nil, errors.New("npm: nothing to fetch with")
	}
	for _, base := range append([]string{cfg.Registry}, values(cfg.Mirrors)...) {
		if base == "" {
			continue
		}
		if u, err := url.Parse(base); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("npm: registry %q: expected a URL with a host and without user, query or fragment", base)
		}
	}
	return &Resolver{cfg}, nil
}

func values(m map[string]string) (out []string) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// PackageType implements [admission.Resolver].
func (r *Resolver) PackageType() string { return admission.TypeNPM }

var nameForm = regexp.MustCompile(`^(@[A-Za-z0-9~-][A-Za-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*$`)

// Resolve implements [admission.Resolver].
func (r *Resolver) Resolve(ctx context.Context, s admission.Selection) (admission.Resolution, error) {
	p := s.Package
	if p == nil || p.RegistryType != admission.TypeNPM {
		return admission.Resolution{}, errors.New("npm: the selection is no npm package")
	}
	if len(p.Identifier) > maxName || !nameForm.MatchString(p.Identifier) {
		return fetch.Failed(admission.ArtifactUnresolved, fmt.Sprintf("identifier %.300q is no name of an npm package", p.Identifier)), nil
	}
	if v := "v" + p.Version; semver.Canonical(v)+semver.Build(v) != v {
		return fetch.Failed(admission.ArtifactUnresolved, fmt.Sprintf("version %.300q is no exact version, such as 1.2.3", p.Version)), nil
	}
	if s.Override != "" {
		return r.tarball(ctx, s, fetch.Request{Locator: s.Override}, nil)
	}
	base, failure := r.base(p)
	if failure != nil {
		return admission.Resolution{Failure: failure}, nil
	}
	m, err := r.metadata(ctx, base, p)
	if err != nil {
		return resolution(err)
	}
	tarball, err := r.tarballURL(base, m.Dist.Tarball)
	if err != nil {
		return resolution(err)
	}
	res, err := r.tarball(ctx, s, fetch.Request{Locator: tarball, Header: r.headerFor(base, tarball)}, m)
	if err != nil || res.Failure != nil {
		return res, err
	}
	return r.attestations(ctx, base, p, m, res)
}

// failed is a finding about the metadata that ends the resolution.
type failed struct {
	code   admission.Code
	detail string
}

func (f *failed) Error() string { return f.detail }

func resolution(err error) (admission.Resolution, error) {
	var f *failed
	if errors.As(err, &f) {
		return fetch.Failed(f.code, f.detail), nil
	}
	return fetch.Unread(err)
}

// base is the registry to ask. An entry without one and no configured one is
// refused: a guess would be another source.
func (r *Resolver) base(p *admission.Package) (string, *admission.Failure) {
	base := r.cfg.Registry
	if p.RegistryBaseURL != "" {
		base = p.RegistryBaseURL
		if mirror, ok := r.cfg.Mirrors[strings.TrimSuffix(base, "/")]; ok {
			base = mirror
		}
	}
	if base == "" {
		return "", &admission.Failure{Code: admission.ArtifactUnresolved, Detail: "the entry names no npm registry and none is configured"}
	}
	return strings.TrimSuffix(base, "/"), nil
}

// headerFor gives the registry's header to the registry alone.
func (r *Resolver) headerFor(base, to string) http.Header {
	b, err1 := url.Parse(base)
	u, err2 := url.Parse(to)
	if err1 != nil || err2 != nil || b.Host != u.Host || b.Scheme != u.Scheme {
		return nil
	}
	return r.cfg.Header
}

// tarballURL is where the metadata, or the mirror's rule, says the tarball is.
func (r *Resolver) tarballURL(base, tarball string) (string, error) {
	u, err := url.Parse(tarball)
	if err != nil || u.Host == "" {
		return "", &failed{admission.ArtifactUnresolved, "the metadata names no URL of a tarball"}
	}
	if !r.cfg.SameHost {
		return tarball, nil
	}
	b, err := url.Parse(base)
	if err != nil {
		return "", &failed{admission.ArtifactUnresolved, "the registry's URL cannot be read"}
	}
	u.Scheme, u.Host = b.Scheme, b.Host
	return u.String(), nil
}

// tarball reads and measures the artifact. m is nil for one that an operator gave.
func (r *Resolver) tarball(ctx context.Context, s admission.Selection, req fetch.Request, m *metadata) (admission.Resolution, error) {
	blob, err := r.cfg.Fetch.Get(ctx, req)
	if err != nil {
		return fetch.Unread(err)
	}
	defer blob.Close()
	a := blob.Bind(s)
	var checks []admission.Check
	if c, remote := blob.SourceCheck(); remote {
		checks = append(checks, c)
	}
	if f := fetch.Unexpected(s, a); f != nil {
		return admission.Resolution{Failure: f, Checks: checks}, nil
	}
	if m != nil {
		c, err := m.integrity(blob)
		if err != nil {
			return admission.Resolution{}, err
		}
		checks = append(checks, c)
	}
	inside, err := readManifest(ctx, blob, r.cfg.Limits)
	if code, unsafe := archive.Code(err); unsafe {
		return fetch.Failed(code, "tarball: "+err.Error(), checks...), nil
	} else if err != nil {
		return resolution(err)
	}
	checks = append(checks, fetch.Compared(admission.CheckVersion, s.Package.Identifier+"@"+s.Package.Version, inside.Name+"@"+inside.Version, admission.ArtifactVersionMismatch))
	if s.Server != nil {
		checks = append(checks, fetch.Compared(admission.CheckMCPName, s.Server.Name, inside.MCPName, admission.MCPNameMismatch))
	}
	return admission.Resolution{Binding: a, Checks: checks}, nil
}
