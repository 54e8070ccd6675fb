package client_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"counterfoil/internal/app"
	"counterfoil/ledger/client"
	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
)

// ledger runs one for an example, in place of "counterfoil serve".
func ledger() (url, token string, stop func()) {
	dir, err := os.MkdirTemp("", "counterfoil-example-")
	if err != nil {
		log.Fatal(err)
	}
	s, err := app.Start(context.Background(), app.Config{Dir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler), Random: rand.Reader, Now: time.Now})
	if err != nil {
		log.Fatal(err)
	}
	return s.Ready.Listening, s.Token, func() {
		_ = s.Stop(context.Background())
		_ = os.RemoveAll(dir)
	}
}

func begin(invocation string) *client.Begin {
	return &client.Begin{
		Source: client.Source{RuntimeID: "billing-agent:1", AgentID: "billing", InvocationID: invocation, Protocol: "http", Implementation: "billing@1.4.0"},
		// When the action begins, by the clock of the source.
		OccurredAt:   "2026-07-28T09:30:00.000Z",
		Action:       client.Action{Name: "refund", EffectKind: "payment", EffectMode: "one_time"},
		PrivateInput: []byte(`{"order":"4711","amount":"12.00"}`),
	}
}

// Record an action: the attempt before it is done, the outcome afterwards.
func Example() {
	url, token, stop := ledger()
	defer stop()
	ctx := context.Background()

	c, err := client.New(client.Config{Server: url, Token: token})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	attempt, err := c.Begin(ctx, begin("refund-4711"), client.Logged)
	if err != nil {
		log.Fatal(err) // nothing is recorded, or it is not known: do not act
	}

	// … the action itself …

	outcome, err := c.Append(ctx, &client.Append{
		AttemptID: attempt.Value.AttemptID, Lifecycle: "outcome", SourceEventID: "refund-4711/result", OccurredAt: "2026-07-28T09:30:02.000Z",
		Status: "succeeded", PrivateResult: []byte(`{"refund":"R-1"}`),
	}, client.Published)
	if err != nil {
		log.Fatal(err) // call it again with the same values: it is safe
	}
	fmt.Println(attempt.Value.Action.Status, attempt.Value.LeafIndex)
	fmt.Println(outcome.Value.Action.Status, outcome.Value.LeafIndex, outcome.Value.Stage)
	// Output:
	// requested 0
	// succeeded 1 published
}

// A begin that is repeated, after a lost answer or a restart, finds the stored event.
func ExampleClient_Begin_repeated() {
	url, token, stop := ledger()
	defer stop()
	c, err := client.New(client.Config{Server: url, Token: token})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	first, err := c.Begin(context.Background(), begin("refund-4712"), client.Logged)
	if err != nil {
		log.Fatal(err)
	}
	again, err := c.Begin(context.Background(), begin("refund-4712"), client.Logged)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.New, again.New, first.Value.EventID == again.Value.EventID)

	other := begin("refund-4712")
	other.PrivateInput = []byte(`{"order":"4711","amount":"1200.00"}`)
	_, err = c.Begin(context.Background(), other, client.Logged)
	fmt.Println(err.(*client.Error).Code)
	// Output:
	// true false true
	// conflict
}

// Wait until the log's checkpoint covers an event, and verify its bundle by a trust
// file.
func ExampleClient_Verify() {
	url, token, stop := ledger()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Config{Server: url, Token: token})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	attempt, err := c.Begin(ctx, begin("refund-4713"), client.Accepted)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Wait(ctx, attempt.Value.EventID, client.Published); err != nil {
		log.Fatal(err)
	}

	// In earnest the trust file comes from elsewhere, once.
	raw, err := c.Trust(ctx)
	if err != nil {
		log.Fatal(err)
	}
	file, err := trust.Parse(raw)
	if err != nil {
		log.Fatal(err)
	}
	report, bundle, err := c.Verify(ctx, file, receipt.Options{}, attempt.Value.AttemptID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Status, len(bundle) > 0)
	// Output:
	// verified true
}

// Follow the events of the log from an index on.
func ExampleClient_Events() {
	url, token, stop := ledger()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Config{Server: url, Token: token})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for _, invocation := range []string{"a", "b", "c"} {
		if _, err := c.Begin(ctx, begin(invocation), client.Published); err != nil {
			log.Fatal(err)
		}
	}
	for ev, err := range c.Events(ctx, client.EventsOptions{From: 1, Stop: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ev.LeafIndex)
	}
	// Output:
	// 1
	// 2
}
