package app_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/app"
	"counterfoil/ledger/receipt"
)

// From the event to the receipt that says witnessed, over every way in, and to
// the offline verifier.
func TestLOG07_LOG11_CLM05_WaitForWitnesses(t *testing.T) {
	h := newHome(t)
	a, b := newWitness(t, "witness.example/a", h.log), newWitness(t, "witness.example/b", h.log)
	l := h.start(t, 2, a, b)
	r := l.want(http.StatusCreated, "POST", "/v1/attempts?wait=witnessed", beginBody("inv", `1`))
	id := text(r, "attemptId")
	demand := func(r obj) {
		t.Helper()
		if text(r, "stage") != "witnessed" || at(r, "witnesses.have") != 2.0 || at(r, "witnesses.need") != 2.0 || text(r, "checkpoint") == "" {
			t.Errorf("%v", r)
		}
	}
	demand(r)
	demand(l.want(http.StatusCreated, "POST", "/v1/attempts/"+id+"/events?wait=witnessed", appendBody(id, "o", `"lifecycle":"outcome","status":"unknown"`)))
	code, out := l.raw("POST", "/v1/events:batch?wait=witnessed", append(append([]byte(`{"begin":`), beginBody("inv2", "2")...), "}\n"...), l.Token)
	if line := decoded(t, out); code != http.StatusOK || at(line, "status") != 201.0 {
		t.Errorf("%d %s", code, out)
	} else {
		demand(at(line, "receipt").(obj))
	}
	demand(l.want(http.StatusOK, "GET", "/v1/receipts/"+text(r, "eventId"), nil))
	if got := l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil); text(got, "stage") != "witnessed" {
		t.Errorf("%v", got)
	}
	for _, x := range l.settled2("/v1/receipts") {
		if text(x, "stage") != "witnessed" {
			t.Errorf("in the list: %v", x)
		}
	}
	rep, err := l.verified(l.get("/v1/attempts/" + id + "/bundle")).JSON()
	if err != nil || !strings.Contains(string(rep), "not forked for these witnesses") {
		t.Errorf("%v %s", err, rep)
	}
	if n := l.witnessed(3, a, b); len(n.Signatures) != 3 || n.Signatures[0].Name != h.log.Name {
		t.Errorf("signatures: %v", n.Signatures)
	}
	if st := l.want(http.StatusOK, "GET", "/v1/status", nil); at(st, "witnessedSize") != 3.0 || at(st, "ready") != true {
		t.Errorf("%v", st)
	}
	// The trust file that the ledger serves asks for both.
	if f := l.trust(); f.Quorum != 2 || len(f.Witnesses) != 2 || f.Validate() != nil {
		t.Errorf("trust: %+v", f)
	}
}

// TestLOG07_PublishedOneOfTwo: a receipt never says more than is there, and
// catches up when the missing witness is back.
func TestLOG07_PublishedOneOfTwo(t *testing.T) {
	h := newHome(t)
	a, b := newWitness(t, "witness.example/a", h.log), newWitness(t, "witness.example/b", h.log)
	b.misbehave(status(http.StatusServiceUnavailable))
	l := h.start(t, 2, a, b)
	r := l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody("inv", `1`))
	path := "/v1/receipts/" + text(r, "eventId")
	l.witnessed(1, a)
	until(func() bool { return at(l.want(http.StatusOK, "GET", path, nil), "witnesses.have") == 1.0 })
	r = l.want(http.StatusOK, "GET", path, nil)
	if text(r, "stage") != "published" || at(r, "witnesses.need") != 2.0 {
		t.Errorf("%v", r)
	}
	bundle := l.get("/v1/attempts/" + text(r, "attemptId") + "/bundle")
	if rep := receipt.Verify(bundle, l.trust(), receipt.Options{}); rep.ExitCode() == 0 {
		t.Error("one of two is enough for the verifier")
	}
	// It is told, and no reason not to take events.
	if ok, detail := l.check("witnesses"); !ok || !strings.Contains(detail, "1 of 2") {
		t.Errorf("%v %q", ok, detail)
	}
	if ok, detail := l.check("witness " + b.name); !ok || !strings.Contains(detail, "503") || !strings.Contains(detail, "nothing yet") {
		t.Errorf("%v %q", ok, detail)
	}
	if ok, detail := l.check("witness " + a.name); !ok || !strings.Contains(detail, "cosigned size 1") {
		t.Errorf("%v %q", ok, detail)
	}
	metrics := string(l.get("/metrics"))
	for _, want := range []string{
		`counterfoil_witness_cosigned_size{witness="witness.example/a"} 1`, `counterfoil_witness_cosigned_size{witness="witness.example/b"} 0`,
		`counterfoil_witness_failures_total{class="5xx",witness="witness.example/b"}`, `counterfoil_witness_last_cosigned_seconds{witness="witness.example/b"} 0`,
		`counterfoil_witness_incidents{witness="witness.example/b"} 0`, "counterfoil_witnessed_size 0", "counterfoil_signing_stopped 0",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	b.misbehave(nil)
	l.witnessed(1, a, b)
	until(func() bool { return text(l.want(http.StatusOK, "GET", path, nil), "stage") == "witnessed" })
	l.verified(l.get("/v1/attempts/" + text(r, "attemptId") + "/bundle"))
}

