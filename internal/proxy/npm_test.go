package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/testkit/freeport"
)

// npmVersion is the version of the reference servers.
const npmVersion = "2026.8.31"

// npmServers installs the reference servers once, below a folder of the machine's
// temporary files, and returns the folder of their commands.
var npmServers = sync.OnceValues(func() (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "counterfoil-npm-")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	args := []string{"install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", dir}
	for _, name := range []string{"filesystem", "everything", "memory"} {
		args = append(args, "@modelcontextprotocol/server-"+name+"@"+npmVersion)
	}
	if out, err := exec.CommandContext(ctx, npm, args...).CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("npm install: %w: %.300s", err, out)
	}
	npmDir = dir
	return filepath.Join(dir, "node_modules", ".bin"), nil
})

var npmDir string // removed when the tests end

func npmServer(t testing.TB, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("the reference servers are left out of a short run")
	}
	bin, err := npmServers()
	if err != nil {
		t.Skip("the reference servers cannot be installed: ", err)
	}
	return filepath.Join(bin, "mcp-server-"+name)
}

// play sends lines one after the other and waits for the answer to each request.
// What the server asks is answered. It returns what the server sent.
func play(s *session, lines []string) []string {
	s.t.Helper()
	var got []string
	for _, line := range lines {
		s.send(line)
		var sent struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal([]byte(line), &sent)
		for sent.ID != nil {
			answer := s.read()
			got = append(got, answer)
			var m struct {
				ID     json.RawMessage
				Method string
			}
			if err := json.Unmarshal([]byte(answer), &m); err != nil {
				s.t.Fatalf("the server sent %s: %v", answer, err)
			}
			switch {
			case m.Method == "roots/list":
				s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, m.ID))
			case m.Method == "sampling/createMessage":
				s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"role":"assistant","model":"none","content":{"type":"text","text":"so"}}}`, m.ID))
			case m.Method != "" && m.ID != nil:
				s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID))
			case m.Method == "" && string(m.ID) == string(sent.ID):
				sent.ID = nil
			}
		}
	}
	return got
}

func call(id int, tool, arguments string) string { return callLine(id, tool, arguments) }

func TestEVI22_RealServersAreTheSameThroughTheProxy(t *testing.T) {
	files := filepath.Join(t.TempDir(), "files")
	big := strings.Repeat("x", 5<<20)
	in := func(name string) string { return filepath.Join(files, name) }
	initialize := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"sampling":{}},"clientInfo":{"name":"tester","version":"1"}}}`
	start1 := []string{initialize, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`}
	for _, c := range []struct {
		server string
		args   []string
		lines  []string
		calls  []string
		sorted bool // the server sends on its own as well
	}{
		{"filesystem", []string{files}, []string{
			call(2, "write_file", fmt.Sprintf(`{"path":%q,"content":"Grüße\u0000 \ud83d\ude00"}`, in("a.txt"))),
			call(3, "read_text_file", fmt.Sprintf(`{"path":%q}`, in("a.txt"))),
			call(4, "read_text_file", fmt.Sprintf(`{"path":%q}`, in("none.txt"))),
			call(5, "read_text_file", `{"path":"/etc/hostname"}`),
			call(6, "edit_file", fmt.Sprintf(`{"path":%q,"edits":[{"oldText":"Gr","newText":"gr"}]}`, in("a.txt"))),
			call(7, "move_file", fmt.Sprintf(`{"source":%q,"destination":%q}`, in("a.txt"), in("b.txt"))),
			call(8, "list_directory", fmt.Sprintf(`{"path":%q}`, files)),
			call(9, "no_such_tool", `{}`),
			call(10, "write_file", fmt.Sprintf(`{"path":%q,"content":%q}`, in("big.txt"), big)),
			call(11, "read_text_file", fmt.Sprintf(`{"path":%q}`, in("big.txt"))),
			`{"jsonrpc":"2.0","id":12,"method":"no/such","params":{"x":[1,2]}}`,
			`{"jsonrpc":"2.0","id":13,"method":"ping"}`,
		}, []string{"write_file succeeded", "read_text_file succeeded", "read_text_file failed tool_error", "read_text_file failed tool_error", "edit_file succeeded",
			"move_file succeeded", "list_directory succeeded", "no_such_tool failed tool_error", "write_file succeeded", "read_text_file succeeded"}, false},
		{"memory", nil, []string{
			call(2, "create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["writes notes"]}]}`),
			call(3, "create_relations", `{"relations":[{"from":"Ada","to":"Ada","relationType":"knows"}]}`),
			call(4, "search_nodes", `{"query":"Ada"}`),
			call(5, "add_observations", `{"observations":[{"entityName":"Nobody","contents":["x"]}]}`),
			call(6, "read_graph", `{}`),
			call(7, "delete_entities", `{"entityNames":["Ada"]}`),
		}, []string{"create_entities succeeded", "create_relations succeeded", "search_nodes succeeded", "add_observations failed tool_error", "read_graph succeeded", "delete_entities succeeded"}, false},
		{"everything", nil, []string{
			call(2, "echo", `{"message":"\u00e9"}`),
			call(3, "get-sum", `{"a":1e2,"b":0.1}`),
			call(4, "get-sum", `{"a":"x"}`),
			call(5, "get-tiny-image", `{}`),
			call(6, "get-structured-content", `{"location":"New York"}`),
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"trigger-long-running-operation","arguments":{"duration":1,"steps":2},"_meta":{"progressToken":"p"}}}`,
			call(8, "trigger-sampling-request", `{"prompt":"say so","maxTokens":5}`),
			`{"jsonrpc":"2.0","id":9,"method":"resources/list"}`,
			`{"jsonrpc":"2.0","id":10,"method":"prompts/get","params":{"name":"simple-prompt"}}`,
		}, []string{"echo succeeded", "get-sum succeeded", "get-sum failed tool_error", "get-tiny-image succeeded", "get-structured-content succeeded",
			"trigger-long-running-operation succeeded", "trigger-sampling-request succeeded"}, true},
	} {
		t.Run(c.server, func(t *testing.T) {
			bin := npmServer(t, c.server)
			l := startLedger(t)
			run := func(begin func(env []string, name string, args ...string) *session) ([]string, int) {
				if err := os.RemoveAll(files); err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir(files, 0o700); err != nil {
					t.Fatal(err)
				}
				s := begin([]string{"MEMORY_FILE_PATH=" + in("memory.jsonl")}, bin, c.args...)
				got := play(s, slices.Concat(start1, c.lines))
				code, rest := s.end()
				got = append(got, rest)
				if c.sorted {
					slices.Sort(got)
				}
				return got, code
			}
			direct, codeD := run(func(env []string, name string, args ...string) *session { return start(t, env, name, args...) })
			through, codeT := run(func(env []string, name string, args ...string) *session {
				return l.behind(t.TempDir(), env, nil, append([]string{name}, args...)...)
			})
			if codeD != codeT {
				t.Errorf("exit codes %d and %d", codeD, codeT)
			}
			if !slices.Equal(direct, through) {
				for i := range min(len(direct), len(through)) {
					if direct[i] != through[i] {
						t.Fatalf("line %d is\n%.300s\nthrough the proxy, and directly\n%.300s", i, through[i], direct[i])
					}
				}
				t.Fatalf("%d lines through the proxy, %d directly", len(through), len(direct))
			}
			l.wantCalls(c.calls...)
		})
	}
}

// A task of a real server ends with its result.
func TestEVI09_ARealTask(t *testing.T) {
	bin := npmServer(t, "everything")
	l := startLedger(t)
	s := l.behind(t.TempDir(), nil, nil, bin)
	got := play(s, []string{hello, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"simulate-research-query","arguments":{"topic":"ink"},"task":{"ttl":60000}}}`})
	var accepted struct {
		Result struct{ Task struct{ TaskID string } }
	}
	if err := json.Unmarshal([]byte(got[len(got)-1]), &accepted); err != nil || accepted.Result.Task.TaskID == "" {
		t.Fatalf("no task: %s", got[len(got)-1])
	}
	l.wantCalls("simulate-research-query")
	play(s, []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":%q}}`, accepted.Result.Task.TaskID)})
	l.wantCalls("simulate-research-query succeeded")
	// The server waits for its own timers when its input ends.
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.end()
}

