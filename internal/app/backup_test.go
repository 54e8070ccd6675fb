package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"counterfoil/internal/backup"
	"counterfoil/ledger/keyring"
)

// backup writes a backup to a file and returns its name and manifest.
func (l *ledger) backup(from backup.Point, passphrase string) (string, *backup.Manifest) {
	l.t.Helper()
	body, err := json.Marshal(map[string]any{"from": from, "passphrase": passphrase})
	if err != nil {
		l.t.Fatal(err)
	}
	code, b := l.raw("POST", "/v1/backup", body, l.Token)
	if code != http.StatusOK {
		l.t.Fatalf("backup: %d %.300s", code, b)
	}
	m, err := backup.Read(bytes.NewReader(b), func(string, []byte) error { return nil })
	if err != nil {
		l.t.Fatal(err)
	}
	name := filepath.Join(l.t.TempDir(), fmt.Sprintf("%d.backup", m.To.Size))
	if err := os.WriteFile(name, b, 0o600); err != nil {
		l.t.Fatal(err)
	}
	return name, m
}

// TestDUR03_BackupWhileRunning: copies taken while 8 writers record, a whole one
// and two that continue it, give a ledger with the same tree, the same receipts and
// the same answers, which goes on.
func TestDUR03_BackupWhileRunning(t *testing.T) {
	l := newLedger(t)
	l.fill("early", 300)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					l.do("POST", "/v1/attempts", beginBody(fmt.Sprintf("w%d-%d", w, i), `{"n":1}`))
				}
			}
		})
	}
	whole, m := l.backup(backup.Point{}, "correct horse")
	more, m2 := l.backup(m.To, "")
	close(stop)
	writers.Wait()
	l.rotate()
	kept := l.want(http.StatusCreated, "POST", "/v1/attempts", patched(t, beginBody("body", `{"secret":"x"}`), "keepBody", true))
	last, m3 := l.backup(m2.To, "correct horse")
	if m2.From != m.To || m3.From != m2.To || m3.To.Size <= m.To.Size || !m.Secrets || m2.Secrets {
		t.Fatalf("%+v, %+v, %+v", m.To, m2.To, m3.To)
	}
	bundle := l.get("/v1/attempts/" + text(kept, "attemptId") + "/bundle")
	trust := l.trust()
	l.stop()

	dir := filepath.Join(t.TempDir(), "restored")
	quiet := slog.New(slog.DiscardHandler)
	r, err := backup.Restore(t.Context(), dir, []string{whole, more, last}, backup.Options{Passphrase: "correct horse", Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if r.Manifest.To != m3.To || len(r.Missing) > 0 || r.Checkpoint == "" {
		t.Errorf("restored %+v", r)
	}
	l = startLedger(t, dir)
	if got := uint64(l.streamLast()); got != m3.To.Size {
		t.Errorf("the restored ledger has %d events, the backup %d", got, m3.To.Size)
	}
	if diff := cmp.Diff(trust.EventKeys.Keys(), l.trust().EventKeys.Keys()); diff != "" {
		t.Error(diff)
	}
	l.verified(bundle)
	// What was recorded is known: a repeat is a repeat, its content a conflict.
	again := l.want(http.StatusOK, "POST", "/v1/attempts", patched(t, beginBody("body", `{"secret":"x"}`), "keepBody", true))
	if text(again, "eventId") != text(kept, "eventId") {
		t.Errorf("recorded again: %v", again)
	}
	if code, _ := l.do("POST", "/v1/attempts", beginBody("body", `{"secret":"y"}`)); code != http.StatusConflict {
		t.Errorf("other content: %d", code)
	}
	l.verified(l.get("/v1/attempts/" + text(l.begin("afterwards"), "attemptId") + "/bundle"))
}

func TestDUR05_ABackupHasNoKeysUnlessAsked(t *testing.T) {
	l := newLedger(t)
	l.begin("one")
	fresh := l.rotate()
	var secrets []string
	names, err := os.ReadDir(filepath.Join(l.Ready.Data, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if n.Name() != keyring.RegistryFile && n.Name() != keyring.SignerFile {
			line := strings.TrimSpace(readFile(t, filepath.Join(l.Ready.Data, "keys", n.Name())))
			if parts := strings.SplitN(line, "+", 5); parts[0] == "PRIVATE" {
				line = parts[4]
			}
			secrets = append(secrets, line)
		}
	}
	if len(secrets) != 4 {
		t.Fatalf("%d secrets", len(secrets))
	}
	for _, passphrase := range []string{"", "p"} {
		name, _ := l.backup(backup.Point{}, passphrase)
		b := readFile(t, name)
		for i, s := range secrets {
			if strings.Contains(b, s) {
				t.Errorf("passphrase %q: secret %d is in the backup", passphrase, i)
			}
		}
		if !strings.Contains(b, fresh) {
			t.Error("the registry is not in the backup: the test does not test")
		}
	}
	// Without the keys it is restored, says what is missing, and does not start.
	name, _ := l.backup(backup.Point{}, "")
	dir := filepath.Join(t.TempDir(), "restored")
	r, err := backup.Restore(t.Context(), dir, []string{name}, backup.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil || len(r.Missing) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
}
