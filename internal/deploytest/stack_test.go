package deploytest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// stack is what the compose file starts, without the containers: by its commands, with
// the paths of its volumes replaced.
type stack struct {
	run            string // what setup.sh made
	ledger         string // URL
	witnesses      [2]string
	natsURL        string
	token, metrics string
	ledgerP        *process
	witnessP       [2]*process
	bin            string // the programs
}

// paths turns the paths of a service's containers into those of its volumes.
func (s *stack) paths(t testing.TB, c compose, name string) func(string) string {
	t.Helper()
	var pairs []string
	for _, v := range c.Services[name].Volumes {
		from, to, _ := strings.Cut(v, ":/")
		from = strings.Replace(from, "${RUN:?}", s.run, 1)
		if rest, ok := strings.CutPrefix(from, "./"); ok {
			abs, err := filepath.Abs(filepath.Join(root, "deploy", rest))
			if err != nil {
				t.Fatal(err)
			}
			from = abs
		}
		to = "/" + strings.TrimSuffix(to, ":ro")
		pairs = append(pairs, "="+to, "="+from)
	}
	r := strings.NewReplacer(pairs...)
	return r.Replace
}

// free is an address that was free a moment ago.
func free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startNATS runs a server by deploy/nats/nats.conf, where the compose file has it.
func startNATS(t testing.TB, s *stack) {
	t.Helper()
	at := t.TempDir()
	for _, d := range []string{"etc", "run/secrets"} {
		if err := os.MkdirAll(filepath.Join(at, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	conf, err := filepath.Abs(filepath.Join(root, "deploy/nats"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, "cp", "-r", conf, filepath.Join(at, "etc/nats"))
	run(t, "cp", "-r", filepath.Join(s.run, "secrets/nats"), filepath.Join(at, "run/secrets/nats"))
	o, err := server.ProcessConfigFile(filepath.Join(at, "etc/nats/nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if o.StoreDir != "/data" || !o.SyncAlways || o.Port != 4222 || o.HTTPHost != "127.0.0.1" || !o.JetStream {
		t.Errorf("store %q, sync always %v, port %d, monitoring on %q", o.StoreDir, o.SyncAlways, o.Port, o.HTTPHost)
	}
	o.StoreDir, o.Host, o.Port, o.HTTPPort, o.NoSigs, o.NoLog = filepath.Join(s.run, "nats"), "127.0.0.1", -1, -1, true, true
	srv, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("NATS is not ready")
	}
	s.natsURL = srv.ClientURL()
}

func startStack(t testing.TB) *stack {
	t.Helper()
	out := binaries(t)
	all := t.TempDir()
	s := &stack{run: filepath.Join(all, "run"), bin: filepath.Join(all, "bin")}
	run(t, "cp", "-r", filepath.Join(out, "bin"), s.bin)
	run(t, "cp", filepath.Join(out, "witness/counterfoil-witness"), s.bin)
	run(t, "bash", filepath.Join(root, "deploy/setup.sh"), s.bin, s.run)
	startNATS(t, s)
	c := readCompose(t)
	policy := readPath(t, s.run, "policy/witnesses.policy")
	for i := range s.witnesses {
		addr := free(t)
		name := fmt.Sprintf("witness-%d", i+1)
		fix := s.paths(t, c, name)
		args := []string{}
		for _, a := range c.Services[name].Command {
			args = append(args, strings.Replace(fix(a), "0.0.0.0:8481", addr, 1))
		}
		s.witnessP[i] = start(t, filepath.Join(s.bin, "counterfoil-witness"), args...)
		s.witnessP[i].ready(new(struct{}))
		s.witnesses[i] = "http://" + addr
		policy = strings.Replace(policy, "http://"+name+":8481", s.witnesses[i], 1)
	}
	if err := os.WriteFile(filepath.Join(s.run, "policy/witnesses.policy"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	fix := s.paths(t, c, "ledger")
	args := []string{}
	for _, a := range c.Services["ledger"].Command {
		a = strings.Replace(fix(a), "0.0.0.0:8480", "127.0.0.1:0", 1)
		args = append(args, strings.Replace(a, "nats:4222", strings.TrimPrefix(s.natsURL, "nats://"), 1))
	}
	s.ledgerP = start(t, filepath.Join(s.bin, "counterfoil"), args...)
	var r struct{ Listening string }
	s.ledgerP.ready(&r)
	s.ledger, s.token, s.metrics = r.Listening, readPath(t, s.run, "ledger/token"), readPath(t, s.run, "secrets/metrics.token")
	return s
}

func readPath(t testing.TB, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestStack(t *testing.T) {
	s := startStack(t)
	if code, b := call(t, "POST", s.ledger+"/v1/attempts?wait=witnessed", s.token, attempt("a")); code != 201 || !strings.Contains(b, `"stage":"witnessed"`) {
		t.Fatalf("%d %s", code, b)
	}
	c := readCompose(t)
	for name, url := range map[string]string{"ledger": s.ledger, "witness-1": s.witnesses[0], "witness-2": s.witnesses[1]} {
		fix := s.paths(t, c, name)
		var args []string
		for _, a := range c.Services[name].Healthcheck.Test[2:] {
			a = strings.NewReplacer("http://127.0.0.1:8480", url, "http://127.0.0.1:8481", url).Replace(fix(a))
			args = append(args, a)
		}
		run(t, filepath.Join(s.bin, filepath.Base(c.Services[name].Healthcheck.Test[1])), args...)
	}
	// Prometheus' token reads and does nothing else.
	if code, b := call(t, "GET", s.ledger+"/metrics", s.metrics, ""); code != 200 || !strings.Contains(b, "\ncounterfoil_ready 1\n") {
		t.Errorf("metrics: %d %.300s", code, b)
	}
	if code, _ := call(t, "POST", s.ledger+"/v1/attempts", s.metrics, attempt("b")); code != 403 {
		t.Errorf("the token of Prometheus records: %d", code)
	}
	// A reader of the stream reads, and cannot write.
	reader := readPath(t, s.run, "secrets/nats/passwords.conf")
	_, reader, _ = strings.Cut(reader, `READER_PASSWORD: "`)
	refused := make(chan error, 16)
	nc, err := nats.Connect(s.natsURL, nats.UserInfo("reader", strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(reader), `"`))),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m, err := nc.Request("$JS.API.DIRECT.GET.COUNTERFOIL", []byte(`{"seq":1}`), 10*time.Second)
	if err != nil || !strings.Contains(string(m.Data), `"event":{`) {
		t.Errorf("the reader reads: %v", err)
	}
	for _, subject := range []string{"counterfoil.v1.default.tool_action.attempt.0", "$JS.API.STREAM.DELETE.COUNTERFOIL", "$JS.API.STREAM.PURGE.COUNTERFOIL"} {
		if err := nc.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		_ = nc.Flush()
		select {
		case err := <-refused:
			if !strings.Contains(err.Error(), "ermissions") {
				t.Errorf("%s: %v", subject, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("the reader may publish to %s", subject)
		}
	}
	if _, err := nats.Connect(s.natsURL); err == nil {
		t.Error("NATS lets anybody in")
	}
	// Nobody else on the host gets at a secret.
	for _, pattern := range []string{"*", "secrets/*", "secrets/nats/*", "witness-*/*.key", "ledger/keys/*", "ledger/*token*"} {
		files, err := filepath.Glob(filepath.Join(s.run, pattern))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, f := range files {
			if st, err := os.Stat(f); err != nil || st.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v, %v", f, st.Mode(), err)
			}
		}
	}
	s.ledgerP.stop()
	if password := strings.TrimSpace(readPath(t, s.run, "secrets/nats-ledger")); strings.Contains(s.ledgerP.err.String(), password) {
		t.Error("the ledger's log shows the password of NATS")
	}
}

// setup.sh makes keys once.
func TestSetupMakesNothingAnew(t *testing.T) {
	dir := t.TempDir()
	run(t, "bash", "-c", `! bash "$1" "$2" "$2" 2>"$2/said" && grep -q "none is made anew" "$2/said"`, "sh", filepath.Join(root, "deploy/setup.sh"), dir)
}
