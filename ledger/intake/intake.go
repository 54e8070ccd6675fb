// Package intake decides: it turns what a source reports into the next event of
// an attempt, or returns the event that it already became.
//
// The way of a request: bounds and strict JSON, canonical bytes, lifecycle
// rules against the index, commitments and tags, signature, stream. The stream
// decides races: every event is published under the last sequence of its shard
// that the decision was made on, so that of two writers one wins and the other
// decides again on the new state. That holds between goroutines, processes and
// machines, for ever; no time window is involved.
//
// Private values never leave this package but as commitments and tags. The key
// that both derive from is in the vault before the event is on the stream.
package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"counterfoil/ledger/commit"
	"counterfoil/ledger/event"
	"counterfoil/ledger/index"
	"counterfoil/ledger/lifecycle"
)

// Publisher is the stream as the intake needs it.
type Publisher interface {
	// Publish stores body under subject if the last sequence that matches
	// filter is expectLast. It returns the sequence, *WrongLast, or another
	// error; after ErrUnanswered the message may be stored all the same.
	Publish(ctx context.Context, subject string, body []byte, filter string, expectLast uint64) (seq uint64, err error)
	// Get returns the message at a sequence.
	Get(ctx context.Context, seq uint64) (body []byte, err error)
}

// WrongLast says that the expectation failed: another event came first.
type WrongLast struct{ Last uint64 }

func (e *WrongLast) Error() string {
	return fmt.Sprintf("another event came first, the last sequence is %d", e.Last)
}

// ErrNotSigned: the signer did not sign. Nothing was recorded.
var ErrNotSigned = errors.New("the event could not be signed")

// ErrUnanswered: the stream did not answer; the message may be stored.
var ErrUnanswered = errors.New("the stream did not answer")

// Vault is the vault as the intake needs it.
type Vault interface {
	// Sync makes durable what was put before it was called, here or, in a cluster, on
	// most nodes.
	Sync() error
	// PutNew stores the keys of attempts that nobody knows of yet, all or none.
	PutNew(keys map[string][32]byte) error
	// Key returns ErrErased or ErrNoKey where there is none.
	Key(attemptID string) ([32]byte, error)
	PutBody(attemptID, slot, name, encoding string, body []byte) error
}

// ErrErased and ErrNoKey are what a Vault answers without a key.
var (
	ErrErased = errors.New("content erased")
	ErrNoKey  = errors.New("the vault has no key of this attempt")
)

// Signer signs the pre-authentication encoding of an event. It gives up by itself
// after some time.
type Signer interface {
	KeyID() string
	Sign(pae []byte) ([]byte, error)
}

// Config holds what an intake is made of. All fields but Newest are required.
type Config struct {
	Origin, Tenant string
	TenantKey      []byte
	Signer         Signer // until SignWith gives another one
	// Signed is told every record that was signed here and its leaf, before it
	// is published, so that it need be neither verified nor parsed again.
	Signed func(leaf []byte, rec *event.Record)
	Stream Publisher
	// Newest is the last sequence under a filter that anybody has written, as new as
	// the moment of the call; nil if this intake is the only one on the stream. What
	// the index says is refused for is looked at again if others have written since.
	Newest func(ctx context.Context, filter string) (uint64, error)
	Index  *index.Index
	Vault  Vault
	Random io.Reader
	Now    func() time.Time
	Logger *slog.Logger
	// RetryEvery is how long to wait before an unanswered publish is tried
	// again; 500 ms at most keeps a cluster's take-over short.
	RetryEvery time.Duration
}

// Intake is safe for concurrent use.
type Intake struct {
	cfg    Config
	shards [event.Shards]chan struct{} // one decision at a time per shard
	// filters match the subjects of a shard.
	filters [event.Shards]string
	need    [event.Shards]atomic.Uint64 // sequence that the index must have applied; changed by who has the shard

	signer atomic.Pointer[Signer]
	begins beginCache
	stock  stock
	randMu sync.Mutex
}

// New makes an intake.
func New(cfg Config) *Intake {
	in := &Intake{cfg: cfg}
	in.stock.random, in.stock.keep = in.random, in.keepKeys
	in.signer.Store(&cfg.Signer)
	for i := range in.shards {
		in.shards[i] = make(chan struct{}, 1)
		in.filters[i] = event.ShardFilter(cfg.Tenant, fmt.Sprintf("%02x", i))
	}
	return in
}

// Result is an event that is on the stream.
type Result struct {
	Seq  uint64 // stream sequence; the leaf index is one less
	Leaf []byte
	Rec  *event.Record
	// New is false if the same source event had been recorded before.
	New bool
	// Openings of the private values of this request, for the caller alone.
	Openings []Opening
}

// LeafIndex is the place of the event in the log.
func (r *Result) LeafIndex() uint64 { return r.Seq - 1 }

// Opening is what a caller needs, beside the value, to open a commitment.
type Opening struct {
	Name     string
	Encoding commit.Encoding
	Salt     commit.Salt
	Digest   [commit.Size]byte
}

// Conflict: the source event was recorded with other content (EVI-17). The
// digests are keyed tags; they tell nothing about the content.
type Conflict struct {
	EventID         string
	Stored, Offered string
}

func (e *Conflict) Error() string {
	return fmt.Sprintf("%s was recorded for this source event with other content: stored %s, offered %s", e.EventID, e.Stored, e.Offered)
}

