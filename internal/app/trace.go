package app

import (
	"context"

	"counterfoil/internal/telemetry/trace"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/sequencer"
)

// openTraces starts to send spans, if somebody asked for that.
func (l *Ledger) openTraces(ctx context.Context) (err error) {
	if l.cfg.TraceEndpoint == "" {
		return nil
	}
	l.trace, err = trace.Start(ctx, trace.Config{Endpoint: l.cfg.TraceEndpoint, Ratio: l.cfg.TraceRatio,
		Origin: l.id.Origin, Version: l.cfg.Version, Now: l.cfg.Now, Logger: l.log})
	if err == nil {
		l.onClose(l.trace.Close)
	}
	return err
}

// took ends the span of an intake with what the event became.
func took(span trace.Span, res *intake.Result, err error) {
	if err == nil {
		span.Word(trace.Attempt, res.Rec.Event.AttemptID)
		span.Word(trace.Event, res.Rec.Digest().EventID())
		span.Number(trace.Sequence, res.Seq)
	}
	span.End(err)
}

// tracedLog is the log, with a span of every batch where there are traces.
func (l *Ledger) tracedLog() sequencer.Log {
	if l.trace == nil {
		return l.tlog
	}
	return tracedLog{l.tlog, l.trace}
}

type tracedLog struct {
	sequencer.Log
	t *trace.Tracer
}

func (l tracedLog) Append(ctx context.Context, leaves [][]byte) (uint64, error) {
	from, batch := l.Size(), l.t.Batch("sequence")
	size, err := l.Log.Append(ctx, leaves)
	batch.Leaves(from, from+uint64(len(leaves)), err)
	return size, err
}

func (l *Ledger) tracedFolding() func(from, to uint64) func(error) {
	if l.trace == nil {
		return nil
	}
	return func(from, to uint64) func(error) {
		batch := l.trace.Batch("project")
		return func(err error) { batch.Leaves(from, to, err) }
	}
}

func (l *Ledger) tracedAsking() func(witness string, from, size uint64) func(class string) {
	if l.trace == nil {
		return nil
	}
	return func(witness string, from, size uint64) func(string) {
		batch := l.trace.Batch("witness")
		return func(class string) { batch.Asked(witness, from, size, class) }
	}
}
