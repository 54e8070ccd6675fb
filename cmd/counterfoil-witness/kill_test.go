package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"counterfoil/ledger/trust"
)

// TestLOG09_KillAtAnyMoment kills the witness again and again while two
// histories of one log are offered in parallel. Over all lives of the process,
// no size is signed with two roots, and the state never goes back behind what
// was answered.
func TestLOG09_KillAtAnyMoment(t *testing.T) {
	lives := 12
	if os.Getenv("COUNTERFOIL_LONG") == "1" {
		lives = 500
	}
	const leaves = 4000
	histories := []history{newHistory(t, "example.com/log", "honest ", leaves), newHistory(t, "example.com/log", "other ", leaves)}
	_, args := place(t, histories[0])
	var mu sync.Mutex
	roots := map[uint64][32]byte{} // that a valid signature was seen for
	acked := uint64(0)             // the largest of them
	for life := range lives {
		c, err := start(t, args...)
		if err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
		witness, err := trust.ParseVerifierKey(c.VKey)
		if err != nil {
			t.Fatal(err)
		}
		found := checkLatest(t, c.Listening, witness)
		if found.Size < acked {
			t.Fatalf("life %d: came back at size %d, had answered %d", life, found.Size, acked)
		}
		if root, ok := roots[found.Size]; ok && root != found.Root {
			t.Fatalf("life %d: came back with another root at size %d", life, found.Size)
		}
		left := make(chan struct{}, 1+rand.IntN(60)) // signatures until the end
		for range cap(left) {
			left <- struct{}{}
		}
		var wg sync.WaitGroup
		for i := range 4 {
			h := histories[i%2]
			wg.Go(func() {
				old := uint64(0)
				for step := uint64(1); ; step++ {
					size := min(old+1+step%3, leaves)
					body, err := h.request(old, size)
					if err != nil {
						t.Error(err)
						return
					}
					status, answer, err := post(c.Listening, body)
					if err != nil {
						return // killed
					}
					switch status {
					case 200:
						text := trust.Checkpoint{Origin: h.key.Name, Size: size, Root: [32]byte(h.HashAt(size))}.Text()
						n, err := trust.ParseNote([]byte(text + "\n" + answer))
						if err != nil {
							t.Error(err)
							return
						}
						if v, err := n.VerifyBy(witness); err != nil || v.Lines != 1 {
							t.Errorf("%d lines, %v", v.Lines, err)
							return
						}
						mu.Lock()
						root := [32]byte(h.HashAt(size))
						if had, ok := roots[size]; ok && had != root {
							t.Errorf("size %d was signed with two roots", size)
						}
						roots[size], acked = root, max(acked, size)
						mu.Unlock()
						old = size
						select {
						case <-left:
						default:
							_ = c.cmd.Process.Kill()
							return
						}
					case 409:
						if old, err = strconv.ParseUint(strings.TrimSuffix(answer, "\n"), 10, 64); err != nil {
							t.Error(err)
							return
						}
					case 422: // the other history won
						select {
						case <-left: // so that a life without progress ends too
						default:
							_ = c.cmd.Process.Kill()
							return
						}
					default:
						t.Errorf("status %d: %s", status, answer)
						return
					}
				}
			})
		}
		wg.Wait()
		c.kill()
		if t.Failed() {
			return
		}
	}
	if len(roots) < lives {
		t.Errorf("only %d sizes were signed", len(roots))
	}
}

