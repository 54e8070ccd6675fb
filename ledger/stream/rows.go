package stream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
)

// MaxRows is the largest message of a log of rows, in bytes.
const MaxRows = 1<<20 - 4<<10

const (
	metaRows = "counterfoil.rows" // random name of a log of rows, in its metadata

	codeSequenceNotFound = 10043
	codeNameInUse        = 10058 // by a stream with another configuration
	codeDeleteFailed     = 10057
)

// Rows is a log of changes beside the stream of events, kept by as many servers:
// a JetStream stream of one subject. Unlike events its messages can be erased, one
// by one, which leaves a hole. It knows nothing of what is in them. It is safe for
// concurrent use.
type Rows struct {
	s       *Stream
	stream  string
	subject string
	id      string
}

// Rows returns the log of rows with a name of 1 to 64 of A-Z a-z 0-9 _ -, and
// makes it if there is none. ctx bounds that.
func (s *Stream) Rows(ctx context.Context, name string) (*Rows, error) {
	if !nameRE.MatchString(name) {
		return nil, fmt.Errorf("name %q of a log of rows is not 1 to 64 of A-Z a-z 0-9 _ -", name)
	}
	r := &Rows{s: s, stream: s.cfg.Name + "_" + name}
	r.subject = "counterfoil.rows." + r.stream
	want := map[string]any{
		"name":                 r.stream,
		"subjects":             []any{r.subject},
		"retention":            "limits",
		"storage":              "file",
		"discard":              "new",
		"max_consumers":        -1.0,
		"max_msgs":             -1.0,
		"max_bytes":            -1.0,
		"max_age":              0.0,
		"max_msgs_per_subject": -1.0,
		"max_msg_size":         float64(MaxRows + headerRoom),
		"deny_purge":           true,
		"metadata":             s.ownMeta(),
	}
	meta := s.ownMeta()
	meta[metaRows] = rand.Text()
	making, cancel := context.WithTimeout(ctx, s.cfg.AckTimeout)
	defer cancel()
	err := s.ensure(making, want, map[string]any{"metadata": meta})
	// Another node makes it at the same time, under another random name.
	for isCode(err, codeNameInUse) && s.pause(making, retryMax) {
		err = s.ensure(making, want, map[string]any{"metadata": meta})
	}
	if err != nil {
		return nil, fmt.Errorf("log of rows %s: %w", name, err)
	}
	var info struct {
		Config struct {
			Metadata map[string]string `json:"metadata"`
		} `json:"config"`
	}
	if err := s.api(ctx, "STREAM.INFO."+r.stream, nil, &info); err != nil {
		return nil, fmt.Errorf("log of rows %s: %w", name, err)
	}
	if r.id = info.Config.Metadata[metaRows]; r.id == "" {
		return nil, fmt.Errorf("log of rows %s: %w", name, &ConfigError{Stream: r.stream, Differences: []string{"metadata " + metaRows + " is absent, expected a name"}})
	}
	return r, nil
}

// ID is the random name that the log got when it was made.
func (r *Rows) ID() string { return r.id }

// Last is the sequence of the last message that was stored, erased or not; 0 if
// there never was one. A leader that most servers follow says so: one that was cut off
// and does not know it yet would say less, and who believes it takes what is missing
// for what never was.
func (r *Rows) Last(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, r.s.cfg.AckTimeout)
	defer cancel()
	st, err := r.s.truthOf(ctx, r.stream)
	if err != nil {
		return 0, fmt.Errorf("end of the log of rows: %w", err)
	}
	return st.Last, nil
}

// Publish stores body if the last message ever stored has sequence expect, and
// returns its own. It sends again what got no answer, until ctx ends, AckTimeout
// at most. seq 0 and no error: the message after expect is another one, or body
// itself of a send that got no answer; last is the last sequence. ErrTooLarge:
// nothing was stored. After any other error body may be stored, now or a little
// later, and only right after expect.
func (r *Rows) Publish(ctx context.Context, body []byte, expect uint64) (seq, last uint64, err error) {
	if len(body) > MaxRows {
		return 0, 0, fmt.Errorf("rows of %d bytes, at most %d: %w", len(body), MaxRows, ErrTooLarge)
	}
	ctx, cancel := context.WithTimeout(ctx, r.s.cfg.AckTimeout)
	defer cancel()
	m := &nats.Msg{Subject: r.subject, Data: body, Header: nats.Header{headerExpectLast: {strconv.FormatUint(expect, 10)}}}
	for pause := retryBusy; ; pause = min(2*pause, retryMax) {
		if r.s.ctx.Err() != nil {
			return 0, 0, fmt.Errorf("publish rows: %w", ErrClosed)
		}
		seq, err := r.s.publishOnce(ctx, m)
		var no *apiError
		switch {
		case err == nil:
			return seq, 0, nil
		case !errors.As(err, &no):
		case no.ErrCode == codeMessageTooLarge:
			return 0, 0, fmt.Errorf("publish rows: %w: %w", ErrTooLarge, no)
		case no.ErrCode == codeWrongLast:
			// One that says less than we know has not heard of it yet.
			if last := wrongLastOf(no); last > expect {
				return 0, last, nil
			}
		}
		if !r.s.pause(ctx, pause) {
			return 0, 0, unavailable("publish rows after "+strconv.FormatUint(expect, 10), errors.Join(err, r.s.conn.reason()))
		}
	}
}

// Get reads one message, from the leader; nil if it was erased. One beyond the end
// is ErrUnavailable.
func (r *Rows) Get(ctx context.Context, seq uint64) ([]byte, error) {
	var answer struct {
		Message struct {
			Data []byte `json:"data"`
		} `json:"message"`
	}
	err := r.s.api(ctx, "STREAM.MSG.GET."+r.stream, messageRequest{Seq: seq}, &answer)
	if isCode(err, codeNoMessage) {
		// A server that was the leader and does not know yet that it is not may
		// never have had the message.
		last, err := r.Last(ctx)
		if err == nil && last < seq {
			err = unavailable(fmt.Sprintf("rows at %d", seq), fmt.Errorf("the log ends at %d", last))
		}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("rows at %d: %w", seq, err)
	}
	return answer.Message.Data, nil
}

// Erase deletes one message, after it was overwritten with random bytes where it
// is stored. One that is gone already is no error.
//
// What it does not reach: in a cluster the message is also in the servers' own
// logs (Raft) until they are cut at their next snapshot, after about three minutes.
func (r *Rows) Erase(ctx context.Context, seq uint64) error {
	err := r.s.api(ctx, "STREAM.MSG.DELETE."+r.stream, map[string]uint64{"seq": seq}, nil)
	switch {
	case err == nil, isCode(err, codeSequenceNotFound):
		return nil
	case isCode(err, codeDeleteFailed):
		// Also said of a message that is gone.
		if b, gerr := r.Get(ctx, seq); gerr == nil && b == nil {
			return nil
		}
	}
	return fmt.Errorf("erase rows at %d: %w", seq, err)
}
