package record

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"time"

	"counterfoil/ledger/client"
)

// passing reports whether the same request may do better in a while.
func passing(err error) bool {
	var e *client.Error
	if errors.As(err, &e) {
		// Without its key an attempt takes nothing, for ever; and log_disagrees
		// needs a person.
		return e.Status >= http.StatusInternalServerError && e.Reason != "log_disagrees" && e.Reason != "key_missing"
	}
	var gone *client.Unreachable
	var later *laterError
	return errors.As(err, &gone) || errors.As(err, &later) || errors.Is(err, context.DeadlineExceeded)
}

// absent reports whether an error says that nothing was recorded: nobody
// listened, or the ledger refused.
func absent(err error) bool {
	var e *client.Error
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &e) && e.Status < http.StatusInternalServerError
}

// insist repeats an idempotent request until it is answered for good or ctx
// ends. With a ledger that is known to be gone it tries once. maybe is true if
// the request may have been carried out although it failed.
func (r *Recorder) insist(ctx context.Context, do func(context.Context) error) (maybe bool, err error) {
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err = do(ctx)
		if err == nil {
			r.here()
			return false, nil
		}
		maybe = maybe || !absent(err)
		if !passing(err) {
			return maybe, err
		}
		if r.gone.Load() || r.cfg.Pause(ctx, wait) != nil {
			r.away(err)
			return maybe, err
		}
	}
}

// persist repeats an idempotent request for as long as the recorder lives. It
// returns the error of a request that is refused for good.
func (r *Recorder) persist(do func(context.Context) error) error {
	var waited time.Duration
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err := do(r.ctx)
		if err == nil {
			r.here()
			return nil
		}
		if r.ctx.Err() != nil || !passing(err) {
			return err
		}
		if waited += wait; waited >= r.cfg.Patience && !errors.As(err, new(*laterError)) {
			r.away(err)
		}
		if err := r.cfg.Pause(r.ctx, wait); err != nil {
			return err
		}
	}
}

func (r *Recorder) here() {
	if r.gone.Load() && r.gone.CompareAndSwap(true, false) {
		r.cfg.Log.Warn("the ledger takes evidence again")
	}
}

func (r *Recorder) away(err error) {
	if !r.gone.Load() && r.gone.CompareAndSwap(false, true) {
		r.cfg.Log.Warn("the ledger takes no evidence", "error", err.Error())
	}
}

// patience bounds a try to begin.
func (r *Recorder) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	d := r.cfg.Patience
	if r.gone.Load() {
		d = min(d, briefly)
	}
	return context.WithTimeout(ctx, d)
}
