package stream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// Some tests need a process that can be killed: the test binary runs itself
// with a task in the environment.
const childEnv = "COUNTERFOIL_STREAM_TEST_CHILD"

type task struct {
	Name    string // heal, publish, server, node
	Dir     string
	Aside   string
	CrashAt int // hook call at which the process kills itself
	Logged  int
	Stored  int
	Port    int
	Cluster *ClusterConfig
	Boot    int // how often the node was started before
}

func child() int {
	var k task
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &k); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	err := map[string]func(task) error{"heal": childHeal, "publish": childPublish, "server": childServer, "node": childNode}[k.Name](k)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func childHeal(k task) error {
	s, err := Open(context.Background(), testConfig(k.Dir))
	if err != nil {
		return err
	}
	n := 0
	s.hook = func(string) error {
		if n++; n == k.CrashAt {
			die()
		}
		return nil
	}
	_, err = s.Heal(context.Background(), healConfig(makeLeaves(k.Stored, bigBody)[:k.Logged], k.Aside))
	return errors.Join(err, s.Close(context.Background()))
}

// childPublish publishes leaves and says which were acknowledged, until it is
// killed.
func childPublish(k task) error {
	s, err := Open(context.Background(), testConfig(k.Dir))
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		b := leaf(i, 700)
		last, err := s.LastSeq(context.Background(), filter(i%256))
		if err != nil {
			return err
		}
		seq, err := s.Publish(context.Background(), Msg{leafSubject(b), b}, filter(i%256), last)
		if err != nil {
			return err
		}
		fmt.Println(seq)
	}
}

// childServer is a NATS server of somebody else's.
func childServer(k task) error {
	srv, err := server.NewServer(externalOptions(k.Dir, k.Port))
	if err != nil {
		return err
	}
	srv.Start()
	if !srv.ReadyForConnections(startTimeout) {
		return errors.New("not ready")
	}
	fmt.Println(srv.Addr().String())
	_, err = io.Copy(io.Discard, os.Stdin) // until the parent ends
	srv.Shutdown()
	return err
}

func externalOptions(dir string, port int) *server.Options {
	return &server.Options{Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true, JetStream: true, StoreDir: dir, JetStreamMaxStore: 1 << 40}
}

// process is a running child.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Reader
	stdin io.Closer
	errs  *strings.Builder
}

func run(t testing.TB, k task) *process {
	t.Helper()
	b, err := json.Marshal(k)
	must(t, err)
	exe, err := os.Executable()
	must(t, err)
	p := &process{cmd: exec.Command(exe, "-test.run=^$"), errs: new(strings.Builder)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(b))
	p.cmd.Stderr = p.errs
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	p.lines = bufio.NewReader(out)
	p.stdin, err = p.cmd.StdinPipe()
	must(t, err)
	must(t, p.cmd.Start())
	t.Cleanup(func() { p.kill() })
	return p
}

// line returns what the child says next.
func (p *process) line(t testing.TB) string {
	t.Helper()
	s, err := p.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("child: %v: %s", err, p.errs)
	}
	return strings.TrimSpace(s)
}

// kill ends the child without warning and returns what it had still said.
func (p *process) kill() string {
	if p.cmd.ProcessState != nil {
		return ""
	}
	_ = p.cmd.Process.Kill()
	rest, _ := io.ReadAll(p.lines)
	_ = p.stdin.Close()
	_ = p.cmd.Wait()
	return string(rest)
}
