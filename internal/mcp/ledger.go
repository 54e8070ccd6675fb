package mcp

import (
	"context"
	"net/url"

	"counterfoil/internal/api"
	"counterfoil/ledger/event"
)

// Ledger is what the tools work on. Its methods are safe for concurrent use;
// their errors are worded by Explain.
type Ledger interface {
	// Begin and Append take the bodies of the HTTP interface and a stage to
	// wait for, "" for the default. created is false if the event had been
	// recorded before. Sending the same again is always safe.
	Begin(ctx context.Context, body []byte, wait string) (rc *api.Receipt, created bool, err error)
	Append(ctx context.Context, body []byte, attemptID, wait string) (rc *api.Receipt, created bool, err error)
	// Attempt and Receipt show what was acknowledged at once.
	Attempt(ctx context.Context, id string) (*api.Attempt, error)
	Receipt(ctx context.Context, eventID string) (*api.Receipt, error)
	// Attempts and Receipts are pages; q holds the query of the HTTP interface.
	Attempts(ctx context.Context, q url.Values) (*api.Attempts, error)
	Receipts(ctx context.Context, q url.Values) (*api.Receipts, error)
	// Bundle is the bundle of 1 to 256 attempts, as exact bytes.
	Bundle(ctx context.Context, attempts []string) ([]byte, error)
	// Published is the size of the newest checkpoint.
	Published(ctx context.Context) (uint64, error)
	// Follow tells the attempt of every event that is published from leaf index
	// from on, in order, until ctx ends or the ledger stops.
	Follow(ctx context.Context, from uint64, published func(attemptID string)) error
	// Explain words an error for a caller.
	Explain(call string, err error) *api.Error
}

// Local is a Ledger in this process. The embedded methods are those of the HTTP
// interface behind its routes: bounds, rules and answers are the same.
type Local struct{ *api.Server }

// Published implements [Ledger].
func (l Local) Published(ctx context.Context) (uint64, error) {
	return l.Status(ctx).PublishedSize, nil
}

// Follow implements [Ledger].
func (l Local) Follow(ctx context.Context, from uint64, published func(string)) error {
	nothing := func() error { return nil }
	return l.Events(ctx, from, true, api.Follower{Flush: nothing, Ping: nothing, Event: func(e *api.StreamedEvent) error {
		if id := attemptOf(e.Record); id != "" {
			published(id)
		}
		return nil
	}})
}

// attemptOf is the attempt of a record, "" for a leaf that is none.
func attemptOf(leaf []byte) string {
	if len(leaf) == 0 {
		return ""
	}
	rec, err := event.ParseRecord(leaf)
	if err != nil {
		return ""
	}
	return rec.Event.AttemptID
}

var (
	_ Ledger = Local{}
	_ Ledger = Remote{}
)
