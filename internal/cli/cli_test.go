package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/trust"
)

const (
	testToken = "feedfacefeedfacefeedfacefeedface"
	attemptID = "att_00112233445566778899aabbccddeeff"
)

// result is what one execution gave.
type result struct {
	code        int
	out, errOut string
}

// execution runs commands against a server that is a few lines long.
type execution struct {
	t     *testing.T
	env   map[string]string
	stdin string
	deps  Deps
}

func newExecution(t *testing.T, h http.HandlerFunc) *execution {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(testToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &execution{t: t, env: map[string]string{"COUNTERFOIL_TOKEN_FILE": file}}
	if h != nil {
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		e.env["COUNTERFOIL_SERVER"] = srv.URL
	}
	return e
}

func (e *execution) run(args ...string) result {
	e.t.Helper()
	return e.runContext(e.t.Context(), args...)
}

func (e *execution) runContext(ctx context.Context, args ...string) result {
	var out, errOut bytes.Buffer
	code := Run(ctx, args, Env{Stdin: strings.NewReader(e.stdin), Stdout: &out, Stderr: &errOut, Program: "counterfoil",
		Now:    func() time.Time { return time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC) },
		Getenv: func(k string) string { return e.env[k] }}, e.deps)
	r := result{code, out.String(), errOut.String()}
	if strings.Contains(r.out+r.errOut, testToken) {
		e.t.Errorf("%v shows the token", args)
	}
	return r
}

func (r result) want(t *testing.T, code int, out, errOut string) {
	t.Helper()
	if diff := cmp.Diff(result{code, out, errOut}, r, cmp.AllowUnexported(result{})); diff != "" {
		t.Error(diff)
	}
}

func answer(w http.ResponseWriter, status int, doc string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, doc)
}

// receiptDoc is a receipt with a member that this version does not know.
const receiptDoc = `{"schemaVersion":"counterfoil.receipt.v1","eventId":"evt_aa","attemptId":"` + attemptID + `","leafIndex":7,"stage":"logged","fromLater":[1]}`

func TestEVI06_BeginSendsStdinAndPrintsTheReceipt(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"begin"}, "POST /v1/attempts"},
		{[]string{"begin", "--wait", "published"}, "POST /v1/attempts?wait=published"},
		{[]string{"append"}, "POST /v1/attempts/" + attemptID + "/events"},
		{[]string{"append", "att_other", "--wait=accepted", "--json"}, "POST /v1/attempts/att_other/events?wait=accepted"},
	} {
		var got, body string
		e := newExecution(t, func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			got, body = r.Method+" "+r.URL.RequestURI(), string(b)
			if r.Header.Get("Authorization") != "Bearer "+testToken {
				t.Errorf("authorization %q", r.Header.Get("Authorization"))
			}
			answer(w, http.StatusCreated, receiptDoc+"\n")
		})
		e.stdin = `{ "attemptId": "` + attemptID + `", "x": "\ud800" }`
		e.run(c.args...).want(t, 0, receiptDoc+"\n", "")
		if got != c.want || body != e.stdin {
			t.Errorf("%v: %s with %s, want %s", c.args, got, body, c.want)
		}
	}
}

func TestEVI17_ConflictShowsBothDigests(t *testing.T) {
	doc := `{"error":{"code":"conflict","message":"recorded with other content","eventId":"evt_aa","stored":"hmac-sha256:aa","offered":"hmac-sha256:bb","hint":"use a new id"}}`
	e := newExecution(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusConflict, doc+"\n") })
	talk := "counterfoil: conflict: recorded with other content; stored hmac-sha256:aa, offered hmac-sha256:bb\nhint: use a new id\n"
	e.run("begin").want(t, 1, "", talk)
	e.run("begin", "--json").want(t, 1, doc+"\n", talk)
}

func TestEVI05_Unauthorized(t *testing.T) {
	e := newExecution(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusUnauthorized, `{"error":{"code":"unauthorized","message":"a bearer token is required"}}`)
	})
	r := e.run("doctor")
	if r.code != 1 || !strings.HasPrefix(r.errOut, "counterfoil: unauthorized: a bearer token is required\nhint: ") || !strings.Contains(r.errOut, "does not match") || !strings.Contains(r.errOut, "--token-file") {
		t.Errorf("got %+v", r)
	}
}

