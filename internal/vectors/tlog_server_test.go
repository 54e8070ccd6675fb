package vectors

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
	"counterfoil/witness/server"
	"counterfoil/witness/state"
)

// liveWitness is a witness over HTTP with its state on the disk.
type liveWitness struct {
	doc   *witnessDoc
	url   string
	store *state.Store
	after atomic.Int64 // seconds after the vectors' time
	kept  int          // equivocation documents that it should have
}

func startWitness(t *testing.T, doc *witnessDoc, qpd uint64) *liveWitness {
	t.Helper()
	dir := t.TempDir()
	k, err := trust.ParseVerifierKey(doc.Witness.VKey)
	if err != nil {
		t.Fatal(err)
	}
	secret := base64.StdEncoding.EncodeToString(append([]byte{4}, unhex(t, doc.Witness.Seed)...))
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, fmt.Appendf(nil, "PRIVATE+KEY+%s+%08x+%s\n", k.Name, k.ID, secret), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := server.LoadKey(file)
	if err != nil {
		t.Fatal(err)
	}
	w := &liveWitness{doc: doc}
	if w.store, err = state.Open(state.Config{Dir: filepath.Join(dir, "state"), Witness: key.Verifier()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	var list []byte
	list = append(list, "logs/v0\n"...)
	for _, l := range doc.Logs {
		vkey := doc.Parts.text(t, l.VKey)
		list = fmt.Appendf(list, "vkey %s\n", vkey)
		if name, _, _ := strings.Cut(vkey, "+"); name != l.Origin {
			list = fmt.Appendf(list, "origin %s\n", l.Origin)
		}
		list = fmt.Appendf(list, "qpd %d\ncontact nobody\n", qpd)
	}
	logs, err := state.ParseLogList(list)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Import(logs); err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(server.New(server.Config{Store: w.store, Key: key, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Unix(doc.Witness.Time+w.after.Load(), 0) }}))
	t.Cleanup(hs.Close)
	w.url = hs.URL
	return w
}

func (w *liveWitness) do(t *testing.T, method, path string, body []byte) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// latest is what the witness shows of a log, "" for nothing.
func (w *liveWitness) latest(t *testing.T, origin string) string {
	t.Helper()
	resp, body := w.do(t, "GET", "/"+state.OriginHash(origin)+"/checkpoint", nil)
	switch resp.StatusCode {
	case 200:
		return body
	case 404:
		return ""
	}
	t.Fatalf("latest checkpoint: %s", resp.Status)
	return ""
}

// put sends a request and compares the answer, and what the witness shows and
// has kept afterwards.
func (w *liveWitness) put(t *testing.T, c fmt.Stringer, want witnessAnswer, retry string) {
	t.Helper()
	body := w.doc.Parts.join(t, want.Body)
	before := map[string]string{}
	for _, l := range w.doc.Logs {
		before[l.Origin] = w.latest(t, l.Origin)
	}
	resp, got := w.do(t, "POST", "/add-checkpoint", body)
	kind := resp.Header.Get("Content-Type")
	if resp.StatusCode != want.Status || resp.Header.Get("Retry-After") != retry {
		t.Errorf("%s: %s, Retry-After %q (%q); want %d, %q", c, resp.Status, resp.Header.Get("Retry-After"), got, want.Status, retry)
		return
	}
	if want.ContentType != "" && (kind != want.ContentType || got != want.Answer) || want.ContentType == "" && strings.Contains(kind, server.SizeType) {
		t.Errorf("%s: %q of type %q; want %q of type %q", c, got, kind, want.Answer, want.ContentType)
	}
	if want.Status == 200 {
		if got != want.Line {
			t.Errorf("%s: answered\n%swant\n%s", c, got, want.Line)
		}
		r, err := rule.ParseRequest(body)
		if err != nil {
			t.Fatal(err)
		}
		origin := r.Checkpoint.Origin
		after := w.latest(t, origin)
		if !strings.HasPrefix(after, r.Note.Text+"\n") || !strings.HasSuffix(after, got) {
			t.Errorf("%s: shows afterwards\n%s", c, after)
		}
		before[origin] = after
	}
	for origin, note := range before {
		if after := w.latest(t, origin); after != note {
			t.Errorf("%s: the checkpoint of %s changed to\n%s", c, origin, after)
		}
	}
	if want.Evidence != "" {
		w.kept++
	}
	if n := w.store.EvidenceCount(); n != w.kept {
		t.Errorf("%s: %d documents kept, want %d", c, n, w.kept)
	}
}

func TestLOG08_LOG10_WitnessServerVectors(t *testing.T) {
	doc := loadWitness(t)
	var w *liveWitness
	at := "" // its state; "" if it must not be used again
	for _, c := range doc.Cases {
		if at != c.State {
			w = startWitness(t, doc, 1000)
			if s := doc.States[c.State]; s.Request != nil {
				if resp, body := w.do(t, "POST", "/add-checkpoint", doc.Parts.join(t, s.Request)); resp.StatusCode != 200 {
					t.Fatalf("state %q: %s: %s", c.State, resp.Status, body)
				}
				if l, ok := w.store.Latest(s.Origin); !ok || l.Checkpoint.Size != s.Size || l.Checkpoint.Root != hash32(t, s.Root) {
					t.Fatalf("state %q is %+v", c.State, l.Checkpoint)
				}
			}
		}
		w.put(t, c, c.witnessAnswer, "")
		// A refusal leaves the state as it was, so the next case may have it.
		if at = c.State; c.Status == 200 || c.Evidence != "" {
			at = ""
		}
	}
}

func TestLOG09_WitnessServerSequenceVectors(t *testing.T) {
	doc := loadWitness(t)
	for _, c := range doc.Sequences {
		w := startWitness(t, doc, c.QPD)
		for i, step := range c.Steps {
			w.after.Store(step.After)
			w.put(t, stepOf{c.caseRule, i + 1}, step.witnessAnswer, step.Retry)
		}
	}
}

type stepOf struct {
	caseRule
	step int
}

func (s stepOf) String() string { return fmt.Sprintf("%s, step %d", s.caseRule, s.step) }
