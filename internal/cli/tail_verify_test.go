package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"counterfoil/ledger/consumer"
	"counterfoil/ledger/tiles"
)

// Every way in which a verified tail can end has its exit code, its code in the
// document, and what it names.
func TestLOG12_TailSaysWhatDoesNotVerify(t *testing.T) {
	a, b := tiles.Hash{0xaa}, tiles.Hash{0xbb}
	for _, c := range []struct {
		err  error
		code int
		want string // part of the document
	}{
		{&consumer.LeafError{Index: 7, Expected: a, Got: b, Proven: true}, 1, `"leafIndex":7,"expected":"aa00`},
		{&consumer.DisagreeError{Index: 0, LeafDigest: "sha256:aa", MessageDigest: "sha256:bb"}, 1, `"leafIndex":0,"expected":"sha256:aa","got":"sha256:bb"`},
		{&consumer.TreeError{From: 5, To: 9, Size: 10, Expected: a, Got: b}, 1, `"leafIndex":5,"expected":"aa00`},
		{&consumer.TreeError{From: 5, To: 9, Size: 10, Err: &tiles.DamageError{Path: tiles.TilePath(0, 0, 9), Problem: "cut"}}, 1, `tile/0/000.p/9 is damaged`},
		{&consumer.HistoryError{Kind: consumer.Fork, Known: []byte("one\n"), Shown: []byte("two\n")}, 1, `"known":"one\n","shown":"two\n"`},
		{&consumer.CheckpointError{Err: errors.New("x")}, 1, `"hint":"is it the log`},
		{&consumer.QuorumError{Size: 3, Lacking: "1 of 2; missing B"}, 1, "missing B"},
		{&consumer.CursorError{Detail: "x"}, 2, `"hint":"start without the cursor`},
		{&consumer.UnavailableError{Doing: "read", Err: errors.New("gone (hint: later)")}, 2, `"hint":"later"`},
		{fmt.Errorf("write to stdout: %w", errors.New("pipe")), 2, "pipe"},
	} {
		var out, errOut bytes.Buffer
		cl := &cli{env: Env{Stdout: &out, Stderr: &errOut}, json: true}
		err := cl.tailFailed(c.err)
		var doc struct {
			Error struct{ Code, Message string }
		}
		if jerr := json.Unmarshal(out.Bytes(), &doc); jerr != nil {
			t.Fatalf("%v: %v", c.err, jerr)
		}
		want := map[int]string{1: "not_verified", 2: "not_judged"}[c.code]
		if !errors.Is(err, exitCode(c.code)) || doc.Error.Code != want || !strings.Contains(out.String(), c.want) || !strings.HasPrefix(errOut.String(), "counterfoil: "+doc.Error.Message+"\n") {
			t.Errorf("%v: %v, %s, %s", c.err, err, out.String(), errOut.String())
		}
	}
}

func TestLOG12_FlagsOfAVerifiedTail(t *testing.T) {
	e := newExecution(t, nil)
	for _, args := range [][]string{
		{"tail", "--trust", "x"}, {"tail", "--cursor", "x"}, {"tail", "--nats", "x"}, {"tail", "--log", "x"}, {"tail", "--policy", "x"},
		{"tail", "--verify", "--trust", "x", "--nats-token-file", "x"}, {"tail", "--verify", "--trust", "x", "--nats", "y", "--nats-token-file", "x", "--nats-creds", "z"},
	} {
		r := e.run(args...)
		if r.code != 2 || r.out != "" || !strings.Contains(r.errOut, "\nhint: ") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	for _, args := range [][]string{{"tail", "--verify"}, {"tail", "--verify", "--trust", "none"}} {
		r := e.run(append(args, "--json")...)
		if r.code != 2 || !strings.Contains(r.out, `"code":"not_judged"`) {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
