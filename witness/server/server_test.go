package server

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
	"counterfoil/witness/state"
)

func TestLOG08_AnswersOfAddCheckpoint(t *testing.T) {
	l, fork := newLog(t, origin, 40, 40, ""), newLog(t, origin, 40, 5, "other ")
	stranger := newLog(t, "stranger.example", 40, 40, "")
	w := newWitness(t, 1000, l)
	first := l.grow(t, 0, 10)
	broken := strings.Replace(l.grow(t, 10, 20), "— example.com/log ", "— example.com/log A", 1)
	broken = broken[:len(broken)-2] + "\n" // still base64 of the right length, of another signature
	for _, test := range []struct {
		name, body  string
		status      int
		contentType string
		answer      string // "" for a cosignature or any words
		size        uint64 // latest afterwards
	}{
		{"not a request", "old 0\nx", 400, "", "", 0},
		{"proof from 0", l.request(t, 0, 3, 10), 422, "", "", 0},
		{"old without a state", l.grow(t, 5, 10), 409, SizeType, "0\n", 0},
		{"first", first, 200, "", "", 10},
		{"first again", first, 409, SizeType, "10\n", 10},
		{"the same size", l.grow(t, 10, 10), 200, "", "", 10},
		{"unknown origin", stranger.grow(t, 0, 10), 404, "", "", 10},
		{"old above size", l.grow(t, 10, 5), 400, "", "", 10},
		{"fork at the same size", fork.grow(t, 10, 10), 422, "", "", 10},
		{"fork that grows", fork.grow(t, 10, 20), 422, "", "", 10},
		{"shrunk tree", l.grow(t, 3, 5), 409, SizeType, "10\n", 10},
		{"wrong proof", l.request(t, 10, 9, 20), 422, "", "", 10},
		{"no proof", l.request(t, 10, 0, 20), 422, "", "", 10},
		{"signature", broken, 403, "", "", 10},
		{"grows", l.grow(t, 10, 20), 200, "", "", 20},
		{"goes on after refusals", l.grow(t, 20, 40), 200, "", "", 40},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := w.post(t, test.body)
			if got.status != test.status {
				t.Fatalf("status %d, want %d: %s", got.status, test.status, got.body)
			}
			if test.contentType != "" && got.header.Get("Content-Type") != test.contentType {
				t.Errorf("content type %q", got.header.Get("Content-Type"))
			}
			if test.contentType == "" && got.header.Get("Content-Type") == SizeType {
				t.Error("says that the body is a size")
			}
			if test.answer != "" && got.body != test.answer {
				t.Errorf("body %q, want %q", got.body, test.answer)
			}
			if got.status == 200 {
				if strings.Count(got.body, "\n") != 1 || !strings.HasPrefix(got.body, "— ") {
					t.Errorf("not one signature line: %q", got.body)
				}
				w.verify(t, l.checkpoint(t, test.size)+got.body, l)
			}
			if now, _ := w.store.Latest(origin); now.Checkpoint.Size != test.size || test.size > 0 && string(now.Checkpoint.Root[:]) != string(l.HashAt(test.size)) {
				t.Errorf("latest is %d, %x", now.Checkpoint.Size, now.Checkpoint.Root)
			}
		})
	}
}

func TestLOG10_Monitoring(t *testing.T) {
	l := newLog(t, origin, 20, 20, "")
	w := newWitness(t, 1000, l)
	path := fmt.Sprintf("/%x/checkpoint", sha256.Sum256([]byte(origin)))
	if got := w.get(t, path); got.status != 404 {
		t.Errorf("never cosigned: %d", got.status)
	}
	// A stranger's line is neither kept nor in the way.
	line := trust.NoteSignature{Name: "stranger.example", ID: 1, Sig: []byte("x")}.Append(nil)
	if got := w.post(t, l.grow(t, 0, 10)+string(line)); got.status != 200 {
		t.Fatal(got)
	}
	got := w.get(t, path)
	if got.status != 200 || got.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %v", got.status, got.header)
	}
	if at := w.verify(t, got.body, l); at.Unix() != 1_800_000_000 {
		t.Errorf("cosigned at %v", at)
	}
	for _, p := range []string{strings.ToUpper(path[:20]) + path[20:], "/00/checkpoint", path + "/", path + "x"} {
		if got := w.get(t, p); got.status != 404 {
			t.Errorf("%s: %d", p, got.status)
		}
	}
	if got := w.get(t, "/add-checkpoint"); got.status != http.StatusMethodNotAllowed {
		t.Errorf("GET add-checkpoint: %d", got.status)
	}
}

