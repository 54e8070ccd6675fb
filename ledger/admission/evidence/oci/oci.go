// Package oci resolves container images in registries that speak OCI's
// distribution API, and finds Sigstore bundles that refer to them.
//
// What is bound is the digest of the image's manifest, or of its index if there is
// one for many platforms: both name everything below them by digest. A tag is only
// a way to find it. The tag is read before and after, and if it moved in between
// there is no artifact.
//
// Sources: requirements ADM-06, ADM-17, ADM-21, ADM-26; OCI image and
// distribution specifications 1.1 (referrers).
package oci

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/event"
)

// Label is the image label that names the MCP server.
const Label = "io.modelcontextprotocol.server.name"

const (
	maxAnswer    = 8 << 20 // one manifest, image configuration or bundle
	maxPlatforms = 64      // images of one index
)

// Config says how registries are asked.
type Config struct {
	Fetch *fetch.Fetcher // required; its transport makes the requests
	// Keychain has the credentials. Default: none.
	Keychain authn.Keychain
}

// Resolver finds images. It implements [admission.Resolver].
type Resolver struct{ cfg Config }

// NewResolver returns a resolver.
func NewResolver(cfg Config) (*Resolver, error) {
	if cfg.Fetch == nil {
		return nil, errors.New("oci: nothing to fetch with")
	}
	return &Resolver{cfg}, nil
}

// PackageType implements [admission.Resolver].
func (r *Resolver) PackageType() string { return admission.TypeOCI }

// pull is one resolution.
type pull struct {
	s      admission.Selection
	repo   name.Repository
	tag    *name.Tag // nil for a reference by digest alone
	pinned string    // digest that the reference states, or ""
	guard  *fetch.Guard
	opts   []remote.Option
}

// begin reads the reference. A reference with neither tag nor digest is refused:
// the tag that others would put there is nobody's word.
func (r *Resolver) begin(ctx context.Context, s admission.Selection) (*pull, error) {
	text := s.Package.Identifier
	if s.Override != "" {
		text = s.Override
	}
	base, digest, byDigest := strings.Cut(text, "@")
	p := &pull{s: s, guard: r.cfg.Fetch.Guard(maxAnswer)}
	if byDigest {
		d, err := name.NewDigest(text)
		if err != nil || !admission.ValidDigest(digest) {
			return nil, fmt.Errorf("%.300q is no image reference by SHA-256 digest", text)
		}
		p.repo, p.pinned = d.Context(), digest
	}
	if strings.LastIndexByte(base, ':') > strings.LastIndexByte(base, '/') {
		t, err := name.NewTag(base)
		if err != nil {
			return nil, fmt.Errorf("%.300q is no image reference", text)
		}
		p.repo, p.tag = t.Context(), &t
	}
	if !byDigest && p.tag == nil {
		return nil, fmt.Errorf("%.300q names neither a tag nor a digest", text)
	}
	keychain := r.cfg.Keychain
	if keychain == nil {
		keychain = authn.NewMultiKeychain()
	}
	p.opts = []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(p.guard), remote.WithAuthFromKeychain(keychain), remote.WithUserAgent("counterfoil"), remote.WithJobs(1),
		// The transport asks again by itself.
		remote.WithRetryPredicate(func(error) bool { return false }), remote.WithRetryStatusCodes(), remote.WithRetryBackoff(remote.Backoff{Steps: 1}),
	}
	return p, nil
}

// Tag says which digest the selected tag points to now, or the digest of the
// reference itself. Discovery notes it, and hands it to [Resolver.Resolve] as what
// is expected.
func (r *Resolver) Tag(ctx context.Context, s admission.Selection) (string, *admission.Failure, error) {
	inner, cancel := context.WithTimeout(ctx, r.cfg.Fetch.Timeout())
	defer cancel()
	p, err := r.begin(inner, s)
	if err != nil {
		return "", &admission.Failure{Code: admission.ArtifactUnresolved, Detail: fetch.Clip(err.Error())}, nil
	}
	digest, err := p.digest()
	if err != nil {
		res, err := unread(ctx, err, nil)
		return "", res.Failure, err
	}
	return digest, nil, nil
}

