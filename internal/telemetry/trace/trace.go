// Package trace sends spans of a ledger's work to an OTLP receiver, if one is named.
// A nil *Tracer is off: its methods do nothing and allocate nothing.
//
// # Spans
//
//	POST …    a call that records; continues the caller's traceparent
//	intake    an event becomes canonical, lawful and signed
//	stream    its message is published
//	wait      the caller waits for a stage
//	sequence  a batch becomes leaves
//	publish   a checkpoint over leaves is signed
//	witness   a witness is asked to cosign one
//	project   leaves are folded into the views
//
// A span of a batch belongs to no call. It has links to the spans of at most
// [MaxLinks] events in it, and exists only if one of its events is being traced.
//
// # What is in them
//
// Attributes are numbers, ids of events and attempts, and words of this program. No
// error text, name or value of a caller enters a span, and no baggage is read.
package trace

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// queue bounds the spans that wait to be sent; what comes beyond is dropped,
	// and the work that it tells of never waits.
	queue = 4096
	// sendLimit bounds one request to the receiver.
	sendLimit = 10 * time.Second
	// closeLimit bounds the sending of what waits when the ledger stops.
	closeLimit = 5 * time.Second
)

// Config says where spans go.
type Config struct {
	// Endpoint is the base URL of an OTLP/HTTP receiver, like
	// http://127.0.0.1:4318; without a path, /v1/traces is added. Headers of the
	// requests come from OTEL_EXPORTER_OTLP_HEADERS alone.
	Endpoint string
	// Ratio is the part of the calls that is traced whose callers do not say, 0 to
	// 1. A caller's traceparent says.
	Ratio float64
	// Origin and Version describe the ledger.
	Origin, Version string
	Now             func() time.Time
	Logger          *slog.Logger
}

// Check finds what is wrong with an endpoint.
func Check(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("trace endpoint %q is no URL of an OTLP receiver (hint: http://127.0.0.1:4318; credentials go into OTEL_EXPORTER_OTLP_HEADERS)", redact(u))
	}
	return nil
}

// redact keeps a password out of the error.
func redact(u *url.URL) string {
	if u == nil {
		return "…"
	}
	return u.Redacted()
}

// Tracer makes spans. It is safe for concurrent use; nil is off.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	now      func() time.Time
	recent   recent
}

// Start makes a tracer. The receiver is not asked: it may come and go.
func Start(ctx context.Context, cfg Config) (*Tracer, error) {
	if err := Check(cfg.Endpoint); err != nil {
		return nil, err
	}
	u, _ := url.Parse(cfg.Endpoint) // as checked
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	exp, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithTimeout(sendLimit))
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	t := &Tracer{now: cfg.Now}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&exporter{SpanExporter: exp, log: cfg.Logger}, sdktrace.WithMaxQueueSize(queue), sdktrace.WithBatchTimeout(time.Second)),
		sdktrace.WithSampler(sdktrace.ParentBased(linked{sdktrace.TraceIDRatioBased(cfg.Ratio)})),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{AttributeValueLengthLimit: 128, AttributeCountLimit: 16, EventCountLimit: 1,
			LinkCountLimit: MaxLinks, AttributePerEventCountLimit: 1, AttributePerLinkCountLimit: 1}),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "counterfoil"),
			attribute.String("service.version", cfg.Version), attribute.String("counterfoil.origin", cfg.Origin))),
	)
	t.tracer = t.provider.Tracer("counterfoil")
	return t, nil
}

// Close sends what waits, for a few seconds at most. What could not be sent is lost,
// which is no error: a trace is no evidence.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	_ = t.provider.Shutdown(ctx)
	return nil
}

// exporter says once that the receiver does not answer, and once that it does again.
// The processor calls it from one goroutine at a time.
type exporter struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	down bool
}

// ExportSpans sends spans. Its error would go to the standard logger.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !e.down:
		e.log.Warn("spans are not sent", "error", err)
	case err == nil && e.down:
		e.log.Info("spans are sent again")
	}
	e.down = err != nil
	return nil
}

// linked samples what has a link: batches with traced events. The rest goes by the
// ratio.
type linked struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler.
func (l linked) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if len(p.Links) > 0 {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return l.Sampler.ShouldSample(p)
}

// Names of attributes.
const (
	Attempt  = "counterfoil.attempt_id"
	Event    = "counterfoil.event_id"
	Sequence = "counterfoil.sequence" // of the stream; the leaf index is one less
	Stage    = "counterfoil.stage"
	From     = "counterfoil.from" // leaves [from, to)
	To       = "counterfoil.to"
	Bytes    = "counterfoil.bytes"
	Failure  = "counterfoil.failure" // class of a failed request to a witness
	Status   = "http.response.status_code"
	Witness  = "counterfoil.witness" // its name in the policy
)

// Span is a span; the zero value is none.
type Span struct{ span trace.Span }

// Begin starts a span under that of ctx.
func (t *Tracer) Begin(ctx context.Context, name string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name)
	return ctx, Span{s}
}

// Number adds a number.
func (s Span) Number(name string, n uint64) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int64(name, int64(n)))
	}
}

// Word adds an id or a word of this program, never text of a caller.
func (s Span) Word(name, word string) {
	if s.span != nil && word != "" {
		s.span.SetAttributes(attribute.String(name, word))
	}
}

// End ends the span. Of an error it says that there was one: its text may hold what a
// caller sent.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}
