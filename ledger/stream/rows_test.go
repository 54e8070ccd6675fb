package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"counterfoil/internal/testkit/freeport"
)

func rowsOf(t testing.TB, s *Stream) *Rows {
	t.Helper()
	r, err := s.Rows(t.Context(), "VAULT")
	must(t, err)
	return r
}

func rowBody(n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("row %06d ", n)), 20) }

func putRows(t testing.TB, r *Rows, from, to uint64) {
	t.Helper()
	for n := from; n <= to; n++ {
		seq, last, err := r.Publish(t.Context(), rowBody(int(n)), n-1)
		if err != nil || seq != n {
			t.Fatalf("message %d: %d, %d, %v", n, seq, last, err)
		}
	}
}

// followed is what a follower was given.
type followed struct {
	mu   sync.Mutex
	seqs []uint64
	bad  string
	stop context.CancelFunc
	done chan struct{}
}

func followRows(t testing.TB, r *Rows, from uint64) *followed {
	t.Helper()
	f := &followed{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	f.stop = cancel
	go func() {
		defer close(f.done)
		_ = r.Follow(ctx, from, func(seq uint64, body []byte) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if !bytes.Equal(body, rowBody(int(seq))) {
				f.bad = fmt.Sprintf("message %d is %.40q", seq, body)
			}
			f.seqs = append(f.seqs, seq)
		})
	}()
	t.Cleanup(func() { cancel(); <-f.done })
	return f
}

func (f *followed) get(t testing.TB, last uint64) []uint64 {
	t.Helper()
	until(t, fmt.Sprint("message ", last, " comes"), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.seqs) > 0 && f.seqs[len(f.seqs)-1] >= last
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bad != "" {
		t.Fatal(f.bad)
	}
	return f.seqs
}

// A message takes the place after the one that it was decided on, or none; erased
// ones leave their place empty.
func TestRows_CompareAndSetAndErase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(t.Context(), testConfig(dir))
	must(t, err)
	r := rowsOf(t, s)
	id := r.ID()
	if id == "" || rowsOf(t, s).ID() != id {
		t.Errorf("id %q, then %q", id, rowsOf(t, s).ID())
	}
	if n, err := r.Last(t.Context()); n != 0 || err != nil {
		t.Errorf("last %d, %v", n, err)
	}
	f := followRows(t, r, 1)
	putRows(t, r, 1, 20)
	if got := f.get(t, 20); len(got) != 20 {
		t.Errorf("the follower got %v", got)
	}
	for _, expect := range []uint64{0, 19} {
		if seq, last, err := r.Publish(t.Context(), []byte("x"), expect); seq != 0 || last != 20 || err != nil {
			t.Errorf("after %d: %d, %d, %v", expect, seq, last, err)
		}
	}
	if _, _, err := r.Publish(t.Context(), make([]byte, MaxRows+1), 20); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	for _, seq := range []uint64{1, 7, 8, 20, 7} { // the first, the last, one twice
		must(t, r.Erase(t.Context(), seq))
	}
	if b, err := r.Get(t.Context(), 7); b != nil || err != nil {
		t.Errorf("an erased message: %q, %v", b, err)
	}
	if b, err := r.Get(t.Context(), 9); !bytes.Equal(b, rowBody(9)) || err != nil {
		t.Errorf("message 9: %q, %v", b, err)
	}
	closeStream(t, s)

	// The end is where it was, also with nothing there.
	s = open(t, testConfig(dir))
	r = rowsOf(t, s)
	if n, err := r.Last(t.Context()); n != 20 || err != nil || r.ID() != id {
		t.Errorf("last %d, %v", n, err)
	}
	f = followRows(t, r, 1)
	putRows(t, r, 21, 25)
	want := fmt.Sprint([]uint64{2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24, 25})
	if got := f.get(t, 25); fmt.Sprint(got) != want {
		t.Errorf("the follower got %v, want %s", got, want)
	}
	big := bytes.Repeat([]byte{7}, MaxRows)
	if seq, _, err := r.Publish(t.Context(), big, 25); seq != 26 || err != nil {
		t.Errorf("the largest message: %d, %v", seq, err)
	}
	if b, err := r.Get(t.Context(), 26); err != nil || !bytes.Equal(b, big) {
		t.Errorf("the largest message: %d bytes, %v", len(b), err)
	}
}

// A follower goes on over kills of the server, each message once, in order.
func TestRows_FollowerSurvivesKills(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), freeport.Row(t, 1)
	p := run(t, task{Name: "server", Dir: dir, Port: port})
	s := open(t, urlConfig("nats://"+p.line(t)))
	r := rowsOf(t, s)
	f := followRows(t, r, 1)
	var n uint64
	for range 3 {
		putRows(t, r, n+1, n+300)
		n += 300
		p.kill()
		p = run(t, task{Name: "server", Dir: dir, Port: port})
		p.line(t)
	}
	putRows(t, r, n+1, n+1)
	for i, seq := range f.get(t, n+1) {
		if seq != uint64(i)+1 {
			t.Fatalf("delivery %d is message %d", i+1, seq)
		}
	}
}

// Nodes that make it at the same time have the same, and of two that publish in one
// place one is stored, whichever server they ask.
func TestRows_OneOfThreeNodes(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	rows := make([]*Rows, 3)
	var wg sync.WaitGroup
	for i, s := range c.s {
		wg.Go(func() { rows[i] = rowsOf(t, s) })
	}
	wg.Wait()
	if rows[0].ID() != rows[1].ID() || rows[1].ID() != rows[2].ID() {
		t.Fatalf("logs %s, %s, %s", rows[0].ID(), rows[1].ID(), rows[2].ID())
	}
	f := followRows(t, rows[2], 1)
	for n := uint64(1); n <= 50; n++ {
		won := make([]uint64, 3)
		for i, r := range rows {
			wg.Go(func() {
				seq, last, err := r.Publish(t.Context(), rowBody(int(n)), n-1)
				if err != nil || seq == 0 && last != n || seq != 0 && seq != n {
					t.Errorf("message %d: %d, %d, %v", n, seq, last, err)
				}
				won[i] = seq
			})
		}
		wg.Wait()
		if won[0]+won[1]+won[2] != n {
			t.Fatalf("message %d was stored as %v", n, won)
		}
	}
	if got := f.get(t, 50); len(got) != 50 {
		t.Errorf("the follower got %v", got)
	}
	for _, r := range rows { // again is no error
		must(t, r.Erase(t.Context(), 25))
	}
	if _, err := rows[0].Get(t.Context(), 51); !errors.Is(err, ErrUnavailable) {
		t.Errorf("beyond the end: %v", err)
	}
	for i, r := range rows {
		if b, err := r.Get(t.Context(), 25); b != nil || err != nil {
			t.Errorf("node %d: %q, %v", i, b, err)
		}
	}
}
