package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"counterfoil/internal/testkit/fsck"
)

// outcome is what a ledger does with old copies of its parts.
type outcome string

const (
	goesOn    outcome = "goes on"
	heals     outcome = "heals"         // makes the old part whole again from another
	refuses   outcome = "refuses"       // does not start; nothing is signed
	stopsHere outcome = "signs nothing" // starts for reading, takes and signs nothing
	announces outcome = "announces"     // goes on and announces that events are lost
	blind     outcome = "cannot know"   // goes on from the copy
)

// restoredCase puts old copies of parts back into a ledger that has grown since.
type restoredCase struct {
	parts   string // names in the data directory, with blanks between
	alone   bool   // without a witness
	rotated bool   // the event key has changed since the copy
	want    outcome
	says    string // part of the refusal
	because string
}

const wholeCopy = "the whole directory"

// parts that are put back alone and in pairs.
var restoredParts = []string{"log", "guard", "stream", "index", "views", "vault"}

// restoredCases is every combination with what must come of it. Where the guard is
// older than the checkpoint, or the log smaller than the guard, nothing is signed
// (INV-4); everything else is made from the log, or from the stream.
func restoredCases() (out []restoredCase) {
	for i, a := range restoredParts {
		out = append(out, restoredCase{parts: a})
		for _, b := range restoredParts[i+1:] {
			out = append(out, restoredCase{parts: a + " " + b})
		}
	}
	for i := range out {
		has := func(name string) bool { return slices.Contains(strings.Fields(out[i].parts), name) }
		c := &out[i]
		switch {
		case has("log") && has("guard"):
			c.want, c.because = heals, "the stream has the rest, in the same order"
		case has("log"):
			c.want, c.says, c.because = refuses, "rolled back", "the log is smaller than the tree that the guard knows"
		case has("guard"):
			c.want, c.says, c.because = refuses, "ahead of the guard", "the checkpoint is larger than the tree that the guard knows"
		case has("stream"):
			c.want, c.because = heals, "the stream is filled again from the leaves"
		default:
			c.want, c.because = goesOn, "index and views catch up"
		}
		if has("vault") && c.want != refuses {
			c.because += "; attempts begun since may have no key: those can be read, and take no further event (503 key_missing)"
		}
	}
	return append(out,
		restoredCase{parts: "keys/registry.json", rotated: true, want: refuses, says: "not registered", because: "the event key that signs now was registered later"},
		restoredCase{parts: "witness", want: goesOn, because: "the witnesses are asked again"},
		restoredCase{parts: "log guard stream", want: refuses, says: "the log went back", because: "the views were folded from a larger published tree"},
		restoredCase{parts: "log guard stream", alone: true, want: refuses, says: "the log went back", because: "the views were folded from a larger published tree"},
		restoredCase{parts: "log guard stream views", want: stopsHere, says: "log_set_back", because: "a witness has cosigned a larger tree"},
		restoredCase{parts: "log guard stream views", alone: true, want: announces, because: "the index has seen events that neither stream nor log has; that they had been logged, nothing in the directory tells"},
		restoredCase{parts: "log guard stream views", alone: true, rotated: true, want: refuses, says: "counts from leaf", because: "the key that signs now was registered by an event beyond the end of the log"},
		restoredCase{parts: wholeCopy, want: stopsHere, says: "log_set_back", because: "a witness has cosigned a larger tree"},
		restoredCase{parts: wholeCopy, alone: true, want: blind, because: "nothing in the directory tells: without witnesses only whoever kept a later checkpoint finds the fork"},
	)
}

// restoredResult is what came of a case, how often.
type restoredResult struct {
	got    outcome
	detail string
	times  int
}

func (c restoredCase) name() string {
	name := c.parts
	if c.alone {
		name += ", no witness"
	}
	if c.rotated {
		name += ", another event key since"
	}
	return name
}

// pair is a ledger as it was and as it is, neither running.
type pair struct {
	old, now string          // data directories
	model    *acks           // of now
	witness  *witnessProcess // nil: none
}

