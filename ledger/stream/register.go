package stream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// MaxRegister is the largest value of a register, in bytes.
const MaxRegister = 64 << 10

// ErrRevision: the register has another revision than the one that was
// expected, so another wrote it and nothing was changed.
var ErrRevision = errors.New("another wrote the register first")

// Register is one small value that all nodes share: a key of a JetStream
// key-value bucket, kept by as many servers as the stream. Every change names
// the revision that it was decided on, so of two writers one wins. It is safe
// for concurrent use.
type Register struct {
	s       *Stream
	name    string
	bucket  string // its stream
	subject string
	barrier string // see Get
}

// headerWrite has a random name of the write, by which a writer without an
// answer finds out whether what is there is its own.
const headerWrite = "Counterfoil-Write"

// Register returns the register with a name of 1 to 64 of A-Z a-z 0-9 _ -. The
// bucket of all registers is made when the first is asked for.
func (s *Stream) Register(ctx context.Context, name string) (*Register, error) {
	if !nameRE.MatchString(name) {
		return nil, fmt.Errorf("register name %q is not 1 to 64 of A-Z a-z 0-9 _ -", name)
	}
	bucket := s.cfg.Name + "_REGISTERS"
	r := &Register{s: s, name: name, bucket: "KV_" + bucket, subject: "$KV." + bucket + "." + name, barrier: "$KV." + bucket + "._read." + name}
	want := map[string]any{
		"name":                 r.bucket,
		"subjects":             []any{"$KV." + bucket + ".>"},
		"retention":            "limits",
		"storage":              "file",
		"discard":              "new",
		"max_consumers":        -1.0,
		"max_msgs":             -1.0,
		"max_bytes":            -1.0,
		"max_age":              0.0,
		"max_msgs_per_subject": 1.0,
		"max_msg_size":         float64(MaxRegister + headerRoom),
		"deny_delete":          true,
		"allow_direct":         true,
		"metadata":             s.ownMeta(),
	}
	if err := s.ensure(ctx, want, nil); err != nil {
		return nil, fmt.Errorf("register %s: %w", name, err)
	}
	return r, nil
}

// Put stores value if the register has revision expect (0: it was never
// written), and returns the new revision, which is higher than all before. It
// waits until ctx ends, AckTimeout at most, and sends again what got no answer.
// ErrRevision and ErrUnavailable: nothing was stored. ErrUnanswered: value may
// be stored, now or a little later; Put with the same expectation cannot store
// it twice. Both ErrRevision and ErrUnanswered: another wrote, and value may
// have been there before.
func (r *Register) Put(ctx context.Context, value []byte, expect uint64) (uint64, error) {
	if len(value) > MaxRegister {
		return 0, fmt.Errorf("register %s: value of %d bytes, at most %d: %w", r.name, len(value), MaxRegister, ErrTooLarge)
	}
	m := &nats.Msg{Subject: r.subject, Data: value, Header: nats.Header{
		headerExpectShardLast: {strconv.FormatUint(expect, 10)},
		headerWrite:           {rand.Text()},
	}}
	ctx, cancel := context.WithTimeout(ctx, r.s.cfg.AckTimeout)
	defer cancel()
	rev, err := r.s.settle(ctx, m)
	var wrong *WrongLastError
	switch {
	case err == nil:
		return rev, nil
	case errors.As(err, &wrong):
		return 0, fmt.Errorf("register %s: %w: %w", r.name, ErrRevision, err)
	}
	return 0, fmt.Errorf("register %s: %w", r.name, err)
}

// Get returns the value and its revision; revision 0: it was never written. It
// is as new as the moment of the call: before it reads, a note that it does goes
// through the servers like a write, and what is read is taken only from a server
// that has the note. So a server that was cut off from the others and does not
// know it yet cannot answer with an old value.
func (r *Register) Get(ctx context.Context) (value []byte, revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.s.cfg.AckTimeout)
	defer cancel()
	note, err := r.s.settle(ctx, &nats.Msg{Subject: r.barrier, Header: nats.Header{headerWrite: {rand.Text()}}})
	if err != nil {
		return nil, 0, fmt.Errorf("register %s: %w", r.name, err)
	}
	for pause := retryBusy; ; pause = min(2*pause, retryMax) {
		var got []*nats.Msg
		if got, err = r.s.lastOf(ctx, r.bucket, r.subject, r.barrier); err == nil {
			var seen uint64
			value, revision = nil, 0
			for _, m := range got {
				seq, perr := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
				switch {
				case perr != nil:
				case m.Header.Get(headerSubject) == r.barrier:
					seen = seq
				case m.Header.Get(headerSubject) == r.subject:
					value, revision = m.Data, seq
				}
			}
			if seen >= note {
				return value, revision, nil
			}
			err = errors.New("the server that answered is behind")
		}
		if !r.s.pause(ctx, pause) {
			return nil, 0, fmt.Errorf("register %s: %w", r.name, unavailable("read", errors.Join(err, ctx.Err())))
		}
	}
}

