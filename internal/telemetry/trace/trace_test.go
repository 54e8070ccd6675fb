package trace_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"counterfoil/internal/telemetry/trace"
)

var errWork = errors.New("failed")

// work is what one event and its batches do with a tracer.
func work(ctx context.Context, t *trace.Tracer) {
	ctx, span := t.Begin(ctx, "intake")
	t.Published(ctx, 7)
	span.Word(trace.Stage, "logged")
	span.Number(trace.Sequence, 7)
	span.End(errWork)
	t.Batch("sequence").Leaves(0, 7, nil)
	t.Batch("witness").Asked("w1", 0, 7, "5xx")
}

func TestNoTracerCostsNothing(t *testing.T) {
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() { work(ctx, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	var off *trace.Tracer
	h := http.NewServeMux()
	if off.Handler(h) != http.Handler(h) {
		t.Error("the handler is wrapped")
	}
	if err := off.Close(ctx); err != nil {
		t.Error(err)
	}
}

func BenchmarkOff(b *testing.B) {
	b.ReportAllocs()
	ctx := context.Background()
	for b.Loop() {
		work(ctx, nil)
	}
}

func TestEndpoints(t *testing.T) {
	for _, good := range []string{"http://127.0.0.1:4318", "https://otel.example/", "https://otel.example/tenant/v1/traces"} {
		if err := trace.Check(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:4318", "grpc://h:4317", "http://", "http://u:geheim@h", "http://h?token=1", "http://h#x", "http://h\n"} {
		err := trace.Check(bad)
		if err == nil || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%q: %v", bad, err)
		} else if strings.Contains(err.Error(), "geheim") {
			t.Errorf("the error shows a password: %v", err)
		}
	}
}
