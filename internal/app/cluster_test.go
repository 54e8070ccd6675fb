package app_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"counterfoil/ledger/keyring"
)

// TestThreeNodes: every node takes writes, keeps the same tree and views, and one of
// them signs. What one was told the others answer for.
func TestThreeNodes(t *testing.T) {
	ns := threeNodes(t)
	var attempts []string
	for i := range 12 {
		attempts = append(attempts, text(ns.all[i%3].begin(fmt.Sprint("call ", i)), "attemptId"))
	}
	ns.settled(12)

	// LOG-03: the same event again, on another node, is the same receipt.
	for i := range 12 {
		if got := text(ns.all[(i+1)%3].want(http.StatusOK, "POST", "/v1/attempts", beginBody(fmt.Sprint("call ", i), `{"n":1}`)), "attemptId"); got != attempts[i] {
			t.Errorf("call %d on another node is %s, was %s", i, got, attempts[i])
		}
	}
	// Other content under the same id is a conflict on every node: the key that
	// tells is in every vault.
	for _, l := range ns.all {
		if code, out := l.do("POST", "/v1/attempts", beginBody("call 0", `{"n":2}`)); code != http.StatusConflict {
			t.Errorf("other content: %d %v", code, out)
		}
	}
	// An attempt that one node began goes on at another.
	ns.all[1].append(attempts[0], "o-1", `"lifecycle":"outcome","status":"unknown"`)
	ns.all[2].append(attempts[0], "r-1", `"lifecycle":"reconciliation","readback":{"source":"db","observed":"absent"}`)
	ns.settled(14)
	for i, l := range ns.all {
		if st := text(l.want(http.StatusOK, "GET", "/v1/attempts/"+attempts[0], nil), "state"); st != "confirmed_absent" {
			t.Errorf("node %d: state %s", i+1, st)
		}
		l.verified(l.get("/v1/attempts/" + attempts[0] + "/bundle"))
	}
}

// TestTwoNodesOneWinner: the same attempt is begun on all nodes at once, with other
// content on each: one wins, the others are told so, and the log has one.
func TestTwoNodesOneWinner(t *testing.T) {
	ns := threeNodes(t)
	const rounds = 20
	for r := range rounds {
		codes := make([]int, 3)
		var racing sync.WaitGroup
		for i, l := range ns.all {
			racing.Go(func() {
				codes[i], _ = l.raw("POST", "/v1/attempts", beginBody(fmt.Sprint("race ", r), fmt.Sprintf(`{"n":%d}`, i)), l.Token)
			})
		}
		racing.Wait()
		won, lost := 0, 0
		for _, c := range codes {
			switch c {
			case http.StatusCreated:
				won++
			case http.StatusConflict:
				lost++
			}
		}
		if won != 1 || lost != 2 {
			t.Fatalf("round %d: %v", r, codes)
		}
	}
	ns.settled(rounds)
	if n := ns.all[0].streamLast(); n != rounds {
		t.Errorf("the stream has %v messages, want %d", n, rounds)
	}
}

// TestSignerGoes: the node that signs stops; another goes on from its checkpoint,
// and the first takes that back when it returns.
func TestSignerGoes(t *testing.T) {
	ns := threeNodes(t)
	ns.all[0].begin("before")
	ns.settled(1)
	s := ns.signer()
	ns.stop(s)
	next := ns.signer(s)
	for i, l := range ns.all {
		if l != nil {
			l.begin(fmt.Sprint("meanwhile ", i))
		}
	}
	ns.settled(3)
	ns.start(s)
	ns.settled(3)
	if got := ns.signer(); got != next {
		t.Errorf("node %d signs, want node %d as before", got+1, next+1)
	}
	ns.all[s].begin("after")
	ns.settled(4)
}

// TestNodeIsWiped: a node that lost everything but its keys gets all of it from the
// others, private values included.
func TestNodeIsWiped(t *testing.T) {
	ns := threeNodes(t)
	id := ns.all[0].kept("kept", `{"secret":"of the attempt"}`)
	for i := range 40 {
		ns.all[i%3].begin(fmt.Sprint("call ", i))
	}
	ns.settled(41)
	w := (ns.signer() + 1) % 3
	ns.stop(w)
	ns.wipe(w)
	ns.all[(w+1)%3].begin("meanwhile")
	ns.start(w)
	ns.settled(42)
	if code := ns.all[w].repeat("kept", `{"secret":"of the attempt"}`); code != http.StatusOK {
		t.Errorf("the same again on the node that came back: %d", code)
	}
	if code := ns.all[w].repeat("kept", `{"secret":"another"}`); code != http.StatusConflict {
		t.Errorf("another content on the node that came back: %d", code)
	}
	ns.all[w].verified(ns.all[w].get("/v1/attempts/" + id + "/bundle"))
}

