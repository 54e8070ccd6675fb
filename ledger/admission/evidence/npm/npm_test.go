package npm_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/archive"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/admission/evidence/npm"
)

const airtable = "io.github.domdomegg/airtable-mcp-server"

func airtableRegistry(t *testing.T, version, bytesOf string) *registry {
	t.Helper()
	return serve(t, &registry{name: "airtable-mcp-server", version: version, tarball: evidencekit.File(t, "airtable-mcp-server-"+bytesOf+".tgz")})
}

func TestADM06_ARealPackageIsBoundByItsBytes(t *testing.T) {
	r := airtableRegistry(t, "1.7.2", "1.7.2")
	res := evidencekit.Resolve(t, r.resolver(t, nil), selection(airtable, "airtable-mcp-server", "1.7.2"))
	want := &admission.ArtifactBinding{
		Schema: admission.BindingSchema, Kind: admission.KindBytes, PackageType: "npm",
		Identifier: "airtable-mcp-server", Version: "1.7.2", Transport: "stdio",
		Locator: r.URL + "/airtable-mcp-server/-/x-1.7.2.tgz", RetrievedAt: "2026-03-04T05:06:07.000Z",
		Bytes: &admission.BytesBinding{
			Digests: admission.DigestSet{
				"sha256": "4031ed930e8e72823d72b17b0ad9a8c767ee2d4d6009da18c6a1929a51eb5217",
				"sha512": "08daea02ea860ec1d6d9212db2404bc0552f2fe586c8a6a14136259c25bd8404284ccb8984e1394354343ba407328e4dfefc45a938484be4c24193a18f01a2e2",
			},
			Size: 25478, MediaType: "application/octet-stream",
		},
	}
	if diff := cmp.Diff(want, res.Binding); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"source": "pass", "integrity": "pass", "version": "pass", "mcp_name": "pass"}, evidencekit.States(res.Checks)); diff != "" {
		t.Error(diff)
	}
	// None is no proof that nothing exists, and says where was looked.
	if diff := cmp.Diff([]admission.Source{{Locator: r.URL + "/-/npm/v1/attestations/airtable-mcp-server@1.7.2", State: "none"}}, res.Sources); diff != "" || len(res.Evidence) != 0 {
		t.Errorf("%s, %d files", diff, len(res.Evidence))
	}
}

// 1.7.2 and 1.7.3 have one size; a version is no identity.
func TestADM26_TheOtherVersionsBytesFailEarlyWithBothDigests(t *testing.T) {
	s := selection(airtable, "airtable-mcp-server", "1.7.2")
	first := evidencekit.Resolve(t, airtableRegistry(t, "1.7.2", "1.7.2").resolver(t, nil), s)
	s.Expected = first.Binding
	again := evidencekit.Resolve(t, airtableRegistry(t, "1.7.2", "1.7.2").resolver(t, nil), s)
	if diff := cmp.Diff(first.Binding.Bytes, again.Binding.Bytes); diff != "" {
		t.Error(diff)
	}
	r := airtableRegistry(t, "1.7.2", "1.7.3")
	res := evidencekit.Resolve(t, r.resolver(t, nil), s)
	wantFailure(t, res, admission.ArtifactDigestMismatch, "sha256:4031ed930e8e72823d72b17b0ad9a8c767ee2d4d6009da18c6a1929a51eb5217")
	wantFailure(t, res, admission.ArtifactDigestMismatch, "sha256:d104e930bcedd3414fe5a98deb29ea9421bd798f3ea035f6e7da3d125fe4d3a5")
	if len(r.asked) != 2 {
		t.Errorf("after the mismatch it went on: %q", r.asked)
	}
	// A binding of another kind never agrees with bytes.
	s.Expected = &admission.ArtifactBinding{Kind: admission.KindPinnedDeployment, Deployment: &admission.DeploymentBinding{}}
	wantFailure(t, evidencekit.Resolve(t, airtableRegistry(t, "1.7.2", "1.7.2").resolver(t, nil), s), admission.ArtifactDigestMismatch, "pinned_deployment")
}

