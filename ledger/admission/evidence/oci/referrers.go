package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
)

// bundleType is how the types of Sigstore bundles begin.
const bundleType = "application/vnd.dev.sigstore.bundle"

// referrers finds bundles that refer to a manifest. That something refers to it is
// the registry's word; the signature is over the digest.
func (p *pull) referrers(ctx context.Context, ref name.Digest) ([]admission.Evidence, []admission.Source, error) {
	source := admission.Source{Locator: ref.String() + "?referrers", State: admission.SourceNone}
	idx, err := remote.Referrers(ref, p.opts...)
	var m *v1.IndexManifest
	if err == nil {
		m, err = idx.IndexManifest()
	}
	if err != nil {
		source.State = admission.SourceUnavailable
		return nil, []admission.Source{source}, err
	}
	var found []admission.Evidence
	sources := []admission.Source{source}
	for _, d := range m.Manifests {
		if !strings.HasPrefix(d.ArtifactType, bundleType) {
			continue
		}
		if len(sources) >= admission.MaxEvidenceFiles {
			break
		}
		sources[0].State = admission.SourceFound
		at := p.repo.Digest(d.Digest.String())
		body, err := p.bundle(ctx, at)
		if err != nil {
			sources = append(sources, admission.Source{Locator: at.String(), State: admission.SourceUnavailable})
			continue
		}
		sources = append(sources, admission.Source{Locator: at.String(), State: admission.SourceFound})
		found = append(found, admission.Evidence{MediaType: d.ArtifactType, Locator: at.String(), Body: body})
	}
	return found, sources, nil
}

// bundle reads the one layer of a referring manifest.
func (p *pull) bundle(ctx context.Context, at name.Digest) ([]byte, error) {
	desc, err := remote.Get(at, p.opts...)
	if err != nil {
		return nil, err
	}
	img, err := desc.Image()
	if err != nil {
		return nil, err
	}
	m, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	if len(m.Layers) != 1 || !strings.HasPrefix(string(m.Layers[0].MediaType), bundleType) || m.Layers[0].Size > admission.MaxEvidenceBytes {
		return nil, fmt.Errorf("%d layers, expected one bundle of at most %d bytes", len(m.Layers), admission.MaxEvidenceBytes)
	}
	layer, err := img.LayerByDigest(m.Layers[0].Digest)
	if err != nil {
		return nil, err
	}
	rc, err := layer.Compressed() // the bytes as they are; verified against the digest
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	body, err := io.ReadAll(io.LimitReader(rc, admission.MaxEvidenceBytes+1))
	if err != nil {
		return nil, err
	}
	if len(body) > admission.MaxEvidenceBytes {
		return nil, fmt.Errorf("a bundle of more than %d bytes", admission.MaxEvidenceBytes)
	}
	return body, ctx.Err()
}

// unread says why an image was not read.
func unread(ctx context.Context, err error, checks []admission.Check) (admission.Resolution, error) {
	if ctx.Err() != nil {
		return admission.Resolution{}, context.Cause(ctx)
	}
	code := admission.ArtifactUnresolved
	var none *unsupported
	var status *transport.Error
	switch {
	case errors.As(err, &none):
		code = admission.ArtifactUnsafe
	case fetch.KindOf(err) == fetch.TooLarge:
		code = admission.ArtifactTooLarge
	case strings.Contains(err.Error(), "does not match requested digest"), strings.Contains(err.Error(), "error verifying sha256 checksum"):
		// The library has no type for it.
		code = admission.ArtifactDigestMismatch
	case errors.As(err, &status) && status.StatusCode == http.StatusNotFound:
		return fetch.Failed(code, "there is no such image: "+err.Error(), checks...), nil
	}
	return fetch.Failed(code, err.Error(), checks...), nil
}