// The official Go client drives a real server through the proxy, and the server
// is killed in the middle of a call.
func TestOPR08_ARealServerKilledInTheMiddleOfACall(t *testing.T) {
	bin := npmServer(t, "everything")
	if runtime.GOOS != "linux" {
		t.Skip("finding the server's process needs /proc")
	}
	l := startLedger(t)
	args := []string{"proxy", "--server", "http://" + l.cfg.Listen, "--token-file", l.tokenFile(), "--state", t.TempDir(), "--", bin}
	cmd := exec.Command(self(t), args...)
	cmd.Env = append(os.Environ(), envProxy+"=1")
	cmd.Stderr = io.Discard
	progress := make(chan struct{}, 16)
	cl := mcp.NewClient(&mcp.Implementation{Name: "sdk-client", Version: "2"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { progress <- struct{}{} }})
	session, err := cl.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": "hi"}}); err != nil {
		t.Fatal(err)
	}
	params := &mcp.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 600, "steps": 1200}}
	params.SetProgressToken("p")
	failed := make(chan error, 1)
	go func() {
		_, err := session.CallTool(t.Context(), params)
		failed <- err
	}()
	<-progress // it runs
	for _, pid := range children(t, cmd.Process.Pid) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	if err := <-failed; err == nil {
		t.Error("the call has an answer")
	}
	l.wantCalls("echo succeeded", "trigger-long-running-operation unknown server_exited")
}

