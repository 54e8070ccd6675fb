package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"counterfoil/internal/testkit/natskit"
)

// The programs under test, built once.
var binary, witnessBinary string

func TestMain(m *testing.M) {
	natskit.Child()
	clockChild()
	nodeChild()
	dir, err := os.MkdirTemp("", "counterfoil-faults-")
	if err != nil {
		panic(err)
	}
	binary, witnessBinary = filepath.Join(dir, "counterfoil"), filepath.Join(dir, "counterfoil-witness")
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "counterfoil/cmd/counterfoil", "counterfoil/cmd/counterfoil-witness")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// process is a running ledger.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	dir    string
	url    string
	token  string
	stderr *bytes.Buffer
	client *http.Client
	ended  chan struct{} // closed when it has ended, by itself or not
}

// startErr starts a ledger and returns how it ended if it did not get ready.
func startErr(t testing.TB, dir string, args ...string) (*process, error) {
	t.Helper()
	return startCommand(t, dir, exec.Command(binary, append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0"}, args...)...))
}

// startCommand is startErr for another program that is a ledger.
func startCommand(t testing.TB, dir string, cmd *exec.Cmd) (*process, error) {
	t.Helper()
	p := &process{t: t, cmd: cmd, dir: dir, stderr: new(bytes.Buffer), ended: make(chan struct{}),
		client: &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	cmd.Stderr = p.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		werr := cmd.Wait()
		close(p.ended)
		return p, fmt.Errorf("not ready: %w: %s", werr, p.stderr)
	}
	var ready struct{ Listening, Data, Origin string }
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatalf("ready line %q: %v", line, err)
	}
	p.url = ready.Listening
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	p.token = strings.TrimSpace(string(token))
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() { p.kill(syscall.SIGKILL) })
	return p, nil
}

func start(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	p, err := startErr(t, dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// kill ends the process with a signal and waits for its end.
func (p *process) kill(sig os.Signal) {
	_ = p.cmd.Process.Signal(sig)
	<-p.ended
}

// over tells that the process has ended.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// stop ends the process gracefully and checks that it ended well.
func (p *process) stop() {
	p.t.Helper()
	p.kill(syscall.SIGTERM)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("exit code %d after SIGTERM: %s", code, p.stderr)
	}
}

func (p *process) call(method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequest(method, p.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	res, err := p.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, b, err
}

// receipt is what the tests need of a receipt.
type receipt struct {
	EventID   string `json:"eventId"`
	AttemptID string `json:"attemptId"`
	LeafIndex uint64 `json:"leafIndex"`
	Stage     string `json:"stage"`
	Status    int    `json:"-"`
}

// send posts a begin or append; ok is false if it was not acknowledged.
func (p *process) send(path string, body []byte) (r receipt, ok bool) {
	code, b, err := p.call(http.MethodPost, path, body)
	r.Status = code
	if err != nil || (code != http.StatusCreated && code != http.StatusOK) {
		return r, false
	}
	if err := json.Unmarshal(b, &r); err != nil {
		p.t.Errorf("answer %q: %v", b, err)
	}
	return r, true
}

func parseReceipt(t testing.TB, b []byte) (r receipt) {
	if err := json.Unmarshal(b, &r); err != nil {
		t.Errorf("answer %q: %v", b, err)
	}
	return r
}

// leaves are all published leaves.
func (p *process) leaves() (out [][]byte) {
	p.t.Helper()
	code, b, err := p.call(http.MethodGet, "/v1/events?from=0&follow=false", nil)
	if err != nil || code != http.StatusOK {
		p.t.Fatalf("events: %d %v", code, err)
	}
	for _, line := range splitLines(b) {
		var e struct {
			Record json.RawMessage `json:"record"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			p.t.Fatalf("event line %q: %v", line, err)
		}
		out = append(out, e.Record)
	}
	return out
}

func beginBody(invocation string) []byte {
	return fmt.Appendf(nil, `{"source":{"runtimeId":"faults","agentId":"agent","invocationId":%q,"protocol":"mcp","implementation":"test"},`+
		`"occurredAt":"2026-07-28T00:00:00.000Z","action":{"name":"tool","effectKind":"test","effectMode":"one_time"},"privateInput":{"n":%q}}`, invocation, invocation)
}

func outcomeBody(attempt, status string) []byte {
	return fmt.Appendf(nil, `{"attemptId":%q,"lifecycle":"outcome","sourceEventId":"outcome","occurredAt":"2026-07-28T00:00:01.000Z","status":%q,"privateResult":1}`, attempt, status)
}

type status struct {
	Origin        string `json:"origin"`
	StreamLast    uint64 `json:"streamLast"`
	LogSize       uint64 `json:"logSize"`
	PublishedSize uint64 `json:"publishedSize"`
	ViewSize      uint64 `json:"viewSize"`
	Parked        uint64 `json:"parked"`
	Ready         bool   `json:"ready"`
}

// refusal is the error document of an answer that is not a success.
type refusal struct {
	Error struct {
		Code    string `json:"code"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"error"`
}

// eventually polls a condition that a real process must reach: there is no event
// to wait for.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// unready tells the names of the checks that say no; nil when the ledger is
// ready.
func (p *process) unready() (names []string) {
	code, b, err := p.call(http.MethodGet, "/readyz", nil)
	if err != nil {
		return []string{err.Error()}
	}
	var r struct {
		Checks []struct {
			Name string `json:"name"`
			OK   bool   `json:"ok"`
		} `json:"checks"`
	}
	if err := json.Unmarshal(b, &r); err != nil {
		p.t.Errorf("readyz: %q: %v", b, err)
	}
	for _, c := range r.Checks {
		if !c.OK {
			names = append(names, c.Name)
		}
	}
	if (code == http.StatusOK) != (names == nil) {
		p.t.Errorf("readyz: %d with %s", code, b)
	}
	return names
}

// settled waits until the views reflect the whole stream.
func (p *process) settled() status {
	p.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		var st status
		code, b, err := p.call(http.MethodGet, "/v1/status", nil)
		if err != nil || code != http.StatusOK {
			p.t.Fatalf("status: %d %s %v\n%s", code, b, err, p.stderr)
		}
		if err := json.Unmarshal(b, &st); err != nil {
			p.t.Fatal(err)
		}
		if st.ViewSize >= st.StreamLast && st.Ready {
			return st
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the views do not catch up: %s", b)
		}
		time.Sleep(10 * time.Millisecond) // polling a real process over HTTP: there is no event to wait for
	}
}
