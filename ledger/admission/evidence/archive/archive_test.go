package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"counterfoil/ledger/admission"
)

func only(names ...string) func(string) bool {
	return func(name string) bool {
		for _, n := range names {
			if n == name {
				return true
			}
		}
		return false
	}
}

func tgz(t testing.TB, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		content := h.PAXRecords["content"]
		h.PAXRecords = nil
		if h.Typeflag == tar.TypeXGlobalHeader {
			if err := w.WriteHeader(&tar.Header{Typeflag: h.Typeflag, PAXRecords: map[string]string{"comment": "a commit"}}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Size == 0 {
			h.Size = int64(len(content))
		}
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Name: name, PAXRecords: map[string]string{"content": content}}
}

func readTar(t testing.TB, b []byte, l Limits, want func(string) bool) (map[string][]byte, error) {
	t.Helper()
	return TarGz(t.Context(), bytes.NewReader(b), int64(len(b)), l, want)
}

func wantReason(t *testing.T, files map[string][]byte, err error, reason Reason, code admission.Code) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Reason != reason || files != nil {
		t.Fatalf("%v with %d files, want %s", err, len(files), reason)
	}
	if c, ok := Code(err); !ok || c != code {
		t.Errorf("code %s, want %s", c, code)
	}
}

func TestADM06_TarsAreReadWithoutUnpacking(t *testing.T) {
	b := tgz(t, tarOf(t,
		tar.Header{Typeflag: tar.TypeXGlobalHeader},
		tar.Header{Typeflag: tar.TypeDir, Name: "package/"},
		tar.Header{Typeflag: tar.TypeDir, Name: "package/"},
		file("package/package.json", `{"name":"a"}`),
		file("package/README.md", "x"), file("package/readme.MD", "y"),
		file("package/deep/package.json", "no"),
		file("package/empty", ""),
	))
	files, err := readTar(t, b, Limits{}, only("package/package.json", "package/empty", "package/none"))
	if err != nil || len(files) != 2 || string(files["package/package.json"]) != `{"name":"a"}` || files["package/empty"] == nil {
		t.Errorf("%q, %v", files, err)
	}
}

