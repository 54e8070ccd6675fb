package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
)

const (
	// backoffFirst doubles with every failure in a row up to backoffMost; the
	// wait is between half and all of it.
	backoffFirst = 250 * time.Millisecond
	backoffMost  = time.Minute
	// maxTries bounds the requests for one checkpoint: one, one with the size
	// that a 409 gave, and two in case somebody else asks for our log.
	maxTries = 4
)

// witness is one member of the policy.
type witness struct {
	i      int // place in the policy
	policy trust.PolicyWitness

	// Guarded by Gatherer.mu.
	last      time.Time // of the last cosignature, our clock
	stated    uint64    // time of that cosignature, its clock
	size      uint64    // that it cosigned
	trouble   error     // why the last request failed; nil after one that did not
	failures  map[string]uint64
	inARow    int
	incidents int
	open      *Incident // that no cosignature has followed yet
	first     chan struct{}
	firstDone bool
}

// work asks one witness until ctx ends.
func (g *Gatherer) work(ctx context.Context, w *witness) {
	for ctx.Err() == nil {
		if idle, changed := g.idle(); idle {
			g.skip(w)
			if !waitFor(ctx, changed, -1) {
				return
			}
			continue
		}
		s, changed, due := g.next(w)
		if s == nil {
			g.look(ctx, w)
			if !waitFor(ctx, changed, due) {
				return
			}
			continue
		}
		began := g.cfg.Now()
		err := g.observed(ctx, w, s)
		if ctx.Err() != nil || g.Stopped() != nil {
			g.finish(w, s, nil, true)
			return
		}
		wait := g.finish(w, s, err, false)
		if err == nil {
			wait = min(g.cfg.AskEvery-g.cfg.Now().Sub(began), g.cfg.AskEvery)
		}
		if wait > 0 && !waitFor(ctx, nil, wait) {
			return
		}
	}
}

// observed is ask, and tells of it.
func (g *Gatherer) observed(ctx context.Context, w *witness, s *sheet) *failure {
	if g.cfg.Asking == nil {
		return g.ask(ctx, w, s)
	}
	g.mu.Lock()
	from := w.size
	g.mu.Unlock()
	asked := g.cfg.Asking(w.policy.Name, from, s.cp.Size)
	err := g.ask(ctx, w, s)
	if err != nil {
		asked(err.class)
	} else {
		asked("")
	}
	return err
}

// next returns the checkpoint that w is to be asked for and marks it; nil if
// there is none now, with what to wait for.
func (g *Gatherer) next(w *witness) (*sheet, <-chan struct{}, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, due := g.board.choose(w.i), time.Duration(-1)
	if n := g.board.newest(); s == nil && n != nil {
		due = min(g.cfg.RecosignEvery-g.cfg.Now().Sub(w.last), g.cfg.RecosignEvery)
		if due <= 0 || !w.firstDone {
			s = n // it has not changed; the witness gives a newer time
		}
	}
	if s != nil {
		g.board.w[w.i].busy, g.board.w[w.i].asking = true, s.cp.Size
	}
	return s, g.offered, due
}

// finish takes note of how a request ended, and returns how long to wait.
func (g *Gatherer) finish(w *witness, s *sheet, err *failure, ended bool) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := &g.board.w[w.i]
	st.busy = false
	g.board.prune()
	if !w.firstDone {
		w.firstDone = true
		close(w.first)
	}
	if ended {
		return 0
	}
	if err != nil && err.class == classAgain {
		return 0
	}
	before := w.trouble
	st.down, w.trouble = err != nil, nil
	if err == nil {
		if w.inARow = 0; before != nil {
			g.cfg.Logger.Info("the witness cosigns again", "witness", w.policy.Name, "size", s.cp.Size)
		}
		return 0
	}
	w.trouble = err
	w.failures[err.class]++
	w.inARow++
	wait := g.jitter(min(backoffFirst<<min(w.inARow-1, 20), backoffMost))
	if err.class == classUnproven || err.class == classAhead {
		wait = g.jitter(backoffMost)
	}
	if before == nil || before.Error() != err.Error() {
		g.cfg.Logger.Warn("the witness did not cosign", "witness", w.policy.Name, "size", s.cp.Size, "class", err.class, "why", err.Error())
	}
	return max(wait, err.retry)
}

// jitter is a time between half of d and d.
func (g *Gatherer) jitter(d time.Duration) time.Duration {
	var b [8]byte
	if _, err := io.ReadFull(g.cfg.Random, b[:]); err != nil {
		return d // as good as any; witnesses do not depend on it
	}
	return d - time.Duration(binary.LittleEndian.Uint64(b[:])%uint64(d/2+1))
}

// waitFor waits for the channel or for the time, if it is not negative. It is
// false if ctx ended.
func waitFor(ctx context.Context, changed <-chan struct{}, d time.Duration) bool {
	var due <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-due:
	}
	return true
}

