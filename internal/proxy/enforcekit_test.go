package proxy_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/internal/proxy"
	"counterfoil/internal/proxy/gate"
	"counterfoil/internal/proxy/record"
	"counterfoil/internal/proxy/stdio"
	"counterfoil/internal/proxy/traffic"
	"counterfoil/internal/reviewer"
	"counterfoil/internal/testkit/mcpkit"
	"counterfoil/internal/testkit/reviewkit"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
)

const underTest = "mcp/kit"

var receipt = event.DigestOf([]byte("a receipt")).String()

// set sets the contract of the tests.
func (l *ledger) set(terms event.ContractTerms) {
	l.t.Helper()
	d := &review.Document{Schema: event.ContractSchema, Name: underTest, ContractTerms: terms}
	if d.Receipt == "" {
		d.Receipt = receipt
	}
	id, _, err := reviewer.Ledger{Client: l.client}.SetContract(l.t.Context(), d, reviewer.Source{RuntimeID: "t", AgentID: "t", Implementation: "t"}, reviewkit.Now)
	if err != nil {
		l.t.Fatal(err)
	}
	l.until(func(d *client.Disposition) bool { return d.Known && d.Tools == terms.Tools && d.Impact == terms.Impact }, "contract "+id)
}

// until waits until what callers are told is so. It is a comparison, not a matter
// of time.
func (l *ledger) until(ok func(*client.Disposition) bool, what string) *client.Disposition {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 30*time.Second)
	defer cancel()
	for {
		a, err := l.client.Disposition(ctx, underTest)
		if err != nil {
			l.t.Fatalf("%s: %v", what, err)
		}
		if ok(&a.Value) {
			return &a.Value
		}
	}
}

// judged appends a review by a person, and returns its event id once callers are
// told of it.
func (l *ledger) judged(disposition string) string {
	l.t.Helper()
	a, err := l.client.Contract(l.t.Context(), underTest)
	if err != nil {
		l.t.Fatal(err)
	}
	c := a.Value.Contracts[0]
	body := fmt.Sprintf(`{"lifecycle":"review","sourceEventId":%q,"occurredAt":%q,"status":%q,"reviewer":"ada","reasonCodes":["manual_review"],"refs":{"reviews":%q}}`,
		"ticket-"+rand.Text(), event.FormatTime(reviewkit.Now), disposition, c.EventID)
	r, err := l.client.AppendRaw(l.t.Context(), c.AttemptID, []byte(body), client.Logged)
	if err != nil {
		l.t.Fatal(err)
	}
	l.until(func(d *client.Disposition) bool { return d.ReviewEventID == r.Value.EventID }, "review "+disposition)
	return r.Value.EventID
}

// outcomeRefs are the refs of the outcomes of calls, in the order of the log.
func (l *ledger) outcomeRefs() (refs []map[string]string) {
	l.t.Helper()
	for _, r := range l.receipts(nil) {
		if r.Lifecycle == "outcome" && r.Action.EffectKind == "mcp.tools/call" {
			refs = append(refs, r.Refs)
		}
	}
	return refs
}

// denial is the error of a call that a contract refuses.
type denial struct {
	Code    int
	Message string
	Data    struct {
		Code, Reason, Contract, ReviewEventID, Expected, Got string
		ReasonCodes                                          []string
		Dispatched                                           *bool
		Status, Outcome, Recovery, Label                     string
		RetryAfterSeconds                                    *int
	}
}

func denied(t testing.TB, line string) denial {
	t.Helper()
	var r struct {
		Error  denial
		Result json.RawMessage
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil || r.Error.Code != traffic.RefusalCode || r.Result != nil || r.Error.Data.Dispatched == nil || *r.Error.Data.Dispatched ||
		r.Error.Data.Contract != underTest || r.Error.Data.Outcome != "not_started" || r.Error.Data.Status != "failed" || r.Error.Data.Label != "trusted_control" {
		t.Fatalf("not refused under the contract: %s, %v", line, err)
	}
	return r.Error
}

func answered(t testing.TB, line string) {
	t.Helper()
	if !strings.Contains(line, `"result"`) {
		t.Fatalf("not answered by the server: %s", line)
	}
}

// clock is real time with jumps.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time        { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) jump(by time.Duration) { c.ahead.Add(int64(by)) }

// stale is just over the age at which an answer is asked for again.
const stale = gate.Fresh + time.Second

// faulty is a ledger of which the answers about contracts can be kept back, or
// replaced by an earlier one.
type faulty struct {
	*client.Client
	mu     sync.Mutex
	away   bool
	replay *client.Answer[client.Disposition]
	asked  int
}

func (f *faulty) Disposition(ctx context.Context, contract string) (*client.Answer[client.Disposition], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	switch {
	case f.away:
		return nil, &client.Unreachable{Server: "ledger", Err: errors.New("cut off")}
	case f.replay != nil:
		return f.replay, nil
	}
	return f.Client.Disposition(ctx, contract)
}

func (f *faulty) set(away bool, replay *client.Answer[client.Disposition]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away, f.replay = away, replay
}

func (f *faulty) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// inside runs the proxy before the test server in this process, so that its clock
// and its ledger can be had. finish ends it.
type inside struct {
	*session
	clock  *clock
	ledger *faulty
	finish func()
}

func (l *ledger) inside(state, calls string, change ...func(*proxy.Config)) *inside {
	l.t.Helper()
	token, err := os.ReadFile(l.tokenFile()) // the ledger may be away
	if err != nil {
		l.t.Fatal(err)
	}
	cl, err := client.New(client.Config{Server: "http://" + l.cfg.Listen, Token: strings.TrimSpace(string(token)), Retries: -1})
	if err != nil {
		l.t.Fatal(err)
	}
	in := &inside{clock: new(clock), ledger: &faulty{Client: cl}}
	log := slog.New(slog.DiscardHandler)
	pc := proxy.Config{Ledger: in.ledger, State: state, Contract: underTest, Grace: gate.DefaultGrace, Patience: 10 * time.Second, Random: rand.Reader, Now: in.clock.now, Log: log}
	for _, f := range change {
		f(&pc)
	}
	e, err := proxy.Open(pc)
	if err != nil {
		l.t.Fatal(err)
	}
	env, err := exec.LookPath("env")
	if err != nil {
		l.t.Fatal(err)
	}
	fromClient, toProxy := io.Pipe()
	fromProxy, toClient := io.Pipe()
	errs := new(lockedBuffer)
	errs.more.L = &errs.mu
	in.session = &session{t: l.t, in: toProxy, out: bufio.NewReaderSize(fromProxy, 1<<20), errs: errs}
	trace, err := e.Name()
	if err != nil {
		l.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := stdio.Run(context.Background(), stdio.Config{Command: slices.Concat([]string{env}, mcpkit.Env(calls, 0), []string{self(l.t)}), Stdin: fromClient, Stdout: toClient,
			Stderr: errs, Conn: traffic.NewConn(e.Traffic, trace, record.Peers{}), Log: log})
		_ = toClient.Close()
		done <- err
	}()
	var once sync.Once
	in.finish = func() {
		once.Do(func() {
			_ = toProxy.Close()
			_, _ = io.Copy(io.Discard, in.out)
			if err := errors.Join(<-done, e.Close()); err != nil {
				l.t.Error(err)
			}
			cl.Close()
		})
	}
	l.t.Cleanup(in.finish)
	in.ask(hello)
	return in
}