func TestADM17_TheBytesSayWhichVersionTheyAre(t *testing.T) {
	// The registry hands out 1.7.3 as 1.7.2, with digests that fit.
	res := evidencekit.Resolve(t, airtableRegistry(t, "1.7.2", "1.7.3").resolver(t, nil), selection(airtable, "airtable-mcp-server", "1.7.2"))
	if got := evidencekit.States(res.Checks); got["version"] != "fail artifact_version_mismatch" || got["integrity"] != "pass" {
		t.Errorf("%v", got)
	}
	// Another server's entry names this package.
	res = evidencekit.Resolve(t, airtableRegistry(t, "1.7.2", "1.7.2").resolver(t, nil), selection("com.example/other", "airtable-mcp-server", "1.7.2"))
	if got := evidencekit.States(res.Checks); got["mcp_name"] != "fail mcp_name_mismatch" {
		t.Errorf("%v", got)
	}
	for _, version := range []string{"", "latest", "^1.0.0", "1.x", "1.7", "v1.7.2", "1.7.2 || 2", "../1.7.2"} {
		r := airtableRegistry(t, "1.7.2", "1.7.2")
		wantFailure(t, evidencekit.Resolve(t, r.resolver(t, nil), selection(airtable, "airtable-mcp-server", version)), admission.ArtifactUnresolved, "no exact version")
		if len(r.asked) > 0 {
			t.Errorf("version %q was asked for", version)
		}
	}
	for _, name := range []string{"", "a/b", "../x", "@a", "@a/b/c", "a b", "a?b", ".a", strings.Repeat("a", 215)} {
		r := airtableRegistry(t, "1.7.2", "1.7.2")
		wantFailure(t, evidencekit.Resolve(t, r.resolver(t, nil), selection(airtable, name, "1.7.2")), admission.ArtifactUnresolved, "no name of an npm package")
	}
}

