package wait

import (
	"context"
	"sync"
	"time"
)

// Every calls f after every d until stop is called or ctx ends. stop waits until f
// is not running.
func Every(ctx context.Context, d time.Duration, f func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for For(ctx, d) == nil {
			f()
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}