// TestLOG09_ParallelForks: two histories of one log race. Whatever wins, no size
// is ever signed with two roots.
func TestLOG09_ParallelForks(t *testing.T) {
	const most = 60
	honest, fork := newLog(t, origin, most, most, ""), newLog(t, origin, most, 0, "other ")
	w := newWitness(t, 1_000_000, honest)
	bodies := map[string][]string{}
	for name, l := range map[string]testLog{"honest": honest, "fork": fork} {
		for size := range uint64(most - 1) {
			bodies[name] = append(bodies[name], l.grow(t, size, size+1))
		}
	}
	var mu sync.Mutex
	signed := map[uint64]string{} // size → who
	var wg sync.WaitGroup
	for i := range 6 {
		name := []string{"honest", "fork"}[i%2]
		wg.Go(func() {
			for size, body := range bodies[name] {
				got := w.post(t, body)
				if got.status != 200 {
					continue
				}
				mu.Lock()
				if had, ok := signed[uint64(size)+1]; ok && had != name {
					t.Errorf("size %d was signed for both", size+1)
				}
				signed[uint64(size)+1] = name
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(signed) == 0 {
		t.Fatal("nothing was signed")
	}
	who := signed[1]
	for size, name := range signed {
		if name != who {
			t.Errorf("size %d is of %s, size 1 of %s", size, name, who)
		}
	}
}

func TestLOG08_AnInconsistentCheckpointIsKeptAsProof(t *testing.T) {
	l, fork := newLog(t, origin, 40, 40, ""), newLog(t, origin, 40, 5, "other ")
	w := newWitness(t, 1000, l)
	if got := w.post(t, l.grow(t, 0, 10)); got.status != 200 {
		t.Fatal(got)
	}
	for range 2 { // the second time adds nothing
		w.post(t, fork.grow(t, 10, 10))       // another root of the same size
		w.post(t, fork.grow(t, 3, 10))        // the same, behind a wrong old size
		w.post(t, fork.grow(t, 10, 20))       // another history, with its own proof
		w.post(t, l.request(t, 10, 9, 20))    // an honest checkpoint with a bad proof
		w.post(t, l.request(t, 10, 0, 20))    // and without one
		w.post(t, l.grow(t, 3, 5))            // an old checkpoint
		w.post(t, fork.grow(t, 10, 20)+"x\n") // not even a request
	}
	docs, err := state.ReadEvidence(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[rule.Kind]int{}
	for _, d := range docs {
		kinds[d.Doc.Kind]++
		if err := d.Doc.Verify([]trust.VerifierKey{l.key}); err != nil {
			t.Errorf("%s: %v", d.Doc.Kind, err)
		}
	}
	if len(docs) != 3 || kinds[rule.KindSameSize] != 1 || kinds[rule.KindRewritten] != 1 || kinds[rule.KindUnproven] != 1 {
		t.Errorf("kept %v", kinds)
	}
}

func TestLOG10_RequestsADay(t *testing.T) {
	l, other := newLog(t, origin, 40, 40, ""), newLog(t, "other.example", 40, 40, "")
	w := newWitness(t, 4, l, other)
	size := uint64(0)
	for range 4 {
		if got := w.post(t, l.grow(t, size, size+1)); got.status != 200 {
			t.Fatal(got)
		}
		size++
	}
	// What the log did not sign does not count against it.
	unsigned := strings.Replace(other.grow(t, 0, 1), "\nother.example\n", "\n"+origin+"\n", 1)
	if got := w.post(t, unsigned); got.status != 403 {
		t.Fatal(got)
	}
	got := w.post(t, l.grow(t, size, size+1))
	if got.status != 429 || got.header.Get("Retry-After") != "21600" {
		t.Fatalf("%d, Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
	if got := w.post(t, other.grow(t, 0, 1)); got.status != 200 {
		t.Errorf("another log: %v", got)
	}
	w.clock.move(6*time.Hour - time.Second)
	if got := w.post(t, l.grow(t, size, size+1)); got.status != 429 || got.header.Get("Retry-After") != "1" {
		t.Errorf("a second early: %d, Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
	w.clock.move(time.Second)
	if got := w.post(t, l.grow(t, size, size+1)); got.status != 200 {
		t.Errorf("after Retry-After: %v", got)
	}
	w.clock.move(-time.Hour)
	if got := w.post(t, l.grow(t, size+1, size+2)); got.status != 429 {
		t.Errorf("a clock that goes back gives requests: %v", got)
	}
}

func TestLOG08_TimeNeverGoesBack(t *testing.T) {
	l := newLog(t, origin, 40, 40, "")
	w := newWitness(t, 1000, l)
	for i, step := range []time.Duration{0, -time.Hour, 2 * time.Hour} {
		w.clock.move(step)
		got := w.post(t, l.grow(t, uint64(i), uint64(i)+1))
		if got.status != 200 {
			t.Fatal(got)
		}
		want := time.Unix(1_800_000_000, 0).Add(max(0, step-time.Hour))
		if at := w.verify(t, l.checkpoint(t, uint64(i)+1)+got.body, l); !at.Equal(want) {
			t.Errorf("signed at %v, want %v", at, want)
		}
	}
}

func TestLOG10_BodiesAreBounded(t *testing.T) {
	l := newLog(t, origin, 40, 40, "")
	w := newWitness(t, 1000, l)
	body := l.grow(t, 0, 10)
	for range 16 {
		body += string(trust.NoteSignature{Name: "pq.example", ID: 7, Sig: make([]byte, 6200)}.Append(nil))
	}
	if len(body) < 128<<10 {
		t.Fatalf("%d bytes try nothing", len(body))
	}
	if got := w.post(t, body); got.status != 200 {
		t.Errorf("16 large signatures: %d %s", got.status, got.body)
	}
	if got := w.post(t, strings.Repeat("a", rule.MaxRequestBytes+1)); got.status != 413 {
		t.Errorf("too large: %d", got.status)
	}
	if got := w.post(t, l.grow(t, 10, 10)+strings.Repeat("— x AAAAAAAA\n", 1000)); got.status != 400 {
		t.Errorf("1,000 signatures: %d", got.status)
	}
}

func TestLOG09_ReadinessNamesWhatIsWrong(t *testing.T) {
	l := newLog(t, origin, 40, 40, "")
	w := newWitness(t, 1000, l)
	ready := func() (bool, int) {
		t.Helper()
		got := w.get(t, "/readyz")
		var doc struct{ Ready bool }
		if err := json.Unmarshal([]byte(got.body), &doc); err != nil {
			t.Fatal(err)
		}
		return doc.Ready, got.status
	}
	if ok, status := ready(); !ok || status != 200 {
		t.Errorf("ready %v, %d", ok, status)
	}
	if got := w.get(t, "/healthz"); got.status != 200 {
		t.Errorf("healthz %d", got.status)
	}
	w.post(t, l.grow(t, 0, 10))
	w.post(t, l.grow(t, 0, 10))
	metrics := w.get(t, "/metrics").body
	for _, want := range []string{`total{status="200"} 1`, `total{status="409"} 1`, "witness_logs 1", "witness_ready 1"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %q in the metrics:\n%s", want, metrics)
		}
	}
	w.srv.Drain()
	if ok, status := ready(); ok || status != 503 {
		t.Errorf("while stopping: ready %v, %d", ok, status)
	}
	_ = w.store.Close()
	if got := w.post(t, l.grow(t, 10, 20)); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("closed state: %d", got.status)
	}
}
