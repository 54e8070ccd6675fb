package npm_test

import (
	"context"
	"crypto/sha1"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/admission/evidence/npm"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// registry is an npm registry of one package version.
type registry struct {
	*httptest.Server
	name, version string
	tarball       []byte
	attestations  []byte // nil for none
	change        func(doc map[string]any)
	asked         []string
}

func serve(t *testing.T, r *registry) *registry {
	t.Helper()
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.asked = append(r.asked, q.URL.EscapedPath())
		escaped := strings.Replace(r.name, "/", "%2f", 1)
		switch q.URL.EscapedPath() {
		case "/" + escaped + "/" + r.version:
			s5, s1 := sha512.Sum512(r.tarball), sha1.Sum(r.tarball)
			doc := map[string]any{"name": r.name, "version": r.version, "dist": map[string]any{
				"tarball":   r.URL + "/" + r.name + "/-/x-" + r.version + ".tgz",
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(s5[:]),
				"shasum":    hex.EncodeToString(s1[:]),
			}}
			if r.attestations != nil {
				doc["dist"].(map[string]any)["attestations"] = map[string]any{"url": r.URL + "/elsewhere"}
			}
			if r.change != nil {
				r.change(doc)
			}
			json.NewEncoder(w).Encode(doc)
		case "/-/npm/v1/attestations/" + escaped + "@" + r.version:
			if r.attestations == nil {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Write(r.attestations)
		default:
			if strings.HasSuffix(q.URL.Path, ".tgz") {
				w.Header().Set("Content-Type", "application/octet-stream")
				w.Write(r.tarball)
				return
			}
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func fetcher(t *testing.T, transport http.RoundTripper) *fetch.Fetcher {
	t.Helper()
	f, err := fetch.New(fetch.Config{Transport: transport, Now: func() time.Time { return now }, Scratch: t.TempDir(),
		Pause: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (r *registry) resolver(t *testing.T, change func(*npm.Config)) *npm.Resolver {
	t.Helper()
	cfg := npm.Config{Fetch: fetcher(t, r.Client().Transport), Registry: r.URL}
	if change != nil {
		change(&cfg)
	}
	res, err := npm.NewResolver(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func selection(server, name, version string) admission.Selection {
	return admission.Selection{
		Server:  &admission.Entry{Name: server, Version: version},
		Package: &admission.Package{RegistryType: "npm", Identifier: name, Version: version, Transport: admission.Transport{Type: "stdio"}},
	}
}

func wantFailure(t *testing.T, res admission.Resolution, code admission.Code, says string) {
	t.Helper()
	if res.Failure == nil || res.Failure.Code != code || !strings.Contains(res.Failure.Detail, says) {
		t.Errorf("%+v, want %s saying %q", res.Failure, code, says)
	}
}
