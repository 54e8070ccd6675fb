package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/internal/cli"
	"counterfoil/internal/testkit/mcpkit"
	"counterfoil/ledger/client"
)

const envProxy = "COUNTERFOIL_TEST_PROXY"

// TestMain makes this binary the MCP server or the program as well.
func TestMain(m *testing.M) {
	if os.Getenv(envProxy) != "" {
		os.Unsetenv(envProxy) // the server that it starts may be this binary too
		os.Exit(cli.Run(context.Background(), os.Args[1:], cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Program: "counterfoil"}, cli.Deps{}))
	}
	mcpkit.Main()
	code := m.Run()
	if npmDir != "" {
		_ = os.RemoveAll(npmDir)
	}
	os.Exit(code)
}

// ledger is a running ledger that can be stopped and started again.
type ledger struct {
	t   testing.TB
	cfg app.Config
	*app.Server
	client *client.Client
}

func startLedger(t testing.TB) *ledger {
	t.Helper()
	l := &ledger{t: t, cfg: app.Config{Dir: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler), Random: rand.Reader, Now: time.Now}}
	l.start()
	t.Cleanup(l.stop)
	return l
}

func (l *ledger) start() {
	l.t.Helper()
	s, err := app.Start(context.Background(), l.cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	l.Server = s
	u, _ := url.Parse(s.Ready.Listening)
	l.cfg.Listen = u.Host // the same one when it starts again
	if l.client != nil {
		l.client.Close()
	}
	l.client, err = client.New(client.Config{Server: s.Ready.Listening, Token: s.Token})
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *ledger) stop() {
	if l.Server == nil {
		return
	}
	l.client.Close()
	if err := l.Stop(context.Background()); err != nil {
		l.t.Error(err)
	}
	l.Server = nil
}

func (l *ledger) tokenFile() string { return filepath.Join(l.cfg.Dir, "token") }

// receipts are all events of the ledger that a filter selects, in the order of
// the log, once the views show what it accepted.
func (l *ledger) receipts(filter url.Values) []client.Receipt {
	l.t.Helper()
	status, err := l.client.Status(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	for {
		var all []client.Receipt
		q := url.Values{"limit": {"256"}}
		for k, v := range filter {
			q[k] = v
		}
		size := ^uint64(0)
		for {
			page, err := l.client.Receipts(l.t.Context(), q)
			if err != nil {
				l.t.Fatal(err)
			}
			all = append(all, page.Value.Receipts...)
			size = min(size, page.Value.TreeSize)
			if page.Value.NextPageToken == "" {
				break
			}
			q.Set("pageToken", page.Value.NextPageToken)
		}
		if size >= status.Value.StreamLast {
			return all
		}
		if err := l.t.Context().Err(); err != nil {
			l.t.Fatal(err)
		}
	}
}

// calls are the attempts of tool calls with what came of them, in the order of
// the log: "echo succeeded", "hang unknown timeout".
func (l *ledger) calls() []string {
	l.t.Helper()
	var order []string
	words := map[string]string{}
	for _, r := range l.receipts(nil) {
		if r.Action.EffectKind != "mcp.tools/call" {
			continue
		}
		switch r.Lifecycle {
		case "attempt":
			order = append(order, r.AttemptID)
			words[r.AttemptID] = r.Action.Name
		default:
			if words[r.AttemptID] == "" {
				l.t.Errorf("%s of %s comes before its attempt", r.Lifecycle, r.AttemptID)
			}
			words[r.AttemptID] += " " + strings.Join(append([]string{r.Action.Status}, r.ReasonCodes...), " ")
		}
	}
	out := make([]string, len(order))
	for i, id := range order {
		out[i] = words[id]
	}
	return out
}

// wantCalls waits until the ledger holds these calls. It is a comparison, not a
// matter of time: the test ends when it is stopped.
func (l *ledger) wantCalls(want ...string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 30*time.Second)
	defer cancel()
	for {
		got := l.calls()
		if slices.Equal(got, want) {
			return
		}
		if ctx.Err() != nil {
			l.t.Fatalf("the ledger holds\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
}

// session is a client that speaks to a server, through the proxy or not.
type session struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errs   *lockedBuffer
	answer []byte // all that was read
}

// lockedBuffer is what a process says on stderr.
type lockedBuffer struct {
	mu   sync.Mutex
	more sync.Cond
	b    bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.more.Broadcast()
	return b.b.Write(p)
}

// await waits until a text was written. The limit of the tests ends it.
func (b *lockedBuffer) await(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !bytes.Contains(b.b.Bytes(), []byte(text)) {
		b.more.Wait()
	}
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func self(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func start(t testing.TB, env []string, name string, args ...string) *session {
	t.Helper()
	s := &session{t: t, errs: new(lockedBuffer)}
	s.errs.more.L = &s.errs.mu
	s.cmd = exec.Command(name, args...)
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stderr = s.errs
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReaderSize(out, 1<<20)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", args, s.errs)
		}
	})
	return s
}

// proxied starts the test server behind the proxy. flags are those of proxy.
func (l *ledger) proxied(state string, env []string, flags ...string) *session {
	l.t.Helper()
	return l.behind(state, env, flags, self(l.t))
}

// behind starts any server behind the proxy.
func (l *ledger) behind(state string, env, flags []string, command ...string) *session {
	l.t.Helper()
	args := append([]string{"proxy", "--server", "http://" + l.cfg.Listen, "--token-file", l.tokenFile(), "--state", state}, flags...)
	args = append(append(args, "--"), command...)
	return start(l.t, append(slices.Clone(env), envProxy+"=1"), self(l.t), args...)
}

func (s *session) send(lines ...string) {
	s.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(s.in, l+"\n"); err != nil {
			s.t.Fatalf("send %.200s: %v\n%s", l, err, s.errs)
		}
	}
}

// read returns the next line of the server.
func (s *session) read() string {
	s.t.Helper()
	line, err := s.out.ReadBytes('\n')
	s.answer = append(s.answer, line...)
	if err != nil {
		s.t.Fatalf("after %q: %v\n%s", line, err, s.errs)
	}
	return strings.TrimSuffix(string(line), "\n")
}

// ask sends a line and reads one.
func (s *session) ask(line string) string {
	s.t.Helper()
	s.send(line)
	return s.read()
}

// call calls a tool and reads the answer.
func (s *session) call(id int, tool, arguments string) string {
	s.t.Helper()
	return s.ask(callLine(id, tool, arguments))
}

func callLine(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments)
}

