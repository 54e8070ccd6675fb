package faults

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"counterfoil/internal/testkit/freeport"
)

// witnessProcess is the real witness with a state of its own.
type witnessProcess struct {
	t      testing.TB
	dir    string // key, logs, policy; state/
	addr   string
	policy string // file for the ledger
	cmd    *exec.Cmd
}

// newWitness makes a witness of one log; it does not run yet.
func newWitness(t testing.TB, origin, vkey string) *witnessProcess {
	t.Helper()
	w := &witnessProcess{t: t, dir: t.TempDir(), addr: freeport.Addr(t)}
	out, err := exec.Command(witnessBinary, "keygen", "--name", "witness.example/w1", "--key-file", w.path("key")).Output()
	if err != nil {
		t.Fatalf("keygen: %v", err)
	}
	own := strings.TrimSpace(string(out))
	w.policy = w.path("policy")
	for name, text := range map[string]string{
		"logs":   fmt.Sprintf("logs/v0\nvkey %s\nqpd 10000000\ncontact me@example.org\n", vkey),
		"policy": fmt.Sprintf("log %s\nwitness w1 %s http://%s\nquorum w1\n", vkey, own, w.addr),
	} {
		if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *witnessProcess) path(name string) string { return filepath.Join(w.dir, name) }

// run starts the witness and waits until it answers.
func (w *witnessProcess) run(t testing.TB) *witnessProcess {
	t.Helper()
	w.cmd = exec.Command(witnessBinary, "serve", "--listen", w.addr, "--key-file", w.path("key"), "--state", w.path("state"), "--logs", w.path("logs"))
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.stop)
	eventually(t, "the witness answers", func() bool {
		res, err := http.Get("http://" + w.addr + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return w
}

// copied is the witness as it is now, running on a copy of its state.
func (w *witnessProcess) copied(t testing.TB) *witnessProcess {
	t.Helper()
	c := *w
	c.dir, c.addr = filepath.Join(t.TempDir(), "witness"), freeport.Addr(t)
	copyDir(t, w.dir, c.dir)
	c.policy = c.path("policy")
	text, err := os.ReadFile(c.policy)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.policy, bytes.ReplaceAll(text, []byte(w.addr), []byte(c.addr)), 0o600); err != nil {
		t.Fatal(err)
	}
	return c.run(t)
}

// stop ends the witness; nothing happens if it does not run.
func (w *witnessProcess) stop() {
	if w.cmd != nil && w.cmd.ProcessState == nil {
		_ = w.cmd.Process.Signal(syscall.SIGTERM)
		_ = w.cmd.Wait()
	}
}