// judge puts the parts of a case back into a copy of the ledger and starts it.
func (q *pair) judge(t *testing.T, c restoredCase) (got outcome, detail string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	var args []string
	if c.parts == wholeCopy {
		copyDir(t, q.old, dir)
	} else {
		copyDir(t, q.now, dir)
		for _, part := range strings.Fields(c.parts) {
			copyDir(t, filepath.Join(q.old, part), filepath.Join(dir, part))
		}
	}
	if q.witness != nil && !c.alone {
		w := q.witness.copied(t)
		defer w.stop()
		args = []string{"--witness-policy", w.policy}
	}
	checkpoint := filepath.Join(dir, "log", "checkpoint")
	before, _ := os.ReadFile(checkpoint)
	unchanged := func() {
		t.Helper()
		if after, _ := os.ReadFile(checkpoint); !bytes.Equal(before, after) {
			t.Errorf("the checkpoint changed:\n%s\n%s", before, after)
		}
	}
	p, err := startErr(t, dir, args...)
	if err != nil {
		unchanged()
		if _, again := startErr(t, dir, args...); again == nil {
			t.Error("the second start did not refuse")
		}
		unchanged()
		return refuses, refusalOf(err)
	}
	defer p.kill(syscall.SIGKILL)
	code, b, err := p.call(http.MethodPost, "/v1/attempts", beginBody("after it"))
	var no refusal
	if err == nil && code == http.StatusServiceUnavailable && json.Unmarshal(b, &no) == nil && no.Error.Reason == "log_set_back" {
		unchanged()
		return stopsHere, no.Error.Reason + ": " + no.Error.Message
	}
	if err != nil || code != http.StatusCreated {
		t.Errorf("a begin: %d %s %v", code, b, err)
	}
	st := p.settled()
	lost, gaps := q.model.lost(t, p)
	vkey := trustVKey(t, p)
	p.stop()
	fsck.Check(t, filepath.Join(dir, "log"), st.Origin, vkey)
	if live, rebuilt := viewDigest(t, dir, st.Origin, st.ViewSize), rebuild(t, dir); live != rebuilt {
		t.Errorf("the views have digest %s, made anew from the log %s", live, rebuilt)
	}
	detail = fmt.Sprintf("%d of %d acknowledged events are not there, %d losses announced", lost, q.model.count(), gaps)
	switch {
	case lost > 0 && gaps > 0:
		return announces, detail
	case lost > 0:
		return blind, detail
	case strings.Contains(p.stderr.String(), "the stream was healed"):
		return heals, detail
	case strings.Contains(c.parts, "log") && strings.Contains(c.parts, "guard"):
		return heals, detail
	}
	return goesOn, detail
}

// lost counts the acknowledged events that a ledger does not have at their place,
// and the losses that it announces.
func (a *acks) lost(t testing.TB, p *process) (lost, gaps int) {
	t.Helper()
	at := map[string]uint64{}
	for i, leaf := range p.leaves() {
		var e struct {
			Event struct{ Action struct{ Name string } }
		}
		if err := json.Unmarshal(leaf, &e); err != nil {
			t.Fatal(err)
		}
		if e.Event.Action.Name == "gap" {
			gaps++
		}
		at[eventID(t, leaf)] = uint64(i)
	}
	for id, r := range a.all {
		if i, ok := at[id]; !ok || i != r.LeafIndex {
			lost++
		}
	}
	return lost, gaps
}

// refusalOf is what a ledger said last when it did not start.
func refusalOf(err error) string {
	_, said, _ := strings.Cut(err.Error(), "counterfoil: ")
	return strings.Join(strings.Fields(said), " ")
}

// TestINV4_RestoredCopies puts every combination of old parts back into a ledger
// that a witness watches.
func TestINV4_RestoredCopies(t *testing.T) { restoreAll(t, func(restoredCase, outcome, string) {}) }

// restoreAll judges every combination and tells what came of it.
func restoreAll(t *testing.T, tell func(restoredCase, outcome, string)) {
	var mu sync.Mutex
	pairs := map[bool]*pair{false: newPair(t, false), true: newPair(t, true)}
	t.Run("copies", func(t *testing.T) {
		for _, c := range restoredCases() {
			t.Run(c.name(), func(t *testing.T) {
				t.Parallel()
				got, detail := pairs[c.rotated].judge(t, c)
				c.compare(t, got, detail)
				mu.Lock()
				defer mu.Unlock()
				tell(c, got, detail)
			})
		}
	})
}

// compare demands what the table says.
func (c restoredCase) compare(t testing.TB, got outcome, detail string) {
	t.Helper()
	t.Logf("%s: %s: %s", c.name(), got, detail)
	if got != c.want || !strings.Contains(detail, c.says) {
		t.Errorf("%s: it %s: %s; want: %s %s", c.name(), got, detail, c.want, c.says)
	}
}

// newPair makes a ledger that a witness watches, copies it, and lets it grow; with
// rotate the event key changes in between.
func newPair(t *testing.T, rotate bool) *pair {
	t.Helper()
	root := t.TempDir()
	q := &pair{old: filepath.Join(root, "old"), now: filepath.Join(root, "now"), model: newModel()}
	p := start(t, q.now)
	st, vkey := p.settled(), trustVKey(t, p)
	p.stop()
	q.witness = newWitness(t, st.Origin, vkey)
	w := q.witness.run(t)
	args := []string{"--witness-policy", w.policy}
	witnessed := func(p *process) {
		eventually(t, "the witness has cosigned everything", func() bool {
			code, b, err := p.call(http.MethodGet, "/v1/status", nil)
			var s struct{ StreamLast, WitnessedSize uint64 }
			return err == nil && code == http.StatusOK && json.Unmarshal(b, &s) == nil && s.WitnessedSize == s.StreamLast
		})
	}
	p = start(t, q.now, args...)
	fill(t, p, "a", 300, q.model)
	witnessed(p)
	p.settled()
	p.stop()
	copyDir(t, q.now, q.old)
	p = start(t, q.now, args...)
	fill(t, p, "b", 150, q.model)
	if rotate {
		if out, err := p.program("keys", "rotate").Output(); err != nil {
			t.Fatalf("rotate: %v %s", err, out)
		}
	}
	fill(t, p, "c", 100, q.model)
	witnessed(p)
	p.settled()
	p.stop()
	w.stop()
	return q
}
