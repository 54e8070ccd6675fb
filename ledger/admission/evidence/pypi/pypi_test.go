package pypi

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
)

const server = "io.github.domdomegg/time-mcp-pypi"

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func wheel(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, content := range files {
		out, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		out.Write([]byte(content))
	}
	w.Close()
	return b.Bytes()
}

func sdist(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(content))
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

const info = "Metadata-Version: 2.4\nName: Time_MCP.pypi\nVersion: 1.0.6\nSummary: x\n  Version: 9\n\n# Time\n<!-- mcp-name: " + server + " -->\nVersion: 8\n"

func goodWheel(t *testing.T) []byte {
	return wheel(t, map[string]string{"time_mcp_pypi-1.0.6.dist-info/METADATA": info, "time_mcp_pypi/__init__.py": ""})
}

// index is a package index (PEP 691).
type index struct {
	*httptest.Server
	name  string
	files []map[string]any
	body  map[string][]byte // by path
	asked []string
}

func newIndex(t *testing.T) *index {
	t.Helper()
	x := &index{name: "time-mcp-pypi", body: map[string][]byte{}}
	x.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.asked = append(x.asked, r.URL.Path)
		if r.URL.Path == "/simple/time-mcp-pypi/" {
			if r.Header.Get("Accept") != "application/vnd.pypi.simple.v1+json" {
				t.Errorf("asked for %q", r.Header.Get("Accept"))
			}
			json.NewEncoder(w).Encode(map[string]any{"meta": map[string]string{"api-version": "1.3"}, "name": x.name, "files": x.files})
			return
		}
		b, ok := x.body[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if strings.HasSuffix(r.URL.Path, "provenance") {
			w.Header().Set("Content-Type", MediaType)
		}
		w.Write(b)
	}))
	t.Cleanup(x.Close)
	return x
}

func (x *index) add(name string, body []byte, more map[string]any) {
	f := map[string]any{"filename": name, "url": "../../files/" + name, "hashes": map[string]string{"sha256": evidencekit.Digests(body)["sha256"]}, "yanked": false}
	for k, v := range more {
		f[k] = v
	}
	x.files = append(x.files, f)
	x.body["/files/"+name] = body
}

