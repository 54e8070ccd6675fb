package app_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
)

// obj is a decoded JSON object.
type obj = map[string]any

// at returns the member at a dotted path, nil if there is none.
func at(o any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		m, ok := o.(obj)
		if !ok {
			return nil
		}
		o = m[name]
	}
	return o
}

// text is at for members that are text; "" if there is none.
func text(o any, path string) string {
	s, _ := at(o, path).(string)
	return s
}

func newLedger(t testing.TB) *ledger {
	t.Helper()
	return startLedger(t, filepath.Join(t.TempDir(), "data"))
}

// want calls the API and demands a status.
func (l *ledger) want(status int, method, path string, body []byte) obj {
	l.t.Helper()
	code, out := l.do(method, path, body)
	if code != status {
		l.t.Fatalf("%s %s %.300s: %d %v, want %d", method, path, body, code, out, status)
	}
	return out
}

// answer reads the whole answer to a request.
func (l *ledger) answer(do func(*http.Request) (*http.Response, error), req *http.Request) (int, http.Header, []byte) {
	l.t.Helper()
	res, err := do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return res.StatusCode, res.Header, b
}

// begin begins an attempt with an input and returns its receipt.
func (l *ledger) begin(invocation string) obj {
	l.t.Helper()
	return l.want(http.StatusCreated, "POST", "/v1/attempts", beginBody(invocation, `{"n":1}`))
}

// append adds an event; rest are the members beyond the common ones.
func (l *ledger) append(attempt, id, rest string) obj {
	l.t.Helper()
	return l.want(http.StatusCreated, "POST", "/v1/attempts/"+attempt+"/events", appendBody(attempt, id, rest))
}

// streamLast is the last sequence of the stream.
func (l *ledger) streamLast() float64 {
	l.t.Helper()
	return l.want(http.StatusOK, "GET", "/v1/status", nil)["streamLast"].(float64)
}

// get reads an answer that is not JSON, or of which the bytes count.
func (l *ledger) get(path string) []byte {
	l.t.Helper()
	code, b := l.raw("GET", path, nil, l.Token)
	if code != http.StatusOK {
		l.t.Fatalf("GET %s: %d %s", path, code, b)
	}
	return b
}

func (l *ledger) trust() *trust.File {
	l.t.Helper()
	f, err := trust.Parse(bytes.TrimSuffix(l.get("/v1/trust"), []byte("\n")))
	if err != nil {
		l.t.Fatal(err)
	}
	return f
}

// verified demands that a bundle verifies under the ledger's trust file.
func (l *ledger) verified(bundle []byte) *receipt.Report {
	l.t.Helper()
	rep := receipt.Verify(bundle, l.trust(), receipt.Options{})
	if rep.ExitCode() != 0 {
		b, _ := rep.JSON()
		l.t.Fatalf("bundle does not verify: %s", b)
	}
	return rep
}

// patched is a JSON document with members set by dotted paths; nil removes one.
func patched(t testing.TB, doc []byte, changes ...any) []byte {
	t.Helper()
	var o obj
	if err := json.Unmarshal(doc, &o); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(changes); i += 2 {
		path := strings.Split(changes[i].(string), ".")
		m := o
		for _, p := range path[:len(path)-1] {
			sub, ok := m[p].(obj)
			if !ok {
				sub = obj{}
				m[p] = sub
			}
			m = sub
		}
		if last := path[len(path)-1]; changes[i+1] == nil {
			delete(m, last)
		} else {
			m[last] = changes[i+1]
		}
	}
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// raws keeps JSON as it is when patched in.
func raws(s string) json.RawMessage { return json.RawMessage(s) }

// refused demands an error with a code, a path and a hint.
func refused(t testing.TB, what string, status int, got obj, code string, wantStatus int, path string) {
	t.Helper()
	if status != wantStatus || text(got, "error.code") != code {
		t.Errorf("%s: %d %v, want %d %s", what, status, got, wantStatus, code)
		return
	}
	if p := text(got, "error.path"); p != path {
		t.Errorf("%s: path %q, want %q (%v)", what, p, path, got)
	}
	if text(got, "error.hint") == "" || text(got, "error.message") == "" {
		t.Errorf("%s: no hint or no message: %v", what, got)
	}
}

// find lists the files under dir that hold any of the needles.
func find(t testing.TB, dir string, needles ...string) (hits []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // files come and go while the ledger runs
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		for _, n := range needles {
			if bytes.Contains(b, []byte(n)) {
				hits = append(hits, fmt.Sprintf("%s holds %s", path, n))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

// settled reads a list that reflects all that is on the stream now.
func (l *ledger) settled(path string) obj {
	l.t.Helper()
	last := l.streamLast()
	for deadline := time.Now().Add(30 * time.Second); ; {
		out := l.want(http.StatusOK, "GET", path, nil)
		if out["treeSize"].(float64) >= last {
			return out
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("GET %s: tree size %v, the stream has %v", path, out["treeSize"], last)
		}
		runtime.Gosched()
	}
}

func decoded(t testing.TB, b []byte) (o obj) {
	t.Helper()
	if err := json.Unmarshal(b, &o); err != nil {
		// Batch answers are lines; their first stands for them.
		if line, _, ok := bytes.Cut(b, []byte("\n")); !ok || json.Unmarshal(line, &o) != nil {
			t.Fatalf("%.300s: %v", b, err)
		}
	}
	return o
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// startable fills in what every configuration needs.
func startable(c *app.Config) {
	c.Logger, c.Random, c.Now = slog.New(slog.DiscardHandler), rand.Reader, time.Now
}

func jsonLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewJSONHandler(w, nil)) }
