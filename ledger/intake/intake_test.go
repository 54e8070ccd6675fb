package intake_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/ledger/commit"
	"counterfoil/ledger/event"
	"counterfoil/ledger/index"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/stream"
	"counterfoil/ledger/vault"
)

const origin = "ledger.example/test"

// site is one intake with its own directory on a stream, a vault and keys that
// several share.
type site struct {
	*intake.Intake
	index *index.Index
	stop  func()
}

// shared is what all sites of a test have in common.
type shared struct {
	t      *testing.T
	stream *stream.Stream
	vault  *vault.Vault
	tenant []byte
	key    ed25519.PrivateKey
	now    func() time.Time
	next   ed25519.PrivateKey // a second key that counts; nil without one
	// lose makes Publish lose the answer of the next message, stored or not.
	lose chan bool
	// What was put and is not durable yet, and what a flush answers.
	loose  atomic.Int64
	alone  bool // one caller at a time: what is loose at a publish is that event's
	broken atomic.Pointer[error]
}

func newShared(t *testing.T) *shared {
	t.Helper()
	ctx := context.Background()
	st, err := stream.Open(ctx, stream.Config{Dir: filepath.Join(t.TempDir(), "stream"), Tenant: "default", Origin: origin, Fingerprint: "sha256:test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if _, err := st.Heal(ctx, stream.HealConfig{Leaves: noLeaves{}, SubjectOf: event.SubjectOfLeaf,
		Chains: func([]byte) error { return nil }, AsideDir: filepath.Join(t.TempDir(), "aside")}); err != nil {
		t.Fatal(err)
	}
	v, err := vault.Open(filepath.Join(t.TempDir(), "vault"), [32]byte{1}, vault.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	_, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &shared{t: t, stream: st, vault: v, tenant: []byte("0123456789abcdef0123456789abcdef"), key: priv, now: time.Now, lose: make(chan bool, 1)}
}

// noLeaves is a log without leaves.
type noLeaves struct{}

func (noLeaves) Size() uint64                                 { return 0 }
func (noLeaves) Leaf(context.Context, uint64) ([]byte, error) { return nil, errors.New("no leaf") }

func (s *shared) site(dir string) *site {
	s.t.Helper()
	pub := s.key.Public().(ed25519.PublicKey)
	x, err := index.Open(index.Config{Dir: dir, Tenant: "default", Origin: origin, Logger: slog.New(slog.DiscardHandler),
		Check: func(r *event.Record, _ []byte, _ uint64) error {
			if r.VerifyWith(pub) < 0 && (s.next == nil || r.VerifyWith(s.next.Public().(ed25519.PublicKey)) < 0) {
				return errors.New("bad signature")
			}
			return nil
		}})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	at, _ := x.Position()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := x.Run(ctx, tail{s.stream.Tail(ctx, at+1)}); err != nil {
			s.t.Errorf("index: %v", err)
		}
	})
	in := intake.New(intake.Config{
		Origin: origin, Tenant: "default", TenantKey: s.tenant, Signer: signer{s.key}, Signed: func([]byte, *event.Record) {},
		Stream: door{s}, Index: x, Vault: keys{s}, Random: rand.Reader, Now: func() time.Time { return s.now() },
		Logger: slog.New(slog.DiscardHandler), RetryEvery: time.Millisecond,
	})
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			wg.Wait()
			if err := x.Close(); err != nil {
				s.t.Error(err)
			}
		})
	}
	s.t.Cleanup(stop)
	return &site{Intake: in, index: x, stop: stop}
}

type signer struct{ key ed25519.PrivateKey }

func (s signer) KeyID() string                   { return event.KeyID(s.key.Public().(ed25519.PublicKey)) }
func (s signer) Sign(pae []byte) ([]byte, error) { return ed25519.Sign(s.key, pae), nil }

type tail struct{ t *stream.Tail }

func (r tail) Next(ctx context.Context, max int) (out []index.Message, err error) {
	msgs, err := r.t.Next(ctx, max)
	for _, m := range msgs {
		out = append(out, index.Message{Seq: m.Seq, Subject: m.Subject, Body: m.Body})
	}
	return out, err
}