func TestADM06_TarsThatAreUnsafeAreRefusedWhole(t *testing.T) {
	ok := file("package/package.json", "{}")
	plain := tarOf(t, ok)
	large := tarOf(t, file("big", strings.Repeat("\x00", 17<<20)))
	cut := tgz(t, plain)
	damaged := bytes.Clone(cut)
	damaged[len(damaged)-5] ^= 1 // in gzip's sum
	tests := []struct {
		name   string
		b      []byte
		limits Limits
		reason Reason
		code   admission.Code
	}{
		{"upwards", tgz(t, tarOf(t, ok, file("package/../../etc/passwd", "x"))), Limits{}, PathTraversal, admission.ArtifactUnsafe},
		{"absolute", tgz(t, tarOf(t, ok, file("/etc/passwd", "x"))), Limits{}, PathTraversal, admission.ArtifactUnsafe},
		{"drive", tgz(t, tarOf(t, ok, file("C:/x", "x"))), Limits{}, PathTraversal, admission.ArtifactUnsafe},
		{"backslash", tgz(t, tarOf(t, ok, file(`package\..\x`, "x"))), Limits{}, AmbiguousName, admission.ArtifactUnsafe},
		{"dot", tgz(t, tarOf(t, ok, file("./package/package.json", "x"))), Limits{}, AmbiguousName, admission.ArtifactUnsafe},
		{"two slashes", tgz(t, tarOf(t, ok, file("package//package.json", "x"))), Limits{}, AmbiguousName, admission.ArtifactUnsafe},
		{"control", tgz(t, tarOf(t, ok, file("package/\x1b[2J", "x"))), Limits{}, AmbiguousName, admission.ArtifactUnsafe},
		{"twice", tgz(t, tarOf(t, ok, ok)), Limits{}, AmbiguousName, admission.ArtifactUnsafe},
		{"twice in other letters", tgz(t, tarOf(t, ok, file("package/Package.json", "x"))), Limits{}, AmbiguousName, admission.ArtifactUnsafe},
		{"other letters first", tgz(t, tarOf(t, file("package/Package.json", "x"), ok)), Limits{}, AmbiguousName, admission.ArtifactUnsafe},
		{"folder of a file's name", tgz(t, tarOf(t, ok, tar.Header{Typeflag: tar.TypeDir, Name: "package/package.json/"})), Limits{}, AmbiguousName, admission.ArtifactUnsafe},
		{"long name", tgz(t, tarOf(t, file(strings.Repeat("a", 5000), "x"))), Limits{}, AmbiguousName, admission.ArtifactUnsafe},
		{"symbolic link", tgz(t, tarOf(t, ok, tar.Header{Typeflag: tar.TypeSymlink, Name: "package/x", Linkname: "/etc/passwd"})), Limits{}, Link, admission.ArtifactUnsafe},
		{"hard link", tgz(t, tarOf(t, ok, tar.Header{Typeflag: tar.TypeLink, Name: "package/x", Linkname: "package/package.json"})), Limits{}, Link, admission.ArtifactUnsafe},
		{"device", tgz(t, tarOf(t, ok, tar.Header{Typeflag: tar.TypeChar, Name: "package/x"})), Limits{}, SpecialFile, admission.ArtifactUnsafe},
		{"pipe", tgz(t, tarOf(t, ok, tar.Header{Typeflag: tar.TypeFifo, Name: "package/x"})), Limits{}, SpecialFile, admission.ArtifactUnsafe},
		{"too many", tgz(t, tarOf(t, ok, file("a", ""), file("b", ""))), Limits{Entries: 2}, TooManyFiles, admission.ArtifactTooLarge},
		{"too large", tgz(t, large), Limits{Unpacked: 1 << 20}, TooLarge, admission.ArtifactTooLarge},
		{"bomb", tgz(t, large), Limits{}, Bomb, admission.ArtifactTooLarge},
		{"wanted is too large", tgz(t, tarOf(t, ok)), Limits{Wanted: 1}, WantedTooBig, admission.ArtifactTooLarge},
		{"hidden behind the end", tgz(t, append(bytes.Clone(plain), plain...)), Limits{}, AmbiguousName, admission.ArtifactUnsafe},
		{"bytes after gzip", append(bytes.Clone(cut), "PK"...), Limits{}, Malformed, admission.ArtifactUnsafe},
		{"cut", cut[:len(cut)-9], Limits{}, Malformed, admission.ArtifactUnsafe},
		{"sum", damaged, Limits{}, Malformed, admission.ArtifactUnsafe},
		{"no gzip", plain, Limits{}, Malformed, admission.ArtifactUnsafe},
		{"no tar", tgz(t, bytes.Repeat([]byte("x"), 1024)), Limits{}, Malformed, admission.ArtifactUnsafe},
		{"empty", nil, Limits{}, Malformed, admission.ArtifactUnsafe},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files, err := readTar(t, tt.b, tt.limits, only("package/package.json"))
			wantReason(t, files, err, tt.reason, tt.code)
		})
	}
}

func TestADM31_AnArchiveIsLeftWhenTheContextEnds(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	b := tgz(t, tarOf(t, file("a", "b")))
	if _, err := TarGz(ctx, bytes.NewReader(b), int64(len(b)), Limits{}, only()); !errors.Is(err, cause) {
		t.Error(err)
	}
	z := zipOf(t, zipped{name: "a"})
	if _, err := Zip(ctx, bytes.NewReader(z), int64(len(z)), Limits{}, only()); !errors.Is(err, cause) {
		t.Error(err)
	}
	if _, ok := Code(cause); ok {
		t.Error("the end of a context has a code")
	}
}

type zipped struct {
	name, content string
	mode          fs.FileMode
}

