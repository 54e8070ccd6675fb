package client

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestMergeTakesOverWhatAnotherNodeGathered: one node asks, the other takes over
// what came, asks nobody itself, and shows the same stage, also after a new start.
// Once the first is gone it asks.
func TestMergeTakesOverWhatAnotherNodeGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 60, 60, "")
		a, b := newWitness(t, "A", l), newWitness(t, "B", l)
		defer a.store.Close()
		defer b.store.Close()
		asks := gather(t, t.TempDir(), l, 2, a, b)
		asks.offer(40)
		asks.start()
		if err := asks.Wait(t.Context(), 40); err != nil {
			t.Fatal(err)
		}
		asked := len(a.asked())

		dir := t.TempDir()
		k := gather(t, dir, l, 2, a, b)
		idle, changed := true, make(chan struct{})
		k.cfg.Idle = func() (bool, <-chan struct{}) {
			k.mu.Lock()
			defer k.mu.Unlock()
			return idle, changed
		}
		k.offer(40)
		k.start()
		k.AskedOnce(t.Context()) // nobody is waited for
		if c := k.over(0); c.Witnessed || c.Have != 0 {
			t.Fatalf("%+v", c)
		}
		cosigned := asks.over(0).Note
		if err := k.Merge(cosigned); err != nil {
			t.Fatal(err)
		}
		if err := k.Wait(t.Context(), 40); err != nil {
			t.Fatal(err)
		}
		k.verify(k.over(0), a, b)
		if err := k.Merge(cosigned); err != nil { // again: nothing changes
			t.Fatal(err)
		}
		if string(k.over(0).Note) != string(cosigned) {
			t.Errorf("other bytes: %q", k.over(0).Note)
		}
		time.Sleep(time.Minute)
		settle()
		if n := len(a.asked()); n != asked {
			t.Errorf("an idle gatherer asked %d times", n-asked)
		}

		k.offer(60)
		k.mu.Lock()
		idle = false
		close(changed)
		k.mu.Unlock()
		if err := k.Wait(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		k.stop()
		asks.stop()

		again := gather(t, dir, l, 2, a, b)
		if c := again.over(0); !c.Witnessed || c.Size != 60 {
			t.Errorf("after a new start: %+v", c)
		}
	})
}

// A note of another log, or one that the log's key did not sign, is refused; a
// cosignature that does not verify is left out.
func TestMergeBelievesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, other := newLog(t, origin, 60, 60, ""), newLog(t, "other.example/log", 60, 60, "")
		a, b := newWitness(t, "A", l), newWitness(t, "B", l)
		defer a.store.Close()
		defer b.store.Close()
		asks := gather(t, t.TempDir(), l, 2, a, b)
		asks.offer(40)
		asks.start()
		defer asks.stop()
		if err := asks.Wait(t.Context(), 40); err != nil {
			t.Fatal(err)
		}
		k := gather(t, t.TempDir(), l, 2, a, b)
		if err := k.Merge(other.checkpoint(t, 40)); err == nil {
			t.Error("a checkpoint of another log was taken")
		}
		forged := []byte(string(asks.over(0).Note))
		forged[len(forged)-20] ^= 1 // within the last cosignature
		for _, note := range [][]byte{nil, forged[:len(forged)-1], []byte("x")} {
			if err := k.Merge(note); err == nil {
				t.Errorf("%q was taken", note)
			}
		}
		_ = k.Merge(forged) // refused or taken without that line
		if c := k.over(0); c.Have > 1 {
			t.Errorf("a cosignature that does not verify counts: %+v", c)
		}
	})
}
