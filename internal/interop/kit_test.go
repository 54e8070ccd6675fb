package interop

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/mod/sumdb/note"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Packages of the programs that are started.
const (
	ourLedger   = "counterfoil/cmd/counterfoil"
	ourWitness  = "counterfoil/cmd/counterfoil-witness"
	ourVerifier = "counterfoil/cmd/counterfoil-verify"
	litewitness = "filippo.io/torchwood/cmd/litewitness"
	omniwitness = "github.com/transparency-dev/witness/cmd/omniwitness"
	loadtest    = "github.com/transparency-dev/witness/cmd/loadtest"
)

var programs struct {
	sync.Mutex
	dir   string
	built map[string]string
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "counterfoil-interop-")
	if err != nil {
		panic(err)
	}
	programs.dir, programs.built = dir, map[string]string{}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// program builds a program once. Ours are built in their own module, with the
// versions of it.
func program(t testing.TB, pkg string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if bin, ok := programs.built[pkg]; ok {
		return bin
	}
	bin := filepath.Join(programs.dir, filepath.Base(pkg))
	dir := "."
	if strings.HasPrefix(pkg, "counterfoil/") {
		dir = "../.."
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin, pkg)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	programs.built[pkg] = bin
	return bin
}

// programWith builds a program of a peer with edits to a copy of go.mod.
func programWith(t testing.TB, pkg string, edits ...string) string {
	t.Helper()
	dir := t.TempDir()
	modfile := filepath.Join(dir, "go.mod")
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(b))
	}
	bin := filepath.Join(dir, filepath.Base(pkg))
	for _, args := range [][]string{append(append([]string{"mod", "edit"}, edits...), modfile), {"build", "-buildvcs=false", "-modfile=" + modfile, "-mod=mod", "-o", bin, pkg}} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return bin
}

// process is a running program.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr *lockedBuffer
	ended  chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// run starts a program that is killed when the test ends.
func run(t testing.TB, bin string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(bin, args...), stderr: new(lockedBuffer), ended: make(chan struct{})}
	p.cmd.Dir = t.TempDir()
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		p.wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(bin), p.stderr)
		}
	})
	return p
}

// wait waits for the end, once.
func (p *process) wait() {
	select {
	case <-p.ended:
	default:
		_ = p.cmd.Wait()
		close(p.ended)
	}
}

// stop asks a program to end and waits until it has.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.wait()
}

// ready reads the line of JSON that our programs print when they serve.
func (p *process) ready(into any) {
	p.t.Helper()
	line, err := p.stdout.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, into)
	}
	if err != nil {
		p.t.Fatalf("%s is not ready: %v\n%s", p.cmd.Path, err, p.stderr)
	}
	go func() { _, _ = io.Copy(io.Discard, p.stdout) }()
}

// output runs a program to its end and returns what it printed.
func output(t testing.TB, bin string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(bin), args, err, &errs)
	}
	return out.String()
}

// eventually polls what another process must reach: there is no event to wait
// for.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// witness is a running witness of any maker.
type witness struct {
	*process
	url, vkey string
	more      []string // further keys
}

// logList is a list in the format logs/v0.
func logList(keys ...string) string {
	var b strings.Builder
	b.WriteString("logs/v0\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "\nvkey %s\nqpd 100000000\ncontact nobody\n", k)
	}
	return b.String()
}

// startOurs starts our witness for logs with these keys.
func startOurs(t testing.TB, dir string, keys ...string) *witness {
	return startOursWith(t, dir, []string{"ed25519"}, keys...)
}

// startOursWith starts it with keys of these types.
func startOursWith(t testing.TB, dir string, types []string, keys ...string) *witness {
	t.Helper()
	bin := program(t, ourWitness)
	args := []string{"serve", "--listen", "127.0.0.1:0", "--state", filepath.Join(dir, "state"),
		"--logs", write(t, filepath.Join(dir, "logs"), logList(keys...)), "--log-level", "warn"}
	for _, kind := range types {
		key := filepath.Join(dir, kind)
		output(t, bin, "keygen", "--type", kind, "--name", "ours.example/w", "--key-file", key)
		args = append(args, "--key-file", key)
	}
	p := run(t, bin, args...)
	var r struct {
		Listening, VKey string
		VKeys           []string
	}
	p.ready(&r)
	return &witness{p, r.Listening, r.VKey, r.VKeys[1:]}
}

// startLite starts torchwood's litewitness: its key comes from an ssh-agent, its
// logs stand in its database.
func startLite(t testing.TB, dir string, keys ...string) *witness {
	t.Helper()
	socket := filepath.Join(dir, "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, c) }()
		}
	}()
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	addr, db := freeAddr(t), filepath.Join(dir, "lite.db")
	p := run(t, program(t, litewitness), "-name", "lite.example/w", "-db", db, "-ssh-agent", socket, "-listen", addr,
		"-key", ssh.FingerprintSHA256(public))
	w := &witness{process: p, url: "http://" + addr}
	w.awaitHTTP("/logz")
	conn, err := sqlite.OpenConn(db, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, k := range keys { // as its own witnessctl does, which cannot be built here
		origin := nameOf(k)
		empty := "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
		if err := sqlitex.Execute(conn, "INSERT INTO log (origin, tree_size, tree_hash) VALUES (?, 0, ?)", &sqlitex.ExecOptions{Args: []any{origin, empty}}); err != nil {
			t.Fatal(err)
		}
		if err := sqlitex.Execute(conn, "INSERT INTO key (origin, key) VALUES (?, ?)", &sqlitex.ExecOptions{Args: []any{origin, k}}); err != nil {
			t.Fatal(err)
		}
	}
	w.vkey = cosignerKey("lite.example/w", private.Public().(ed25519.PublicKey))
	return w
}

// startOmni starts transparency-dev's omniwitness, which reads our log list
// where it polls those of the witness network.
func startOmni(t testing.TB, dir string, keys ...string) *witness {
	t.Helper()
	skey, vkey, err := note.GenerateKey(nil, "omni.example/w")
	if err != nil {
		t.Fatal(err)
	}
	list := serveText(t, logList(keys...))
	addr := freeAddr(t)
	p := run(t, program(t, omniwitness), "--listen", addr, "--metrics_listen", "", "--db_file", filepath.Join(dir, "omni.db"),
		"--private_key_path", write(t, filepath.Join(dir, "omni.key"), skey), "--public_witness_config_url", list, "--logtostderr")
	w := &witness{process: p, url: "http://" + addr, vkey: cosignerKey("omni.example/w", publicOf(t, vkey))}
	w.awaitHTTP("/")
	eventually(t, "omniwitness knows the logs", func() bool {
		return strings.Contains(w.stderr.String(), "Successfully merged public witness config")
	})
	return w
}

func (w *witness) awaitHTTP(path string) {
	w.t.Helper()
	eventually(w.t, w.cmd.Path+" listens", func() bool {
		resp, err := http.Get(w.url + path)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return true
	})
}

// serveText serves a text at a URL of this machine.
func serveText(t testing.TB, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Close() })
	return "http://" + l.Addr().String() + "/"
}

func contextOf(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
