package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"
)

// A refused publish burns no sequence (SAME ID cases rest on it).
func TestLOG03_WrongExpectationBurnsNoSequence(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	mustPublish(t, s, 1, "a", 0)
	mustPublish(t, s, 2, "b", 0)
	mustPublish(t, s, 1, "c", 1)
	publish := func(expect uint64) error {
		_, err := s.Publish(t.Context(), Msg{subject("tool_action", "outcome", 1), []byte("x")}, filter(1), expect)
		return err
	}
	for _, expect := range []uint64{0, 1, 2} {
		var wrong *WrongLastError
		if err := publish(expect); !errors.As(err, &wrong) || *wrong != (WrongLastError{Filter: filter(1), Expected: expect, Last: 3}) {
			t.Errorf("expected %d: %v", expect, err)
		}
	}
	// An expectation above is no lost race: the stream would have lost it.
	var wrong *WrongLastError
	if err := publish(99); !errors.Is(err, ErrUnavailable) || errors.As(err, &wrong) {
		t.Errorf("expected 99: %v", err)
	}
	if st, err := s.State(t.Context()); err != nil || st != (State{1, 3, 3, 0}) {
		t.Errorf("state %+v, %v", st, err)
	}
	if n := mustPublish(t, s, 1, "d", 3); n != 4 {
		t.Errorf("next sequence is %d", n)
	}
}

// The filter covers every kind and lifecycle of a shard, and no other shard.
func TestLOG03_FilterCoversTheShard(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	var last uint64
	for _, kind := range []string{"tool_action", "admission", "ledger"} {
		for _, lifecycle := range []string{"attempt", "outcome", "review"} {
			seq, err := s.Publish(t.Context(), Msg{subject(kind, lifecycle, 5), []byte("x")}, filter(5), last)
			must(t, err)
			var wrong *WrongLastError
			if _, err := s.Publish(t.Context(), Msg{subject("contract", "attempt", 5), []byte("x")}, filter(5), last); !errors.As(err, &wrong) || wrong.Last != seq {
				t.Fatalf("after %s.%s: %v", kind, lifecycle, err)
			}
			last = seq
			mustPublish(t, s, 6, "other shard", mustLast(t, s, 6))
		}
	}
	// Another tenant's shard of the same number is another shard.
	if _, err := s.Publish(t.Context(), Msg{"counterfoil.v1.other.a.b.05", []byte("x")}, "counterfoil.v1.other.*.*.05", 0); err != nil {
		t.Error(err)
	}
	if n := mustLast(t, s, 5); n != last {
		t.Errorf("last of shard 5 is %d, expected %d", n, last)
	}
}

func mustLast(t testing.TB, s *Stream, shard int) uint64 {
	t.Helper()
	n, err := s.LastSeq(t.Context(), filter(shard))
	must(t, err)
	return n
}

