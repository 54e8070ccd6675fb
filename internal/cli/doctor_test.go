package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"
)

// A directory that a process has, and a ledger that does not answer, or answers: the
// checks of both stand together, and the token is the directory's own.
func TestDoctorOfARunningDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"ledger.json": `{"formatVersion":1,"origin":"example.com/x","tenant":"default","complete":false}`, "token": strings.Repeat("a", 40), "lock": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	if ok, err := lock.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer lock.Unlock() //nolint:errcheck // the process ends
	sent := ""
	e := newExecution(t, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		answer(w, 200, `{"origin":"example.com/x","ready":true,"checks":[{"name":"disk","ok":true,"detail":"plenty"},{"name":"witnesses","ok":true,"detail":"1 of 2","hint":"see"}]}`)
	})
	delete(e.env, "COUNTERFOIL_TOKEN_FILE")
	r := e.run("doctor", "--data", dir)
	for _, want := range []string{"identity ", "disk ", "witnesses ", "look", "its first start did not end"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in %s", want, r.out)
		}
	}
	if sent != "Bearer "+strings.Repeat("a", 40) {
		t.Errorf("sent %q", sent)
	}
	r = e.run("doctor", "--data", dir, "--server", "http://127.0.0.1:1")
	if r.code != 1 || !strings.Contains(r.out, "a process has the directory, and no ledger answers") || !strings.Contains(r.out, "\nserver ") {
		t.Errorf("%+v", r)
	}
}
