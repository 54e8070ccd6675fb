package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/app"
	"counterfoil/internal/testkit/outkit"
)

// copyDir copies a data directory that no ledger runs on.
func copyDir(t testing.TB, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	// CopyFS gives no file less than 0666.
	err := filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Yesterday's copy of the ledger meets today's witness: it refuses to sign, shows
// both checkpoints, takes no events, and can be read. It stays so until an
// operator decides.
func TestYesterdaysCopySignsNothing(t *testing.T) {
	for name, grown := range map[string]int{"as it was": 40, "grown since": 70} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			a := newWitness(t, "witness.example/a", h.log)
			l := h.start(t, 1, a)
			l.grow(40)
			l.witnessed(40, a)
			l.stop()
			copyDir(t, h.dir, h.dir+".yesterday")
			l = h.start(t, 1, a)
			l.grow(60)
			today := l.witnessed(60, a)
			l.stop()

			copyDir(t, h.dir+".yesterday", h.dir)
			var logged outkit.Buffer
			policy := h.policy(t, 1, a)
			start := func() *ledger {
				return startLedger(t, h.dir, func(c *app.Config) { c.WitnessPolicy, c.Logger = policy, jsonLogger(&logged) })
			}
			if grown > 40 { // nobody could be asked when it started, and then not for a while
				a.misbehave(status(500))
				l = start()
				for i := range grown - 40 {
					l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody("other-"+string(rune('a'+i)), `2`))
				}
				a.misbehave(nil)
			} else {
				l = start()
			}
			until(func() bool { ok, _ := l.check("witnesses"); return !ok })
			ok, detail := l.check("witnesses")
			for _, want := range []string{`\n60\n`, `\n` + map[int]string{40: "40", 70: "70"}[grown] + `\n`, "stopped.json", "unwitnessed.md"} {
				if ok || !strings.Contains(detail, want) {
					t.Errorf("the check lacks %q: %s", want, detail)
				}
			}
			_, before := l.public()
			if before.Size != uint64(grown) {
				t.Errorf("it signed size %d", before.Size)
			}
			code, out := l.do("POST", "/v1/attempts", beginBody("new", `1`))
			if code != http.StatusServiceUnavailable || text(out, "error.reason") != "log_set_back" {
				t.Errorf("begin: %d %v", code, out)
			}
			if code, _ := l.raw("GET", "/healthz", nil, ""); code != http.StatusOK {
				t.Errorf("healthz: %d", code)
			}
			list := l.settled("/v1/attempts?limit=1")["attempts"].([]any)
			l.get("/v1/attempts/" + text(list[0], "attemptId") + "/bundle")
			l.get("/log/tile/0/000.p/40")
			if !strings.Contains(string(l.get("/metrics")), "counterfoil_signing_stopped 1") {
				t.Error("the metric is not set")
			}
			l.stop()
			if !strings.Contains(logged.String(), "log_") {
				t.Errorf("the log says nothing: %s", logged.String())
			}

			// A new start asks nobody to believe it.
			a.misbehave(status(500))
			l = start()
			if code, _ := l.do("POST", "/v1/attempts", beginBody("new", `1`)); code != http.StatusServiceUnavailable {
				t.Errorf("begin after a new start: %d", code)
			}
			if _, cp := l.public(); cp != before {
				t.Errorf("it signed %+v", cp)
			}
			l.stop()
			a.misbehave(nil)
			if got, _ := a.store.Latest(h.log.Name); got.Checkpoint.Size != 60 || !strings.Contains(got.Note, today.Text) {
				t.Errorf("the witness has %+v", got)
			}
		})
	}
}

// The same copy beside the whole stream becomes the same log again, and goes on.
func TestYesterdaysLogBesideTodaysStream(t *testing.T) {
	h := newHome(t)
	a := newWitness(t, "witness.example/a", h.log)
	l := h.start(t, 1, a)
	l.grow(40)
	l.witnessed(40, a)
	l.stop()
	copyDir(t, h.dir, h.dir+".yesterday")
	l = h.start(t, 1, a)
	l.grow(60)
	l.witnessed(60, a)
	l.stop()
	for _, part := range []string{"log", "guard", "witness"} {
		copyDir(t, filepath.Join(h.dir+".yesterday", part), filepath.Join(h.dir, part))
	}
	l = h.start(t, 1, a)
	l.grow(65)
	l.witnessed(65, a)
	if files, _ := filepath.Glob(filepath.Join(h.dir, "witness", "incidents", "*")); len(files) != 0 {
		t.Errorf("incidents: %v", files)
	}
	if ok, detail := l.check("witness " + a.name); !ok {
		t.Error(detail)
	}
}

// A witness that only says that it has seen more stops nothing: the ledger is
// unready, for somebody to look, and takes, signs and shows events.
func TestLyingWitnessDoesNotStopTheLedger(t *testing.T) {
	h := newHome(t)
	a, b := newWitness(t, "witness.example/a", h.log), newWitness(t, "witness.example/b", h.log)
	a.misbehave(func(w http.ResponseWriter, r *http.Request, honest http.Handler) {
		if r.Method != http.MethodPost {
			honest.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/x.tlog.size")
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte("1000000\n"))
	})
	l := h.start(t, 1, a, b)
	r := l.want(http.StatusCreated, "POST", "/v1/attempts?wait=witnessed", beginBody("inv", `1`))
	until(func() bool { ok, _ := l.check("witness " + a.name); return !ok })
	if _, detail := l.check("witness " + a.name); !strings.Contains(detail, "ahead") || !strings.Contains(detail, "unproven") {
		t.Error(detail)
	}
	if ok, detail := l.check("witnesses"); !ok {
		t.Error(detail)
	}
	id := text(r, "attemptId")
	l.want(http.StatusCreated, "POST", "/v1/attempts/"+id+"/events?wait=witnessed", appendBody(id, "o", `"lifecycle":"outcome","status":"unknown"`))
	l.verified(l.get("/v1/attempts/" + id + "/bundle"))
	files, _ := filepath.Glob(filepath.Join(h.dir, "witness", "incidents", "*.json"))
	if len(files) != 1 {
		t.Errorf("incidents: %v", files)
	}
	if !strings.Contains(string(l.get("/metrics")), `counterfoil_witness_incident_open{witness="witness.example/a"} 1`) {
		t.Error("the metric is not set")
	}
}