// end closes the client's end and returns the exit code and what was still read.
func (s *session) end() (code int, rest string) {
	s.t.Helper()
	_ = s.in.Close()
	b, err := io.ReadAll(s.out)
	if err != nil {
		s.t.Error(err)
	}
	s.answer = append(s.answer, b...)
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode(), string(b)
}

func (s *session) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
}

// refusal is what a client gets in place of an answer.
type refusal struct {
	ID    json.RawMessage
	Error struct {
		Code int
		Data struct {
			Code, Reason                     string
			Dispatched                       *bool
			Label, Status, Outcome, Recovery string
			RetryAfterSeconds                int
		}
	}
}

func refused(t testing.TB, line string) refusal {
	t.Helper()
	var r refusal
	if err := json.Unmarshal([]byte(line), &r); err != nil || r.Error.Code != -32090 || r.Error.Data.Dispatched == nil || *r.Error.Data.Dispatched {
		t.Fatalf("not a refusal: %s, %v", line, err)
	}
	if d := r.Error.Data; d.Label != "trusted_control" || d.Status != "failed" || d.Outcome != "not_started" || d.Recovery != "retry_after" || d.RetryAfterSeconds < 1 {
		t.Fatalf("a refusal does not say what may be done: %s", line)
	}
	return r
}

// reached are the lines of calls that a test server kept.
func reached(t testing.TB, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"tester","version":"1"}}}`