// digest is the digest of the reference, or the one that its tag points to.
func (p *pull) digest() (string, error) {
	if p.pinned != "" {
		return p.pinned, nil
	}
	return p.tagged()
}

func (p *pull) tagged() (string, error) {
	d, err := remote.Head(*p.tag, p.opts...)
	if err != nil {
		return "", err
	}
	if !admission.ValidDigest(d.Digest.String()) {
		return "", fmt.Errorf("%s points to digest %.100q, expected SHA-256", p.tag, d.Digest.String())
	}
	return d.Digest.String(), nil
}

// Resolve implements [admission.Resolver].
func (r *Resolver) Resolve(ctx context.Context, s admission.Selection) (admission.Resolution, error) {
	if s.Package == nil || s.Package.RegistryType != admission.TypeOCI {
		return admission.Resolution{}, errors.New("oci: the selection is no image")
	}
	inner, cancel := context.WithTimeout(ctx, r.cfg.Fetch.Timeout())
	defer cancel()
	p, err := r.begin(inner, s)
	if err != nil {
		return fetch.Failed(admission.ArtifactUnresolved, err.Error()), nil
	}
	digest, err := p.digest()
	if err != nil {
		return unread(ctx, err, nil)
	}
	if f := p.unexpected(digest); f != nil {
		return admission.Resolution{Failure: f}, nil
	}
	ref := p.repo.Digest(digest)
	desc, err := remote.Get(ref, p.opts...)
	if err != nil {
		return unread(ctx, err, p.checks())
	}
	labels, err := labels(desc)
	if err != nil {
		return unread(ctx, err, p.checks())
	}
	if p.tag != nil {
		if now, err := p.tagged(); err != nil {
			return unread(ctx, err, p.checks())
		} else if now != digest {
			f := &admission.Failure{Code: admission.TagMoved, Detail: fetch.Clip(fmt.Sprintf("%s: expected %s, got %s", p.tag, digest, now))}
			return admission.Resolution{Failure: f, Checks: append(p.checks(), fetch.Compared(admission.CheckTag, digest, now, admission.TagMoved))}, nil
		}
	}
	res := admission.Resolution{Binding: bind(s, ref, desc, event.FormatTime(r.cfg.Fetch.Now())), Checks: p.checks()}
	if p.tag != nil {
		res.Checks = append(res.Checks, fetch.Compared(admission.CheckTag, digest, digest, admission.TagMoved))
	}
	if s.Server != nil {
		res.Checks = append(res.Checks, nameCheck(s.Server.Name, labels))
	}
	res.Evidence, res.Sources, err = p.referrers(inner, ref)
	if err != nil && ctx.Err() != nil {
		return admission.Resolution{}, context.Cause(ctx)
	}
	return res, nil
}

// unexpected compares a digest with the one that an earlier record has.
func (p *pull) unexpected(digest string) *admission.Failure {
	e := p.s.Expected
	if e == nil {
		return nil
	}
	if e.Bytes == nil {
		return &admission.Failure{Code: admission.ArtifactDigestMismatch, Detail: fetch.Clip("expected a binding of kind " + string(e.Kind) + ", got an image: " + digest)}
	}
	want := e.SHA256()
	if want == digest {
		return nil
	}
	code := admission.ArtifactDigestMismatch
	if p.tag != nil && p.pinned == "" {
		code = admission.TagMoved
	}
	return &admission.Failure{Code: code, Detail: fetch.Clip(fmt.Sprintf("expected %s, got %s", want, digest))}
}