func TestADM06_WhatTheRegistryStatesIsComparedWithTheBytes(t *testing.T) {
	dist := func(doc map[string]any) map[string]any { return doc["dist"].(map[string]any) }
	sri := func(alg string, n int) string { return alg + "-" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	good := sha512.Sum512(evidencekit.File(t, "airtable-mcp-server-1.7.2.tgz"))
	right := "sha512-" + base64.StdEncoding.EncodeToString(good[:])
	tests := []struct {
		name   string
		change func(doc map[string]any)
		want   string
	}{
		{"other digest", func(d map[string]any) { dist(d)["integrity"] = sri("sha512", 64) }, "fail artifact_integrity_mismatch"},
		{"the strongest counts", func(d map[string]any) { dist(d)["integrity"] = sri("sha256", 32) + " " + right }, "pass"},
		{"a weaker one that differs", func(d map[string]any) { dist(d)["integrity"] = sri("sha384", 48) }, "fail artifact_integrity_mismatch"},
		{"one of several", func(d map[string]any) { dist(d)["integrity"] = sri("sha512", 64) + " " + right + "?x" }, "pass"},
		{"sha1 differs", func(d map[string]any) { dist(d)["shasum"] = strings.Repeat("0", 40) }, "fail artifact_integrity_mismatch"},
		{"sha1 alone", func(d map[string]any) { delete(dist(d), "integrity") }, "absent"},
		{"sha1 in integrity", func(d map[string]any) { dist(d)["integrity"] = sri("sha1", 20) }, "absent"},
		{"nothing", func(d map[string]any) { delete(dist(d), "integrity"); delete(dist(d), "shasum") }, "absent"},
		{"wrong length", func(d map[string]any) { dist(d)["integrity"] = sri("sha512", 63) }, "absent"},
	}
	for _, tt := range tests {
		r := airtableRegistry(t, "1.7.2", "1.7.2")
		r.change = tt.change
		res := evidencekit.Resolve(t, r.resolver(t, nil), selection(airtable, "airtable-mcp-server", "1.7.2"))
		if got := evidencekit.States(res.Checks)["integrity"]; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	for name, tt := range map[string]struct {
		change func(doc map[string]any)
		code   admission.Code
	}{
		"another name":    {func(d map[string]any) { d["name"] = "other" }, admission.ArtifactVersionMismatch},
		"another version": {func(d map[string]any) { d["version"] = "9.9.9" }, admission.ArtifactVersionMismatch},
		"no dist":         {func(d map[string]any) { delete(d, "dist") }, admission.ArtifactUnresolved},
		"no tarball":      {func(d map[string]any) { delete(dist(d), "tarball") }, admission.ArtifactUnresolved},
		"tarball on disk": {func(d map[string]any) { dist(d)["tarball"] = "/etc/passwd" }, admission.ArtifactUnresolved},
		"tarball as file": {func(d map[string]any) { dist(d)["tarball"] = "file:///etc/passwd" }, admission.ArtifactUnresolved},
		"plain http":      {func(d map[string]any) { dist(d)["tarball"] = "http://example.com/x.tgz" }, admission.ArtifactUnresolved},
		"tarball is gone": {func(d map[string]any) { dist(d)["tarball"] = strings.TrimSuffix(dist(d)["tarball"].(string), ".tgz") }, admission.ArtifactUnresolved},
		"very large":      {func(d map[string]any) { d["x"] = strings.Repeat("x", 5<<20) }, admission.ArtifactTooLarge},
	} {
		r := airtableRegistry(t, "1.7.2", "1.7.2")
		r.change = tt.change
		res := evidencekit.Resolve(t, r.resolver(t, nil), selection(airtable, "airtable-mcp-server", "1.7.2"))
		if res.Failure == nil || res.Failure.Code != tt.code {
			t.Errorf("%s: %+v, want %s", name, res.Failure, tt.code)
		}
	}
}

func TestADM21_OneRegistryIsAskedAndNoOther(t *testing.T) {
	r := airtableRegistry(t, "1.7.2", "1.7.2")
	s := selection(airtable, "airtable-mcp-server", "1.7.2")
	// The entry's own base, and what a mirror makes of it.
	s.Package.RegistryBaseURL = "https://registry.invalid/"
	wantFailure(t, evidencekit.Resolve(t, r.resolver(t, nil), s), admission.ArtifactUnresolved, "registry.invalid")
	if len(r.asked) > 0 {
		t.Errorf("the configured registry was asked in place of the entry's: %q", r.asked)
	}
	res := evidencekit.Resolve(t, r.resolver(t, func(c *npm.Config) { c.Mirrors = map[string]string{"https://registry.invalid": r.URL} }), s)
	if res.Failure != nil {
		t.Errorf("%+v", res.Failure)
	}
	// A registry that is gone leaves no artifact, and nobody else is asked.
	s.Package.RegistryBaseURL = ""
	wantFailure(t, evidencekit.Resolve(t, r.resolver(t, func(c *npm.Config) { c.Registry = "" }), s), admission.ArtifactUnresolved, "none is configured")

	// A tarball on another host is read there, and said; or from the mirror.
	other := airtableRegistry(t, "1.7.2", "1.7.3")
	r.change = func(doc map[string]any) {
		doc["dist"].(map[string]any)["tarball"] = other.URL + "/airtable-mcp-server/-/x-1.7.2.tgz"
	}
	insecure := r.Client().Transport.(*http.Transport).Clone()
	insecure.TLSClientConfig.InsecureSkipVerify = true // two servers, two roots
	headers := http.Header{"Authorization": {"Bearer x"}}
	res = evidencekit.Resolve(t, r.resolver(t, func(c *npm.Config) { c.Fetch, c.Header = fetcher(t, insecure), headers }), s)
	if got := evidencekit.States(res.Checks); res.Failure != nil || got["integrity"] != "fail artifact_integrity_mismatch" || res.Checks[0].Expected != other.Listener.Addr().String() {
		t.Errorf("%+v, %+v", res.Failure, res.Checks)
	}
	res = evidencekit.Resolve(t, r.resolver(t, func(c *npm.Config) { c.SameHost = true }), s)
	if got := evidencekit.States(res.Checks); res.Failure != nil || got["integrity"] != "pass" || res.Checks[0].Got != r.Listener.Addr().String() {
		t.Errorf("%+v, %v", res.Failure, got)
	}
}

func TestADM21_AGivenArtifactIsReadAndNothingElseAsked(t *testing.T) {
	r := airtableRegistry(t, "1.7.2", "1.7.2")
	s := selection(airtable, "airtable-mcp-server", "1.7.2")
	s.Override = evidencekit.Path(t, "airtable-mcp-server-1.7.2.tgz")
	res := evidencekit.Resolve(t, r.resolver(t, nil), s)
	if diff := cmp.Diff(map[string]string{"version": "pass", "mcp_name": "pass"}, evidencekit.States(res.Checks)); diff != "" || res.Binding.Locator != s.Override || len(res.Sources) > 0 {
		t.Errorf("%s %s %v", diff, res.Binding.Locator, res.Sources)
	}
	s.Override = filepath.Join(t.TempDir(), "none.tgz")
	wantFailure(t, evidencekit.Resolve(t, r.resolver(t, nil), s), admission.ArtifactUnresolved, "no such file")
	if len(r.asked) > 0 {
		t.Errorf("the registry was asked: %q", r.asked)
	}
}

func TestADM06_UnsafeTarballsAreRefused(t *testing.T) {
	pack := func(files ...[2]string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, f := range files {
			h := &tar.Header{Typeflag: tar.TypeReg, Name: f[0], Size: int64(len(f[1])), Mode: 0o644}
			if target, link := strings.CutPrefix(f[1], "->"); link {
				h.Typeflag, h.Size, h.Linkname = tar.TypeSymlink, 0, target
			}
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				w.Write([]byte(f[1]))
			}
		}
		w.Close()
		z.Close()
		return b.Bytes()
	}
	ok := [2]string{"package/package.json", `{"name":"x","version":"1.0.0","scripts":{"a":1,"a":2}}`}
	for name, tt := range map[string]struct {
		tarball []byte
		code    admission.Code
		says    string
	}{
		"fine":            {pack([2]string{"p/package.json", "\xef\xbb\xbf" + ok[1]}), "", ""},
		"traversal":       {pack(ok, [2]string{"package/../../x", "x"}), admission.ArtifactUnsafe, "path_traversal"},
		"link":            {pack(ok, [2]string{"package/x", "->/etc/passwd"}), admission.ArtifactUnsafe, "link"},
		"two of them":     {pack(ok, [2]string{"evil/package.json", ok[1]}), admission.ArtifactUnsafe, "2 files package.json"},
		"none":            {pack([2]string{"package/index.js", ""}), admission.ArtifactUnsafe, "0 files package.json"},
		"bomb":            {pack(ok, [2]string{"package/x", strings.Repeat("x", 17<<20)}), admission.ArtifactTooLarge, "compression_bomb"},
		"member twice":    {pack([2]string{"package/package.json", `{"name":"x","version":"1.0.0","version":"2.0.0"}`}), admission.ArtifactUnsafe, "twice"},
		"no JSON":         {pack([2]string{"package/package.json", `{"name":`}), admission.ArtifactUnsafe, "no JSON"},
		"no tarball":      {[]byte("<html>"), admission.ArtifactUnsafe, "malformed"},
		"large manifest":  {pack([2]string{"package/package.json", strings.Repeat(" ", 2<<20)}), admission.ArtifactTooLarge, "file_too_large"},
		"many small ones": {pack(ok, [2]string{"package/a", ""}, [2]string{"package/b", ""}, [2]string{"package/c", ""}), admission.ArtifactTooLarge, "too_many_files"},
	} {
		r := serve(t, &registry{name: "x", version: "1.0.0", tarball: tt.tarball})
		res := evidencekit.Resolve(t, r.resolver(t, func(c *npm.Config) { c.Limits = archive.Limits{Entries: 3} }), selection("com.example/x", "x", "1.0.0"))
		if tt.code != "" {
			wantFailure(t, res, tt.code, tt.says)
		} else if got := evidencekit.States(res.Checks); res.Failure != nil || got["version"] != "pass" || got["mcp_name"] != "absent" {
			t.Errorf("%s: %+v, %v", name, res.Failure, got)
		}
		if len(r.asked) > 3 {
			t.Errorf("%s: asked for %q", name, r.asked)
		}
	}
}

func TestADM07_AttestationsAreTakenFromTheRegistry(t *testing.T) {
	r := serve(t, &registry{name: "@scope/x", version: "1.0.0", tarball: evidencekit.File(t, "sigstore-2.0.0.tgz"), attestations: []byte(`{"attestations":[]}`)})
	res := evidencekit.Resolve(t, r.resolver(t, nil), selection("com.example/x", "@scope/x", "1.0.0"))
	at := r.URL + "/-/npm/v1/attestations/@scope%2fx@1.0.0"
	if diff := cmp.Diff([]admission.Evidence{{MediaType: "application/json", Locator: at, Body: r.attestations}}, res.Evidence); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]admission.Source{{Locator: at, State: "found"}}, res.Sources); diff != "" {
		t.Error(diff)
	}
	// Metadata that names attestations which are not there is no proof of absence.
	r.attestations = nil
	r.change = func(doc map[string]any) { doc["dist"].(map[string]any)["attestations"] = map[string]any{"url": "x"} }
	res = evidencekit.Resolve(t, r.resolver(t, nil), selection("com.example/x", "@scope/x", "1.0.0"))
	if diff := cmp.Diff([]admission.Source{{Locator: at, State: "unavailable"}}, res.Sources); diff != "" || len(res.Evidence) > 0 {
		t.Error(diff)
	}
	r.attestations, r.change = make([]byte, admission.MaxEvidenceBytes+1), nil
	res = evidencekit.Resolve(t, r.resolver(t, nil), selection("com.example/x", "@scope/x", "1.0.0"))
	if res.Binding == nil || res.Sources[0].State != "unavailable" {
		t.Errorf("%+v", res.Sources)
	}
}

