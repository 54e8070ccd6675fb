package trace

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"counterfoil/internal/httpstatus"
)

// Handler makes a span of every POST, under the caller's traceparent if it sent a good
// one; see [Tracer.Routed] for its name. Without a tracer it is h.
func (t *Tracer) Handler(h http.Handler) http.Handler {
	if t == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			h.ServeHTTP(w, r)
			return
		}
		ctx, span := t.tracer.Start(callers(r), http.MethodPost, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		rec := httpstatus.Record(w)
		h.ServeHTTP(rec, r.WithContext(ctx))
		span.SetAttributes(attribute.Int(Status, rec.Status))
		if rec.Status >= 500 {
			span.SetStatus(codes.Error, "")
		}
	})
}

// Routed names the span of a call by its route, never by its path. It is nil without a
// tracer.
func (t *Tracer) Routed() func(ctx context.Context, route string) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, route string) {
		method, _, named := strings.Cut(route, " ")
		if named && method != http.MethodPost {
			return // a look-up within the call
		}
		if !named {
			route = http.MethodPost + " " + route
		}
		trace.SpanFromContext(ctx).SetName(route)
	}
}

// callers is the context of a request under its traceparent. The tracestate, which is
// any text, is left out, and baggage is not read.
func callers(r *http.Request) context.Context {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, sc.WithTraceState(trace.TraceState{}))
	}
	return ctx
}
