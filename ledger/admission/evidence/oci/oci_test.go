package oci_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
)

func TestADM06_AnImageIsBoundByItsDigest(t *testing.T) {
	r := newRegistry(t)
	img := image(t, server)
	digest := r.push(t, repository+":1.7.2", img)
	raw, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{repository + ":1.7.2", repository + "@" + digest, repository + ":1.7.2@" + digest} {
		res := resolve(t, r, selection(ref))
		if res.Failure != nil {
			t.Fatalf("%s: %+v", ref, res.Failure)
		}
		want := &admission.ArtifactBinding{
			Schema: admission.BindingSchema, Kind: admission.KindBytes, PackageType: "oci", Identifier: ref, Transport: "stdio",
			Locator: repository + "@" + digest, RetrievedAt: "2026-03-04T05:06:07.000Z",
			Bytes: &admission.BytesBinding{Digests: evidencekit.Digests(raw), Size: int64(len(raw)), MediaType: "application/vnd.docker.distribution.manifest.v2+json"},
		}
		if diff := cmp.Diff(want, res.Binding); diff != "" {
			t.Errorf("%s: %s", ref, diff)
		}
		if got := evidencekit.States(res.Checks); got["mcp_name"] != "pass" || got["source"] != "pass" || (got["tag"] == "pass") != strings.Contains(ref, ":1.7.2") {
			t.Errorf("%s: %v", ref, got)
		}
		if diff := cmp.Diff([]admission.Source{{Locator: repository + "@" + digest + "?referrers", State: "none"}}, res.Sources); diff != "" {
			t.Error(diff)
		}
		for _, q := range r.asked {
			if strings.Contains(q, "/blobs/") && !strings.Contains(q, configOf(t, img)) {
				t.Errorf("%s: a layer was read: %s", ref, q)
			}
		}
	}
}

