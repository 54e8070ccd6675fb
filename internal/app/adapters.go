package app

import (
	"context"
	"errors"

	"counterfoil/internal/telemetry/trace"
	"counterfoil/ledger/commit"
	"counterfoil/ledger/index"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/sequencer"
	"counterfoil/ledger/stream"
	"counterfoil/ledger/tee"
	"counterfoil/ledger/vault"
)

// The rooms of the ledger know each other by small interfaces; these are the
// doors between them.

// publisherTo is the stream as the intake sees it.
type publisherTo struct {
	s *stream.Stream
	t *trace.Tracer
}

func (p publisherTo) Publish(ctx context.Context, subject string, body []byte, filter string, expectLast uint64) (uint64, error) {
	ctx, span := p.t.Begin(ctx, "stream")
	seq, err := p.s.Publish(ctx, stream.Msg{Subject: subject, Body: body}, filter, expectLast)
	span.Number(trace.Bytes, uint64(len(body)))
	span.Number(trace.Sequence, seq)
	span.End(err)
	var wrong *stream.WrongLastError
	switch {
	case errors.As(err, &wrong):
		last := wrong.Last
		if last == 0 { // the stream did not say
			if last, err = p.s.LastSeq(ctx, filter); err != nil {
				return 0, err
			}
		}
		return 0, &intake.WrongLast{Last: last}
	case errors.Is(err, stream.ErrUnanswered):
		return 0, errors.Join(intake.ErrUnanswered, err)
	}
	if err == nil {
		p.t.Published(ctx, seq)
	}
	return seq, err
}

func (p publisherTo) Get(ctx context.Context, seq uint64) ([]byte, error) {
	m, err := p.s.Get(ctx, seq)
	return m.Body, err
}

// keysIn is the vault as the intake sees it.
type keysIn struct {
	v      *vault.Vault
	failed func() // counts a flush that failed
}

func (k keysIn) PutNew(keys map[string][32]byte) error { return k.v.PutNew(keys) }

func (k keysIn) Sync() error {
	err := k.v.Sync()
	if err != nil {
		k.failed()
	}
	return err
}

func (k keysIn) Key(attemptID string) ([32]byte, error) {
	key, err := k.v.Key(attemptID)
	switch {
	case errors.Is(err, vault.ErrErased):
		return key, errors.Join(intake.ErrErased, err)
	case errors.Is(err, vault.ErrNotFound):
		return key, errors.Join(intake.ErrNoKey, err)
	}
	return key, err
}

func (k keysIn) PutBody(attemptID, slot, name, encoding string, body []byte) error {
	err := k.v.PutBody(attemptID, slot, name, body, commit.Encoding(encoding))
	if errors.Is(err, vault.ErrErased) || errors.Is(err, vault.ErrRedacted) {
		err = errors.Join(intake.ErrErased, err)
	}
	return err
}

// source is a tail of the stream as package tee sees it.
type source struct{ t *stream.Tail }

func (r source) Next(ctx context.Context, max int) ([]tee.Message, error) {
	msgs, err := r.t.Next(ctx, max)
	out := make([]tee.Message, len(msgs))
	for i, m := range msgs {
		out[i] = tee.Message{Seq: m.Seq, Subject: m.Subject, Body: m.Body}
	}
	return out, err
}

// indexReader reads the stream for the index.
type indexReader struct{ r *tee.Reader }

func (r indexReader) Next(ctx context.Context, max int) ([]index.Message, error) {
	msgs, err := r.r.Next(ctx, max)
	out := make([]index.Message, len(msgs))
	for i, m := range msgs {
		out[i] = index.Message(m)
	}
	return out, err
}

// seqReader reads the stream for the sequencer.
type seqReader struct{ r *tee.Reader }

func (r seqReader) Next(ctx context.Context, max int) ([]sequencer.Message, error) {
	msgs, err := r.r.Next(ctx, max)
	out := make([]sequencer.Message, len(msgs))
	for i, m := range msgs {
		out[i] = sequencer.Message{Seq: m.Seq, Body: m.Body}
	}
	return out, err
}
