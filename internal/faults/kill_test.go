package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"counterfoil/internal/testkit/fsck"
)

func rounds(t *testing.T, short int) int {
	if v := os.Getenv("COUNTERFOIL_KILLS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return short
}

// TestINV2_DUR01_KillAtAnyMoment kills the ledger at random moments under load
// and finds every acknowledged event again at its index after every restart.
func TestINV2_DUR01_KillAtAnyMoment(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	got := &acks{all: map[string]receipt{}}
	n := rounds(t, 50)
	for round := range n {
		p := start(t, dir)
		var wg sync.WaitGroup
		for w := range 24 {
			wg.Go(func() {
				for i := 0; ; i++ {
					b, ok := p.send("/v1/attempts", beginBody(fmt.Sprintf("r%d-w%d-%d", round, w, i)))
					if !ok {
						return
					}
					got.add(b)
					o, ok := p.send("/v1/attempts/"+b.AttemptID+"/events", outcomeBody(b.AttemptID, "succeeded"))
					if !ok {
						return
					}
					got.add(o)
				}
			})
		}
		time.AfterFunc(time.Duration(rng.IntN(400))*time.Millisecond, func() { p.kill(syscall.SIGKILL) })
		wg.Wait()
		p.kill(syscall.SIGKILL)
	}
	p := start(t, dir)
	got.check(t, p)
	st := p.settled()
	t.Logf("%d kills, %d events acknowledged, log of %d leaves", n, len(got.all), st.LogSize)
	if len(got.all) == 0 {
		t.Error("nothing was acknowledged: the test proves nothing")
	}
	vkey := trustVKey(t, p)
	p.stop()
	fsck.Check(t, filepath.Join(dir, "log"), st.Origin, vkey)
	rebuildEqual(t, dir)
}

// trustVKey reads the log's verifier key from the exported trust file.
func trustVKey(t *testing.T, p *process) string {
	t.Helper()
	code, b, err := p.call(http.MethodGet, "/v1/trust", nil)
	var f struct {
		Log struct {
			VKey string `json:"vkey"`
		} `json:"log"`
	}
	if err != nil || code != http.StatusOK || json.Unmarshal(b, &f) != nil {
		t.Fatalf("trust: %d %s %v", code, b, err)
	}
	return f.Log.VKey
}

// TestCaseGracefulStop_ThousandInFlight stops the ledger with a thousand calls
// in flight: each is answered, or was not recorded as far as its caller knows,
// and none that was acknowledged is lost.
func TestCaseGracefulStop_ThousandInFlight(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	got := &acks{all: map[string]receipt{}}
	p := start(t, dir)
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			if r, ok := p.send("/v1/attempts", beginBody(fmt.Sprintf("g-%d", i))); ok {
				got.add(r)
			}
		})
	}
	time.AfterFunc(60*time.Millisecond, p.stop)
	wg.Wait()
	<-p.ended
	q := start(t, dir)
	got.check(t, q)
	t.Logf("%d of 1000 acknowledged", len(got.all))
	q.stop()
}

// TestCaseSameIDAgain_AfterRestart sends one begin many times, before and after
// a restart and from twenty clients at once: one leaf.
func TestCaseSameIDAgain_AfterRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var first receipt
	for round := range 3 {
		p := start(t, dir)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				r, ok := p.send("/v1/attempts", beginBody("the same"))
				if !ok {
					t.Errorf("round %d: status %d", round, r.Status)
				}
			})
		}
		wg.Wait()
		r, ok := p.send("/v1/attempts", beginBody("the same"))
		if !ok || r.Status != http.StatusOK {
			t.Errorf("round %d: status %d, want 200", round, r.Status)
		}
		r.Status = 0
		r.Stage = ""
		if round == 0 {
			first = r
		} else if r != first {
			t.Errorf("round %d: %+v, want %+v", round, r, first)
		}
		if st := p.settled(); st.LogSize != 1 {
			t.Errorf("round %d: %d leaves, want 1", round, st.LogSize)
		}
		p.stop()
		if round == 1 {
			if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
				t.Fatal(err)
			}
		}
	}
}