// ask gets a cosignature for a checkpoint. A size that the witness states in a
// 409 is believed for the next request, and for nothing else.
func (g *Gatherer) ask(ctx context.Context, w *witness, s *sheet) *failure {
	g.mu.Lock()
	old := g.board.w[w.i].old
	g.mu.Unlock()
	for range maxTries {
		a, err := g.request(ctx, w, old, s)
		if err != nil {
			return err
		}
		switch {
		case a.status == http.StatusOK:
			return g.accept(w, s, a)
		case a.status == http.StatusConflict && a.typ == sizeType:
			n, ok := sizeOf(a)
			switch {
			case !ok:
				return failed(classMalformed, "status 409 whose body is no size: %q", a.clip())
			case n == old:
				return failed(classConflict, "the witness answers 409 to old size %d and says that it is %d", old, n)
			case n > s.cp.Size:
				return g.ahead(ctx, w, a, n)
			}
			g.believe(w, a, n)
			old = n
		case a.status == http.StatusConflict, a.status == http.StatusUnprocessableEntity:
			return g.unproven(ctx, w, s, a)
		default:
			return refusal(a)
		}
	}
	return failed(classConflict, "the size changed with each of %d requests: somebody else offers checkpoints of this log, or the witness is broken", maxTries)
}

// request sends one request with the proof from old. A wrong old size may be
// larger than the checkpoint: that is the witness's to say, not ours.
func (g *Gatherer) request(ctx context.Context, w *witness, old uint64, s *sheet) (answer, *failure) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.RequestLimit)
	defer cancel()
	r := rule.Request{Old: min(old, s.cp.Size), Note: s.note, Checkpoint: s.cp}
	var err error
	if r.Proof, err = g.cfg.Tree.Consistency(ctx, r.Old, s.cp.Size); err == nil && len(r.Proof) > rule.MaxProofHashes {
		err = fmt.Errorf("proof of %d hashes, at most %d may be sent", len(r.Proof), rule.MaxProofHashes)
	}
	if err != nil {
		return answer{}, failed(classLocal, "prove that the tree of size %d holds that of size %d: %w", s.cp.Size, r.Old, err)
	}
	return g.http.add(ctx, w.policy.URL, &r)
}

func refusal(a answer) *failure {
	class := classMalformed
	switch {
	case a.status == http.StatusTooManyRequests:
		class = classLimited
	case a.status >= 500:
		class = classServer
	case a.status >= 400:
		class = classRefused
	case a.status >= 300:
		class = classRedirect
	}
	hint := ""
	switch a.status {
	case http.StatusNotFound:
		hint = " (hint: does the witness know this log?)"
	case http.StatusForbidden:
		hint = " (hint: does the witness have this log's key?)"
	}
	f := failed(class, "status %d: %q%s", a.status, a.clip(), hint)
	f.retry = a.retry
	return f
}

// accept takes the cosignature out of a 200.
func (g *Gatherer) accept(w *witness, s *sheet, a answer) *failure {
	line, stated, err := cosignatureOf(a.body, s.note.Text, w.policy.Key)
	if err != nil {
		return failed(classMalformed, "status 200 without a cosignature that counts: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.cfg.Now()
	g.board.sign(s, w.i, cosig{line, stated, now})
	w.last, w.stated, w.size, w.open = now, stated, max(w.size, s.cp.Size), nil
	g.dirtyLocked()
	return nil
}

// believe takes the old size from a 409. A witness that is behind what it has
// cosigned has lost its state: that is its own affair, but not to be hidden.
func (g *Gatherer) believe(w *witness, a answer, n uint64) {
	g.mu.Lock()
	size := w.size
	g.board.w[w.i].old = n
	g.mu.Unlock()
	if n < size {
		g.keep(w, &Incident{Kind: KindForgot, Status: a.status, Body: a.clip(), TheirSize: n, Verdict: VerdictNone,
			Detail: fmt.Sprintf("it says that it is at size %d, and has cosigned size %d", n, size)})
	}
}

// look is for a log that has published nothing: a witness that knows a
// checkpoint of it says that it is not new.
func (g *Gatherer) look(ctx context.Context, w *witness) {
	g.mu.Lock()
	needed := g.board.newest() == nil && !w.firstDone
	g.mu.Unlock()
	if !needed {
		return
	}
	theirs, err := g.theirs(ctx, w)
	if err == nil {
		g.judge(ctx, w, &Incident{Kind: KindAhead, Status: http.StatusOK, TheirSize: theirs.cp.Size}, theirs)
	} else if !errors.Is(err, errNoCheckpoint) {
		g.cfg.Logger.Info("the witness did not say whether it knows this log", "witness", w.policy.Name, "why", err.Error())
	}
	g.skip(w)
}