// lastOf asks any server of a stream for the last messages of subjects, as they
// were at one moment.
func (s *Stream) lastOf(ctx context.Context, stream string, subjects ...string) ([]*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, resendAfter)
	defer cancel()
	sub, err := s.nc.SubscribeSync(s.nc.NewInbox())
	if err != nil {
		return nil, unavailable("subscribe", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	body := `{"multi_last":["` + strings.Join(subjects, `","`) + `"]}`
	if err := s.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, sub.Subject, []byte(body)); err != nil {
		return nil, unavailable("read", err)
	}
	var out []*nats.Msg
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, unavailable("read", err)
		}
		switch status := m.Header.Get(statusHeader); status {
		case "":
			out = append(out, m)
		case "204": // the end
			return out, nil
		case statusMessageNotFound:
			if len(out) == 0 && m.Header.Get(descriptionHeader) == "No Results" {
				return nil, nil
			}
			return nil, unavailable("read", errors.New("a message could not be read"))
		default:
			return nil, unavailable("read", fmt.Errorf("status %s %s", status, m.Header.Get(descriptionHeader)))
		}
	}
}

// Watch calls f with the newest value, if there is one, and then with every
// newer one that it sees, by ascending revision, one call after the other. What
// is overwritten before it was read is left out. A lost connection, server or
// leader costs at most about two seconds. It returns the error of f, ErrClosed, or
// that of ctx.
func (r *Register) Watch(ctx context.Context, f func(value []byte, revision uint64) error) error {
	w := &watcher{r: r, f: f}
	retry := tailRetryMin
	for {
		before := w.last
		err := w.run(ctx)
		switch {
		case w.failed != nil:
			return w.failed
		case ctx.Err() != nil:
			return fmt.Errorf("watch register %s: %w", r.name, ctx.Err())
		case r.s.ctx.Err() != nil:
			return fmt.Errorf("watch register %s: %w", r.name, ErrClosed)
		}
		if w.last != before {
			retry = tailRetryMin
		}
		r.s.log.Debug("watch of a register starts again", "register", r.name, "revision", w.last, "error", err)
		_ = r.s.pause(ctx, retry)
		retry = min(2*retry, tailRetryMax)
	}
}

const (
	// watchHeartbeat is how often a silent consumer must show that it is there,
	// watchSilence after how much silence another is made.
	watchHeartbeat = 500 * time.Millisecond
	watchSilence   = 1500 * time.Millisecond
)

// watcher is one Watch.
type watcher struct {
	r    *Register
	f    func([]byte, uint64) error
	last uint64 // revision that was told last

	delivered uint64 // how many messages the present consumer gave us
	failed    error  // what f returned
}

// run reads from one consumer until that fails.
func (w *watcher) run(ctx context.Context) error {
	s := w.r.s
	_, changed := s.conn.get()
	w.delivered = 0
	inbox := s.nc.NewInbox()
	ch := make(chan *nats.Msg, 256)
	sub, err := s.nc.ChanSubscribe(inbox, ch)
	if err != nil {
		return unavailable("subscribe", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	name := "watch-" + inbox[strings.LastIndexByte(inbox, '.')+1:]
	cfg := map[string]any{
		"name": name, "deliver_subject": inbox, "filter_subject": w.r.subject,
		"deliver_policy": "last", "ack_policy": "none", "replay_policy": "instant",
		"idle_heartbeat": watchHeartbeat, "inactive_threshold": 30 * time.Second,
		"mem_storage": true, "num_replicas": 1,
	}
	ask, cancel := context.WithTimeout(ctx, watchSilence)
	err = s.api(ask, "CONSUMER.CREATE."+w.r.bucket+"."+name+"."+w.r.subject, map[string]any{"stream_name": w.r.bucket, "config": cfg}, nil)
	cancel()
	if err != nil {
		return err
	}
	defer func() { _ = s.nc.Publish("$JS.API.CONSUMER.DELETE."+w.r.bucket+"."+name, nil) }()
	silence := time.NewTimer(watchSilence)
	defer silence.Stop()
	for {
		select {
		case m := <-ch:
			silence.Reset(watchSilence)
			if err := w.take(m); err != nil {
				return err
			}
		case <-silence.C:
			return fmt.Errorf("the consumer is silent for %v", watchSilence)
		case <-changed:
			return errors.New("the connection changed")
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return ErrClosed
		}
	}
}

func (w *watcher) take(m *nats.Msg) error {
	if status := m.Header.Get(statusHeader); status != "" {
		// A heartbeat says how much was delivered: what we did not get is lost. Its
		// stream sequence says less: it passes what is written to other registers.
		if n, _ := strconv.ParseUint(m.Header.Get("Nats-Last-Consumer"), 10, 64); n > w.delivered {
			return fmt.Errorf("%d messages were delivered, %d came", n, w.delivered)
		}
		return nil
	}
	_, seq, ok := parseReply(m.Reply)
	if !ok {
		return nil
	}
	w.delivered++
	if seq <= w.last {
		return nil
	}
	w.last = seq
	w.failed = w.f(m.Data, seq)
	return w.failed
}