func TestADM31_TheEndOfTheContextIsNoFinding(t *testing.T) {
	r := airtableRegistry(t, "1.7.2", "1.7.2")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if res, err := r.resolver(t, nil).Resolve(ctx, selection(airtable, "airtable-mcp-server", "1.7.2")); err == nil || res.Failure != nil {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := r.resolver(t, nil).Resolve(t.Context(), admission.Selection{Package: &admission.Package{RegistryType: "pypi"}}); err == nil {
		t.Error("a package of another type is resolved")
	}
	for _, cfg := range []npm.Config{{}, {Fetch: fetcher(t, nil), Registry: "nowhere"}, {Fetch: fetcher(t, nil), Registry: "https://u:p@example.com"}, {Fetch: fetcher(t, nil), Mirrors: map[string]string{"a": "b"}}} {
		if _, err := npm.NewResolver(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// The live registry that this machine's npm is set up for, if it can be reached.
func TestADM06_ALiveRegistry(t *testing.T) {
	base := os.Getenv("NPM_CONFIG_REGISTRY")
	if base == "" {
		base = os.Getenv("npm_config_registry")
	}
	if u, err := url.Parse(base); base == "" || err != nil || u.Scheme == "" {
		t.Skip("no npm registry is set in NPM_CONFIG_REGISTRY")
	}
	f, err := fetch.New(fetch.Config{Transport: http.DefaultTransport, Now: time.Now, PlainHTTP: true, Timeout: 20 * time.Second, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	r, err := npm.NewResolver(npm.Config{Fetch: f, Registry: base, SameHost: true})
	if err != nil {
		t.Fatal(err)
	}
	res := evidencekit.Resolve(t, r, selection(airtable, "airtable-mcp-server", "1.7.2"))
	if res.Failure != nil {
		t.Skipf("the registry is not reachable: %s", res.Failure.Detail)
	}
	if res.Binding.Bytes.Digests["sha256"] != "4031ed930e8e72823d72b17b0ad9a8c767ee2d4d6009da18c6a1929a51eb5217" {
		t.Errorf("%+v", res.Binding.Bytes)
	}
	t.Log(fmt.Sprint(evidencekit.States(res.Checks)), res.Sources)
}