// Of many publishers with one expectation exactly one wins, every time.
func TestLOG03_OneOfManyWins(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	var last uint64
	for round := range 200 {
		var wins, losses atomic.Int32
		var seq atomic.Uint64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				n, err := s.Publish(t.Context(), Msg{subject(fmt.Sprint("k", i), "attempt", 1), []byte("x")}, filter(1), last)
				var wrong *WrongLastError
				switch {
				case err == nil:
					wins.Add(1)
					seq.Store(n)
				case errors.As(err, &wrong):
					losses.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 || losses.Load() != 7 {
			t.Fatalf("round %d: %d won, %d lost", round, wins.Load(), losses.Load())
		}
		last = seq.Load()
	}
	if last != 200 {
		t.Errorf("200 rounds made %d messages", last)
	}
}

// Publishing by a model: a map from shard to its last sequence says what each
// publish does.
func TestLOG03_PublishByModel(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	var total uint64
	model := map[int]uint64{}
	rapid.Check(t, func(t *rapid.T) {
		shard := rapid.IntRange(0, 3).Draw(t, "shard")
		kind := rapid.SampledFrom([]string{"tool_action", "admission"}).Draw(t, "kind")
		expect := rapid.Uint64Range(0, total).Draw(t, "expect")
		if rapid.Bool().Draw(t, "right") {
			expect = model[shard]
		}
		seq, err := s.Publish(context.Background(), Msg{subject(kind, "attempt", shard), []byte("x")}, filter(shard), expect)
		var wrong *WrongLastError
		switch last := model[shard]; {
		case expect == last:
			if total++; err != nil || seq != total {
				t.Fatalf("got %d, %v, expected sequence %d", seq, err, total)
			}
			model[shard] = seq
		case expect < last:
			if !errors.As(err, &wrong) || wrong.Last != last {
				t.Fatalf("got %v, expected last %d", err, last)
			}
		default:
			if !errors.Is(err, ErrUnavailable) {
				t.Fatalf("got %v, expected ErrUnavailable", err)
			}
		}
	})
}

func TestLOG03_SizeOfBodies(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	long := "counterfoil.v1.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.tool_action.reconciliation.ff"
	longFilter := "counterfoil.v1.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.*.*.ff"
	seq, err := s.Publish(t.Context(), Msg{long, make([]byte, MaxPublish)}, longFilter, 0)
	if err != nil || seq != 1 {
		t.Errorf("largest body: %d, %v", seq, err)
	}
	// The room that is kept holds the largest header, with the largest sequence.
	h := expectation{filter: longFilter, last: 1<<64 - 1}.header()
	size := len("NATS/1.0\r\n\r\n")
	for k, v := range h {
		size += len(k) + len(": ") + len(v[0]) + len("\r\n")
	}
	if size > headerRoom {
		t.Errorf("a header takes %d bytes, room for %d", size, headerRoom)
	}
	if _, err := s.Publish(t.Context(), Msg{long, make([]byte, MaxPublish+1)}, longFilter, 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
	if _, err := s.Publish(t.Context(), Msg{"other", []byte("x")}, longFilter, 1); err == nil {
		t.Error("a foreign subject was taken")
	}
	if _, err := s.Publish(t.Context(), Msg{long, []byte("x")}, "counterfoil.>", 1); err == nil {
		t.Error("a foreign filter was taken")
	}
}

// Futures come in the order of the calls, whoever waits first.
func TestLOG01_AsyncKeepsOrder(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	var fs []*Future
	for i := range 1000 {
		f, err := s.PublishAsync(Msg{subject("a", "b", i%250), []byte("x")}, filter(i%250), uint64(max(0, i-249)))
		must(t, err)
		fs = append(fs, f)
	}
	for i := len(fs) - 1; i >= 0; i-- {
		seq, err := fs[i].Wait(t.Context())
		// Sequence i+1; the expectation is the sequence 250 before, or none.
		if err != nil || seq != uint64(i)+1 {
			t.Fatalf("message %d: %d, %v", i, seq, err)
		}
	}
}

// A caller that gives up does not know; the message is there all the same, and
// publishing it again cannot store it twice.
func TestLOG03_UnansweredMayBeStored(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	good := s.pub.prefix
	s.pub.prefix = "nobody." // the answer goes astray
	_, err := s.Publish(ctx, Msg{subject("a", "b", 1), []byte("x")}, filter(1), 0)
	s.pub.prefix = good
	if !errors.Is(err, ErrUnanswered) || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	var wrong *WrongLastError
	if _, err := s.Publish(t.Context(), Msg{subject("a", "b", 1), []byte("x")}, filter(1), 0); !errors.As(err, &wrong) || wrong.Last != 1 {
		t.Errorf("again: %v", err)
	}
}

// What has no answer in time, or when the stream closes, ends unanswered.
func TestLOG03_SilenceEndsUnanswered(t *testing.T) {
	t.Parallel()
	url, nc := external(t, t.TempDir())
	cfg := urlConfig(url)
	cfg.AckTimeout = 300 * time.Millisecond
	s := open(t, cfg)
	// Someone swallows the messages: the stream is gone, a listener is there.
	must(t, s.destroy(t.Context()))
	_, err := nc.SubscribeSync(Subjects)
	must(t, err)
	must(t, nc.Flush())
	if _, err := s.Publish(t.Context(), Msg{subject("a", "b", 1), []byte("x")}, filter(1), 0); !errors.Is(err, ErrUnanswered) {
		t.Errorf("silence: %v", err)
	}
	s.pub.s.cfg.AckTimeout = time.Hour
	f, err := s.PublishAsync(Msg{subject("a", "b", 1), []byte("x")}, filter(1), 0)
	must(t, err)
	go func() { _ = s.Close(context.Background()) }()
	if _, err := f.Wait(t.Context()); !errors.Is(err, ErrUnanswered) || !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := s.PublishAsync(Msg{subject("a", "b", 1), []byte("x")}, filter(1), 0); !errors.Is(err, ErrUnavailable) {
		t.Errorf("after close: %v", err)
	}
}

// Without a stream the answer is certain: nothing was stored.
func TestLOG14_NoStreamIsUnavailable(t *testing.T) {
	url, _ := external(t, t.TempDir())
	s := open(t, urlConfig(url))
	must(t, s.destroy(t.Context()))
	if _, err := s.Publish(t.Context(), Msg{subject("a", "b", 1), []byte("x")}, filter(1), 0); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnanswered) {
		t.Errorf("publish: %v", err)
	}
	if err := s.Healthy(t.Context()); err == nil {
		t.Error("healthy without a stream")
	}
}

// Every answer that JetStream gives, and what becomes of it.
func TestAnswers(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	for _, tc := range []struct {
		answer string
		status string
		seq    uint64
		check  func(error) bool
	}{
		{`{"stream":"COUNTERFOIL","seq":5}`, "", 5, nil},
		{`{"stream":"COUNTERFOIL", "seq":5, "duplicate": true}`, "", 5, nil},
		{`{"stream":"COUNTERFOIL","domain":"x","seq":5}`, "", 5, nil},
		{`{"stream":"COUNTERFOIL","seq":0}`, "", 0, func(err error) bool { return err != nil }},
		{`{"stream":"OTHER","seq":5}`, "", 0, func(err error) bool { return err != nil }},
		{`{"stream":"COUNTERFOIL","seq":5`, "", 0, func(err error) bool { return errors.Is(err, ErrUnanswered) }},
		{``, "", 0, func(err error) bool { return errors.Is(err, ErrUnanswered) }},
		{``, "503", 0, func(err error) bool { return errors.Is(err, ErrUnavailable) }},
		{`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"}}`, "", 0, func(err error) bool {
			var w *WrongLastError
			return errors.As(err, &w) && w.Last == 9 && w.Expected == 3
		}},
		{`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 2"}}`, "", 0, func(err error) bool { return errors.Is(err, ErrUnavailable) }},
		{`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`, "", 0, func(err error) bool { var b *busyError; return errors.As(err, &b) }},
		{`{"error":{"code":503,"err_code":10163,"description":"not ready"}}`, "", 0, func(err error) bool { var b *busyError; return errors.As(err, &b) }},
		{`{"error":{"code":429,"err_code":10167,"description":"too many requests"}}`, "429", 0, func(err error) bool { var b *busyError; return errors.As(err, &b) }},
		{`{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}`, "", 0, func(err error) bool { return errors.Is(err, ErrTooLarge) }},
		{`{"error":{"code":503,"err_code":10077,"description":"resource limits exceeded"}}`, "", 0, func(err error) bool { return errors.Is(err, ErrUnavailable) }},
	} {
		f := &Future{p: s.pub, expect: expectation{filter: filter(1), last: 3}}
		m := &nats.Msg{Data: []byte(tc.answer), Header: nats.Header{}}
		if tc.status != "" {
			m.Header.Set(statusHeader, tc.status)
		}
		seq, err := s.pub.parse(f, m)
		if seq != tc.seq || (tc.check == nil) != (err == nil) || tc.check != nil && !tc.check(err) {
			t.Errorf("%s: %d, %v", tc.answer, seq, err)
		}
	}
}

// A busy stream is asked again until it decides.
func TestLOG03_BusyIsRetried(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	f, err := s.PublishAsync(Msg{subject("a", "b", 1), []byte("x")}, filter(1), 0)
	must(t, err)
	<-f.done
	// As if the answer had been that another write was in flight; by now the
	// expectation is wrong.
	f.seq, f.err = 0, &busyError{apiError{ErrCode: codeWrongLastInFlight}}
	var wrong *WrongLastError
	if _, err := f.Wait(t.Context()); !errors.As(err, &wrong) || wrong.Last != 1 {
		t.Errorf("got %v", err)
	}
	f.until = time.Now()
	if _, err := f.Wait(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("too late: %v", err)
	}
}

// Bodies come back as they were, whatever is in them.
func TestLOG01_AnyBytes(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	tail := s.Tail(t.Context(), 1)
	var last uint64
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 4096).Draw(t, "body")
		seq, err := s.Publish(context.Background(), Msg{subject("a", "b", 1), body}, filter(1), last)
		if err != nil {
			t.Fatal(err)
		}
		last = seq
		msgs, err := tail.Next(context.Background(), 10)
		if err != nil || len(msgs) != 1 || msgs[0].Seq != seq || !bytes.Equal(msgs[0].Body, body) {
			t.Fatalf("tail: %v, %v", msgs, err)
		}
		m, err := s.Get(context.Background(), seq)
		if err != nil || !bytes.Equal(m.Body, body) {
			t.Fatalf("get: %v, %v", m, err)
		}
	})
}
