package doctor_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/internal/doctor"
	"counterfoil/internal/testkit/natskit"
)

func TestMain(m *testing.M) {
	natskit.Child()
	os.Exit(m.Run())
}

// ledger runs a ledger with a few events on a directory until stop.
func ledger(t testing.TB, dir string, change ...func(*app.Config)) (stop func()) {
	t.Helper()
	cfg := app.Config{Dir: dir, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Random: rand.Reader, Now: time.Now}
	for _, c := range change {
		c(&cfg)
	}
	s, err := app.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		body := fmt.Sprintf(`{"source":{"runtimeId":"r","agentId":"agent","invocationId":"%d","protocol":"mcp","implementation":"test"},`+
			`"occurredAt":"2026-07-28T00:00:00.000Z","action":{"name":"tool","effectKind":"test","effectMode":"one_time"},"privateInput":1}`, i)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Ready.Listening+"/v1/attempts?wait=published", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.Token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode/100 != 2 {
			t.Fatal(res.Status)
		}
	}
	return func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

func look(t testing.TB, cfg doctor.Config) (map[string]doctor.Check, bool) {
	t.Helper()
	if cfg.Now.IsZero() {
		cfg.Now = time.Now()
	}
	cfg.Program = "counterfoil"
	checks, running := doctor.Directory(t.Context(), cfg)
	out := map[string]doctor.Check{}
	for _, c := range checks {
		if _, twice := out[c.Name]; twice {
			t.Errorf("two checks %s", c.Name)
		}
		out[c.Name] = c
		if (c.Result != doctor.OK) != (c.Meaning != "" && len(c.Next) > 0 && c.Runbook != "") || c.Detail == "" {
			t.Errorf("%s is not explained: %+v", c.Name, c)
		}
	}
	return out, running
}

// bad are the checks that are not well, with how.
func bad(checks map[string]doctor.Check) (out []string) {
	for _, c := range checks {
		if c.Result != doctor.OK {
			out = append(out, c.Name+" "+c.Result)
		}
	}
	slices.Sort(out)
	return out
}

func TestRunningAndStopped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	stop := ledger(t, dir)
	before := tree(t, dir)
	checks, running := look(t, doctor.Config{Dir: dir})
	if !running || len(bad(checks)) > 0 {
		t.Errorf("running %v, %v", running, bad(checks))
	}
	stop()
	if len(before) == 0 {
		t.Fatal("no files")
	}
	before = tree(t, dir)
	checks, running = look(t, doctor.Config{Dir: dir, Listen: "127.0.0.1:0", DiskReserve: 1 << 20})
	if running || len(bad(checks)) > 0 {
		t.Errorf("running %v, %v", running, bad(checks))
	}
	for _, name := range []string{"directory", "permissions", "identity", "keys", "clock", "witness state", "space", "guard", "checkpoint", "vault", "address"} {
		if checks[name].Name == "" {
			t.Errorf("no check %s", name)
		}
	}
	if after := tree(t, dir); !slices.Equal(before, after) {
		t.Errorf("looking changed the directory: %v, before %v", after, before)
	}
	// A ledger that starts right after it is not disturbed.
	ledger(t, dir)()
}