func (x *index) resolver(t *testing.T) *Resolver {
	t.Helper()
	f, err := fetch.New(fetch.Config{Transport: x.Client().Transport, Now: func() time.Time { return now }, Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewResolver(Config{Fetch: f, Index: x.URL + "/"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func selection(name, version string) admission.Selection {
	return admission.Selection{
		Server:  &admission.Entry{Name: server},
		Package: &admission.Package{RegistryType: "pypi", Identifier: name, Version: version, Transport: admission.Transport{Type: "stdio"}},
	}
}

func (x *index) resolve(t *testing.T, s admission.Selection) admission.Resolution {
	t.Helper()
	return evidencekit.Resolve(t, x.resolver(t), s)
}

func TestADM06_AFileOfTheVersionIsBound(t *testing.T) {
	x := newIndex(t)
	body := goodWheel(t)
	x.add("time_mcp_pypi-1.0.6-py3-none-any.whl", body, nil)
	x.add("time_mcp_pypi-1.0.6.tar.gz", nil, nil)
	x.add("time_mcp_pypi-1.0.60-py3-none-any.whl", nil, nil)
	x.add("time_mcp_pypi-1.0.5-py3-none-any.whl", nil, nil)
	x.add("time_mcp_pypi_more-1.0.6-py3-none-any.whl", nil, nil)
	x.add("time_mcp_pypi-1.0.6.zip", nil, nil)
	res := x.resolve(t, selection("Time.MCP-pypi", "1.0.6"))
	want := &admission.ArtifactBinding{
		Schema: admission.BindingSchema, Kind: admission.KindBytes, PackageType: "pypi", Identifier: "Time.MCP-pypi", Version: "1.0.6", Transport: "stdio",
		Locator: x.URL + "/files/time_mcp_pypi-1.0.6-py3-none-any.whl", RetrievedAt: "2026-03-04T05:06:07.000Z",
		Bytes: &admission.BytesBinding{Digests: evidencekit.Digests(body), Size: int64(len(body)), MediaType: "application/zip"},
	}
	if diff := cmp.Diff(want, res.Binding); diff != "" {
		t.Errorf("%+v\n%s", res.Failure, diff)
	}
	if diff := cmp.Diff(map[string]string{"source": "pass", "integrity": "pass", "version": "pass", "mcp_name": "pass"}, evidencekit.States(res.Checks)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]admission.Source{{Locator: x.URL + "/simple/time-mcp-pypi/", State: "none"}}, res.Sources); diff != "" {
		t.Error(diff)
	}
	if got := res.Binding.SubjectNames(); got[0] != "time_mcp_pypi-1.0.6-py3-none-any.whl" {
		t.Error(got)
	}
}

func TestADM17_WhichFileIsChosen(t *testing.T) {
	for name, tt := range map[string]struct {
		files []string
		want  string // or what the failure says
	}{
		"source":            {[]string{"time_mcp_pypi-1.0.6.tar.gz", "time_mcp_pypi-1.0.6-cp312-cp312-linux_x86_64.whl"}, "time_mcp_pypi-1.0.6.tar.gz"},
		"one wheel":         {[]string{"time_mcp_pypi-1.0.6-cp312-cp312-linux_x86_64.whl"}, "time_mcp_pypi-1.0.6-cp312-cp312-linux_x86_64.whl"},
		"two wheels":        {[]string{"time_mcp_pypi-1.0.6-cp312-cp312-linux_x86_64.whl", "time_mcp_pypi-1.0.6-1-cp312-cp312-win_amd64.whl"}, "nothing says which of 2 files"},
		"two for all":       {[]string{"time_mcp_pypi-1.0.6-py3-none-any.whl", "time_mcp_pypi-1.0.6-py2-none-any.whl"}, "nothing says which of 2 files"},
		"two sources":       {[]string{"time_mcp_pypi-1.0.6.tar.gz", "time-mcp-pypi-1.0.6.tar.gz"}, "nothing says which of 2 files"},
		"none of it":        {[]string{"time_mcp_pypi-1.0.7.tar.gz", "time_mcp_pypi-1.0.6.egg", "time_mcp_pypi-1.0.6-any.whl"}, "has no file that is read"},
		"withdrawn":         {[]string{"yanked"}, "was withdrawn"},
		"URL of other file": {[]string{"elsewhere"}, "does not end in its name"},
	} {
		x := newIndex(t)
		for _, f := range tt.files {
			switch f {
			case "yanked":
				x.add("time_mcp_pypi-1.0.6.tar.gz", nil, map[string]any{"yanked": "a leak"})
			case "elsewhere":
				x.add("time_mcp_pypi-1.0.6.tar.gz", nil, map[string]any{"url": "https://example.com/other.tar.gz"})
			default:
				body := sdist(t, map[string]string{"time_mcp_pypi-1.0.6/PKG-INFO": info})
				if strings.HasSuffix(f, ".whl") {
					body = goodWheel(t)
				}
				x.add(f, body, nil)
			}
		}
		res := x.resolve(t, selection("time-mcp-pypi", "1.0.6"))
		if res.Failure != nil {
			if res.Failure.Code != admission.ArtifactUnresolved || !strings.Contains(res.Failure.Detail, tt.want) {
				t.Errorf("%s: %+v, want %q", name, res.Failure, tt.want)
			}
		} else if !strings.HasSuffix(res.Binding.Locator, "/"+tt.want) {
			t.Errorf("%s: %s, want %s", name, res.Binding.Locator, tt.want)
		}
	}
	x := newIndex(t)
	for _, s := range []admission.Selection{selection("", "1"), selection("a/b", "1"), selection("a..b/", "1"), selection("a", ""), selection("a", "latest"), selection("a", ">=1"), selection("a", "1 ")} {
		if res := x.resolve(t, s); res.Failure == nil || res.Failure.Code != admission.ArtifactUnresolved || len(x.asked) > 0 {
			t.Errorf("%+v: %+v", s.Package, res.Failure)
		}
	}
	x.name = "other"
	if res := x.resolve(t, selection("time-mcp-pypi", "1.0.6")); res.Failure == nil || !strings.Contains(res.Failure.Detail, "a page about") {
		t.Errorf("%+v", res.Failure)
	}
}

func TestADM06_WhatIsInsideIsCompared(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  map[string]string // nil: refused
	}{
		"other version":   {map[string]string{"a.dist-info/METADATA": "Name: time-mcp-pypi\nVersion: 1.0.7\n\nmcp-name: " + server}, map[string]string{"version": "fail artifact_version_mismatch", "mcp_name": "pass"}},
		"other name":      {map[string]string{"a.dist-info/METADATA": "Name: other\nVersion: 1.0.6\n"}, map[string]string{"version": "fail artifact_version_mismatch", "mcp_name": "absent"}},
		"longer name":     {map[string]string{"a.dist-info/METADATA": "Name: time-mcp-pypi\nVersion: 1.0.6\n\nmcp-name: " + server + "-evil"}, map[string]string{"version": "pass", "mcp_name": "fail mcp_name_mismatch"}},
		"several servers": {map[string]string{"a.dist-info/METADATA": "Name: time-mcp-pypi\r\nVersion: 1.0.6\r\n\r\nmcp-name: a/b\nmcp-name:" + server + "."}, map[string]string{"version": "pass", "mcp_name": "pass"}},
		"two versions":    {map[string]string{"a.dist-info/METADATA": "Name: time-mcp-pypi\nVersion: 1.0.6\nVersion: 1.0.7\n"}, nil},
		"no name":         {map[string]string{"a.dist-info/METADATA": "Version: 1.0.6\n"}, nil},
		"two files":       {map[string]string{"a.dist-info/METADATA": info, "b.dist-info/METADATA": info}, nil},
		"no file":         {map[string]string{"a": ""}, nil},
		"traversal":       {map[string]string{"a.dist-info/METADATA": info, "../a": ""}, nil},
	} {
		x := newIndex(t)
		x.add("time_mcp_pypi-1.0.6-py3-none-any.whl", wheel(t, tt.files), nil)
		res := x.resolve(t, selection("time-mcp-pypi", "1.0.6"))
		got := evidencekit.States(res.Checks)
		if tt.want == nil {
			if res.Failure == nil || res.Failure.Code != admission.ArtifactUnsafe {
				t.Errorf("%s: %+v", name, res.Failure)
			}
			continue
		}
		for id, want := range tt.want {
			if got[id] != want {
				t.Errorf("%s: %s is %q, want %q (%+v)", name, id, got[id], want, res.Failure)
			}
		}
	}
	x := newIndex(t)
	x.add("time_mcp_pypi-1.0.6-py3-none-any.whl", goodWheel(t), map[string]any{"hashes": map[string]string{"sha256": strings.Repeat("0", 64)}})
	if got := evidencekit.States(x.resolve(t, selection("time-mcp-pypi", "1.0.6")).Checks)["integrity"]; got != "fail artifact_integrity_mismatch" {
		t.Error(got)
	}
	x.files[0]["hashes"] = map[string]string{"md5": "x"}
	if got := evidencekit.States(x.resolve(t, selection("time-mcp-pypi", "1.0.6")).Checks)["integrity"]; got != "absent" {
		t.Error(got)
	}
}

func TestADM26_OtherBytesOfTheVersionFailEarly(t *testing.T) {
	x := newIndex(t)
	x.add("time_mcp_pypi-1.0.6-py3-none-any.whl", goodWheel(t), map[string]any{"provenance": "/provenance"})
	s := selection("time-mcp-pypi", "1.0.6")
	s.Expected = x.resolve(t, s).Binding
	x.files = nil
	other := wheel(t, map[string]string{"a.dist-info/METADATA": info})
	x.add("time_mcp_pypi-1.0.6-py3-none-any.whl", other, map[string]any{"provenance": "/provenance"})
	x.asked = nil
	res := x.resolve(t, s)
	if res.Failure == nil || res.Failure.Code != admission.ArtifactDigestMismatch || !strings.Contains(res.Failure.Detail, s.Expected.Bytes.Digests["sha256"]) || !strings.Contains(res.Failure.Detail, evidencekit.Digests(other)["sha256"]) || len(x.asked) != 2 {
		t.Errorf("%+v after %q", res.Failure, x.asked)
	}
	// A given file is read and nothing is asked.
	x.asked, s.Expected = nil, nil
	s.Override = filepath.Join(t.TempDir(), "time_mcp_pypi-1.0.6.tar.gz")
	if err := os.WriteFile(s.Override, sdist(t, map[string]string{"time_mcp_pypi-1.0.6/PKG-INFO": info}), 0o600); err != nil {
		t.Fatal(err)
	}
	if res := x.resolve(t, s); res.Failure != nil || evidencekit.States(res.Checks)["mcp_name"] != "pass" || len(x.asked) > 0 {
		t.Errorf("%+v after %q", res.Failure, x.asked)
	}
	odd := filepath.Join(t.TempDir(), "x.zip")
	if err := os.WriteFile(odd, goodWheel(t), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Override = odd
	if res := x.resolve(t, s); res.Failure == nil || res.Failure.Code != admission.ArtifactUnsafe {
		t.Errorf("%+v", res.Failure)
	}
}

func TestADM07_ProvenanceIsTakenFromTheIndex(t *testing.T) {
	x := newIndex(t)
	x.add("time_mcp_pypi-1.0.6-py3-none-any.whl", goodWheel(t), map[string]any{"provenance": "/integrity/provenance"})
	x.body["/integrity/provenance"] = []byte(`{"version":1,"attestation_bundles":[]}`)
	s := selection("time-mcp-pypi", "1.0.6")
	res := x.resolve(t, s)
	at := x.URL + "/integrity/provenance"
	if diff := cmp.Diff([]admission.Evidence{{MediaType: MediaType, Locator: at, Body: x.body["/integrity/provenance"]}}, res.Evidence); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]admission.Source{{Locator: at, State: "found"}}, res.Sources); diff != "" {
		t.Error(diff)
	}
	delete(x.body, "/integrity/provenance")
	if res := x.resolve(t, s); len(res.Sources) != 1 || res.Sources[0].State != "unavailable" || len(res.Evidence) > 0 {
		t.Errorf("%+v", res.Sources)
	}
	x.files[0]["provenance"] = "https://%zz"
	if res := x.resolve(t, s); len(res.Sources) != 1 || res.Sources[0].State != "unavailable" {
		t.Errorf("%+v", res.Sources)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := x.resolver(t).Resolve(ctx, s); !errors.Is(err, cause) {
		t.Error(err)
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add([]byte(info))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMetadata(b)
		if err != nil {
			return
		}
		for _, n := range m.servers {
			if !strings.Contains(n, "/") || len(m.servers) > 16 {
				t.Errorf("%q", m.servers)
			}
		}
	})
}