// checks says which hosts answered.
func (p *pull) checks() []admission.Check {
	hosts := p.guard.Hosts()
	if len(hosts) == 0 {
		return nil
	}
	c := admission.Check{ID: admission.CheckSource, State: admission.CheckPass, Expected: p.repo.RegistryStr(), Got: fetch.Clip(strings.Join(hosts, " "))}
	if len(hosts) > 1 || hosts[0] != p.repo.RegistryStr() {
		c.Detail = "redirected by the source"
	}
	return []admission.Check{c}
}

func bind(s admission.Selection, ref name.Digest, desc *remote.Descriptor, at string) *admission.ArtifactBinding {
	s5 := sha512.Sum512(desc.Manifest)
	return &admission.ArtifactBinding{
		Schema: admission.BindingSchema, Kind: admission.KindBytes, PackageType: admission.TypeOCI,
		Identifier: s.Package.Identifier, Version: s.Package.Version, Transport: s.Package.Transport.Type,
		Locator: ref.String(), RetrievedAt: at,
		Bytes: &admission.BytesBinding{
			Digests: admission.DigestSet{"sha256": strings.TrimPrefix(admission.Digest(desc.Manifest), "sha256:"), "sha512": hex.EncodeToString(s5[:])},
			Size:    int64(len(desc.Manifest)), MediaType: fetch.Clip(string(desc.MediaType)),
		},
	}
}

// unsupported is an image that is not of a kind that is read.
type unsupported struct{ detail string }

func (u *unsupported) Error() string { return u.detail }

// labels are the server names in the image, or in the image of each platform;
// "" for one without.
func labels(desc *remote.Descriptor) ([]string, error) {
	switch {
	case desc.MediaType.IsIndex():
		idx, err := desc.ImageIndex()
		if err != nil {
			return nil, err
		}
		return indexLabels(idx)
	case desc.MediaType.IsImage():
		img, err := desc.Image()
		if err != nil {
			return nil, err
		}
		l, err := label(img)
		return []string{l}, err
	}
	return nil, &unsupported{fmt.Sprintf("the manifest has media type %.100q, expected an image or an index of images", desc.MediaType)}
}

func indexLabels(idx v1.ImageIndex) ([]string, error) {
	m, err := idx.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(m.Manifests) > maxPlatforms {
		return nil, &unsupported{fmt.Sprintf("the index has %d manifests, limit %d", len(m.Manifests), maxPlatforms)}
	}
	var out []string
	for _, d := range m.Manifests {
		switch {
		case d.Platform != nil && d.Platform.OS == "unknown", d.ArtifactType != "" && d.MediaType.IsImage() && d.Platform == nil:
			continue // notes of the builder, no image that runs
		case d.MediaType.IsIndex():
			return nil, &unsupported{"the index has another index in it"}
		case !d.MediaType.IsImage():
			continue
		}
		img, err := idx.Image(d.Digest)
		if err != nil {
			return nil, err
		}
		l, err := label(img)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

func label(img v1.Image) (string, error) {
	if t, err := img.MediaType(); err != nil {
		return "", err
	} else if t == types.DockerManifestSchema1 || t == types.DockerManifestSchema1Signed {
		return "", &unsupported{"the manifest is of schema 1, whose digest does not cover all of it"}
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return "", err
	}
	return cfg.Config.Labels[Label], nil
}

// nameCheck wants the server's name in the images of all platforms.
func nameCheck(server string, labels []string) admission.Check {
	all := slices.Compact(slices.Sorted(slices.Values(labels)))
	if len(all) == 1 {
		return fetch.Compared(admission.CheckMCPName, server, all[0], admission.MCPNameMismatch)
	}
	if len(all) == 0 {
		return admission.Check{ID: admission.CheckMCPName, State: admission.CheckAbsent, Expected: server, Detail: "no image of a platform"}
	}
	return admission.Check{ID: admission.CheckMCPName, State: admission.CheckFail, Code: admission.MCPNameMismatch, Expected: server, Got: fetch.Clip(fmt.Sprintf("%q", all)), Detail: "images of platforms name different servers"}
}
