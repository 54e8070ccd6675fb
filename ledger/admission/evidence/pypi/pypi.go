// Package pypi resolves packages of Python package indexes and judges their
// attestations (PEP 740).
//
// An index's page (PEP 691) says which files a version has and which digests they
// should have. One file is chosen by a fixed rule, and its own bytes are what is
// bound. Name, version and the name of the MCP server are read from the metadata
// inside the file.
//
// # Which file
//
// Of the files of exactly the entry's version: the wheel for any platform
// (-none-any.whl) if there is one, else the source distribution (.tar.gz), else
// the wheel if there is only one. Otherwise nothing says which one would be
// installed, and the operator has to give the file.
//
// Sources: requirements ADM-06, ADM-13, ADM-17, ADM-21; PEP 503, 691, 700, 740.
package pypi

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/archive"
	"counterfoil/ledger/admission/evidence/fetch"
)

// DefaultIndex is the index that is asked for entries which name none.
const DefaultIndex = "https://pypi.org"

// Config says where packages are.
type Config struct {
	Fetch *fetch.Fetcher // required
	// Index is asked for entries that name none. Default: [DefaultIndex].
	Index string
	// Mirrors names, for the base URL that an entry names, the index that is
	// asked in its place.
	Mirrors map[string]string
	// Limits bound what a file unpacks to.
	Limits archive.Limits
}

const (
	maxPage  = 32 << 20 // a page lists all files of all versions
	maxFiles = 1 << 16
	maxName  = 214
)

// Resolver finds packages. It implements [admission.Resolver].
type Resolver struct{ cfg Config }

// NewResolver returns a resolver.
func NewResolver(cfg Config) (*Resolver, error) {
	if cfg.Fetch == nil {
		return nil, errors.New("pypi: nothing to fetch with")
	}
	if cfg.Index == "" {
		cfg.Index = DefaultIndex
	}
	return &Resolver{cfg}, nil
}

// PackageType implements [admission.Resolver].
func (r *Resolver) PackageType() string { return admission.TypePyPI }

var (
	nameForm    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.!+_-]{0,63}$`)
	separators  = regexp.MustCompile(`[-_.]+`)
)

// normal is a package name in its one spelling (PEP 503).
func normal(name string) string { return strings.ToLower(separators.ReplaceAllString(name, "-")) }

// file is a file of a page.
type file struct {
	Filename   string            `json:"filename"`
	URL        string            `json:"url"`
	Hashes     map[string]string `json:"hashes"`
	Yanked     jsontext.Value    `json:"yanked"`
	Provenance string            `json:"provenance"`
}

// Resolve implements [admission.Resolver].
func (r *Resolver) Resolve(ctx context.Context, s admission.Selection) (admission.Resolution, error) {
	p := s.Package
	if p == nil || p.RegistryType != admission.TypePyPI {
		return admission.Resolution{}, errors.New("pypi: the selection is no Python package")
	}
	if len(p.Identifier) > maxName || !nameForm.MatchString(p.Identifier) {
		return fetch.Failed(admission.ArtifactUnresolved, fmt.Sprintf("identifier %.300q is no name of a Python package", p.Identifier)), nil
	}
	if !versionForm.MatchString(p.Version) || p.Version == "latest" {
		return fetch.Failed(admission.ArtifactUnresolved, fmt.Sprintf("version %.300q is no exact version, such as 1.2.3", p.Version)), nil
	}
	if s.Override != "" {
		return r.artifact(ctx, s, s.Override, nil)
	}
	page, err := r.page(p)
	if err != nil {
		return fetch.Failed(admission.ArtifactUnresolved, err.Error()), nil
	}
	f, failure, err := r.choose(ctx, page, p)
	if err != nil {
		return fetch.Unread(err)
	}
	if failure != "" {
		return fetch.Failed(admission.ArtifactUnresolved, failure), nil
	}
	res, err := r.artifact(ctx, s, f.URL, f)
	if err != nil || res.Failure != nil {
		return res, err
	}
	return r.provenance(ctx, page, f, res)
}

// page is the URL of the index's page of the package.
func (r *Resolver) page(p *admission.Package) (string, error) {
	base := strings.TrimSuffix(r.cfg.Index, "/")
	if p.RegistryBaseURL != "" {
		base = strings.TrimSuffix(p.RegistryBaseURL, "/")
		if mirror, ok := r.cfg.Mirrors[base]; ok {
			base = strings.TrimSuffix(mirror, "/")
		}
	}
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("index %.300q: expected a URL with a host and without user, query or fragment", base)
	}
	return base + "/simple/" + normal(p.Identifier) + "/", nil
}

// choose reads the page and picks a file; why says why there is none.
func (r *Resolver) choose(ctx context.Context, page string, p *admission.Package) (_ *file, why string, err error) {
	b, _, err := r.cfg.Fetch.Bytes(ctx, fetch.Request{Locator: page, MaxBytes: maxPage, Accept: "application/vnd.pypi.simple.v1+json"})
	if err != nil {
		return nil, "", err
	}
	var in struct {
		Name  string `json:"name"`
		Files []file `json:"files"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, page + ": no page in JSON: " + err.Error(), nil
	}
	if normal(in.Name) != normal(p.Identifier) || len(in.Files) > maxFiles {
		return nil, fmt.Sprintf("%s: a page about %.100q with %d files", page, in.Name, len(in.Files)), nil
	}
	f, why := pick(in.Files, p)
	if why != "" {
		return nil, page + ": " + why, nil
	}
	if yanked := f.Yanked.Kind(); yanked == 't' || yanked == '"' {
		return nil, fmt.Sprintf("%s: %s was withdrawn: %s", page, f.Filename, f.Yanked), nil
	}
	base, err1 := url.Parse(page)
	at, err2 := base.Parse(f.URL)
	if err1 != nil || err2 != nil || at.Host == "" || !strings.HasSuffix(at.Path, "/"+f.Filename) {
		return nil, fmt.Sprintf("%s: the URL of %s does not end in its name", page, f.Filename), nil
	}
	at.Fragment = ""
	f.URL = at.String()
	return f, "", nil
}