func TestEVI05_TokenFiles(t *testing.T) {
	e := newExecution(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, `{}`) })
	bad := filepath.Join(t.TempDir(), "bad")
	for name, content := range map[string]string{"empty": "\n", "two lines": testToken + "\nx", "binary": "\x00\x01", "long": strings.Repeat("x", maxTokenBytes+1)} {
		if err := os.WriteFile(bad, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := e.run("doctor", "--token-file", bad); r.code != 1 || !strings.Contains(r.errOut, "holds no token") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := e.run("doctor", "--token-file", bad+".none"); r.code != 1 || !strings.Contains(r.errOut, "no token file at") || !strings.Contains(r.errOut, "\nhint: ") {
		t.Errorf("got %+v", r)
	}
}

func TestEVI06_RefusalsOfTheBody(t *testing.T) {
	e := newExecution(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusBadRequest, `{"error":{"code":"invalid_request","message":"integer_too_large","path":"/privateInput/n","hint":"send it as a string"}}`)
	})
	e.run("begin").want(t, 1, "", "counterfoil: invalid_request at /privateInput/n: integer_too_large\nhint: send it as a string\n")
	for stdin, want := range map[string]string{
		"":                "the body is not a JSON object",
		"[]":              "the body is not a JSON object",
		`{}`:              "invalid_request at /attemptId: missing",
		`{"attemptId":7}`: "the body is not a JSON object",
	} {
		e.stdin = stdin
		r := e.run("append", "--json")
		var doc struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal([]byte(r.out), &doc); err != nil || r.code != 1 || doc.Error.Code != "invalid_request" || !strings.Contains(r.errOut, want) {
			t.Errorf("%q: %+v, %v", stdin, r, err)
		}
	}
	e.stdin = strings.Repeat(" ", 24<<20+1)
	if r := e.run("begin"); r.code != 1 || !strings.Contains(r.errOut, "too_large: the body is over 25165824 bytes") {
		t.Errorf("got %d, %s", r.code, r.errOut)
	}
}

