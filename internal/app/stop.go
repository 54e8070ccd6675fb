package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"counterfoil/internal/api"
)

var errStopping = &api.Unavailable{Reason: "stopping", Message: "the ledger is stopping"}

// Close stops everything in order. What is in flight becomes durable.
func (l *Ledger) Close(ctx context.Context) error {
	l.drain()
	var errs []error
	if l.stop != nil {
		l.stop()
		errs = append(errs, bounded("background parts", func() error { l.running.Wait(); return nil })(ctx))
	}
	for i := len(l.closers) - 1; i >= 0; i-- {
		errs = append(errs, l.closers[i](ctx))
	}
	l.closers = nil
	return errors.Join(errs...)
}

// closeLimit bounds the end of one part. Badger tries for ever to write what it
// holds when its files are gone; what is derived is not worth waiting for, and
// the end of the process closes the rest.
const closeLimit = 10 * time.Second

// bounded ends a part, or says that it did not end.
func bounded(name string, end func() error) func(context.Context) error {
	return func(context.Context) error {
		done := make(chan error, 1)
		go func() { done <- end() }()
		t := time.NewTimer(closeLimit)
		defer t.Stop()
		select {
		case err := <-done:
			return err
		case <-t.C:
			return fmt.Errorf("%s did not end within %s (hint: see the log; the next start checks everything)", name, closeLimit)
		}
	}
}

// drain makes the ledger unready and ends event streams; calls in flight go on.
func (l *Ledger) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.draining:
	default:
		close(l.draining)
	}
}

func (l *Ledger) isDraining() bool {
	select {
	case <-l.draining:
		return true
	default:
		return false
	}
}