func zipOf(t testing.TB, files ...zipped) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		h.SetMode(f.mode)
		out, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if !f.mode.IsDir() {
			if _, err := out.Write([]byte(f.content)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestADM06_ZipsAreReadWithoutUnpacking(t *testing.T) {
	b := zipOf(t, zipped{"d/", "", fs.ModeDir | 0o755}, zipped{"d/manifest.json", `{"a":1}`, 0o644}, zipped{"x", "y", 0o644})
	files, err := Zip(t.Context(), bytes.NewReader(b), int64(len(b)), Limits{}, only("d/manifest.json"))
	if err != nil || len(files) != 1 || string(files["d/manifest.json"]) != `{"a":1}` {
		t.Errorf("%q, %v", files, err)
	}
}

func TestADM06_ZipsThatAreUnsafeAreRefusedWhole(t *testing.T) {
	ok := zipped{"manifest.json", "{}", 0o644}
	good := zipOf(t, ok)
	change := func(b []byte, f func(b []byte)) []byte { b = bytes.Clone(b); f(b); return b }
	end := len(good) - endLen
	flags := func(b []byte) { // of the directory's only entry
		at := bytes.Index(b, []byte("PK\x01\x02"))
		b[at+8] |= 1
	}
	tests := []struct {
		name   string
		b      []byte
		limits Limits
		reason Reason
		code   admission.Code
	}{
		{"upwards", zipOf(t, ok, zipped{"../x", "", 0o644}), Limits{}, PathTraversal, admission.ArtifactUnsafe},
		{"twice", zipOf(t, ok, ok), Limits{}, AmbiguousName, admission.ArtifactUnsafe},
		{"link", zipOf(t, ok, zipped{"x", "/etc/passwd", fs.ModeSymlink | 0o777}), Limits{}, Link, admission.ArtifactUnsafe},
		{"device", zipOf(t, ok, zipped{"x", "", fs.ModeDevice | 0o644}), Limits{}, SpecialFile, admission.ArtifactUnsafe},
		{"encrypted", change(good, flags), Limits{}, Encrypted, admission.ArtifactUnsafe},
		{"too many", zipOf(t, ok, zipped{"a", "", 0o644}), Limits{Entries: 1}, TooManyFiles, admission.ArtifactTooLarge},
		{"bomb", zipOf(t, zipped{"a", strings.Repeat("a", 17<<20), 0o644}), Limits{}, Bomb, admission.ArtifactTooLarge},
		{"too large", zipOf(t, zipped{"a", "bb", 0o644}), Limits{Unpacked: 1}, TooLarge, admission.ArtifactTooLarge},
		{"wanted is too large", good, Limits{Wanted: 1}, WantedTooBig, admission.ArtifactTooLarge},
		{"something before it", append([]byte("#!/bin/sh\n"), good...), Limits{}, Malformed, admission.ArtifactUnsafe},
		{"something behind it", append(bytes.Clone(good), "x"...), Limits{}, Malformed, admission.ArtifactUnsafe},
		{"directory elsewhere", change(good, func(b []byte) { b[end+16]++ }), Limits{}, Malformed, admission.ArtifactUnsafe},
		{"directory too large", change(good, func(b []byte) { binary.LittleEndian.PutUint32(b[end+12:], maxDirBytes+1) }), Limits{}, TooManyFiles, admission.ArtifactTooLarge},
		{"damaged content", change(good, func(b []byte) { b[31+len(ok.name)] ^= 0x55 }), Limits{}, Malformed, admission.ArtifactUnsafe},
		{"cut", good[:len(good)-1], Limits{}, Malformed, admission.ArtifactUnsafe},
		{"no zip", []byte(strings.Repeat("x", 100)), Limits{}, Malformed, admission.ArtifactUnsafe},
		{"no end", []byte("PK\x03\x04" + strings.Repeat("x", 100)), Limits{}, Malformed, admission.ArtifactUnsafe},
		{"empty", nil, Limits{}, Malformed, admission.ArtifactUnsafe},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files, err := Zip(t.Context(), bytes.NewReader(tt.b), int64(len(tt.b)), tt.limits, only("manifest.json"))
			wantReason(t, files, err, tt.reason, tt.code)
		})
	}
}

// A zip whose directory understates a file's size is not read beyond that size.
func TestADM06_AZipThatLiesAboutSizesIsRefused(t *testing.T) {
	b := zipOf(t, zipped{"manifest.json", strings.Repeat("a", 4096), 0o644})
	at := bytes.Index(b, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(b[at+24:], 1)
	files, err := Zip(t.Context(), bytes.NewReader(b), int64(len(b)), Limits{}, only("manifest.json"))
	wantReason(t, files, err, Malformed, admission.ArtifactUnsafe)
}

func FuzzArchives(f *testing.F) {
	f.Add(tgz(f, tarOf(f, file("package/package.json", "{}"))))
	f.Add(zipOf(f, zipped{"package/package.json", "{}", 0o644}))
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := Limits{Unpacked: 1 << 20, Wanted: 64}
		for _, read := range []func(context.Context, *bytes.Reader) (map[string][]byte, error){
			func(ctx context.Context, r *bytes.Reader) (map[string][]byte, error) {
				return TarGz(ctx, r, r.Size(), limits, func(string) bool { return true })
			},
			func(ctx context.Context, r *bytes.Reader) (map[string][]byte, error) {
				return Zip(ctx, r, r.Size(), limits, func(string) bool { return true })
			},
		} {
			files, err := read(t.Context(), bytes.NewReader(b))
			if err != nil {
				if _, ok := Code(err); !ok {
					t.Errorf("%v has no code", err)
				}
				continue
			}
			for name, content := range files {
				if checkName(name) != nil || len(content) > 64 {
					t.Errorf("%q with %d bytes came through", name, len(content))
				}
			}
		}
	})
}
