package oci_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/admission/evidence/oci"
)

const (
	server     = "io.github.domdomegg/airtable-mcp-server"
	repository = "example.com/domdomegg/airtable-mcp-server"
	bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// reg is a real registry behind TLS, under the name example.com.
type reg struct {
	transport http.RoundTripper
	// before is called before an answer; true means that it answered.
	before func(w http.ResponseWriter, r *http.Request) bool

	mu    sync.Mutex
	asked []string
}

func newRegistry(t *testing.T) *reg {
	t.Helper()
	r := &reg{}
	inner := registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.asked = append(r.asked, q.Method+" "+q.URL.Path)
		r.mu.Unlock()
		if r.before != nil && r.before(w, q) {
			return
		}
		inner.ServeHTTP(w, q)
	}))
	t.Cleanup(s.Close)
	tr := s.Client().Transport.(*http.Transport).Clone() // its certificate is for example.com
	tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}
	t.Cleanup(tr.CloseIdleConnections)
	r.transport = tr
	return r
}

func (r *reg) resolver(t *testing.T) *oci.Resolver {
	t.Helper()
	f, err := fetch.New(fetch.Config{Transport: r.transport, Now: func() time.Time { return now }, Pause: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	res, err := oci.NewResolver(oci.Config{Fetch: f})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func image(t *testing.T, label string) v1.Image {
	t.Helper()
	img, err := random.Image(64, 2)
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.Config(img, v1.Config{Labels: map[string]string{"other": "x", oci.Label: label}})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func (r *reg) push(t *testing.T, ref string, img v1.Image) string {
	t.Helper()
	tag, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img, remote.WithTransport(r.transport)); err != nil {
		t.Fatal(err)
	}
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// attach adds a bundle as a referrer of an image.
func (r *reg) attach(t *testing.T, digest string, artifactType types.MediaType, bodies ...[]byte) {
	t.Helper()
	subject, err := remote.Get(mustDigest(t, digest), remote.WithTransport(r.transport))
	if err != nil {
		t.Fatal(err)
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, artifactType)
	for _, body := range bodies {
		if img, err = mutate.AppendLayers(img, static.NewLayer(body, types.MediaType(bundleType))); err != nil {
			t.Fatal(err)
		}
	}
	// The subject goes in last: other changes drop it.
	img = mutate.Subject(img, v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}).(v1.Image)
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(mustDigest(t, d.String()), img, remote.WithTransport(r.transport)); err != nil {
		t.Fatal(err)
	}
}

func mustDigest(t *testing.T, digest string) name.Digest {
	t.Helper()
	d, err := name.NewDigest(repository + "@" + digest)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func selection(ref string) admission.Selection {
	return admission.Selection{
		Server:  &admission.Entry{Name: server},
		Package: &admission.Package{RegistryType: "oci", Identifier: ref, Transport: admission.Transport{Type: "stdio"}},
	}
}

func resolve(t *testing.T, r *reg, s admission.Selection) admission.Resolution {
	t.Helper()
	r.asked = nil
	return evidencekit.Resolve(t, r.resolver(t), s)
}

func wantFailure(t *testing.T, res admission.Resolution, code admission.Code, says ...string) {
	t.Helper()
	for _, s := range says {
		if res.Failure == nil || res.Failure.Code != code || !strings.Contains(res.Failure.Detail, s) {
			t.Errorf("%+v, want %s saying %q", res.Failure, code, s)
		}
	}
}
