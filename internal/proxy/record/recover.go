package record

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// again is when recovery looks once more: a begin that was on its way when an
// earlier run was killed may become an attempt after the first look.
const again = time.Minute

// errBehind says that the ledger's views do not show yet what it has accepted.
var errBehind = &laterError{errors.New("the ledger's views are behind its log")}

// recover ends what earlier runs of this proxy left open: attempts with its own
// runtime id and without an outcome become `unknown`, `recorder_restarted`. What
// others recorded is not touched. The ledger alone is asked; nothing on this
// disk can be missing for it.
func (r *Recorder) recover() {
	for last := false; ; last = true {
		var ended int
		err := r.persist(func(ctx context.Context) (err error) {
			ended, err = r.sweep(ctx)
			return err
		})
		if err != nil {
			if r.ctx.Err() == nil {
				r.cfg.Log.Error("attempts that an earlier run left open cannot be ended", "error", err.Error())
			}
			return
		}
		if ended > 0 {
			r.cfg.Log.Warn("ended attempts that an earlier run left open", "attempts", ended)
		}
		if last || r.cfg.Pause(r.ctx, again) != nil {
			return
		}
	}
}

// sweep ends every open attempt of earlier runs and returns how many.
func (r *Recorder) sweep(ctx context.Context) (int, error) {
	status, err := r.cfg.Ledger.Status(ctx)
	if err != nil {
		return 0, err
	}
	var open []client.AttemptSummary
	q := url.Values{"runtime": {r.cfg.State.RuntimeID()}, "state": {"open"}, "limit": {"256"}}
	for {
		page, err := r.cfg.Ledger.Attempts(ctx, q)
		if err != nil {
			return 0, err
		}
		if page.Value.TreeSize < status.Value.StreamLast {
			return 0, errBehind
		}
		open = append(open, page.Value.Attempts...)
		if page.Value.NextPageToken == "" {
			break
		}
		q.Set("pageToken", page.Value.NextPageToken)
	}
	n := 0
	for _, a := range open {
		did, err := r.endLeftOpen(ctx, a)
		if err != nil {
			return n, err
		}
		if did {
			n++
		}
	}
	return n, nil
}

func (r *Recorder) endLeftOpen(ctx context.Context, a client.AttemptSummary) (bool, error) {
	if a.RuntimeID != r.cfg.State.RuntimeID() {
		return false, fmt.Errorf("the ledger lists attempt %s of %s among those of %s", a.AttemptID, a.RuntimeID, r.cfg.State.RuntimeID())
	}
	full, err := r.cfg.Ledger.Attempt(ctx, a.AttemptID)
	if err != nil {
		return false, err
	}
	if id := full.Value.Source.InvocationID; full.Value.State != "open" || r.own(id) || strings.HasPrefix(id, gapPrefix) {
		return false, nil
	}
	_, err = r.cfg.Ledger.Append(ctx, &client.Append{AttemptID: a.AttemptID, Lifecycle: string(event.Outcome), SourceEventID: sourceEvent,
		OccurredAt: event.FormatTime(r.cfg.Now()), Status: event.StatusUnknown, ReasonCodes: []string{"recorder_restarted"}}, client.Logged)
	if ended(err) {
		return false, nil
	}
	return err == nil, err
}

// own reports whether an invocation is of this run.
func (r *Recorder) own(invocation string) bool {
	return strings.HasPrefix(strings.TrimPrefix(invocation, contractPrefix), r.cfg.Instance+"-")
}