// children are the processes that a process started, by any of its threads.
func children(t testing.TB, pid int) (pids []int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(files) == 0 {
		t.Skip("the kernel does not list children: ", err)
	}
	for _, file := range files {
		b, _ := os.ReadFile(file) // a thread may have ended
		for _, f := range strings.Fields(string(b)) {
			n, _ := strconv.Atoi(f)
			pids = append(pids, n)
		}
	}
	if len(pids) == 0 {
		t.Fatal("the proxy has no server")
	}
	return pids
}

// A real server over streamable HTTP, with its sessions, streams and questions.
func TestEVI22_ARealServerOverHTTP(t *testing.T) {
	bin := npmServer(t, "everything")
	l := startLedger(t)
	addr := freeport.Addr(t)
	_, port, _ := net.SplitHostPort(addr)
	server := start(t, []string{"PORT=" + port}, bin, "streamableHttp")
	server.errs.await("listening on port")
	front := l.inFront("http://" + addr + "/mcp")
	asked := make(chan struct{}, 1)
	cl := mcp.NewClient(&mcp.Implementation{Name: "sdk-client", Version: "2"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked <- struct{}{}
			return &mcp.ElicitResult{Action: "decline"}, nil
		}})
	session, err := cl.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: front.URL + "/mcp"}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool string
		args map[string]any
	}{
		{"echo", map[string]any{"message": "hi"}},
		{"get-sum", map[string]any{"a": 1, "b": 2}},
		{"get-tiny-image", map[string]any{}},
		{"trigger-elicitation-request", map[string]any{}},
	} {
		if res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args}); err != nil || res.IsError {
			t.Fatalf("%s: %+v, %v", c.tool, res, err)
		}
	}
	<-asked
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	l.wantCalls("echo succeeded", "get-sum succeeded", "get-tiny-image succeeded", "trigger-elicitation-request succeeded")
	server.kill()
}
