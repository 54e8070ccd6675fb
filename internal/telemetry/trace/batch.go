package trace

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

const (
	// MaxLinks bounds the links of one span.
	MaxLinks = 64
	// remembered bounds the events whose spans are known to later batches.
	remembered = 8192
)

// recent knows the spans of the last events by their sequence.
type recent struct {
	mu    sync.Mutex
	spans [remembered]struct {
		seq  uint64
		span trace.SpanContext
	}
}

// Published remembers that the event of a sequence is traced by the span of ctx.
func (t *Tracer) Published(ctx context.Context, seq uint64) {
	if t == nil {
		return
	}
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsSampled() {
		return
	}
	t.recent.mu.Lock()
	defer t.recent.mu.Unlock()
	at := &t.recent.spans[seq%remembered]
	at.seq, at.span = seq, sc
}

// links are the links to the traced events at leaves [from, to), the newest first.
func (t *Tracer) links(from, to uint64) (links []trace.Link) {
	if to-from > remembered {
		from = to - remembered
	}
	t.recent.mu.Lock()
	defer t.recent.mu.Unlock()
	for seq := to; seq > from && len(links) < MaxLinks; seq-- {
		if at := t.recent.spans[seq%remembered]; at.seq == seq {
			links = append(links, trace.Link{SpanContext: at.span})
		}
	}
	return links
}

// Batch is work on many events that has begun; the zero value is none.
type Batch struct {
	t     *Tracer
	name  string
	began time.Time
}

// Batch starts work on a batch.
func (t *Tracer) Batch(name string) Batch {
	if t == nil {
		return Batch{}
	}
	return Batch{t: t, name: name, began: t.now()}
}

// Leaves ends the work, which was on leaves [from, to). There is a span of it only if
// an event in it is traced.
func (b Batch) Leaves(from, to uint64, err error) {
	if b.t == nil || to <= from {
		return
	}
	b.end(b.t.links(from, to), err != nil, attribute.Int64(From, int64(from)), attribute.Int64(To, int64(to)))
}

// Asked ends a request to a witness about leaves [from, size); class is a word for why
// it gave no cosignature.
func (b Batch) Asked(witness string, from, size uint64, class string) {
	if b.t == nil || size <= from {
		return
	}
	attrs := []attribute.KeyValue{attribute.Int64(From, int64(from)), attribute.Int64(To, int64(size)), attribute.String(Witness, witness)}
	if class != "" {
		attrs = append(attrs, attribute.String(Failure, class))
	}
	b.end(b.t.links(from, size), class != "", attrs...)
}

func (b Batch) end(links []trace.Link, failed bool, attrs ...attribute.KeyValue) {
	if len(links) == 0 {
		return
	}
	_, s := b.t.tracer.Start(context.Background(), b.name, trace.WithTimestamp(b.began), trace.WithLinks(links...), trace.WithAttributes(attrs...))
	if failed {
		s.SetStatus(codes.Error, "")
	}
	s.End(trace.WithTimestamp(b.t.now()))
}