func configOf(t *testing.T, img v1.Image) string {
	t.Helper()
	h, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

func TestADM26_ATagThatMovesIsDetected(t *testing.T) {
	r := newRegistry(t)
	first, second := image(t, server), image(t, server)
	firstDigest := r.push(t, repository+":1.7.2", first)
	s := selection(repository + ":1.7.2")

	// Between snapshot and fetch: discovery notes the digest, and expects it.
	noted, failure, err := r.resolver(t).Tag(t.Context(), s)
	if err != nil || failure != nil || noted != firstDigest {
		t.Fatal(noted, failure, err)
	}
	before := resolve(t, r, s)
	secondDigest := r.push(t, repository+":1.7.2", second)
	s.Expected = before.Binding
	res := resolve(t, r, s)
	wantFailure(t, res, admission.TagMoved, "expected "+firstDigest, "got "+secondDigest)
	for _, q := range r.asked {
		if strings.HasPrefix(q, "GET") && strings.Contains(q, "/manifests/") {
			t.Errorf("fetched after the mismatch: %s", q)
		}
	}

	// Between the first and the last look.
	s.Expected = nil
	third := image(t, server)
	moved := false
	r.before = func(_ http.ResponseWriter, q *http.Request) bool {
		if q.Method == http.MethodGet && strings.Contains(q.URL.Path, "/blobs/") && !moved {
			moved = true
			r.push(t, repository+":1.7.2", third)
		}
		return false
	}
	res = resolve(t, r, s)
	wantFailure(t, res, admission.TagMoved, "expected "+secondDigest)
	if got := evidencekit.States(res.Checks)["tag"]; got != "fail artifact_tag_moved" {
		t.Error(got)
	}
	r.before = nil

	// A reference that states both is held to the digest.
	res = resolve(t, r, selection(repository+":1.7.2@"+firstDigest))
	wantFailure(t, res, admission.TagMoved, "expected "+firstDigest)
	// By digest alone the old image is still that image.
	res = resolve(t, r, selection(repository+"@"+firstDigest))
	if res.Failure != nil {
		t.Error(res.Failure)
	}
	s = selection(repository + "@" + secondDigest)
	s.Expected = before.Binding
	wantFailure(t, resolve(t, r, s), admission.ArtifactDigestMismatch, firstDigest, secondDigest)
	s.Expected = &admission.ArtifactBinding{Kind: admission.KindPinnedDeployment}
	wantFailure(t, resolve(t, r, s), admission.ArtifactDigestMismatch, "pinned_deployment")
}

func TestADM17_AReferenceMustNameATagOrADigest(t *testing.T) {
	r := newRegistry(t)
	for _, ref := range []string{"", repository, "example.com:443/x", repository + ":", repository + "@sha256:00", repository + "@sha512:" + strings.Repeat("0", 128), repository + ":a b", "UPPER/case:1", repository + ":1@sha256:" + strings.Repeat("G", 64)} {
		res := resolve(t, r, selection(ref))
		if res.Failure == nil || res.Failure.Code != admission.ArtifactUnresolved {
			t.Errorf("%q: %+v", ref, res.Failure)
		}
		if _, f, err := r.resolver(t).Tag(t.Context(), selection(ref)); err != nil || f == nil {
			t.Errorf("%q: %v %v", ref, f, err)
		}
		if len(r.asked) > 0 {
			t.Errorf("%q: asked %q", ref, r.asked)
		}
	}
}

func TestADM06_TheLabelOfEveryPlatformNamesTheServer(t *testing.T) {
	r := newRegistry(t)
	index := func(labels ...string) string {
		var idx v1.ImageIndex = empty.Index
		for i, l := range labels {
			idx = mutate.AppendManifests(idx, mutate.IndexAddendum{Add: image(t, l), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: []string{"amd64", "arm64", "s390x"}[i%3]}}})
		}
		// What builders add: notes that no platform runs.
		idx = mutate.AppendManifests(idx, mutate.IndexAddendum{Add: image(t, "no server"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}})
		tag, err := name.NewTag(repository + ":index")
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.WriteIndex(tag, idx, remote.WithTransport(r.transport)); err != nil {
			t.Fatal(err)
		}
		d, err := idx.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	for _, tt := range []struct {
		labels []string
		want   string
	}{
		{[]string{server, server}, "pass"},
		{[]string{server, "com.example/other"}, "fail mcp_name_mismatch"},
		{[]string{server, ""}, "fail mcp_name_mismatch"},
		{[]string{"com.example/other"}, "fail mcp_name_mismatch"},
		{[]string{""}, "absent"},
		{nil, "absent"},
	} {
		digest := index(tt.labels...)
		res := resolve(t, r, selection(repository+":index"))
		if res.Failure != nil || res.Binding.SHA256() != digest || evidencekit.States(res.Checks)["mcp_name"] != tt.want {
			t.Errorf("%q: %+v %v, want %s", tt.labels, res.Failure, evidencekit.States(res.Checks), tt.want)
		}
	}
	index(strings.Fields(strings.Repeat("x ", 65))...)
	wantFailure(t, resolve(t, r, selection(repository+":index")), admission.ArtifactUnsafe, "limit 64")
}

func TestADM13_BundlesThatReferToTheImageAreFoundAndJudged(t *testing.T) {
	r := newRegistry(t)
	digest := r.push(t, repository+":1.7.2", image(t, server))
	bundle := evidencekit.File(t, "sigstore-2.0.0.provenance.json")
	r.attach(t, digest, types.MediaType(bundleType), bundle)
	r.attach(t, digest, "application/spdx+json", []byte("{}"))
	r.attach(t, digest, types.MediaType(bundleType), bundle, bundle) // not of the form
	res := resolve(t, r, selection(repository+":1.7.2"))
	if len(res.Evidence) != 1 || !bytes.Equal(res.Evidence[0].Body, bundle) || res.Evidence[0].MediaType != bundleType || !strings.HasPrefix(res.Evidence[0].Locator, repository+"@sha256:") {
		t.Fatalf("%d files: %+v", len(res.Evidence), res.Sources)
	}
	var got []string
	for _, s := range res.Sources {
		got = append(got, s.State)
	}
	if got[0] != "found" || len(got) != 3 || strings.Count(strings.Join(got, " "), "found") != 2 || strings.Count(strings.Join(got, " "), "unavailable") != 1 {
		t.Errorf("%v", res.Sources)
	}
	// A real bundle of another artifact is no evidence about this image.
	v, err := sigstore.New(sigstore.Config{Root: evidencekit.Root(t, "npm-seed")})
	if err != nil {
		t.Fatal(err)
	}
	findings, err := v.Verify(t.Context(), res.Evidence[0], res.Binding)
	if err != nil || !v.Handles(res.Evidence[0]) || findings[0].Code != admission.ArtifactDigestMismatch {
		t.Errorf("%+v, %v", findings, err)
	}
}

