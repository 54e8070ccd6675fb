package faults

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"counterfoil/internal/testkit/fsck"
)

// round is one fault in the life of a ledger.
type round struct {
	t     *testing.T
	era   *era
	rng   *rand.Rand
	model *acks
	name  string // of its invocations
	p     *process

	// A file system that gave errors may lose what it had said was flushed. Then the
	// ledger may refuse to start: the log must be restored, and the era ends.
	fileSystemErred, damaged bool

	mu       sync.Mutex
	refused  map[string]int
	doubtful []string // invocations whose begin was not acknowledged
	notes    []string
}

// start starts a ledger on the era's directory; it must get ready.
func (r *round) start() { r.t.Helper(); r.p = start(r.t, r.era.dir, r.era.args...) }

// span is a random time, which the seed repeats.
func (r *round) span(from, to time.Duration) time.Duration {
	return from + time.Duration(r.rng.Int64N(int64(to-from)))
}

// sleep lets a random time pass: the fault lasts so long.
func (r *round) sleep(from, to time.Duration) { time.Sleep(r.span(from, to)) }

// grown waits until n more events are acknowledged, or the process has ended.
func (r *round) grown(n int) {
	r.t.Helper()
	had := r.model.count()
	eventually(r.t, "clients get receipts", func() bool { return r.model.count() >= had+n || r.p.over() })
}

// round lets one fault happen and judges what is left.
func (e *era) round(t *testing.T, k kind) {
	r := &round{t: t, era: e, model: e.model, name: fmt.Sprintf("e%d-r%d", e.number, e.rounds), refused: map[string]int{},
		rng: rand.New(rand.NewPCG(e.c.rng.Uint64(), e.c.rng.Uint64()))}
	had := r.model.count()
	r.start()
	if k.prepare != nil {
		k.prepare(r)
	}
	stop := make(chan struct{})
	done := r.load(stop)
	r.grown(20 + r.rng.IntN(150))
	if r.p.over() {
		t.Fatalf("the ledger ended before the fault: %s", tail(r.p.stderr.String()))
	}
	k.inject(r)
	close(stop)
	done()
	since := time.Now()
	if k.recover != nil {
		k.recover(r)
	}
	if r.damaged {
		r.refused["a start: flushed data is gone"]++
		e.over = true
		e.c.report.add(k, r, found{}, r.model.count()-had, time.Since(since))
		t.Logf("%d events acknowledged; %v", r.model.count()-had, r.notes)
		return
	}
	eventually(t, "the ledger is ready again", func() bool { return r.p.over() || r.p.unready() == nil })
	if r.p.over() {
		t.Fatalf("the ledger ended: %s", tail(r.p.stderr.String()))
	}
	ready := time.Since(since)
	f := r.judge(k)
	e.c.report.add(k, r, f, r.model.count()-had, ready)
	t.Logf("%d events acknowledged, log of %d; refusals %v; ready after %v %v", r.model.count()-had, f.leaves, r.refused, ready.Round(time.Millisecond), r.notes)
}