// checkLatest fetches the latest checkpoint, which must carry the witness's
// signature; the zero Checkpoint if there is none.
func checkLatest(t *testing.T, url string, witness trust.VerifierKey) trust.Checkpoint {
	t.Helper()
	resp, err := http.Get(fmt.Sprintf("%s/%x/checkpoint", url, sha256.Sum256([]byte("example.com/log"))))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == http.StatusNotFound {
		return trust.Checkpoint{}
	}
	n, err := trust.ParseNote(b)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := n.VerifyBy(witness); err != nil || v.Lines != 1 {
		t.Fatalf("%d lines of the witness, %v", v.Lines, err)
	}
	c, err := trust.ParseCheckpoint(n.Text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLOG09_KilledBetweenStateAndReply: the new state is durable, the answer
// never arrives, and the process is gone. The next life knows the new size, and
// gives the log the cosignature that it lost.
func TestLOG09_KilledBetweenStateAndReply(t *testing.T) {
	h := newHistory(t, "example.com/log", "leaf ", 30)
	_, args := place(t, h)
	c, err := start(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	key, err := trust.ParseVerifierKey(c.VKey)
	if err != nil {
		t.Fatal(err)
	}
	body, err := h.request(0, 10)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.Listening, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST /add-checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); checkLatest(t, c.Listening, key).Size != 10; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the request was not decided within a minute")
		}
	}
	c.kill() // nothing was read from the connection
	if c, err = start(t, args...); err != nil {
		t.Fatal(err)
	}
	status, answer, err := post(c.Listening, body)
	if err != nil || status != http.StatusConflict || answer != "10\n" {
		t.Fatalf("%d %q, %v", status, answer, err)
	}
	old, err := strconv.ParseUint(strings.TrimSuffix(answer, "\n"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if body, err = h.request(old, 10); err != nil {
		t.Fatal(err)
	}
	if status, answer, err = post(c.Listening, body); err != nil || status != http.StatusOK || !strings.HasPrefix(answer, "— ") {
		t.Errorf("%d %q, %v", status, answer, err)
	}
}

func TestLOG09_StopAndStartAgain(t *testing.T) {
	h := newHistory(t, "example.com/log", "leaf ", 30)
	dir, args := place(t, h)
	c, err := start(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(old, size uint64) int {
		t.Helper()
		body, err := h.request(old, size)
		if err != nil {
			t.Fatal(err)
		}
		status, _, err := post(c.Listening, body)
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	if status := ask(0, 10); status != 200 {
		t.Fatal(status)
	}
	if _, err := start(t, args...); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second process: %v", err)
	}
	old, err := os.ReadFile(filepath.Join(dir, "state", "journal"))
	if err != nil {
		t.Fatal(err)
	}
	if status := ask(10, 20); status != 200 {
		t.Fatal(status)
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("told to stop: %v", err)
	}
	if c, err = start(t, args...); err != nil {
		t.Fatal(err)
	}
	if status := ask(20, 30); status != 200 {
		t.Errorf("after a restart: %d", status)
	}
	c.kill()
	if err := os.WriteFile(filepath.Join(dir, "state", "journal"), old, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, args...); err == nil || !strings.Contains(err.Error(), "set back to an older copy") || !strings.Contains(err.Error(), "hint: ") {
		t.Errorf("an older copy: %v", err)
	}
}

func TestLOG08_EvidenceTravels(t *testing.T) {
	h, other := newHistory(t, "example.com/log", "leaf ", 30), newHistory(t, "example.com/log", "other ", 30)
	dir, args := place(t, h)
	c, err := start(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range []history{h, other} {
		body, err := h.request(uint64(i)*10, 10)
		if err != nil {
			t.Fatal(err)
		}
		if status, _, err := post(c.Listening, body); err != nil || status != []int{200, 422}[i] {
			t.Fatalf("%d, %v", status, err)
		}
	}
	state, file := filepath.Join(dir, "state"), filepath.Join(dir, "fork.json")
	var out, talk strings.Builder
	if code := run(t.Context(), []string{"evidence", "list", "--state", state}, &out, &talk); code != 0 {
		t.Fatalf("list ended with %d: %s", code, &talk)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "same_size") {
		t.Fatalf("list:\n%s", &out)
	}
	id, _, _ := strings.Cut(lines[1], " ")
	for _, step := range []struct {
		args []string
		code int
	}{
		{[]string{"evidence", "export", id, "--state", state, "--out", file}, 0},
		{[]string{"evidence", "export", "ffffffffffffffff", "--state", state}, 1},
		{[]string{"evidence", "export", "f", "--state", state}, 2},
		{[]string{"evidence", "verify", file, "--log", h.key.String()}, 0},
		{[]string{"evidence", "verify", file, "--log", newHistory(t, "stranger.example", "", 0).key.String()}, 1},
		{[]string{"evidence", "verify", file, "--log", "x"}, 2},
		{[]string{"evidence", "verify", filepath.Join(dir, "logs"), "--log", h.key.String()}, 2},
		{[]string{"evidence", "verify", filepath.Join(dir, "none"), "--log", h.key.String()}, 2},
	} {
		talk.Reset()
		if code := run(t.Context(), step.args, io.Discard, &talk); code != step.code {
			t.Errorf("%v ended with %d, want %d: %s", step.args, code, step.code, &talk)
		}
	}
}