// TestLOG10_BothReachSixty: A is at 40, B at 20, the log at 60, and nobody knows
// any more.
func TestLOG10_BothReachSixty(t *testing.T) {
	h := newHome(t)
	a, b := newWitness(t, "witness.example/a", h.log), newWitness(t, "witness.example/b", h.log)
	l := h.start(t, 2, a, b)
	origin := h.log.Name
	l.grow(20)
	l.witnessed(20, a, b)
	b.misbehave(status(500))
	l.grow(40)
	l.witnessed(40, a)
	a.misbehave(status(500))
	l.grow(60)
	l.stop()
	if a.size(origin) != 40 || b.size(origin) != 20 {
		t.Fatalf("A is at %d, B at %d", a.size(origin), b.size(origin))
	}
	if err := os.Remove(filepath.Join(h.dir, "witness", "cosigned.json")); err != nil {
		t.Fatal(err)
	}
	a.misbehave(nil)
	b.misbehave(nil)
	l = h.start(t, 2, a, b)
	l.witnessed(60, a, b)
	if a.size(origin) != 60 || b.size(origin) != 60 {
		t.Errorf("A is at %d, B at %d", a.size(origin), b.size(origin))
	}
}

// TestLOG16_LostCosignatureComesLater: the witness has signed and the answer was
// lost; it comes later, and after a new start too.
func TestLOG16_LostCosignatureComesLater(t *testing.T) {
	h := newHome(t)
	a := newWitness(t, "witness.example/a", h.log)
	a.misbehave(lose)
	l := h.start(t, 1, a)
	l.grow(5)
	until(func() bool { return a.size(h.log.Name) == 5 })
	l.stop()
	l = h.start(t, 1, a) // it is lost again
	if n, _ := l.public(); a.signed(n) {
		t.Error("the lost cosignature is there")
	}
	a.misbehave(nil)
	n := l.witnessed(5, a)
	l.stop()
	// Once it is there it stays, whatever becomes of the witness.
	a.misbehave(status(500))
	l = h.start(t, 1, a)
	again, cp := l.public()
	if !a.signed(again) || again.Text != n.Text || cp.Size != 5 {
		t.Errorf("after a new start: %+v", again)
	}
	if ok, detail := l.check("witnesses"); !ok || !strings.Contains(detail, "size 5 meets the quorum") {
		t.Errorf("%v %s", ok, detail)
	}
}

// TestLOG16_HangingWitnessDelaysNobody: one witness takes the request and does
// not answer; events are taken, logged, published and witnessed by the others.
func TestLOG16_HangingWitnessDelaysNobody(t *testing.T) {
	h := newHome(t)
	a, slow := newWitness(t, "witness.example/a", h.log), newWitness(t, "witness.example/slow", h.log)
	gate, hanging := make(chan struct{}), make(chan struct{}, 100)
	slow.misbehave(func(w http.ResponseWriter, r *http.Request, honest http.Handler) {
		hanging <- struct{}{}
		<-gate
		honest.ServeHTTP(w, r)
	})
	l := h.start(t, 1, a, slow)
	l.grow(1)
	<-hanging
	for i := range 20 {
		r := l.want(http.StatusCreated, "POST", "/v1/attempts?wait=witnessed", beginBody(fmt.Sprint("inv-", i), `1`))
		if text(r, "stage") != "witnessed" || at(r, "witnesses.have") != 1.0 {
			t.Fatalf("%v", r)
		}
	}
	if n := slow.asks.Load(); n != 1 {
		t.Errorf("%d requests at once", n)
	}
	close(gate)
	l.witnessed(21, a, slow)
}

// A stop does not wait for a witness that hangs.
func TestStopWithHangingWitness(t *testing.T) {
	h := newHome(t)
	a := newWitness(t, "witness.example/a", h.log)
	hanging := make(chan struct{}, 100)
	a.misbehave(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that the client goes
		hanging <- struct{}{}
		<-r.Context().Done()
	})
	l := h.start(t, 1, a)
	l.grow(1)
	<-hanging
	l.stop() // fails if a part does not end in time
}