func tree(t testing.TB, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // files of a running ledger come and go
		}
		if st, err := d.Info(); err == nil {
			out = append(out, fmt.Sprint(path, st.Size(), st.Mode(), st.ModTime()))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Each thing is broken once, of a stopped ledger; only the checks that it concerns say
// so.
func TestEachThingBroken(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good")
	ledger(t, good)()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	replace := func(path, old, new string) {
		t.Helper()
		b, err := os.ReadFile(path)
		must(err)
		if !strings.Contains(string(b), old) {
			t.Fatalf("%s has no %q", path, old)
		}
		must(os.WriteFile(path, []byte(strings.Replace(string(b), old, new, 1)), 0o600))
	}
	for name, c := range map[string]struct {
		harm func(dir string, cfg *doctor.Config)
		want []string
		say  string // in the detail of the first
	}{
		"no directory":      {func(dir string, _ *doctor.Config) { must(os.RemoveAll(dir)) }, []string{"directory fails"}, "not there"},
		"another directory": {func(dir string, _ *doctor.Config) { must(os.Remove(filepath.Join(dir, "ledger.json"))) }, []string{"directory fails"}, "not the data directory"},
		"open token":        {func(dir string, _ *doctor.Config) { must(os.Chmod(filepath.Join(dir, "token"), 0o644)) }, []string{"permissions fails"}, "token"},
		"open key":          {func(dir string, _ *doctor.Config) { must(os.Chmod(filepath.Join(dir, "keys", "log.key"), 0o640)) }, []string{"checkpoint skipped", "keys fails", "permissions fails"}, ""},
		"short token": {func(dir string, _ *doctor.Config) {
			must(os.WriteFile(filepath.Join(dir, "token"), []byte("x"), 0o600))
		}, []string{"permissions fails"}, "32 characters"},
		"newer format": {func(dir string, _ *doctor.Config) {
			replace(filepath.Join(dir, "ledger.json"), `"formatVersion": `, `"formatVersion": 9`)
		}, []string{"checkpoint skipped", "identity fails"}, ""},
		"broken identity": {func(dir string, _ *doctor.Config) { replace(filepath.Join(dir, "ledger.json"), "{", "[") }, []string{"checkpoint skipped", "identity fails"}, ""},
		"no tenant key":   {func(dir string, _ *doctor.Config) { must(os.Remove(filepath.Join(dir, "keys", "tenant.key"))) }, []string{"checkpoint skipped", "keys fails"}, ""},
		"another tenant key": {func(dir string, _ *doctor.Config) {
			replace(filepath.Join(dir, "ledger.json"), `"tenantKey": "`, `"tenantKey": "x`)
		}, []string{"keys fails"}, "fingerprint"},
		"clock went back": {func(_ string, cfg *doctor.Config) { cfg.Now = time.Now().Add(-time.Hour) }, []string{"clock fails"}, "in the future"},
		"stopped by a witness": {func(dir string, _ *doctor.Config) {
			must(os.MkdirAll(filepath.Join(dir, "witness"), 0o700))
			must(os.WriteFile(filepath.Join(dir, "witness", "stopped.json"), []byte("{}"), 0o600))
		}, []string{"witness state fails"}, "stopped.json"},
		"an incident": {func(dir string, _ *doctor.Config) {
			must(os.MkdirAll(filepath.Join(dir, "witness", "incidents"), 0o700))
			must(os.WriteFile(filepath.Join(dir, "witness", "incidents", "a.json"), []byte("{}"), 0o600))
		}, []string{"witness state warning"}, "1 incidents"},
		"no space": {func(_ string, cfg *doctor.Config) {
			cfg.DiskReserve, cfg.Space = 16<<20, func(string) (uint64, uint64, error) { return 15 << 20, 1 << 30, nil }
		}, []string{"space fails"}, "15728640 bytes free"},
		"a small disk": {func(_ string, cfg *doctor.Config) { // the reserve is a quarter at most
			cfg.DiskReserve, cfg.Space = 16<<20, func(string) (uint64, uint64, error) { return 15 << 20, 40 << 20, nil }
		}, nil, ""},
		"no guard": {func(dir string, _ *doctor.Config) { must(os.Remove(filepath.Join(dir, "guard", "record.json"))) }, []string{"guard fails"}, "no guard record"},
		"no log":   {func(dir string, _ *doctor.Config) { must(os.RemoveAll(filepath.Join(dir, "log"))) }, []string{"guard fails"}, "rolled back"},
		"older log": {func(dir string, _ *doctor.Config) {
			replace(filepath.Join(dir, "log", ".state", "treeState"), `"size":3`, `"size":2`)
		}, []string{"checkpoint fails", "guard fails"}, "covers 3"},
		"another root": {func(dir string, _ *doctor.Config) {
			replace(filepath.Join(dir, "log", ".state", "treeState"), `"root":"`, `"root":"AAAA`)
		}, []string{"checkpoint fails", "guard fails"}, ""},
		"no checkpoint": {func(dir string, _ *doctor.Config) { must(os.Remove(filepath.Join(dir, "log", "checkpoint"))) }, []string{"checkpoint warning"}, "no checkpoint"},
		"forged":        {func(dir string, _ *doctor.Config) { replace(filepath.Join(dir, "log", "checkpoint"), "\n3\n", "\n4\n") }, []string{"checkpoint fails"}, ""},
		"no vault":      {func(dir string, _ *doctor.Config) { must(os.RemoveAll(filepath.Join(dir, "vault"))) }, []string{"vault fails"}, "keys of all attempts"},
		"address taken": {func(_ string, cfg *doctor.Config) { cfg.Listen = taken.Addr().String() }, []string{"address fails"}, "in use"},
		"nats away":     {func(_ string, cfg *doctor.Config) { cfg.NATS = "nats://127.0.0.1:1" }, []string{"nats fails"}, ""},
		"nats, no user": {func(_ string, cfg *doctor.Config) {
			cfg.NATS, cfg.NATSPasswordFile = "nats://127.0.0.1:1", filepath.Join(good, "token")
		}, []string{"nats fails"}, "user"},
		"nothing at all": {func(string, *doctor.Config) {}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			must(os.CopyFS(dir, os.DirFS(good)))
			must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // CopyFS leaves the rights to the umask
				if err == nil && d.IsDir() {
					return os.Chmod(path, 0o700)
				}
				if err == nil {
					err = os.Chmod(path, 0o600)
				}
				return err
			}))
			cfg := doctor.Config{Dir: dir}
			c.harm(dir, &cfg)
			checks, running := look(t, cfg)
			if got := bad(checks); running || !slices.Equal(got, c.want) {
				t.Fatalf("%v, want %v: %+v", got, c.want, checks)
			}
			if len(c.want) > 0 {
				first := checks[c.want[0][:strings.LastIndex(c.want[0], " ")]]
				if !strings.Contains(first.Detail, c.say) {
					t.Errorf("%s says %q, want %q", first.Name, first.Detail, c.say)
				}
			}
		})
	}
}