// Unlawful: the event may not follow. State is the attempt's state now.
type Unlawful struct {
	Violation *lifecycle.Violation
	State     lifecycle.Summary
}

func (e *Unlawful) Error() string { return e.Violation.Error() }
func (e *Unlawful) Unwrap() error { return e.Violation }

// ErrNoAttempt: an append to an attempt that is not there (EVI-08).
var ErrNoAttempt = errors.New("no such attempt")

// SignWith makes s the signer of what follows. When it has returned without an
// error, no event that the one before signed is waited for any more: those that
// are on the stream count under its key, and an event whose call failed for lack
// of an answer may still come later and does not, once that key has retired.
func (in *Intake) SignWith(ctx context.Context, s Signer) error {
	in.signer.Store(&s)
	for shard := range in.shards {
		if err := in.lock(ctx, shard); err != nil {
			return err
		}
		in.unlock(shard)
	}
	return nil
}

// lock takes a shard, or gives up with ctx.
func (in *Intake) lock(ctx context.Context, shard int) error {
	select {
	case in.shards[shard] <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for shard %02x: %w", shard, ctx.Err())
	}
}

func (in *Intake) unlock(shard int) { <-in.shards[shard] }

// decision is one attempt at placing an event: decide is called with the index
// caught up, and again after every lost race.
type decision func() (ev *event.Event, repeat *Result, err error)

// place runs a decision until its event is on the stream. The shard is locked.
func (in *Intake) place(ctx context.Context, shard int, decide decision) (*Result, error) {
	var sent *Result // what was last published without an answer
	for {
		if err := in.cfg.Index.WaitFor(ctx, in.need[shard].Load()); err != nil {
			return nil, err
		}
		last := in.cfg.Index.ShardLast(shard)
		ev, repeat, err := decide()
		if err != nil {
			again, trouble := in.behind(ctx, shard, last)
			if trouble != nil {
				return nil, trouble // the refusal may be of a state that is old
			}
			if again {
				continue
			}
			return nil, err
		}
		if repeat != nil {
			if sent != nil && repeat.Rec.Digest() == sent.Rec.Digest() {
				repeat.New = true // our own, whose answer was lost
			}
			return repeat, nil
		}
		out, err := in.sign(ev)
		if err != nil {
			return nil, err
		}
		out.Seq, err = in.cfg.Stream.Publish(ctx, ev.StreamSubject(), out.Leaf, in.filters[shard], last)
		var wrong *WrongLast
		switch {
		case err == nil:
			// From here on a crash loses nothing: the message is on the
			// stream, and the index and the log are made from it.
			in.need[shard].Store(out.Seq)
			return out, nil
		case errors.As(err, &wrong):
			in.need[shard].Store(wrong.Last)
			if err := in.cfg.Index.WaitFor(ctx, wrong.Last); err != nil {
				return nil, err
			}
			in.cfg.Index.SetShardLast(shard, max(wrong.Last, in.cfg.Index.ShardLast(shard)))
		case errors.Is(err, ErrUnanswered):
			sent = out
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("publish: %w", errors.Join(err, ctx.Err()))
			case <-time.After(in.cfg.RetryEvery):
			}
		default:
			return nil, fmt.Errorf("publish: %w", err)
		}
	}
}

// behind reports whether others have written to a shard what the index did not have
// when it was at last. A refusal then was of a state that is not the newest.
func (in *Intake) behind(ctx context.Context, shard int, last uint64) (bool, error) {
	if in.cfg.Newest == nil {
		return false, nil
	}
	newest, err := in.cfg.Newest(ctx, in.filters[shard])
	if err != nil {
		return false, fmt.Errorf("ask for the newest event: %w", err)
	}
	if newest <= last {
		return false, nil
	}
	in.need[shard].Store(newest)
	return true, nil
}

// sign makes the leaf of an event.
func (in *Intake) sign(ev *event.Event) (*Result, error) {
	canonical := ev.Append(make([]byte, 0, 1024))
	if len(canonical) > event.MaxEventBytes {
		return nil, tooLarge("", len(canonical), event.MaxEventBytes)
	}
	signer := *in.signer.Load()
	sig, err := signer.Sign(event.PAE(event.PayloadType, canonical))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSigned, err)
	}
	sigs := []event.Signature{{KeyID: signer.KeyID(), Sig: sig}}
	sigBytes := event.AppendSignatures(nil, sigs)
	leaf := event.AppendLeaf(make([]byte, 0, len(canonical)+len(sigBytes)+32), canonical, sigBytes)
	rec := (&event.Record{Event: ev, EventBytes: canonical, SignatureBytes: sigBytes, Signatures: sigs}).Sealed()
	in.cfg.Signed(leaf, rec)
	return &Result{Leaf: leaf, New: true, Rec: rec}, nil
}

// stored reads an event back from the stream.
func (in *Intake) stored(ctx context.Context, seq uint64) (*Result, error) {
	leaf, err := in.cfg.Stream.Get(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("read the event at sequence %d: %w", seq, err)
	}
	rec, err := event.ParseRecord(leaf)
	if err != nil {
		return nil, fmt.Errorf("event at sequence %d: %w", seq, err)
	}
	return &Result{Seq: seq, Leaf: leaf, Rec: rec}, nil
}
