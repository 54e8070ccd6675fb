package readback

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// pageLimit is the ledger's bound on a page.
const pageLimit = "256"

// Reconciler goes over the attempts that nobody knows the end of, asks the
// helper of each one's tool, and records what it says. One pass is safe beside
// another, here or on another machine: of two that come to the same revision of
// an attempt one is recorded.
type Reconciler struct {
	Client *client.Client
	// Helpers by tool, the name of the action. Attempts of other tools are left
	// alone.
	Helpers map[string]*Helper
	// UnknownAfter is the age from which an attempt with the outcome unknown is
	// asked about; OpenAfter that of one without an outcome, 0 for never: it may
	// still be under way. Ages count from capturedAt.
	UnknownAfter, OpenAfter time.Duration
	// Now is the clock of ages and of what is recorded.
	Now func() time.Time
	// Report is told of every attempt that was asked about; its error ends the
	// pass.
	Report func(*Result) error
}

// Result is what came of one attempt. Either Status or Left or Err is set.
type Result struct {
	AttemptID string `json:"attemptId"`
	Tool      string `json:"tool"`
	State     string `json:"state"`              // before
	Source    string `json:"source,omitempty"`   // that the helper read
	Observed  string `json:"observed,omitempty"` // what it showed
	// Status is what the ledger derived; EventID is the reconciliation.
	Status  string `json:"status,omitempty"`
	EventID string `json:"eventId,omitempty"`
	// Left says why nothing was recorded, where that is as it should be.
	Left string `json:"left,omitempty"`
	// Err says why nothing could be recorded.
	Err string `json:"error,omitempty"`
}

// Reasons of Left.
const (
	LeftSettled  = "settled"  // meanwhile
	LeftRecorded = "recorded" // somebody else recorded at this revision
	LeftSame     = "same"     // the newest event says the same already
)

// Pass asks about every attempt once. It returns how many could not be recorded
// because a helper failed or the ledger refused, which [Result] has told; an
// error ends the pass.
func (r *Reconciler) Pass(ctx context.Context) (failed int, err error) {
	tools := make([]string, 0, len(r.Helpers))
	for tool := range r.Helpers {
		tools = append(tools, tool)
	}
	slices.Sort(tools)
	for _, w := range []struct {
		state string
		after time.Duration
		ask   bool
	}{{"unknown", r.UnknownAfter, true}, {"open", r.OpenAfter, r.OpenAfter > 0}} {
		if !w.ask {
			continue
		}
		for _, tool := range tools {
			n, err := r.all(ctx, w.state, tool, w.after)
			failed += n
			if err != nil {
				return failed, err
			}
		}
	}
	return failed, nil
}

func (r *Reconciler) all(ctx context.Context, state, tool string, after time.Duration) (failed int, err error) {
	query := url.Values{"state": {state}, "tool": {tool}, "limit": {pageLimit}}
	for {
		page, err := r.Client.Attempts(ctx, query)
		if err != nil {
			return failed, fmt.Errorf("list attempts that are %s: %w", state, err)
		}
		for i := range page.Value.Attempts {
			a := &page.Value.Attempts[i]
			captured, ok := event.ParseTime(a.CapturedAt)
			if !ok || a.InDoubt || r.Now().Sub(captured) < after {
				continue // doubt is for people: something was told, and contradicts
			}
			res := &Result{AttemptID: a.AttemptID, Tool: tool, State: state}
			if err := r.one(ctx, res, r.Helpers[tool]); err != nil {
				var refused *client.Error
				if !errors.Is(err, ErrHelper) && !errors.As(err, &refused) {
					return failed, fmt.Errorf("attempt %s: %w", a.AttemptID, err)
				}
				res.Err = err.Error()
				failed++
			}
			if err := r.Report(res); err != nil {
				return failed, err
			}
		}
		if page.Value.NextPageToken == "" {
			return failed, nil
		}
		query.Set("pageToken", page.Value.NextPageToken)
	}
}

// history is what an attempt's newest event says, beyond the client's types.
type history struct {
	Receipts []struct {
		Commitments map[string]string `json:"commitments"`
		Statement   struct {
			Readback *struct {
				Source   string `json:"source"`
				Observed string `json:"observed"`
				Count    int64  `json:"count"`
			} `json:"readback"`
		} `json:"statement"`
	} `json:"receipts"`
}

// one asks about one attempt and records the answer.
func (r *Reconciler) one(ctx context.Context, res *Result, h *Helper) error {
	at, err := r.Client.Attempt(ctx, res.AttemptID)
	if err != nil {
		return err
	}
	a := &at.Value
	if a.State != res.State || a.InDoubt || len(a.Receipts) == 0 {
		res.Left = LeftSettled // lists lag behind, attempts do not
		return nil
	}
	answer, err := h.Ask(ctx, question(a))
	if err != nil {
		return err
	}
	res.Source, res.Observed = answer.Source, answer.Observed
	if same, err := saidAlready(at.Raw, answer); err != nil {
		return err
	} else if same {
		res.Left = LeftSame
		return nil
	}
	body, err := json.Marshal(&record{Lifecycle: string(event.Reconciliation), SourceEventID: "readback:" + strconv.FormatInt(a.Revision+1, 10),
		OccurredAt: event.FormatTime(r.Now()), Readback: answer}, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write the reconciliation: %w", err)
	}
	got, err := r.Client.AppendRaw(ctx, a.AttemptID, body, "")
	var refused *client.Error
	if errors.As(err, &refused) {
		switch {
		case refused.Code == "conflict":
			res.Left = LeftRecorded
			return nil
		case refused.Code == "unlawful" && refused.Reason == "nothing_to_reconcile":
			res.Left = LeftSettled
			return nil
		}
	}
	if err != nil {
		return err
	}
	res.Status, res.EventID = got.Value.Action.Status, got.Value.EventID
	return nil
}

// record is the body of the reconciliation. It states no status: that is
// derived.
type record struct {
	Lifecycle     string  `json:"lifecycle"`
	SourceEventID string  `json:"sourceEventId"`
	OccurredAt    string  `json:"occurredAt"`
	Readback      *Answer `json:"readback"`
}

func question(a *client.Attempt) *Request {
	first := &a.Receipts[0]
	q := &Request{Schema: RequestSchema, AttemptID: a.AttemptID, State: a.State, Tool: a.Action.Name, TraceID: first.TraceID,
		OccurredAt: first.OccurredAt, CapturedAt: first.CapturedAt}
	q.Effect.Kind, q.Effect.Mode = a.Action.EffectKind, a.Action.EffectMode
	q.Subject.Kind, q.Subject.ID = a.Subject.Kind, a.Subject.ID
	q.Source.RuntimeID, q.Source.AgentID, q.Source.InvocationID = a.Source.RuntimeID, a.Source.AgentID, a.Source.InvocationID
	return q
}

// saidAlready reports whether the newest event of an attempt is a read-back that
// told nothing, and the answer would tell no more: an attempt has room for 1,024
// events, and asking again for ever must not fill it. A value that was not there
// before is news.
func saidAlready(raw jsontext.Value, answer *Answer) (bool, error) {
	var h history
	if err := json.Unmarshal(raw, &h); err != nil || len(h.Receipts) == 0 {
		return false, fmt.Errorf("read the attempt's receipts: %w", err)
	}
	newest := &h.Receipts[len(h.Receipts)-1]
	rb := newest.Statement.Readback
	if rb == nil || rb.Source != answer.Source || rb.Observed != answer.Observed || rb.Count != answer.Count {
		return false, nil
	}
	return len(answer.Value) == 0 || newest.Commitments["readback"] != "", nil
}
