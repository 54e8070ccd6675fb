// Package natskit gives tests a NATS server in a process of its own, which they
// can kill, and a connection as an external consumer has it. The process is the
// test binary itself: its TestMain calls [Child] first.
package natskit

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"counterfoil/internal/testkit/freeport"
)

const childEnv = "COUNTERFOIL_TESTKIT_NATS"

// Child runs a server and never returns, if this process was started by
// [Server.Start]; else it does nothing.
func Child() {
	spec := os.Getenv(childEnv)
	if spec == "" {
		return
	}
	if err := serve(spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(spec string) error {
	o := &server.Options{Host: "127.0.0.1", JetStream: true, JetStreamMaxStore: 1 << 40, NoSigs: true, NoLog: true}
	if _, err := fmt.Sscanf(spec, "%d %s", &o.Port, &o.StoreDir); err != nil {
		return err
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return err
	}
	srv.Start()
	if !srv.ReadyForConnections(30 * time.Second) {
		return fmt.Errorf("not ready")
	}
	fmt.Println(srv.ClientURL())
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
	srv.Shutdown()
	return nil
}

// Server is a NATS server with JetStream in a process of its own.
type Server struct {
	URL string // the same over restarts

	t    testing.TB
	dir  string // store; no spaces
	port int
	cmd  *exec.Cmd
}

// Start runs a server on a store directory.
func Start(t testing.TB, dir string) *Server {
	t.Helper()
	s := &Server{t: t, dir: dir, port: freeport.Row(t, 1)}
	s.run()
	t.Cleanup(s.Kill)
	return s
}

func (s *Server) run() {
	s.t.Helper()
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", childEnv, s.port, s.dir))
	s.cmd.Stderr = os.Stderr
	if _, err := s.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatalf("NATS did not start: %v", err)
	}
	s.URL = strings.TrimSpace(line)
}

// Kill ends the process as kill −9 does.
func (s *Server) Kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// Signal sends a signal to the process, to freeze it and let it go on.
func (s *Server) Signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Restart starts a killed server again on its store and its port.
func (s *Server) Restart() {
	s.t.Helper()
	s.run()
}

// Consumer connects as an external consumer does.
func Consumer(t testing.TB, url, user, password string) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(url, nats.UserInfo(user, password), nats.MaxReconnects(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}
