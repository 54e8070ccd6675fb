package stream

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Message is a message of the stream.
type Message struct {
	Seq     uint64
	Subject string
	Body    []byte
}

// State is what the stream holds. A whole stream has First 1 (or no message at
// all and Last 0), and Deleted 0.
type State struct {
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
	Messages uint64 `json:"messages"`
	Deleted  uint64 `json:"num_deleted"` // holes between First and Last
}

// State asks the stream what it holds.
func (s *Stream) State(ctx context.Context) (State, error) {
	var info struct {
		State State `json:"state"`
	}
	if err := s.info(ctx, &info); err != nil {
		return State{}, fmt.Errorf("state of the stream: %w", err)
	}
	return info.State, nil
}

// Get returns the message at a sequence, or ErrNotFound.
func (s *Stream) Get(ctx context.Context, seq uint64) (Message, error) {
	body := strconv.AppendUint([]byte(`{"seq":`), seq, 10)
	m, err := s.request(ctx, "$JS.API.DIRECT.GET."+s.cfg.Name, append(body, '}'))
	if err != nil {
		return Message{}, fmt.Errorf("message %d: %w", seq, err)
	}
	if status := m.Header.Get(statusHeader); status != "" {
		if status != statusMessageNotFound {
			return Message{}, unavailable(fmt.Sprintf("message %d", seq), fmt.Errorf("status %s %s", status, m.Header.Get(descriptionHeader)))
		}
		if s.shared() {
			// Any replica may have answered, and one that lags does not know.
			return s.getFromLeader(ctx, messageRequest{Seq: seq})
		}
		return Message{}, fmt.Errorf("message %d: %w", seq, ErrNotFound)
	}
	got, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	if err != nil || got != seq {
		return Message{}, unavailable(fmt.Sprintf("message %d", seq), fmt.Errorf("the answer is for sequence %q", m.Header.Get(headerSequence)))
	}
	return Message{Seq: seq, Subject: m.Header.Get(headerSubject), Body: m.Data}, nil
}

// LastSeq is the sequence of the last message whose subject matches filter, 0
// if there is none.
func (s *Stream) LastSeq(ctx context.Context, filter string) (uint64, error) {
	if err := checkSubject(filter, true); err != nil {
		return 0, fmt.Errorf("last sequence: %w", err)
	}
	m, err := s.getFromLeader(ctx, messageRequest{LastFor: filter})
	if isCode(err, codeNoMessage) {
		return 0, nil
	}
	return m.Seq, err
}

// NextMatch returns the first message from a sequence on whose subject matches
// filter, or ErrNotFound. It is for the few messages of a rare subject: it asks
// the leader for each.
func (s *Stream) NextMatch(ctx context.Context, from uint64, filter string) (Message, error) {
	if err := checkSubject(filter, true); err != nil {
		return Message{}, fmt.Errorf("next message: %w", err)
	}
	m, err := s.getFromLeader(ctx, messageRequest{Seq: max(from, 1), NextFor: filter})
	if err != nil {
		return Message{}, fmt.Errorf("next message from %d: %w", from, err)
	}
	if m.Seq < from {
		return Message{}, unavailable("next message", fmt.Errorf("asked from sequence %d, got %d", from, m.Seq))
	}
	return m, nil
}

// messageRequest asks for one message; see JetStream's STREAM.MSG.GET.
type messageRequest struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`
}

func (s *Stream) getFromLeader(ctx context.Context, r messageRequest) (Message, error) {
	var answer struct {
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	err := s.api(ctx, "STREAM.MSG.GET."+s.cfg.Name, r, &answer)
	if isCode(err, codeNoMessage) {
		return Message{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err != nil {
		return Message{}, err
	}
	m := answer.Message
	return Message{Seq: m.Seq, Subject: m.Subject, Body: m.Data}, nil
}
