package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"

	"counterfoil/internal/testkit/logkit"
	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
)

// childVar makes the test binary the program itself.
const childVar = "COUNTERFOIL_WITNESS_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		main()
	}
	testscript.Main(m, map[string]func(){"counterfoil-witness": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/scripts", RequireExplicitExec: true, RequireUniqueNames: true})
}

// child is a witness in a process of its own.
type child struct {
	cmd *exec.Cmd
	ready
	log *strings.Builder
}

// start runs the program until it is ready. A program that ends before gives an
// error with what it said.
func start(t testing.TB, args ...string) (*child, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(self, args...), log: new(strings.Builder)}
	c.cmd.Env = append(os.Environ(), childVar+"=1")
	c.cmd.Stderr = c.log
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &c.ready)
	}
	if err != nil {
		_ = c.cmd.Wait()
		return nil, fmt.Errorf("%w: %s", err, c.log)
	}
	return c, nil
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// history is a log that can be asked for any checkpoint and proof.
type history struct {
	*testonly.Tree
	signer note.Signer
	key    trust.VerifierKey
}

func newHistory(t testing.TB, name, label string, n int) history {
	t.Helper()
	l := logkit.New(t, name, n, logkit.Numbered(label))
	return history{l.Tree, l.Signer, l.Key}
}

func (h history) note(size uint64) ([]byte, error) {
	return note.Sign(&note.Note{Text: trust.Checkpoint{Origin: h.key.Name, Size: size, Root: [32]byte(h.HashAt(size))}.Text()}, h.signer)
}

func (h history) request(old, size uint64) (string, error) {
	raw, err := h.note(size)
	if err != nil {
		return "", err
	}
	r := rule.Request{Old: old}
	if r.Note, err = trust.ParseNote(raw); err != nil {
		return "", err
	}
	if old > 0 && old < size {
		if r.Proof, err = h.ConsistencyProof(old, size); err != nil {
			return "", err
		}
	}
	return string(r.Append(nil)), nil
}

func post(url, body string) (int, string, error) {
	resp, err := http.Post(url+"/add-checkpoint", "", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// place makes a key and a list of one log, and returns the arguments of serve.
func place(t testing.TB, h history) (dir string, args []string) {
	t.Helper()
	dir = t.TempDir()
	key, logs := filepath.Join(dir, "key"), filepath.Join(dir, "logs")
	if code := run(t.Context(), []string{"keygen", "--name", "witness.example/w1", "--key-file", key}, io.Discard, io.Discard); code != 0 {
		t.Fatalf("keygen ended with %d", code)
	}
	if err := os.WriteFile(logs, []byte("logs/v0\nvkey "+h.key.String()+"\nqpd 100000000\ncontact nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, []string{"serve", "--listen", "127.0.0.1:0", "--key-file", key, "--state", filepath.Join(dir, "state"), "--logs", logs, "--log-level", "error"}
}