func TestADM21_WhatARegistryMayNotDo(t *testing.T) {
	r := newRegistry(t)
	img := image(t, server)
	digest := r.push(t, repository+":1.7.2", img)
	config, err := img.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	manifests := func(f http.HandlerFunc) func(w http.ResponseWriter, q *http.Request) bool {
		return func(w http.ResponseWriter, q *http.Request) bool {
			if q.Method != http.MethodGet || !strings.Contains(q.URL.Path, "/manifests/") {
				return false
			}
			f(w, q)
			return true
		}
	}
	for name, tt := range map[string]struct {
		before func(w http.ResponseWriter, q *http.Request) bool
		code   admission.Code
		says   string
	}{
		"another manifest": {manifests(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
			io.WriteString(w, `{"schemaVersion":2}`)
		}), admission.ArtifactDigestMismatch, "does not match"},
		"to plain http": {manifests(func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://elsewhere.test/x", http.StatusFound)
		}), admission.ArtifactUnresolved, "scheme http, expected https"},
		"large manifest": {manifests(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 9<<20)) }), admission.ArtifactTooLarge, ""},
		"nothing there":  {manifests(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }), admission.ArtifactUnresolved, "no such image"},
		"another configuration": {func(w http.ResponseWriter, q *http.Request) bool {
			if q.Method == http.MethodGet && strings.Contains(q.URL.Path, "/blobs/") {
				w.Write(bytes.ToUpper(config))
				return true
			}
			return false
		}, admission.ArtifactDigestMismatch, ""},
		"odd tag": {func(w http.ResponseWriter, q *http.Request) bool {
			if q.Method == http.MethodHead {
				w.Header().Set("Docker-Content-Digest", "sha512:"+strings.Repeat("0", 128))
				w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
				w.Header().Set("Content-Length", "1")
				return true
			}
			return false
		}, admission.ArtifactUnresolved, ""},
		"always busy": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}, admission.ArtifactUnresolved, ""},
	} {
		r.before = tt.before
		res := resolve(t, r, selection(repository+":1.7.2"))
		if res.Failure == nil || res.Failure.Code != tt.code || !strings.Contains(res.Failure.Detail, tt.says) {
			t.Errorf("%s: %+v, want %s saying %q", name, res.Failure, tt.code, tt.says)
		}
	}
	// Busy for a while.
	busy := 2
	r.before = func(w http.ResponseWriter, _ *http.Request) bool {
		if busy--; busy >= 0 {
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		return false
	}
	if res := resolve(t, r, selection(repository+":1.7.2")); res.Failure != nil || res.Binding.SHA256() != digest {
		t.Errorf("%+v", res.Failure)
	}
	// Referrers that cannot be read are no proof that there are none.
	r.before = func(w http.ResponseWriter, q *http.Request) bool {
		if strings.Contains(q.URL.Path, "/referrers/") {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	}
	if res := resolve(t, r, selection(repository+":1.7.2")); res.Failure != nil || res.Sources[0].State != "unavailable" {
		t.Errorf("%+v %+v", res.Failure, res.Sources)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if res, err := r.resolver(t).Resolve(ctx, selection(repository+":1.7.2")); err == nil {
		t.Errorf("%+v", res)
	}
}
