package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// A cluster that chooses a leader does not answer for some seconds, or answers
// that it cannot. Whatever is asked then is asked again.
const (
	// resendAfter is how long an answer of a cluster is waited for before the
	// same is sent again.
	resendAfter = 500 * time.Millisecond
	// requestAgainAfter is the same for requests that may take longer.
	requestAgainAfter = 2 * time.Second
	// retryMax is the longest pause after a refusal that passes.
	retryMax = 100 * time.Millisecond
)

// Error codes of the JetStream API that pass by themselves.
var passing = map[int]bool{
	codeTooFewServers: true,
	10008:             true, // no leader of the cluster
	10009:             true, // not the leader
	10023:             true, // no resources now
	10118:             true, // the stream is offline
}

func (e *apiError) passes() bool { return passing[e.ErrCode] }

// shared tells whether the stream is more than what our own server has: then
// nothing of it is given up here.
func (s *Stream) shared() bool { return s.emb == nil || s.cfg.clustered() }

// requestAgain is requestOnce until there is an answer. Asking twice must do no
// harm.
func (s *Stream) requestAgain(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	for {
		once, cancel := context.WithTimeout(ctx, requestAgainAfter)
		m, err := s.requestOnce(once, subject, body)
		cancel()
		if err == nil || !s.pause(ctx, retryMax/2) {
			return m, err
		}
	}
}

var errNoLeader = errors.New("the server that answers knows no leader of the stream")

// info asks the stream's leader what it holds and how it stands.
func (s *Stream) info(ctx context.Context, answer any) error {
	return s.infoOf(ctx, s.cfg.Name, answer)
}

// infoOf asks the leader of a stream. In a cluster it is asked again where none is
// known: a server then says what it has itself, which is nothing on one that was
// just emptied; and one that just came to lead the cluster may not know the stream.
func (s *Stream) infoOf(ctx context.Context, name string, answer any) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.AckTimeout)
		defer cancel()
	}
	for {
		var raw json.RawMessage
		err := s.api(ctx, "STREAM.INFO."+name, nil, &raw)
		if err == nil {
			var by struct {
				Cluster *clusterPart `json:"cluster"`
			}
			if err = json.Unmarshal(raw, &by); err != nil {
				return unavailable("answer about stream "+name, err)
			}
			if !s.cfg.clustered() || by.Cluster == nil || by.Cluster.Leader != "" {
				return json.Unmarshal(raw, answer)
			}
			err = errNoLeader
		}
		if !s.cfg.clustered() || !errors.Is(err, errNoLeader) && !isCode(err, codeStreamNotFound) {
			return err
		}
		if !s.pause(ctx, retryMax) {
			return unavailable("ask for stream "+name, err)
		}
	}
}

// ensure makes a stream that does not exist yet, with as many replicas as ours,
// and refuses one that is configured otherwise. extra are settings for the
// making alone. In a cluster it waits for a leader, and for the making for as
// many servers as there are replicas.
func (s *Stream) ensure(ctx context.Context, want, extra map[string]any) error {
	name := want["name"].(string)
	if s.cfg.clustered() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, leaderTimeout)
		defer cancel()
	}
	var info struct {
		Config map[string]any `json:"config"`
	}
	for {
		err := s.api(ctx, "STREAM.INFO."+name, nil, &info)
		if isCode(err, codeStreamNotFound) {
			cfg := map[string]any{"num_replicas": s.cfg.Replicas}
			for _, from := range []map[string]any{want, extra} {
				for k, v := range from {
					cfg[k] = v
				}
			}
			err = s.api(ctx, "STREAM.CREATE."+name, cfg, &info)
		}
		if err == nil {
			break
		}
		if s.cfg.clustered() && errors.Is(err, ErrUnavailable) && s.pause(ctx, retryMax) {
			continue
		}
		if isCode(err, codeTooFewServers) {
			err = fmt.Errorf("%w (hint: the first start needs %d servers)", err, s.cfg.Replicas)
		}
		return fmt.Errorf("stream %s: %w", name, err)
	}
	if d := differences(want, info.Config); len(d) > 0 {
		return &ConfigError{Stream: name, Differences: d}
	}
	return nil
}

