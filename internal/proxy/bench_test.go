package proxy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"counterfoil/internal/testkit/mcpkit"
)

// BenchmarkAddedLatency measures one call, and one other message, at a time:
// directly, with both events logged before the answer, and with the outcome
// logged beside it. Compare p50 within one run only.
func BenchmarkAddedLatency(b *testing.B) {
	l := startLedger(b)
	for _, way := range []struct {
		name  string
		start func() *session
	}{
		{"direct", func() *session { return start(b, mcpkit.Env("", 0), self(b)) }},
		{"proxy", func() *session { return l.proxied(b.TempDir(), mcpkit.Env("", 0)) }},
		{"async", func() *session { return l.proxied(b.TempDir(), mcpkit.Env("", 0), "--outcome-async") }},
	} {
		for _, message := range []struct{ name, line string }{
			{"call", `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"path":"/srv/files/a.txt"}}}`},
			{"ping", `{"jsonrpc":"2.0","id":%d,"method":"ping"}`},
		} {
			b.Run(message.name+"/"+way.name, func(b *testing.B) {
				s := way.start()
				s.ask(hello)
				var took []time.Duration
				for i := 0; b.Loop(); i++ {
					began := time.Now()
					s.ask(fmt.Sprintf(message.line, i))
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "p50-ms")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1e3, "p99-ms")
				s.end()
			})
		}
	}
}
