// Package reviewer is a ledger as review runs see it, over its HTTP interface: the
// contracts in force, the archive, and where reviews are appended. Evidence is
// verified in the process that runs this, not in the ledger.
package reviewer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
)

// Ledger implements review.Archive and review.Recorder. It is safe for concurrent
// use.
type Ledger struct{ *client.Client }

// maxBody bounds what is read of the archive: the largest file of evidence or
// record.
const maxBody = max(admission.MaxEvidenceBytes, 2*admission.MaxRecordBytes)

// Open implements [review.Archive].
func (l Ledger) Open(ctx context.Context, digest string) (io.ReadCloser, error) {
	b, err := l.ArchiveBody(ctx, digest, maxBody)
	if err != nil {
		return nil, archiveError(ctx, "open "+digest, digest, err)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// Put implements [review.Archive]. It keeps rechecks and nothing else.
func (l Ledger) Put(ctx context.Context, item archive.Item, r io.Reader) (archive.Entry, error) {
	if item.Role != review.RoleRecheck {
		return archive.Entry{}, fmt.Errorf("role %s: over HTTP only rechecks are kept", item.Role)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return archive.Entry{}, err
	}
	err = l.PutRecheck(ctx, b, client.Retained{Owner: item.Owner, Class: item.Retention.Class, Kind: item.Retention.Kind,
		Days: item.Retention.Days, Sensitive: item.Sensitive})
	if err != nil {
		return archive.Entry{}, archiveError(ctx, "keep "+item.Digest, item.Digest, err)
	}
	return archive.Entry{Digest: item.Digest, Owner: item.Owner, Role: item.Role, Size: int64(len(b)), State: archive.Kept}, nil
}

// Sync implements [review.Archive]. What Put answered is durable.
func (l Ledger) Sync(context.Context) error { return nil }

// archiveError gives back what the ledger's archive said.
func archiveError(ctx context.Context, doing, digest string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	var (
		refused *client.Error
		gone    *client.Unreachable
	)
	switch {
	case errors.As(err, &gone):
		return &archive.Failure{Code: admission.ArchiveUnreachable, Doing: doing, Err: err}
	case !errors.As(err, &refused):
		return err
	case refused.Status == http.StatusGone:
		return &archive.Gone{Digest: digest, State: archive.State(refused.Reason)}
	case refused.Status == http.StatusNotFound && refused.Reason == string(archive.Absent):
		return archive.ErrAbsent
	}
	code, ok := admission.ParseCode(refused.Reason)
	if i, _ := code.Info(); !ok || i.Gate != admission.GateArchive {
		code = admission.ArchiveUnreachable
	}
	return &archive.Failure{Code: code, Doing: doing, Err: err}
}

// Contracts reads all contracts in force.
func (l Ledger) Contracts(ctx context.Context) ([]review.Contract, error) {
	var out []review.Contract
	query := url.Values{"limit": {"256"}}
	for {
		a, err := l.Client.Contracts(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("read the contracts: %w", err)
		}
		for _, c := range a.Value.Contracts {
			out = append(out, contractOf(c))
		}
		if a.Value.NextPageToken == "" {
			return out, nil
		}
		query.Set("pageToken", a.Value.NextPageToken)
	}
}

func contractOf(c *client.Contract) review.Contract {
	out := review.Contract{Name: c.Name, Terms: c.ContractTerms, Attempt: c.AttemptID, Event: c.EventID, SetAt: timeOf(c.SetAt)}
	if r := c.Latest(); r != nil {
		out.Last = &review.Last{At: timeOf(r.ReviewedAt), Receipt: r.Receipt, Policy: r.Policy, Verifiers: r.Verifiers,
			Contract: r.ContractDigest, Disposition: r.Disposition}
		if r.Run != nil {
			out.Last.Run, out.Last.Impact = r.Run.ID, r.Run.Impact
		}
	}
	return out
}

func timeOf(s string) time.Time {
	t, _ := event.ParseTime(s) // an age of zero asks for a review all the same
	return t
}

// Reviewed implements [review.Recorder].
func (l Ledger) Reviewed(ctx context.Context, run string) (map[string]review.Recorded, error) {
	out := make(map[string]review.Recorded)
	query := url.Values{"run": {run}, "limit": {"256"}}
	for {
		a, err := l.Reviews(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, r := range a.Value.Reviews {
			out[r.AttemptID] = review.Recorded{Event: r.EventID, Disposition: r.Disposition}
		}
		if a.Value.NextPageToken == "" {
			return out, nil
		}
		query.Set("pageToken", a.Value.NextPageToken)
	}
}

// Append implements [review.Recorder]. It returns when the review is a durable leaf.
func (l Ledger) Append(ctx context.Context, r *review.Review) (string, error) {
	body, err := json.Marshal(struct {
		Lifecycle     event.Lifecycle   `json:"lifecycle"`
		SourceEventID string            `json:"sourceEventId"`
		OccurredAt    string            `json:"occurredAt"`
		Status        string            `json:"status"`
		ReasonCodes   []string          `json:"reasonCodes"`
		Refs          map[string]string `json:"refs"`
		Rubric        string            `json:"rubric"`
		Run           event.ReviewRun   `json:"run"`
	}{event.Review, r.SourceEventID, r.OccurredAt, r.Status, r.Reasons, r.Refs, r.Rubric, r.Run})
	if err != nil {
		return "", fmt.Errorf("encode a review: %w", err)
	}
	a, err := l.AppendRaw(ctx, r.Attempt, body, client.Logged)
	var refused *client.Error
	if errors.As(err, &refused) && refused.Code == "conflict" {
		return refused.EventID, review.ErrReviewed
	}
	if err != nil {
		return "", err
	}
	return a.Value.EventID, nil
}

// Source is who sets contracts.
type Source struct{ RuntimeID, AgentID, Implementation string }

// SetContract makes a contract the one in force, and returns the event id of the
// attempt that set it. One that is in force already is left as it is. at is the
// time that is recorded.
func (l Ledger) SetContract(ctx context.Context, d *review.Document, who Source, at time.Time) (eventID string, set bool, err error) {
	before := "none"
	a, err := l.Contract(ctx, d.Name)
	var refused *client.Error
	switch {
	case err == nil:
		if c := a.Value.Contracts[0]; c.Digest == d.Digest() {
			return c.EventID, false, nil
		}
		before = a.Value.Contracts[0].EventID
	case !errors.As(err, &refused) || refused.Status != http.StatusNotFound:
		return "", false, fmt.Errorf("look up contract %q: %w", d.Name, err)
	}
	// The same terms again after others are a new attempt; the same step twice is one.
	sum := event.DigestOf([]byte(strconv.Quote(d.Name) + " " + d.Digest() + " after " + before))
	body, err := json.Marshal(struct {
		Source     client.Source       `json:"source"`
		OccurredAt string              `json:"occurredAt"`
		Action     client.Action       `json:"action"`
		Subject    event.Subject       `json:"subject"`
		Contract   event.ContractTerms `json:"contract"`
	}{
		client.Source{RuntimeID: who.RuntimeID, AgentID: who.AgentID, InvocationID: "contract:" + sum.String(), Protocol: "counterfoil", Implementation: who.Implementation},
		event.FormatTime(at), client.Action{Name: "set_contract", EffectKind: "contract", EffectMode: "replace"},
		event.Subject{Kind: event.Contract, ID: d.Name}, d.ContractTerms,
	})
	if err != nil {
		return "", false, fmt.Errorf("encode contract %q: %w", d.Name, err)
	}
	res, err := l.BeginRaw(ctx, body, client.Logged)
	if errors.As(err, &refused) && refused.Code == "conflict" {
		return refused.EventID, false, nil // the same step, at another time
	}
	if err != nil {
		return "", false, fmt.Errorf("set contract %q: %w", d.Name, err)
	}
	return res.Value.EventID, true, nil
}
