package deploytest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const root = "../.."

// built is where the programs are, as the Dockerfile's commands made them.
var built struct {
	once sync.Once
	dir  string
	err  error
	out  string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

func dockerfile(t testing.TB) string {
	t.Helper()
	return strings.ReplaceAll(text(t, "deploy/Dockerfile"), "\\\n", " ")
}

// binaries runs the go build commands of the Dockerfile and returns the folder that
// stands for its /out.
func binaries(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "deploytest-"); built.err != nil {
			return
		}
		for _, c := range regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*)$`).FindAllStringSubmatch(dockerfile(t), -1) {
			cmd := exec.Command("sh", "-ec", strings.ReplaceAll(c[1], "/out/", built.dir+"/"))
			cmd.Dir = root
			if b, err := cmd.CombinedOutput(); err != nil {
				built.err, built.out = err, string(b)
				return
			}
		}
	})
	if built.err != nil {
		t.Fatalf("build: %v\n%s", built.err, built.out)
	}
	return built.dir
}

func text(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// strictYAML reads a file into v; members that v does not have are refused.
func strictYAML(t testing.TB, name string, v any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text(t, name)))
	d.KnownFields(true)
	if err := d.Decode(v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := d.Decode(new(any)); err != io.EOF {
		t.Fatalf("%s: more than one document (%v)", name, err)
	}
}

// process is a running program.
type process struct {
	t   testing.TB
	cmd *exec.Cmd
	out *bufio.Reader
	err bytes.Buffer
}

func start(t testing.TB, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(name, args...)}
	p.cmd.Stderr = &p.err
	pipe, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(pipe)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// ready reads the line that a program prints once it answers.
func (p *process) ready(v any) {
	p.t.Helper()
	timer := time.AfterFunc(time.Minute, p.kill)
	defer timer.Stop()
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, v)
	}
	if err != nil {
		p.kill()
		p.t.Fatalf("%s: %v\n%s", p.cmd, err, p.err.String())
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// stop ends a program as its container would be, and demands that it succeeds.
func (p *process) stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(os.Interrupt)
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%s: %v\n%s", p.cmd, err, p.err.String())
	}
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	b, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, b)
	}
	return string(b)
}

// call asks a server and returns the status and the body.
func call(t testing.TB, method, url, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	}
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// attempt is the body that begins one.
func attempt(invocation string) string {
	return `{"source":{"runtimeId":"r","agentId":"agent","invocationId":"` + invocation + `","protocol":"mcp","implementation":"test"},` +
		`"occurredAt":"2026-07-28T00:00:00.000Z","action":{"name":"tool","effectKind":"test","effectMode":"one_time"},"privateInput":{"n":1}}`
}
