package deploytest

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// stage is one image of the Dockerfile.
type stage struct {
	name, user              string
	entrypoint, cmd, health []string
	copied                  []string // COPY lines
	runs                    bool     // it has a RUN
}

func stages(t testing.TB) (out []stage) {
	t.Helper()
	list := func(s string) (l []string) {
		if err := json.Unmarshal([]byte(s), &l); err != nil {
			t.Fatalf("%q is no exec form: %v", s, err)
		}
		return l
	}
	for line := range strings.Lines(dockerfile(t)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "FROM" {
			base, name, _ := strings.Cut(rest, " AS ")
			if name != "build" && base != "scratch" {
				t.Errorf("image %s is made from %s: want scratch, which has no shell", name, base)
			}
			if name == "build" && !regexp.MustCompile(`^golang:1\.[0-9]+\.[0-9]+-`).MatchString(base) {
				t.Errorf("built with %s: pin the version", base)
			}
			out = append(out, stage{name: name})
			continue
		}
		if len(out) == 0 {
			continue
		}
		s := &out[len(out)-1]
		switch word {
		case "USER":
			s.user = rest
		case "ENTRYPOINT":
			s.entrypoint = list(rest)
		case "CMD":
			s.cmd = list(rest)
		case "HEALTHCHECK":
			s.health = list(rest[strings.Index(rest, "CMD ")+4:])
		case "COPY":
			s.copied = append(s.copied, rest)
		case "RUN":
			s.runs = true
		}
	}
	if len(out) != 3 || out[0].name != "build" {
		t.Fatalf("%d stages", len(out))
	}
	return out[1:]
}

func TestImages(t *testing.T) {
	out := binaries(t)
	for _, s := range stages(t) {
		if s.user != "65532:65532" || s.runs || len(s.entrypoint) != 1 || len(s.cmd) == 0 || len(s.health) == 0 {
			t.Errorf("%+v", s)
		}
		found := false
		for _, c := range s.copied {
			if from, ok := strings.CutPrefix(c, "--from=build /out/"); ok {
				dir, _, _ := strings.Cut(from, "/")
				_, err := os.Stat(filepath.Join(out, dir, filepath.Base(s.entrypoint[0])))
				found = found || err == nil
			}
		}
		if !found {
			t.Errorf("%s: %q is not copied into the image", s.name, s.entrypoint)
		}
	}
	for _, p := range []string{"bin/counterfoil", "bin/counterfoil-verify", "witness/counterfoil-witness"} {
		f, err := elf.Open(filepath.Join(out, p))
		if err != nil {
			t.Error(err)
			continue
		}
		libs, _ := f.ImportedLibraries()
		for _, prog := range f.Progs {
			if prog.Type == elf.PT_INTERP || len(libs) > 0 {
				t.Errorf("%s is not static: %v", p, libs)
				break
			}
		}
		f.Close()
	}
}

// The ledger runs in a root that holds what the image holds, read-only, as the
// image's user, and writes to its data alone: no /tmp, no /proc, no /dev.
func TestReadOnlyRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	for _, tool := range []string{"unshare", "mount", "chroot"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	if b, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("no mount namespaces here: %s", b)
	}
	out := binaries(t)
	dir := t.TempDir()
	image, data := filepath.Join(dir, "image"), filepath.Join(dir, "data")
	for _, d := range []string{filepath.Join(image, "usr/local/bin"), filepath.Join(image, "data"), data} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for d := dir; d != "/"; d = filepath.Dir(d) { // the image's user has to pass
		if st, err := os.Stat(d); err == nil && st.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(d, st.Mode().Perm()|0o011); err != nil {
				t.Skip(err)
			}
		}
	}
	if err := os.Chown(data, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	run(t, "cp", filepath.Join(out, "bin/counterfoil"), filepath.Join(image, "usr/local/bin/"))
	inImage := func(args ...string) []string {
		return append([]string{"--mount", "--propagation", "private", "sh", "-ec", `
			mount --bind "$1" "$1"
			mount -o remount,bind,ro "$1"
			mount --bind "$2" "$1/data"
			image=$1; shift 2
			exec chroot --userspec=65532:65532 "$image" /usr/local/bin/counterfoil "$@"`, "sh", image, data}, args...)
	}
	p := start(t, "unshare", inImage("serve", "--data", "/data", "--listen", "127.0.0.1:0", "--log-level", "warn")...)
	var r struct{ Listening string }
	p.ready(&r)
	token, err := os.ReadFile(filepath.Join(data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	if code, b := call(t, "POST", r.Listening+"/v1/attempts?wait=published", string(token), attempt("a")); code != 201 {
		t.Errorf("%d %s", code, b)
	}
	if b, err := exec.Command("unshare", inImage("doctor", "--server", r.Listening, "--token-file", "/data/token")...).CombinedOutput(); err != nil {
		t.Errorf("the health check of the image: %v\n%s", err, b)
	}
	p.stop()
	if strings.Contains(p.err.String(), "read-only") {
		t.Errorf("it tried to write elsewhere: %s", p.err.String())
	}
	// Once more, from what it left behind.
	p = start(t, "unshare", inImage("serve", "--data", "/data", "--listen", "127.0.0.1:0", "--log-level", "warn")...)
	begun := time.Now()
	p.ready(&r)
	t.Logf("the second start took %s", time.Since(begun).Round(time.Millisecond))
	p.stop()
}
