package reviewer

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
	"counterfoil/ledger/trust"
)

// RunInfo is what is recorded about a run as a whole: an attempt about the policy.
// One without an outcome was interrupted, or left something unjudged; the same run
// id goes on with it.
type RunInfo struct {
	ID      string
	Policy  string // id of the policy
	Trigger string // auto, or one of event.ReviewTriggers
	Enforce string // an impact, or empty
	Who     Source
	At      time.Time
}

// BeginRun records that a run begins, or finds the attempt of one that goes on.
func (l Ledger) BeginRun(ctx context.Context, r RunInfo) (attemptID string, err error) {
	mode := event.ReviewReportOnly
	if r.Enforce != "" {
		mode = "enforced_from_" + r.Enforce
	}
	body, err := json.Marshal(struct {
		Source     client.Source `json:"source"`
		OccurredAt string        `json:"occurredAt"`
		Action     client.Action `json:"action"`
		Subject    event.Subject `json:"subject"`
	}{
		client.Source{RuntimeID: r.Who.RuntimeID, AgentID: r.Who.AgentID, InvocationID: "review-run:" + r.ID, Protocol: "counterfoil", Implementation: r.Who.Implementation},
		event.FormatTime(r.At), client.Action{Name: "review_run", EffectKind: r.Trigger, EffectMode: mode},
		event.Subject{Kind: event.Policy, ID: r.Policy},
	})
	if err != nil {
		return "", fmt.Errorf("encode a run: %w", err)
	}
	a, err := l.BeginRaw(ctx, body, client.Logged)
	var refused *client.Error
	if errors.As(err, &refused) && refused.Code == "conflict" {
		// The run goes on, at another time.
		before, err := l.Receipt(ctx, refused.EventID)
		if err != nil {
			return "", fmt.Errorf("find run %s: %w", r.ID, err)
		}
		return before.Value.AttemptID, nil
	}
	if err != nil {
		return "", fmt.Errorf("record run %s: %w", r.ID, err)
	}
	return a.Value.AttemptID, nil
}

// EndRun records that a run left nothing unjudged. The summary is private and kept.
func (l Ledger) EndRun(ctx context.Context, attemptID string, at time.Time, refs map[string]string, summary []byte) error {
	body, err := json.Marshal(struct {
		Lifecycle     event.Lifecycle   `json:"lifecycle"`
		SourceEventID string            `json:"sourceEventId"`
		OccurredAt    string            `json:"occurredAt"`
		Status        string            `json:"status"`
		Refs          map[string]string `json:"refs"`
		PrivateResult jsontext.Value    `json:"privateResult"`
		KeepBody      bool              `json:"keepBody"`
	}{event.Outcome, "run-ended", event.FormatTime(at), event.StatusSucceeded, refs, summary, true})
	if err != nil {
		return fmt.Errorf("encode the end of a run: %w", err)
	}
	_, err = l.AppendRaw(ctx, attemptID, body, client.Logged)
	var refused *client.Error
	if errors.As(err, &refused) && (refused.Code == "conflict" || refused.Reason == "outcome_exists") {
		return nil // it ended before
	}
	return err
}

// RetentionChanges lists the changes of retention since a time, by the receipts of
// the admissions that they are about.
func (l Ledger) RetentionChanges(ctx context.Context, since time.Time) ([]review.Change, error) {
	query := url.Values{"kind": {string(event.Ledger)}, "lifecycle": {string(event.Attempt)}, "tool": {"retention"}, "limit": {"256"}}
	if !since.IsZero() {
		query.Set("from", event.FormatTime(since))
	}
	var out []review.Change
	for {
		a, err := l.Receipts(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("read the changes of retention: %w", err)
		}
		var page struct {
			Receipts []struct {
				CapturedAt string `json:"capturedAt"`
				Statement  struct {
					Retention *event.RetentionChange `json:"retention"`
				} `json:"statement"`
			} `json:"receipts"`
		}
		if err := json.Unmarshal(a.Raw, &page); err != nil {
			return nil, fmt.Errorf("the changes of retention: %w", err)
		}
		for _, r := range page.Receipts {
			if r.Statement.Retention == nil {
				continue
			}
			changes, err := l.changesOf(ctx, r.Statement.Retention.Attempt, timeOf(r.CapturedAt))
			if err != nil {
				return nil, err
			}
			out = append(out, changes...)
		}
		if a.Value.NextPageToken == "" {
			return out, nil
		}
		query.Set("pageToken", a.Value.NextPageToken)
	}
}

// changesOf names an admission by all that a contract may name it by.
func (l Ledger) changesOf(ctx context.Context, attempt string, at time.Time) ([]review.Change, error) {
	a, err := l.Attempt(ctx, attempt)
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return nil, nil // of an attempt that is not on this ledger
	}
	if err != nil {
		return nil, fmt.Errorf("read admission %s: %w", attempt, err)
	}
	out := []review.Change{{Name: attempt, At: at.UnixMilli()}}
	for _, r := range a.Value.Receipts {
		out = append(out, review.Change{Name: r.EventID, At: at.UnixMilli()})
		if d := r.Refs[event.RefReceipt]; d != "" {
			out = append(out, review.Change{Name: d, At: at.UnixMilli()})
		}
	}
	return out, nil
}

// History reads the reviews of contracts within a time.
func (l Ledger) History(ctx context.Context, from, to time.Time) ([]*client.Review, error) {
	var out []*client.Review
	query := url.Values{"from": {event.FormatTime(from)}, "to": {event.FormatTime(to)}, "limit": {"256"}}
	for {
		a, err := l.Reviews(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("read the reviews: %w", err)
		}
		out = append(out, a.Value.Reviews...)
		if a.Value.NextPageToken == "" {
			return out, nil
		}
		query.Set("pageToken", a.Value.NextPageToken)
	}
}

// Keys returns the event keys of the ledger's trust file, by which receipts are
// signed. All count: that a key was retired or revoked since changes nothing about
// what it signed then, and the digest of a receipt is in the log (ADM-27).
func (l Ledger) Keys(ctx context.Context) (review.KeyOf, error) {
	b, err := l.Trust(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the trust file: %w", err)
	}
	return KeysOf(b)
}

// KeysOf returns the event keys of a trust file.
func KeysOf(trustFile []byte) (review.KeyOf, error) {
	f, err := trust.Parse(bytes.TrimSuffix(trustFile, []byte("\n")))
	if err != nil {
		return nil, fmt.Errorf("trust file: %w", err)
	}
	return func(id string) (ed25519.PublicKey, bool) { k, ok := f.EventKeys.Key(id); return k.PublicKey, ok }, nil
}