// settle publishes m until there is a decision, or ctx ends. It may be sent many
// times: an expectation in its headers lets it be stored once, and headerWrite
// tells whether what is there is ours.
func (s *Stream) settle(ctx context.Context, m *nats.Msg) (uint64, error) {
	expects := m.Header.Get(headerExpectShardLast) != ""
	expect, _ := strconv.ParseUint(m.Header.Get(headerExpectShardLast), 10, 64)
	maybe := false // something was sent that got no answer
	var last error
	for pause := retryBusy; ; pause = min(2*pause, retryMax) {
		seq, err := s.publishOnce(ctx, m)
		var no *apiError
		switch {
		case err == nil:
			return seq, nil
		case !errors.As(err, &no):
			maybe = maybe || !errors.Is(err, nats.ErrNoResponders)
		case no.ErrCode == codeMessageTooLarge:
			return 0, fmt.Errorf("%w: %w", ErrTooLarge, no)
		case no.ErrCode == codeWrongLast && expects:
			got := wrongLastOf(no)
			if got <= expect {
				break // the one who answered has not heard of what we know, yet
			}
			if maybe {
				own, err := s.isOwn(ctx, m)
				switch {
				case err == nil && own > 0:
					return own, nil
				case err != nil:
					return 0, fmt.Errorf("%w: %w", ErrUnanswered, err)
				}
			}
			wrong := &WrongLastError{Filter: m.Subject, Expected: expect, Last: got}
			if maybe {
				return 0, fmt.Errorf("%w: %w", wrong, ErrUnanswered)
			}
			return 0, wrong
		}
		last = err
		if !s.pause(ctx, pause) {
			break
		}
	}
	if maybe {
		return 0, fmt.Errorf("%w: %w", ErrUnanswered, last)
	}
	return 0, unavailable("publish to "+m.Subject, last)
}

// publishOnce sends m and waits a little for the answer. An *apiError is a
// refusal; after any other error m may be stored.
func (s *Stream) publishOnce(ctx context.Context, m *nats.Msg) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, resendAfter)
	defer cancel()
	tied, stop := s.conn.with(ctx)
	defer stop()
	a, err := s.nc.RequestMsgWithContext(tied, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
	if err != nil {
		return 0, err
	}
	var ack struct {
		Seq   uint64    `json:"seq"`
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(a.Data, &ack); err != nil {
		return 0, fmt.Errorf("unreadable answer %.100q: %w", a.Data, err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	if ack.Seq == 0 {
		return 0, fmt.Errorf("answer %.100q without a sequence", a.Data)
	}
	return ack.Seq, nil
}

// isOwn is the sequence of the last message on the subject of m if that is m
// itself, 0 if it is another.
func (s *Stream) isOwn(ctx context.Context, m *nats.Msg) (uint64, error) {
	bucket, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, "$KV."), ".")
	var answer struct {
		Message struct {
			Seq    uint64 `json:"seq"`
			Header []byte `json:"hdrs"`
		} `json:"message"`
	}
	if err := s.api(ctx, "STREAM.MSG.GET.KV_"+bucket, messageRequest{LastFor: m.Subject}, &answer); err != nil {
		return 0, err
	}
	h, err := nats.DecodeHeadersMsg(answer.Message.Header)
	if err != nil {
		return 0, err
	}
	if h.Get(headerWrite) != m.Header.Get(headerWrite) {
		return 0, nil
	}
	return answer.Message.Seq, nil
}

// wrongLastOf reads N of "wrong last sequence: N", 0 if it is not there.
func wrongLastOf(e *apiError) uint64 {
	_, n, _ := strings.Cut(e.Description, ": ")
	last, err := strconv.ParseUint(n, 10, 64)
	if err != nil {
		return 0
	}
	return last
}
