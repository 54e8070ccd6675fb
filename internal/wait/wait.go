// Package wait waits in real time, for no longer than a context lasts.
package wait

import (
	"context"
	"time"
)

// For waits for d. If ctx ends first, it returns early with the cause of ctx.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
