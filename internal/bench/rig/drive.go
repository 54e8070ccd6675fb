package rig

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Op is one call of one client, who waits for its answer. It returns how many
// events were acknowledged. Clients are numbered from 0; one client has one call
// at a time.
type Op func(ctx context.Context, client int) (events int, err error)

// Load is what clients did.
type Load struct {
	Events  int
	Wall    time.Duration
	Answers []time.Duration // from call to answer, sorted
}

// Rate is events a second.
func (l *Load) Rate() float64 { return float64(l.Events) / l.Wall.Seconds() }

// Drive lets clients call, one call after the other, until length has passed;
// calls in flight are waited for and count, as does their time. The first error
// ends it.
func Drive(ctx context.Context, clients int, length time.Duration, op Op) (*Load, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		out Load
	)
	start := time.Now()
	for c := range clients {
		wg.Go(func() {
			var own []time.Duration
			n := 0
			for time.Since(start) < length && ctx.Err() == nil {
				began := time.Now()
				k, err := op(ctx, c)
				if err != nil {
					cancel(fmt.Errorf("client %d: %w", c, err))
					break
				}
				n += k
				own = append(own, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			out.Events += n
			out.Answers = append(out.Answers, own...)
		})
	}
	wg.Wait()
	out.Wall = time.Since(start)
	slices.Sort(out.Answers)
	return &out, context.Cause(ctx)
}

// Offer makes calls at a fixed rate, whether or not the earlier ones were
// answered, and returns when all are. A call's time counts from when it was due,
// so that a stall counts for all calls behind it.
func Offer(ctx context.Context, rate int, length time.Duration, call func(ctx context.Context, due time.Time) error) (*Load, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		out Load
	)
	start := time.Now()
	for i := range int(float64(rate) * length.Seconds()) {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if d := time.Until(due); d > 0 {
			time.Sleep(d)
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			if err := call(ctx, due); err != nil {
				cancel(err)
				return
			}
			d := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			out.Events++
			out.Answers = append(out.Answers, d)
		})
	}
	wg.Wait()
	out.Wall = time.Since(start)
	slices.Sort(out.Answers)
	return &out, context.Cause(ctx)
}

// Quantile of sorted times; 0 of none.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// MS is a time in milliseconds.
func MS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