// TestAllNodesStop: all nodes stop and start again, and nothing is missing.
func TestAllNodesStop(t *testing.T) {
	ns := threeNodes(t)
	for i := range 9 {
		ns.all[i%3].begin(fmt.Sprint("call ", i))
	}
	ns.settled(9)
	for i := range ns.all {
		ns.stop(i)
	}
	ns.start(0, 1, 2)
	ns.settled(9)
	for i, l := range ns.all {
		l.begin(fmt.Sprint("again ", i))
	}
	ns.settled(12)
}

// TestErasureOnAllNodes: what is erased through one node is gone on all, and only
// the node that signs takes it.
func TestErasureOnAllNodes(t *testing.T) {
	ns := threeNodes(t)
	id := ns.all[0].kept("kept", `{"secret":"of the attempt"}`)
	ns.settled(1)
	s := ns.signer()
	other := (s + 1) % 3
	code, out := ns.all[other].do("POST", "/v1/erasures", encoded(t, obj{"attempts": []string{id}, "state": "purged", "confirm": true}))
	if code != http.StatusServiceUnavailable || text(out, "error.reason") != "not_signer" {
		t.Errorf("an erasure on another node: %d %v", code, out)
	}
	ns.all[s].erase("purged", id)
	for i, l := range ns.all {
		if code := l.repeat("kept", `{"secret":"of the attempt"}`); code != http.StatusGone {
			t.Errorf("node %d: the same again: %d", i+1, code)
		}
	}
}

// TestKeysOfAllNodes: a key that is registered or retired through the node that
// signs is known to all.
func TestKeysOfAllNodes(t *testing.T) {
	ns := threeNodes(t)
	ns.all[0].begin("before")
	ns.settled(1)
	s := ns.signer()
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := keyring.KeyID(pub)
	ns.all[s].want(http.StatusOK, "POST", "/v1/keys", encoded(t, obj{"keyId": id, "publicKey": base64.StdEncoding.EncodeToString(pub)}))
	for _, l := range ns.all {
		until(func() bool { return keyStatus(l, id) == "active" })
	}
	ns.all[s].want(http.StatusOK, "POST", "/v1/keys/"+id+"/status", encoded(t, obj{"status": "retired"}))
	for _, l := range ns.all {
		until(func() bool { return keyStatus(l, id) == "retired" })
	}
	// The key's end lies before the notice of it and behind all that it signed: no node
	// has anything to judge anew, and none ends.
	for i, l := range ns.all {
		l.begin(fmt.Sprint("after ", i))
		l.want(http.StatusOK, "GET", "/readyz", nil)
	}
	if code, out := ns.all[s].do("POST", "/v1/keys/rotate", nil); code != http.StatusConflict {
		t.Errorf("a rotation of a key that all nodes have: %d %v", code, out)
	}
}

func keyStatus(l *ledger, id string) string {
	for _, k := range l.want(http.StatusOK, "GET", "/v1/keys", nil)["keys"].([]any) {
		if text(k, "keyId") == id {
			return text(k, "status")
		}
	}
	return ""
}

// TestStreamsAreLostOnAllNodes: what the nodes kept together is gone on all of them,
// one more is empty, and the longest log and the vaults make it anew (INV-3).
func TestStreamsAreLostOnAllNodes(t *testing.T) {
	ns := threeNodes(t)
	id := ns.all[0].kept("kept", `{"secret":"of the attempt"}`)
	for i := range 20 {
		ns.all[i%3].begin(fmt.Sprint("call ", i))
	}
	ns.settled(21)
	for i := range ns.all {
		ns.stop(i)
	}
	for i := range ns.all {
		if err := os.RemoveAll(filepath.Join(ns.data(i), "cluster")); err != nil {
			t.Fatal(err)
		}
	}
	ns.start(0, 1, 2)
	ns.settled(21)
	for i, l := range ns.all {
		if code := l.repeat("kept", `{"secret":"of the attempt"}`); code != http.StatusOK {
			t.Errorf("node %d: the same again: %d", i+1, code)
		}
		l.begin(fmt.Sprint("afterwards ", i))
	}
	ns.settled(24)
	ns.all[2].verified(ns.all[2].get("/v1/attempts/" + id + "/bundle"))
}
