package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// A checkpoint file that is missing, or an old copy, is signed again at the start
// from the tree that the guard knows: the log did not go back, and nothing stops.
func TestLOG07_ALostCheckpointIsSignedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir)
	l.begin("inv-0")
	l.settled("/v1/attempts?limit=10")
	file := filepath.Join(dir, "log", "checkpoint")
	old := []byte(readFile(t, file))
	l.begin("inv-1")
	l.settled("/v1/attempts?limit=10")
	for round, damage := range []func() error{
		func() error { return os.Remove(file) },
		func() error { return os.WriteFile(file, old, 0o600) },
	} {
		l.stop()
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		l = startLedger(t, dir)
		if len(l.get("/log/checkpoint")) == 0 {
			t.Errorf("round %d: no checkpoint although the ledger is ready", round)
		}
		attempts := l.settled("/v1/attempts?limit=10")["attempts"].([]any)
		if len(attempts) != 2+round {
			t.Errorf("round %d: %d attempts, want %d", round, len(attempts), 2+round)
		}
		l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody(fmt.Sprintf("more-%d", round), `1`))
		l.settled("/v1/attempts?limit=10")
		l.want(http.StatusOK, "GET", "/readyz", nil)
	}
}