// load sends begins and outcomes from some clients until stop is closed or the
// ledger has ended, and looks at its checkpoints.
func (r *round) load(stop <-chan struct{}) (done func()) {
	p := r.p
	ended := func() bool {
		select {
		case <-stop:
			return true
		case <-p.ended:
			return true
		default:
			return false
		}
	}
	var wg sync.WaitGroup
	for w := range 12 {
		wg.Go(func() {
			// A client that waits for each receipt sees the log's order.
			next := uint64(0)
			inOrder := func(got receipt) {
				if got.LeafIndex < next {
					r.t.Errorf("client %d got leaf %d, after leaf %d", w, got.LeafIndex, next-1)
				}
				next = got.LeafIndex + 1
			}
			for i := 0; !ended(); i++ {
				name := fmt.Sprintf("%s-w%d-%d", r.name, w, i)
				path := "/v1/attempts"
				if w == 0 {
					path += "?wait=published"
				}
				b, ok := r.send(p, path, name, beginBody(name))
				if !ok {
					time.Sleep(20 * time.Millisecond) // as a caller does that is told to come later
					continue
				}
				inOrder(b)
				if o, ok := r.send(p, "/v1/attempts/"+b.AttemptID+"/events", "", outcomeBody(b.AttemptID, "succeeded")); ok {
					inOrder(o)
				}
			}
		})
	}
	wg.Go(func() {
		for !ended() {
			if code, note, err := p.call(http.MethodGet, "/log/checkpoint", nil); err == nil && code == http.StatusOK {
				r.model.signed(r.t, note)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return wg.Wait
}

// damagedFile is in the refusal to start on a log or a vault that lacks what it had
// flushed.
var damagedFile = regexp.MustCompile(`(tile/[a-z0-9/.]+|vault) is damaged`)

// What a client sees that is no answer.
const (
	nobodyListens = "nobody listens" // nothing was sent
	noAnswer      = "no answer"      // the connection ended before one
)

// send posts an event and notes what became of it. invocation is that of a begin.
func (r *round) send(p *process, path, invocation string, body []byte) (receipt, bool) {
	if invocation != "" {
		r.model.sending(invocation)
	}
	code, b, err := p.call(http.MethodPost, path, body)
	if err == nil && (code == http.StatusCreated || code == http.StatusOK) {
		got := parseReceipt(r.t, b)
		r.model.add(got)
		return got, true
	}
	why := noAnswer
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		why = nobodyListens
	case err == nil:
		var no refusal
		_ = json.Unmarshal(b, &no) // an answer that is no document has no reason
		why = fmt.Sprintf("%d %s", code, cmp.Or(no.Error.Reason, no.Error.Code, string(b)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused[why]++
	if invocation != "" && len(r.doubtful) < 100 {
		r.doubtful = append(r.doubtful, invocation)
	}
	return receipt{}, false
}

// judge compares the ledger, which runs and is ready, with the model, then stops
// it, and compares its files.
func (r *round) judge(k kind) found {
	t, p := r.t, r.p
	t.Helper()
	for why, n := range r.refused {
		if !slices.Contains(k.refusals, why) {
			t.Errorf("%d calls were refused with %q; %q allows %q", n, why, k.name, k.refusals)
		}
	}
	// What was signed is still published, before anything new is.
	if _, note, err := p.call(http.MethodGet, "/log/checkpoint", nil); err != nil {
		t.Error(err)
	} else {
		r.model.signed(t, note)
	}
	// A caller that is not sure sends the same again.
	for _, name := range r.doubtful {
		code, b, err := p.call(http.MethodPost, "/v1/attempts", beginBody(name))
		for again := 0; again < 5 && code == http.StatusServiceUnavailable && !bytes.Contains(b, []byte("key_missing")); again++ {
			r.say("again: " + string(b))
			code, b, err = p.call(http.MethodPost, "/v1/attempts", beginBody(name)) // each answer takes the ledger some seconds
		}
		if err != nil || code != http.StatusCreated && code != http.StatusOK {
			t.Errorf("%s, sent again: %d %s %v", name, code, b, err)
			continue
		}
		r.model.add(parseReceipt(t, b))
	}
	f := r.model.check(t, p)
	r.stages()
	st, vkey := p.settled(), trustVKey(t, p)
	p.stop()
	if err := fsck.Error(t.Context(), filepath.Join(p.dir, "log"), st.Origin, vkey); err != nil {
		t.Errorf("fsck: %v", err)
	}
	live := viewDigest(t, p.dir, st.Origin, st.ViewSize)
	if rebuilt := rebuild(t, p.dir); rebuilt != live {
		t.Errorf("the views have digest %s, made anew from the log %s", live, rebuilt)
	}
	return f
}

// stages asks for some receipts: their stage is at least what was acknowledged.
func (r *round) stages() {
	r.t.Helper()
	rank := []string{"accepted", "logged", "published"}
	n := 0
	for id, had := range r.model.all {
		if n++; n > 20 {
			return
		}
		code, b, err := r.p.call(http.MethodGet, "/v1/receipts/"+id, nil)
		now := receipt{}
		if err != nil || code != http.StatusOK || json.Unmarshal(b, &now) != nil {
			r.t.Errorf("receipt %s: %d %.200s %v", id, code, b, err)
			continue
		}
		if slices.Index(rank, now.Stage) < slices.Index(rank, had.Stage) || slices.Index(rank, had.Stage) < 1 {
			r.t.Errorf("receipt %s was acknowledged as %q and is %q", id, had.Stage, now.Stage)
		}
	}
}

// atMost bounds how long a fault lasts: the short form has little time.
func (r *round) atMost(d time.Duration) time.Duration {
	if r.era.c.until.IsZero() {
		return max(d/4, 600*time.Millisecond)
	}
	return d
}

// say notes something of the fault for the log.
func (r *round) say(what string) { r.notes = append(r.notes, what) }