type door struct{ s *shared }

func (d door) Publish(ctx context.Context, subject string, body []byte, filter string, last uint64) (uint64, error) {
	if n := d.s.loose.Load(); n > 0 && d.s.alone {
		d.s.t.Errorf("an event is published while %d keys or bodies are not durable", n)
	}
	select {
	case stored := <-d.s.lose:
		if stored {
			if _, err := d.s.stream.Publish(ctx, stream.Msg{Subject: subject, Body: body}, filter, last); err != nil {
				d.s.t.Errorf("publish: %v", err)
			}
		}
		return 0, intake.ErrUnanswered
	default:
	}
	seq, err := d.s.stream.Publish(ctx, stream.Msg{Subject: subject, Body: body}, filter, last)
	var wrong *stream.WrongLastError
	if errors.As(err, &wrong) {
		return 0, &intake.WrongLast{Last: wrong.Last}
	}
	return seq, err
}

func (d door) Get(ctx context.Context, seq uint64) ([]byte, error) {
	m, err := d.s.stream.Get(ctx, seq)
	return m.Body, err
}

type keys struct{ s *shared }

func (k keys) PutNew(fresh map[string][32]byte) error {
	k.s.loose.Add(1)
	return k.s.vault.PutNew(fresh)
}

func (k keys) Sync() error {
	if err := k.s.broken.Load(); err != nil {
		return *err
	}
	had := k.s.loose.Load()
	err := k.s.vault.Sync()
	k.s.loose.Add(-had)
	return err
}

func (k keys) Key(id string) ([32]byte, error) {
	key, err := k.s.vault.Key(id)
	if errors.Is(err, vault.ErrErased) {
		err = intake.ErrErased
	}
	return key, err
}
func (k keys) PutBody(id, slot, name, enc string, b []byte) error {
	k.s.loose.Add(1)
	return k.s.vault.PutBody(id, slot, name, b, commit.Encoding(enc))
}

