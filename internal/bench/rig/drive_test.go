package rig

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load, err := Drive(t.Context(), 4, time.Second, func(context.Context, int) (int, error) {
			time.Sleep(300 * time.Millisecond)
			return 10, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// The fourth call of each began in time and counts, with the time it took.
		if load.Events != 4*4*10 || load.Wall != 1200*time.Millisecond || len(load.Answers) != 16 || Quantile(load.Answers, 0.99) != 300*time.Millisecond {
			t.Errorf("%d events in %s, %d answers, %v", load.Events, load.Wall, len(load.Answers), load.Answers)
		}
	})
}

func TestDriveEndsWithTheFirstError(t *testing.T) {
	bad := errors.New("refused")
	_, err := Drive(t.Context(), 4, time.Hour, func(ctx context.Context, client int) (int, error) {
		if client == 2 {
			return 0, bad
		}
		<-ctx.Done()
		return 0, nil
	})
	if !errors.Is(err, bad) {
		t.Errorf("got %v, want %v", err, bad)
	}
}

// A stall counts for every call that was due meanwhile.
func TestOfferCountsFromWhenACallWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		free := start.Add(time.Second)
		load, err := Offer(t.Context(), 10, time.Second, func(context.Context, time.Time) error {
			time.Sleep(time.Until(free)) // nothing is answered before
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if load.Events != 10 || Quantile(load.Answers, 0) != 100*time.Millisecond || Quantile(load.Answers, 1) != time.Second {
			t.Errorf("%d events, %v", load.Events, load.Answers)
		}
	})
}

func TestPlainFile(t *testing.T) {
	r := &Rig{Work: t.TempDir(), Length: 20 * time.Millisecond}
	load, err := r.Measure(t.Context(), PlainFile, 8)
	if err != nil {
		t.Fatal(err)
	}
	if load.Events < 8 || load.Rate() <= 0 {
		t.Errorf("%d events, %v/s", load.Events, load.Rate())
	}
}
