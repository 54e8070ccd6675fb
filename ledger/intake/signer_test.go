package intake_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
)

// TestATT28_TheSignerChangesAtOnePlace: while 16 writers begin and append, the
// signer changes. When SignWith has returned, nothing signed by the one before
// comes any more; what came before is by either. Chains go over the change.
func TestATT28_TheSignerChangesAtOnePlace(t *testing.T) {
	ctx := context.Background()
	s := newShared(t)
	_, next, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.next = next
	x := s.site(filepath.Join(t.TempDir(), "index"))
	var stop atomic.Bool
	var done atomic.Int64
	busy := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			for i := 0; !stop.Load(); i++ {
				res, err := x.Begin(ctx, parseBegin(t, fmt.Sprintf("w%d-%d", w, i), "1"))
				if err == nil {
					_, err = x.Append(ctx, parseAppend(t, res.Rec.Event.AttemptID, "o", `"lifecycle":"outcome","status":"succeeded"`))
				}
				if err != nil {
					t.Error(err)
					return
				}
				if done.Add(1) == 50 {
					close(busy)
				}
			}
		})
	}
	<-busy
	if err := x.SignWith(ctx, signer{next}); err != nil {
		t.Fatal(err)
	}
	st, err := s.stream.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	at := done.Load()
	for done.Load() < at+50 && !t.Failed() {
		if _, err := x.Begin(ctx, parseBegin(t, fmt.Sprintf("main-%d", done.Load()), "1")); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	writers.Wait()
	end, err := s.stream.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	byOld, byNew, across := 0, 0, 0
	first := map[string]string{}
	for seq := uint64(1); seq <= end.Last; seq++ {
		m, err := s.stream.Get(ctx, seq)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := event.ParseRecord(m.Body)
		if err != nil {
			t.Fatal(err)
		}
		id := rec.Signatures[0].KeyID
		if id == (signer{s.key}).KeyID() {
			byOld++
			if seq > st.Last {
				t.Errorf("sequence %d is signed by the old key, the change was over at %d", seq, st.Last)
			}
		} else {
			byNew++
		}
		if by := first[rec.Event.AttemptID]; by != "" && by != id {
			across++
		}
		first[rec.Event.AttemptID] = id
	}
	if byOld == 0 || byNew == 0 {
		t.Errorf("%d by the old key, %d by the new one", byOld, byNew)
	}
	t.Logf("%d by the old key, %d by the new one, %d chains across", byOld, byNew, across)
}

// failing is a signer that does not sign while fail is set.
type failing struct {
	signer
	fail atomic.Bool
}

func (f *failing) Sign(pae []byte) ([]byte, error) {
	if f.fail.Load() {
		return nil, errors.New("the key service is away")
	}
	return f.signer.Sign(pae)
}

// TestATT33_NothingIsRecordedUnsigned: without a signature there is no event,
// and no trace of one; the same begin goes through afterwards.
func TestATT33_NothingIsRecordedUnsigned(t *testing.T) {
	ctx := context.Background()
	s := newShared(t)
	x := s.site(filepath.Join(t.TempDir(), "index"))
	f := &failing{signer: signer{s.key}}
	if err := x.SignWith(ctx, f); err != nil {
		t.Fatal(err)
	}
	f.fail.Store(true)
	if res, err := x.Begin(ctx, parseBegin(t, "one", "1")); !errors.Is(err, intake.ErrNotSigned) || res != nil {
		t.Fatalf("%v, %v", res, err)
	}
	if st, err := s.stream.State(ctx); err != nil || st.Messages != 0 {
		t.Fatalf("%d messages, %v", st.Messages, err)
	}
	f.fail.Store(false)
	if res, err := x.Begin(ctx, parseBegin(t, "one", "1")); err != nil || !res.New {
		t.Fatalf("afterwards: %v, %v", res, err)
	}
}

// TestEVI08_WhatWasAcknowledgedCanBeRead: at once, however far the index is behind
// the stream.
func TestEVI08_WhatWasAcknowledgedCanBeRead(t *testing.T) {
	ctx := context.Background()
	s := newShared(t)
	x := s.site(filepath.Join(t.TempDir(), "index"))
	for i := range 300 {
		res, err := x.Begin(ctx, parseBegin(t, fmt.Sprintf("read-%d", i), "1"))
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := x.Attempt(ctx, res.Rec.Event.AttemptID); err != nil || len(got) != 1 {
			t.Fatalf("attempt %d: %d events, %v", i, len(got), err)
		}
	}
}