func TestUsageIsExitCode2(t *testing.T) {
	e := newExecution(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was sent", r.URL) })
	for _, args := range [][]string{
		{"lst"}, {"trust", "exprot"}, {"begin", "x"}, {"begin", "--no-such-flag"}, {"begin", "--wait", "soon"}, {"append", "a", "b"},
		{"get"}, {"get", "x"}, {"get", "att_1", "--tlog-proof"}, {"get", "evt_1", "--tlog-proof", "--json"}, {"trust", "export", "--format", "x"}, {"bundle"}, {"record"}, {"list", "--limit", "0"}, {"list", "--limit", "257"}, {"list", "--limit", "x"},
		{"list", "--open", "--unknown"}, {"list", "--state", "failed", "--status", "failed"}, {"list", "--from", "yesterday"},
		{"tail", "--from", "-1"}, {"serve", "--log-level", "loud"}, {"serve", "--durability", "best"}, {"doctor", "--server", "127.0.0.1:1"}, {"version", "x"}, {"--nope"},
		{"list", "--nope", "--json"}, {"nonsense", "--json"}, {"--json", "list"}, {"completion", "tcsh"}, {"completion"}, {"help", "bogus"}, {"help", "list", "x"}, {"trust"},
	} {
		r := e.run(args...)
		lines := strings.Split(strings.TrimSuffix(r.errOut, "\n"), "\n")
		if r.code != 2 || (r.out != "") != slices.Contains(args, "--json") || len(lines) != 2 || !strings.HasPrefix(lines[0], "counterfoil: ") || !strings.HasPrefix(lines[1], "hint: ") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := e.run("list", "--nope", "--", "--json"); r.code != 2 || r.out != "" {
		t.Errorf("--json after --: %+v", r)
	}
	for _, args := range [][]string{{}, {"help"}, {"help", "list"}, {"help", "trust", "export"}, {"completion", "--help"}, {"trust", "--help"}} {
		if r := e.run(args...); r.code != 0 || r.out == "" || r.errOut != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := e.run("lst"); !strings.Contains(r.errOut, " or list?") {
		t.Errorf("got %s", r.errOut)
	}
}

func TestNobodyListens(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	e := newExecution(t, nil)
	r := e.run("list", "--server", gone.URL, "--json")
	var doc struct {
		Error struct{ Code, Message, Hint string }
	}
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || r.code != 1 || doc.Error.Code != "unreachable" || !strings.Contains(doc.Error.Hint, "counterfoil serve") {
		t.Errorf("got %+v, %v", r, err)
	}
	if !strings.HasPrefix(r.errOut, "counterfoil: no answer from "+gone.URL+": ") || strings.Contains(r.errOut, "Usage") {
		t.Errorf("got %s", r.errOut)
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	c := &cli{env: Env{Program: "counterfoil"}}
	for _, cmd := range c.root().Commands() {
		for _, sub := range append(cmd.Commands(), cmd) {
			if cmd.Name() == "completion" || cmd.Name() == "help" || sub.HasSubCommands() || sub.DisableFlagParsing {
				continue
			}
			r := newExecution(t, nil).run(append(strings.Fields(sub.CommandPath())[1:], "--help")...)
			if r.code != 0 || !strings.Contains(r.out, "Examples:") || r.errOut != "" {
				t.Errorf("%s: %+v", sub.CommandPath(), r)
			}
		}
	}
}

func TestEveryClientCommandHasItsFlags(t *testing.T) {
	for _, name := range []string{"begin", "append", "get", "list", "bundle", "trust export", "record", "tail", "doctor"} {
		r := newExecution(t, nil).run(append(strings.Fields(name), "--help")...)
		for _, flag := range []string{"--server", "--token-file", "--json"} {
			if !strings.Contains(r.out, flag) {
				t.Errorf("%s has no %s", name, flag)
			}
		}
	}
}

func TestCLM09_NoTextClaimsExactlyOnce(t *testing.T) {
	c := &cli{env: Env{Program: "counterfoil"}}
	for _, cmd := range c.root().Commands() {
		for _, sub := range append(cmd.Commands(), cmd) {
			text := strings.ToLower(sub.Short + sub.Long + sub.Example)
			for _, word := range []string{"exactly once", "exactly-once", "guarantee"} {
				if strings.Contains(text, word) {
					t.Errorf("%s says %q", sub.CommandPath(), word)
				}
			}
		}
	}
}

func TestVerifyPassesArgumentsAndExitCode(t *testing.T) {
	e := newExecution(t, nil)
	for _, code := range []int{0, 1, 2} {
		e.deps.Verify = func(args []string, _ io.Reader, stdout, stderr io.Writer) int {
			fmt.Fprint(stdout, args)
			fmt.Fprint(stderr, "talk")
			return code
		}
		e.run("verify", "b.json", "--trust", "t.json", "--json", "-h").want(t, code, "[b.json --trust t.json --json -h]", "talk")
	}
}

func TestBundleIsWrittenWholeOrNotAtAll(t *testing.T) {
	const bundle = `{"exact":"bytes"}`
	status := 200
	e := newExecution(t, func(w http.ResponseWriter, r *http.Request) {
		if status != 200 {
			answer(w, status, `{"error":{"code":"not_found","message":"no such attempt"}}`)
			return
		}
		if want := []string{"att_1", "att_2"}; !slices.Equal(r.URL.Query()["attempt"], want) || r.URL.Path != "/v1/bundle" {
			t.Errorf("%s", r.URL)
		}
		answer(w, 200, bundle)
	})
	e.run("bundle", "att_1", "att_2").want(t, 0, bundle, "")
	out := filepath.Join(t.TempDir(), "b.json")
	e.run("bundle", "att_1", "att_2", "--out", out).want(t, 0, "", "wrote "+out+", 17 bytes\n")
	status = 404
	e.run("bundle", "att_1", "--out", out).want(t, 1, "", "counterfoil: not_found: no such attempt\n")
	if b, err := os.ReadFile(out); err != nil || string(b) != bundle {
		t.Errorf("the refusal changed the file: %s, %v", b, err)
	}
	if r := e.run("bundle", "att_1", "--out", filepath.Join(out, "no", "folder")); r.code != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestTrustExportNeedsNoToken(t *testing.T) {
	e := newExecution(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.URL.Path != "/v1/trust" && r.URL.Path != "/v1/policy" {
			t.Errorf("%s with authorization %q", r.URL, r.Header.Get("Authorization"))
		}
		answer(w, 200, "{}\n")
	})
	delete(e.env, "COUNTERFOIL_TOKEN_FILE")
	e.run("trust", "export").want(t, 0, "{}\n", "")
}

// A quorum that a trust file cannot carry is exported as a policy, and its absence
// in the trust file is said.
func TestCLM05_TrustExportSaysWhatDoesNotFit(t *testing.T) {
	const file = `{"eventKeys":[{"fromIndex":0,"keyId":"ed25519:34750f98bd59fcfc946da45aaabe933be154a4b5094e1c4abf42866505f3c97e","publicKey":"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="}],` +
		`"log":{"origin":"ledger.example/log","vkey":"ledger.example/log+08cdf2f9+Ae1JKMYo0cLG6ukDOJBZlWEpWSc6XGP5NjbBRhSshzfR"},"schemaVersion":"counterfoil.trust.v1"}` + "\n"
	key := func(name string, b byte) string {
		k, err := trust.NewVerifierKey(name, trust.TypeCosignature, bytes.Repeat([]byte{b}, 32))
		if err != nil {
			t.Fatal(err)
		}
		return k.String()
	}
	policy := "log ledger.example/log+08cdf2f9+Ae1JKMYo0cLG6ukDOJBZlWEpWSc6XGP5NjbBRhSshzfR\n" +
		"witness a " + key("a", 1) + "\nwitness b " + key("b", 2) + "\nwitness c " + key("c", 3) + "\n" +
		"group g any a b\ngroup top all g c\nquorum top\n"
	e := newExecution(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/policy" {
			answer(w, 200, policy)
			return
		}
		answer(w, 200, file)
	})
	e.run("trust", "export", "--format", "tlog-policy").want(t, 0, policy, "")
	if r := e.run("trust", "export"); r.code != 0 || r.out != file || !strings.Contains(r.errOut, "asks for no witness") || !strings.Contains(r.errOut, "--format tlog-policy") {
		t.Errorf("%+v", r)
	}
	policy = strings.Replace(policy, "quorum top", "quorum none", 1)
	e.run("trust", "export").want(t, 0, file, "")
}

func TestVersion(t *testing.T) {
	var doc version
	r := newExecution(t, nil).run("version", "--json")
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || doc.SchemaVersion != "counterfoil.version.v1" || doc.Go == "" {
		t.Errorf("got %+v, %v", r, err)
	}
	if r := newExecution(t, nil).run("version"); r.code != 0 || !strings.HasPrefix(r.out, "counterfoil ") {
		t.Errorf("got %+v", r)
	}
}

func TestVersionFlagSaysTheSame(t *testing.T) {
	e := newExecution(t, nil)
	if flag, command := e.run("--version"), e.run("version"); flag != command || flag.code != 0 {
		t.Errorf("got %+v, want %+v", flag, command)
	}
}

func TestTheNullDeviceIsNoTerminal(t *testing.T) {
	st, err := os.Stat(os.DevNull)
	if err != nil || !isNull(st) {
		t.Errorf("%v is not the null device, %v", st, err)
	}
	if st, err = os.Stat(t.TempDir()); err != nil || isNull(st) {
		t.Errorf("a folder is the null device, %v", err)
	}
}

func TestAServerWithoutASchemeIsNamed(t *testing.T) {
	r := newExecution(t, nil).run("doctor", "--server", "127.0.0.1:18480")
	if r.code != 2 || !strings.Contains(r.errOut, `"127.0.0.1:18480" has no scheme`) || !strings.Contains(r.errOut, "hint: --server http://127.0.0.1:18480\n") {
		t.Errorf("got %+v", r)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := newExecution(t, nil).run("completion", shell); r.code != 0 || len(r.out) < 1000 {
			t.Errorf("%s: %d, %d bytes, %s", shell, r.code, len(r.out), r.errOut)
		}
	}
	if r := newExecution(t, nil).run("__complete", "begin", "--wait", ""); !strings.Contains(r.out, "published") {
		t.Errorf("got %+v", r)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := newExecution(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	e.runContext(ctx, "doctor").want(t, 1, "", "counterfoil: interrupted\n")
}

var errFull = errors.New("no space (hint: make some)")

// app is a ledger that does as it is told.
type app struct {
	served   ServeConfig
	rebuilt  string
	prepared []string
	fetched  []string
	cosigned string
	err      error
}

func (a *app) Serve(_ context.Context, cfg ServeConfig, ready func(Ready) error) error {
	a.served = cfg
	if a.err != nil {
		return a.err
	}
	return ready(Ready{Listening: "http://127.0.0.1:1", Data: "/d", Origin: "o/<>"})
}

func (a *app) Rebuild(_ context.Context, cfg ServeConfig) (Rebuilt, error) {
	a.rebuilt = cfg.Data
	return Rebuilt{TreeSize: 5, Parked: 1, ViewDigest: "sha256:aa"}, a.err
}

func (a *app) FetchLog(_ context.Context, cfg ServeConfig, from []string, progress func(leaves, of uint64)) (Fetched, error) {
	a.fetched = append([]string{cfg.Data, cfg.WitnessPolicy}, from...)
	progress(5, 7)
	return Fetched{Origin: "o/<>", Had: 2, Size: 7, Root: "ab", From: from[0], Cosigned: a.cosigned}, a.err
}

func (a *app) PrepareNodes(cfg ServeConfig, out []string) (string, error) {
	a.prepared = append([]string{cfg.Data, cfg.Origin}, out...)
	return "o/<>", a.err
}

func TestServePrintsOneLine(t *testing.T) {
	a := &app{}
	e := newExecution(t, nil)
	e.deps.App = a
	e.run("serve", "--data", "d", "--listen", "127.0.0.1:0", "--durability", "balanced", "--nats", "nats://x").
		want(t, 0, `{"listening":"http://127.0.0.1:1","data":"/d","origin":"o/<>"}`+"\n", "")
	a.served.Logger = nil
	want := ServeConfig{Data: "d", Listen: "127.0.0.1:0", Durability: "balanced", NATS: "nats://x", SignerLimit: 5 * time.Second, TraceRatio: 1}
	if diff := cmp.Diff(want, a.served); diff != "" {
		t.Error(diff)
	}
	t.Setenv("COUNTERFOIL_TEST_SEED", "s")
	e.run("serve", "--signer", "exec:/usr/bin/helper", "--event-key-id", "ed25519ph:x", "--signer-env", "COUNTERFOIL_TEST_SEED")
	if a.served.Signer != "/usr/bin/helper" || len(a.served.SignerEnv) != 1 || a.served.SignerEnv[0] != "COUNTERFOIL_TEST_SEED=s" {
		t.Errorf("signer %q, environment %q", a.served.Signer, a.served.SignerEnv)
	}
	for _, args := range [][]string{ // ATT-34
		{"--signer", "exec:helper", "--event-key-id", "x"}, {"--signer", "/usr/bin/helper", "--event-key-id", "x"}, {"--signer", "exec:/usr/bin/helper"},
		{"--signer-env", "HOME"}, {"--signer", "exec:/h", "--event-key-id", "x", "--signer-env", "COUNTERFOIL_UNSET"},
		{"--signer", "exec:/h", "--event-key-id", "x", "--signer-limit", "0s"},
	} {
		if r := e.run(append([]string{"serve"}, args...)...); r.code != 2 {
			t.Errorf("%q: exit code %d", args, r.code)
		}
	}
	a.err = fmt.Errorf("start: %w", errFull)
	e.run("serve").want(t, 1, "", "counterfoil: start: no space\nhint: make some\n")
	a.err = errors.Join(errors.New("one"), errFull)
	e.run("serve").want(t, 1, "", "counterfoil: one; no space\nhint: make some\n")
}

func TestRebuild(t *testing.T) {
	a := &app{}
	e := newExecution(t, nil)
	e.deps.App = a
	e.run("rebuild", "--data", "d").want(t, 0, "rebuilt the views of 5 leaves, 1 of them parked\nview digest sha256:aa\n", "")
	e.run("rebuild", "--json").want(t, 0, `{"schemaVersion":"counterfoil.rebuild.v1","treeSize":5,"parked":1,"viewDigest":"sha256:aa"}`+"\n", "")
	if a.rebuilt != defaultData {
		t.Errorf("rebuilt %q", a.rebuilt)
	}
}

func TestDUR04_UnknownProfileIsRefused(t *testing.T) {
	e := newExecution(t, nil) // without a ledger: it would not get that far
	e.run("serve", "--durability", "best").want(t, 2, "", "counterfoil: unknown durability profile \"best\"\nhint: --durability hardened or balanced\n")
}
