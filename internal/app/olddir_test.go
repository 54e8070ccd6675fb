package app_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
)

// unpacked is a kept directory of a former program; see testdata/olddirs/make.sh.
func unpacked(t *testing.T, archive string) (dir, expected string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(root, "olddir", "data"), filepath.Join(root, "olddir", "expected")
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, h.FileInfo().Mode().Perm())
		} else {
			var b []byte
			if b, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(path, b, h.FileInfo().Mode().Perm())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func jsonFile(t *testing.T, path string) (o obj) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return o
}

// sameJSON demands equal documents, whatever the order of members.
func sameJSON(t *testing.T, what string, got, want any) {
	t.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g, w) {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// What a program of before wrote is read, verified, gone on with and rebuilt by
// today's.
func TestDUR03_LOG05_ADirectoryOfBefore(t *testing.T) {
	archives, err := filepath.Glob("../../testdata/olddirs/*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no old directory: %v", err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
			dir, expected := unpacked(t, archive)
			about, list := jsonFile(t, filepath.Join(expected, "about.json")), jsonFile(t, filepath.Join(expected, "attempts.json"))
			bundle, err := os.ReadFile(filepath.Join(expected, "all.bundle.json"))
			if err != nil {
				t.Fatal(err)
			}
			l := startLedger(t, dir)

			// Every receipt that was given out verifies, by the trust file of then and
			// by today's.
			oldTrust, err := os.ReadFile(filepath.Join(expected, "trust.json"))
			if err != nil {
				t.Fatal(err)
			}
			then, err := trust.Parse(bytes.TrimSuffix(oldTrust, []byte("\n")))
			if err != nil {
				t.Fatal(err)
			}
			if rep := receipt.Verify(bundle, then, receipt.Options{}); rep.ExitCode() != 0 {
				t.Errorf("the bundle of then: %+v", rep)
			}
			l.verified(bundle)

			// The views say what they said, and every attempt has its receipts.
			attempts := list["attempts"].([]any)
			now := l.settled("/v1/attempts?limit=256")
			sameJSON(t, "the attempts", now["attempts"], attempts)
			for _, a := range attempts {
				id := text(a, "attemptId")
				was, is := jsonFile(t, filepath.Join(expected, "receipts", id+".json")), l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil)
				if text(was, "state") != text(is, "state") {
					t.Errorf("%s: state %v, was %v", id, is["state"], was["state"])
				}
				before, after := was["receipts"].([]any), is["receipts"].([]any)
				if len(before) != len(after) {
					t.Errorf("%s: %d receipts, were %d", id, len(after), len(before))
					continue
				}
				for i := range before {
					for _, member := range []string{"eventId", "leafIndex", "record", "commitments"} {
						sameJSON(t, id+" "+member, at(after[i], member), at(before[i], member))
					}
				}
				l.verified(l.get("/v1/attempts/" + id + "/bundle"))
			}

			// The same event of then is the same event; what was erased is gone, what
			// was redacted keeps its key, a hold holds.
			again := patched(t, beginBody("call-9", `{"n":"call-9","to":"kim@example.org"}`), "source.runtimeId", "old-runtime", "source.agentId", "agent:old",
				"source.implementation", "old/1", "traceId", "trace-call-9", "subject", raws(`{"kind":"tool_action","id":"inv-9"}`),
				"action", raws(`{"name":"send_invoice","effectKind":"org.example/invoice","effectMode":"one_time"}`), "expectedEffect", raws(`{"invoice":"inv-9"}`))
			if rc := l.want(http.StatusOK, "POST", "/v1/attempts", again); text(rc, "attemptId") != text(about, "after") {
				t.Errorf("sent again: %v, was %v", rc["attemptId"], about["after"])
			}
			if code, out := l.do("POST", "/v1/attempts/"+text(about, "erased")+"/events", appendBody(text(about, "erased"), "more", `"lifecycle":"outcome","status":"failed"`)); code != http.StatusGone {
				t.Errorf("an erased attempt takes an event: %d %v", code, out)
			}
			if code, out := l.do("POST", "/v1/erasures", []byte(`{"attempts":["`+text(about, "held")+`"],"confirm":true}`)); text(out, "error.reason") != "legal_hold" {
				t.Errorf("a held attempt: %d %v", code, out)
			}

			// It goes on, also with what was open then.
			l.append(text(about, "unknown"), "later", `"lifecycle":"reconciliation","readback":{"source":"billing-db","observed":"absent"}`)
			l.append(text(about, "open"), "later", `"lifecycle":"outcome","status":"succeeded"`)
			fresh := l.begin("fresh")
			l.want(http.StatusOK, "POST", "/v1/attempts?wait=published", beginBody("fresh", `{"n":1}`))
			l.verified(l.get("/v1/bundle?attempt=" + text(about, "unknown") + "&attempt=" + text(fresh, "attemptId")))
			before := l.settled("/v1/attempts?limit=256")
			l.stop()

			// Rebuilt from the log alone the views are the same, whenever it is done.
			cfg := app.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler), Random: rand.Reader, Now: time.Now}
			first, err := app.Rebuild(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			for _, derived := range []string{"views", "index"} {
				if err := os.RemoveAll(filepath.Join(dir, derived)); err != nil {
					t.Fatal(err)
				}
			}
			second, err := app.Rebuild(t.Context(), cfg)
			if err != nil || *first != *second {
				t.Errorf("rebuilt: %+v and %+v, %v", first, second, err)
			}
			l = startLedger(t, dir)
			sameJSON(t, "the attempts after a rebuild", l.settled("/v1/attempts?limit=256")["attempts"], before["attempts"])
			l.append(text(fresh, "attemptId"), "o", `"lifecycle":"outcome","status":"succeeded"`)
		})
	}
}

// A directory of a newer program is left as it is, and the message names both.
func TestADirectoryOfANewerProgramIsRefused(t *testing.T) {
	dir, _ := unpacked(t, "../../testdata/olddirs/format-1.tar.gz")
	name := filepath.Join(dir, "ledger.json")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(b, []byte(`"formatVersion": 1`), []byte(`"future": {}, "formatVersion": 99`), 1)
	if err := os.WriteFile(name, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = app.Start(t.Context(), app.Config{Dir: dir, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Random: rand.Reader, Now: time.Now})
	if err == nil || !strings.Contains(err.Error(), "data format 99") || !strings.Contains(err.Error(), "hint: use the program version that wrote it") {
		t.Errorf("started: %v", err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, newer) {
		t.Errorf("the file changed: %v %s", err, got)
	}
}