// Eight witnesses answer 409 at once, each with another size, while the log
// grows: the proofs are made side by side from the tiles.
func TestLOG10_ConflictsOfManyWitnesses(t *testing.T) {
	h := newHome(t)
	l := startLedger(t, h.dir)
	var ws []*witness
	for i := range 8 {
		l.grow(37 * (i + 1))
		n, _ := l.public()
		w := newWitness(t, fmt.Sprint("witness.example/", i), h.log)
		res, err := http.Post(w.http.URL+"/add-checkpoint", "", strings.NewReader("old 0\n\n"+string(n.Append(nil))))
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", res, err)
		}
		res.Body.Close()
		ws = append(ws, w)
	}
	l.stop()
	l = h.start(t, 8, ws...)
	for i := range 5 {
		l.want(http.StatusCreated, "POST", "/v1/attempts?wait=witnessed", beginBody(fmt.Sprint("inv-", i), `1`))
	}
	l.witnessed(37*8+5, ws...)
	if b := l.get("/metrics"); strings.Contains(string(b), "counterfoil_witness_failures_total") {
		t.Error("there were failures")
	}
}

// A policy of another log, or one that cannot be read, stops the start; its
// errors name file and line.
func TestPolicyStopsTheStart(t *testing.T) {
	h := newHome(t)
	other := newHome(t)
	dir := t.TempDir()
	for name, c := range map[string]struct{ policy, want string }{
		"line":        {fmt.Sprintf("log %s\n# c\nwitness x\nquorum none\n", h.log), "policy line 3"},
		"no quorum":   {fmt.Sprintf("log %s\n", h.log), "no quorum"},
		"other log":   {fmt.Sprintf("log %s\nquorum none\n", other.log), h.log.String()},
		"empty":       {"", "no quorum"},
		"of no log":   {"quorum none\n", h.log.String()},
		"no line end": {fmt.Sprintf("log %s\nquorum none", h.log), "policy line 2"},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.WriteFile(path, []byte(c.policy), 0o600); err != nil {
			t.Fatal(err)
		}
		err := tryStart(t, h.dir, func(c *app.Config) { c.WitnessPolicy = path })
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := tryStart(t, h.dir, func(c *app.Config) { c.WitnessPolicy = filepath.Join(dir, "none") }); err == nil {
		t.Error("a policy that is not there")
	}
}

// Without a quorum of witnesses nothing is witnessed, and nobody can wait for it.
func TestLOG07_NobodyToWaitFor(t *testing.T) {
	h := newHome(t)
	a := newWitness(t, "witness.example/a", h.log)
	policy := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(policy, fmt.Appendf(nil, "log %s\nwitness a %s %s\nquorum none\n", h.log, a.key.Verifier(), a.http.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*app.Config){"no policy": func(*app.Config) {}, "quorum none": func(c *app.Config) { c.WitnessPolicy = policy }} {
		l := startLedger(t, h.dir, change)
		for _, path := range []string{"/v1/attempts", "/v1/events:batch"} {
			code, out := l.do("POST", path+"?wait=witnessed", append(append([]byte(`{"begin":`), beginBody("inv", "1")...), "}\n"...))
			refused(t, name+path, code, out, "invalid_request", http.StatusBadRequest, "")
		}
		r := l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody(name, `1`))
		if r["witnesses"] != nil || text(r, "stage") != "published" {
			t.Errorf("%s: %v", name, r)
		}
		if name == "quorum none" { // it is gathered all the same
			l.witnessed(uint64(l.streamLast()), a)
			if r := l.want(http.StatusOK, "GET", "/v1/receipts/"+text(r, "eventId"), nil); text(r, "stage") != "published" {
				t.Errorf("%v", r)
			}
		}
		if l.trust().Quorum != 0 {
			t.Errorf("%s: %+v", name, l.trust())
		}
		l.stop()
	}
}

// A quorum of groups is judged as it is, and the trust file says nothing of it.
func TestQuorumOfGroups(t *testing.T) {
	h := newHome(t)
	a, b, c := newWitness(t, "a", h.log), newWitness(t, "b", h.log), newWitness(t, "c", h.log)
	c.misbehave(status(500))
	path := filepath.Join(t.TempDir(), "policy")
	text := fmt.Sprintf("log %s\n", h.log)
	for _, w := range []*witness{a, b, c} {
		text += fmt.Sprintf("witness %s %s %s\n", w.name, w.key.Verifier(), w.http.URL)
	}
	if err := os.WriteFile(path, []byte(text+"group x any a b\ngroup g all x c\nquorum g\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := startLedger(t, h.dir, func(c *app.Config) { c.WitnessPolicy = path })
	r := l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody("inv", `1`))
	l.witnessed(1, a, b)
	r = l.want(http.StatusOK, "GET", "/v1/receipts/"+r["eventId"].(string), nil)
	if r["stage"] != "published" || at(r, "witnesses.have") != 2.0 || at(r, "witnesses.need") != 2.0 {
		t.Errorf("a and b are not what the quorum asks: %v", r)
	}
	c.misbehave(nil)
	r = l.want(http.StatusCreated, "POST", "/v1/attempts?wait=witnessed", beginBody("inv2", `1`))
	if r["stage"] != "witnessed" {
		t.Errorf("%v", r)
	}
	if f := l.trust(); len(f.Witnesses) != 0 || f.Quorum != 0 {
		t.Errorf("%+v", f)
	}
}