func parseBegin(t testing.TB, invocation, input string) *intake.Begin {
	t.Helper()
	b, err := intake.ParseBegin(fmt.Appendf(nil, `{"source":{"runtimeId":"r","agentId":"a","invocationId":%q,"protocol":"mcp","implementation":"x"},`+
		`"occurredAt":"2026-07-28T00:00:00.000Z","action":{"name":"tool","effectKind":"k","effectMode":"one_time"},"privateInput":%s}`, invocation, input))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parseAppend(t testing.TB, attempt, id, rest string) *intake.Append {
	t.Helper()
	a, err := intake.ParseAppend(fmt.Appendf(nil, `{"sourceEventId":%q,"occurredAt":"2026-07-28T00:00:01.000Z",%s}`, id, rest), attempt)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestEVI17_EVI20_ATT26_TwoIntakesOneStream: two intakes with directories of their own
// on one stream. The same begin is one attempt, a conflicting one is refused
// with both digests, of racing outcomes one wins; and all of it stays so after a
// restart without the index.
func TestEVI17_EVI20_ATT26_TwoIntakesOneStream(t *testing.T) {
	ctx := context.Background()
	s := newShared(t)
	dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	sites := []*site{s.site(dirs[0]), s.site(dirs[1])}

	const attempts = 60
	type outcome struct {
		res *intake.Result
		err error
	}
	race := func(f func(site int) (*intake.Result, error)) [2]outcome {
		var out [2]outcome
		var wg sync.WaitGroup
		for i := range out {
			wg.Go(func() { out[i].res, out[i].err = f(i) })
		}
		wg.Wait()
		return out
	}
	ids := make([]string, attempts)
	for n := range attempts {
		inv := fmt.Sprintf("call-%d", n)
		o := race(func(i int) (*intake.Result, error) { return sites[i].Begin(ctx, parseBegin(t, inv, `{"n":1}`)) })
		if o[0].err != nil || o[1].err != nil {
			t.Fatalf("%s: %v, %v", inv, o[0].err, o[1].err)
		}
		if o[0].res.Rec.Digest() != o[1].res.Rec.Digest() || o[0].res.Seq != o[1].res.Seq || o[0].res.New == o[1].res.New {
			t.Fatalf("%s: two answers for one begin: %d %v, %d %v", inv, o[0].res.Seq, o[0].res.New, o[1].res.Seq, o[1].res.New)
		}
		ids[n] = o[0].res.Rec.Event.AttemptID

		// Racing outcomes with different source events: one wins, the other is told the state.
		o = race(func(i int) (*intake.Result, error) {
			status := []string{"succeeded", "failed"}[i]
			return sites[i].Append(ctx, parseAppend(t, ids[n], "from-"+status, `"lifecycle":"outcome","status":"`+status+`"`))
		})
		won := 0
		for i := range o {
			var law *intake.Unlawful
			switch {
			case o[i].err == nil:
				won++
			case !errors.As(o[i].err, &law) || law.State.State == "open":
				t.Fatalf("%s: loser got %v", ids[n], o[i].err)
			}
		}
		if won != 1 {
			t.Fatalf("%s: %d outcomes won", ids[n], won)
		}
	}

	check := func(where string, sites []*site) {
		t.Helper()
		for n, id := range ids {
			inv := fmt.Sprintf("call-%d", n)
			for i, x := range sites {
				again, err := x.Begin(ctx, parseBegin(t, inv, `{"n":1}`))
				if err != nil || again.New || again.Rec.Event.AttemptID != id {
					t.Fatalf("%s, site %d: same begin gives %v, %v", where, i, again, err)
				}
				_, err = x.Begin(ctx, parseBegin(t, inv, `{"n":2}`))
				var c *intake.Conflict
				if !errors.As(err, &c) || c.Stored == c.Offered || c.Stored == "" {
					t.Fatalf("%s, site %d: other content gives %v", where, i, err)
				}
			}
		}
		st, err := s.stream.State(ctx)
		if err != nil || st.Messages != 2*attempts {
			t.Fatalf("%s: stream has %+v, %v; want %d messages", where, st, err, 2*attempts)
		}
	}
	check("running", sites)
	for _, x := range sites {
		x.stop()
	}
	check("restarted", []*site{s.site(dirs[0])})
	check("without an index", []*site{s.site(filepath.Join(t.TempDir(), "fresh"))})
}

// TestINV1_LostAnswerIsNotASecondEvent: the stream's answer is lost, with the
// message stored and without. Either way there is one event, and it is new.
func TestINV1_LostAnswerIsNotASecondEvent(t *testing.T) {
	ctx := context.Background()
	s := newShared(t)
	x := s.site(filepath.Join(t.TempDir(), "a"))
	for i, stored := range []bool{true, false} {
		s.lose <- stored
		b, err := x.Begin(ctx, parseBegin(t, fmt.Sprint("lost-", stored), "1"))
		if err != nil || !b.New || len(b.Openings) != 1 {
			t.Fatalf("stored %v: %v, %v", stored, b, err)
		}
		s.lose <- stored
		o, err := x.Append(ctx, parseAppend(t, b.Rec.Event.AttemptID, "o", `"lifecycle":"outcome","status":"unknown","privateResult":2`))
		if err != nil || !o.New {
			t.Fatalf("stored %v: %v, %v", stored, o, err)
		}
		st, err := s.stream.State(ctx)
		if err != nil || st.Last != uint64(2*(i+1)) {
			t.Fatalf("stored %v: %+v, %v", stored, st, err)
		}
	}
}

func TestEVI08_AppendToAnUnknownAttempt(t *testing.T) {
	s := newShared(t)
	x := s.site(filepath.Join(t.TempDir(), "a"))
	a := parseAppend(t, "att_00000000000000000000000000000000", "o", `"lifecycle":"outcome","status":"failed"`)
	if _, err := x.Append(context.Background(), a); !errors.Is(err, intake.ErrNoAttempt) {
		t.Errorf("got %v, want ErrNoAttempt", err)
	}
}

// TestPRV09_OpeningsOpenTheCommitments checks what the caller gets against what
// the event carries, and that slots do not share salts.
func TestPRV09_OpeningsOpenTheCommitments(t *testing.T) {
	ctx := context.Background()
	s := newShared(t)
	x := s.site(filepath.Join(t.TempDir(), "a"))
	b, err := x.Begin(ctx, parseBegin(t, "one", `{"b":2, "a":1.50}`))
	if err != nil {
		t.Fatal(err)
	}
	id := b.Rec.Event.AttemptID
	o, err := x.Append(ctx, parseAppend(t, id, "o", `"lifecycle":"outcome","status":"succeeded","privateResult":{"a":1.5,"b":2}`))
	if err != nil {
		t.Fatal(err)
	}
	value := []byte(`{"a":1.5,"b":2}`)
	for _, res := range []*intake.Result{b, o} {
		op := res.Openings[0]
		if err := commit.Verify(commit.Opening{Name: op.Name, Encoding: op.Encoding, Salt: op.Salt, Value: value}, op.Digest); err != nil {
			t.Errorf("%s: %v", op.Name, err)
		}
		if got := res.Rec.Event.Commitments[op.Name]; got != commit.FormatDigest(op.Digest) {
			t.Errorf("%s: the event has %s", op.Name, got)
		}
		other := op.Name + "x"
		if err := commit.Verify(commit.Opening{Name: other, Encoding: op.Encoding, Salt: op.Salt, Value: value}, op.Digest); err == nil {
			t.Error("opens under another name")
		}
	}
	if b.Openings[0].Salt == o.Openings[0].Salt {
		t.Error("two slots share a salt")
	}
}

// TestATT24_NothingIsPublishedWithoutItsKey: the vault fails, and no event is on
// the stream.
func TestATT24_NothingIsPublishedWithoutItsKey(t *testing.T) {
	ctx := context.Background()
	s := newShared(t)
	x := s.site(filepath.Join(t.TempDir(), "a"))
	if err := s.vault.Close(); err != nil {
		t.Fatal(err)
	}
	if res, err := x.Begin(ctx, parseBegin(t, "one", "1")); err == nil {
		t.Fatalf("recorded %v without a vault", res)
	}
	if st, err := s.stream.State(ctx); err != nil || st.Messages != 0 {
		t.Errorf("stream: %+v, %v", st, err)
	}
}

// TestCaseClocks: a source's clock may be off in both directions, and the
// ledger's may go back; order is the sequence, and nothing is refused.
func TestCaseClocks(t *testing.T) {
	ctx := context.Background()
	s := newShared(t)
	at := time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)
	s.now = func() time.Time { return at }
	x := s.site(filepath.Join(t.TempDir(), "a"))
	var last uint64
	for i, d := range []time.Duration{0, 45 * time.Second, -10 * time.Minute, 72 * time.Hour, -5 * time.Second} {
		at = at.Add(d)
		res, err := x.Begin(ctx, parseBegin(t, fmt.Sprint(i), "1"))
		if err != nil || res.Seq <= last {
			t.Fatalf("%v: %v, %v", d, res, err)
		}
		last = res.Seq
		if got := res.Rec.Event.CapturedAt; got != event.FormatTime(at) {
			t.Errorf("capturedAt %s, want %s", got, event.FormatTime(at))
		}
	}
}

// TestEVI17_EmptyValuesAreValues: an empty private value is a value, not an
// absent one, and each is other content than the rest.
func TestEVI17_EmptyValuesAreValues(t *testing.T) {
	ctx := context.Background()
	s := newShared(t)
	x := s.site(filepath.Join(t.TempDir(), "a"))
	values := []string{`{}`, `[]`, `""`, `null`, `0`, `false`}
	for i, first := range values {
		inv := fmt.Sprint("call-", i)
		b, err := x.Begin(ctx, parseBegin(t, inv, first))
		if err != nil || len(b.Rec.Event.Commitments) != 1 {
			t.Fatalf("%s: %v, commitments %v", first, err, b)
		}
		for _, second := range values {
			again, err := x.Begin(ctx, parseBegin(t, inv, second))
			var c *intake.Conflict
			switch {
			case first == second && (err != nil || again.New):
				t.Errorf("%s again: %v, %v", first, again, err)
			case first != second && !errors.As(err, &c):
				t.Errorf("%s, then %s: %v, want a conflict", first, second, err)
			}
		}
	}
}