// The stream of an external NATS is looked at and left as it is.
func TestNATS(t *testing.T) {
	srv := natskit.Start(t, t.TempDir())
	dir := filepath.Join(t.TempDir(), "data")
	external := func(c *app.Config) { c.NATS = srv.URL }
	stop := ledger(t, dir, external)
	checks, running := look(t, doctor.Config{Dir: dir, NATS: srv.URL})
	if !running || len(bad(checks)) > 0 || !strings.Contains(checks["nats"].Detail, "ends at 3") {
		t.Errorf("%v %+v", bad(checks), checks["nats"])
	}
	stop()
	other := filepath.Join(t.TempDir(), "other")
	ledger(t, other)()
	checks, _ = look(t, doctor.Config{Dir: other, NATS: srv.URL})
	if got := bad(checks); !slices.Equal(got, []string{"nats fails"}) || !strings.Contains(checks["nats"].Detail, "counterfoil.origin") {
		t.Errorf("the stream of another ledger: %v %+v", got, checks["nats"])
	}
	empty := natskit.Start(t, t.TempDir())
	if checks, _ = look(t, doctor.Config{Dir: dir, NATS: empty.URL}); len(bad(checks)) > 0 || !strings.Contains(checks["nats"].Detail, "made at the next start") {
		t.Errorf("%+v", checks["nats"])
	}
}

// Whatever a check is called, it is explained, and the page and the section are there.
func TestEveryRunbookIsThere(t *testing.T) {
	for _, name := range []string{"directory", "permissions", "identity", "keys", "clock", "witness state", "space", "guard", "checkpoint", "vault", "address", "nats", "server",
		"disk", "stream", "log", "tiles", "publisher", "witnesses", "witness w1", "index", "views", "cluster", "running", "something new"} {
		c := doctor.Explain("cf", doctor.Check{Name: name, Result: doctor.Fails})
		if c.Meaning == "" || len(c.Next) == 0 || strings.Contains(strings.Join(c.Next, ""), "PROGRAM") || name != "something new" && strings.Contains(c.Meaning, "does not know") {
			t.Errorf("%s: %+v", name, c)
		}
		file, anchor, named := strings.Cut(c.Runbook, "#")
		b, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found := !named
		for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(b), -1) {
			found = found || regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(strings.ToLower(strings.ReplaceAll(m[1], " ", "-")), "") == anchor
		}
		if !found {
			t.Errorf("%s: %s has no section %s", name, file, anchor)
		}
	}
	if c := doctor.Explain("cf", doctor.Check{Name: "disk", Result: doctor.OK}); c.Meaning != "" || c.Next != nil {
		t.Errorf("what is well is explained: %+v", c)
	}
}