// pick applies the rule of the package comment.
func pick(files []file, p *admission.Package) (f *file, why string) {
	var anyPlatform, source, wheels []*file
	for i := range files {
		f := &files[i]
		name, version, kind := parts(f.Filename, p.Version)
		if normal(name) != normal(p.Identifier) || version != p.Version {
			continue
		}
		switch {
		case kind == "sdist":
			source = append(source, f)
		case strings.HasSuffix(f.Filename, "-none-any.whl"):
			anyPlatform = append(anyPlatform, f)
			fallthrough
		case kind == "wheel":
			wheels = append(wheels, f)
		}
	}
	for _, list := range [][]*file{anyPlatform, source, wheels} {
		switch len(list) {
		case 0:
		case 1:
			return list[0], ""
		default:
			names := make([]string, len(list))
			for i, f := range list {
				names[i] = f.Filename
			}
			return nil, fmt.Sprintf("nothing says which of %d files would be installed (%.500s); give the file", len(list), strings.Join(names, ", "))
		}
	}
	return nil, fmt.Sprintf("version %s of %s has no file that is read", p.Version, p.Identifier)
}

// parts splits a file's name. The version helps where a name has dashes too.
func parts(filename, version string) (name, v, kind string) {
	if base, ok := strings.CutSuffix(filename, ".tar.gz"); ok {
		if name, ok := strings.CutSuffix(base, "-"+version); ok {
			return name, version, "sdist"
		}
		return "", "", ""
	}
	if base, ok := strings.CutSuffix(filename, ".whl"); ok {
		if fields := strings.Split(base, "-"); len(fields) == 5 || len(fields) == 6 {
			return fields[0], fields[1], "wheel"
		}
	}
	return "", "", ""
}

// artifact reads and measures a file. f is nil for one that an operator gave.
func (r *Resolver) artifact(ctx context.Context, s admission.Selection, locator string, f *file) (admission.Resolution, error) {
	blob, err := r.cfg.Fetch.Get(ctx, fetch.Request{Locator: locator})
	if err != nil {
		return fetch.Unread(err)
	}
	defer blob.Close()
	a := blob.Bind(s)
	var checks []admission.Check
	if c, remote := blob.SourceCheck(); remote {
		checks = append(checks, c)
	}
	if failure := fetch.Unexpected(s, a); failure != nil {
		return admission.Resolution{Failure: failure, Checks: checks}, nil
	}
	if f != nil {
		c := admission.Check{ID: admission.CheckIntegrity, State: admission.CheckAbsent, Detail: "the index states no SHA-256"}
		if f.Hashes["sha256"] != "" {
			c = fetch.Compared(admission.CheckIntegrity, "sha256:"+f.Hashes["sha256"], "sha256:"+blob.Digests["sha256"], admission.ArtifactIntegrity)
		}
		checks = append(checks, c)
	}
	m, err := readMetadata(ctx, blob, a.Locator, r.cfg.Limits)
	if code, unsafe := archive.Code(err); unsafe {
		return fetch.Failed(code, err.Error(), checks...), nil
	} else if err != nil {
		return admission.Resolution{}, err
	}
	checks = append(checks, fetch.Compared(admission.CheckVersion, normal(s.Package.Identifier)+"=="+s.Package.Version, normal(m.name)+"=="+m.version, admission.ArtifactVersionMismatch))
	if s.Server != nil {
		checks = append(checks, m.nameCheck(s.Server.Name))
	}
	return admission.Resolution{Binding: a, Checks: checks}, nil
}

// provenance asks for the attestations that the page names.
func (r *Resolver) provenance(ctx context.Context, page string, f *file, res admission.Resolution) (admission.Resolution, error) {
	if f.Provenance == "" {
		res.Sources = []admission.Source{{Locator: page, State: admission.SourceNone}}
		return res, nil
	}
	at := f.Provenance
	if base, err := url.Parse(page); err == nil {
		if u, err := base.Parse(at); err == nil {
			at = u.String()
		}
	}
	if !fetch.IsURL(at) || len(at) > admission.MaxLocatorBytes {
		res.Sources = []admission.Source{{Locator: page, State: admission.SourceUnavailable}}
		return res, nil
	}
	b, blob, err := r.cfg.Fetch.Bytes(ctx, fetch.Request{Locator: at, MaxBytes: admission.MaxEvidenceBytes, Accept: MediaType})
	if err != nil && fetch.KindOf(err) == "" {
		return admission.Resolution{}, err
	}
	state := admission.SourceFound
	if err != nil {
		state = admission.SourceUnavailable // the page says that there are some
	} else {
		res.Evidence = append(res.Evidence, admission.Evidence{MediaType: blob.MediaType, Locator: blob.Answered, Body: b})
		at = blob.Answered
	}
	res.Sources = append(slices.Clip(res.Sources), admission.Source{Locator: at, State: state})
	return res, nil
}
