package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
)

// neverLast is a last sequence that no stream has.
const neverLast = 1 << 62

// lastGiven is the last sequence that the stream has given out, as its publishes
// see it. Where a file of its store is damaged it can be larger than that of
// [Stream.State], which knows of readable messages: the next message would come
// after a hole that no state shows. It asks by a publish whose expectation cannot
// be met, which stores nothing and burns no sequence.
func (s *Stream) lastGiven(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.AckTimeout)
	defer cancel()
	tied, stop := s.conn.with(ctx)
	defer stop()
	m, err := s.nc.RequestMsgWithContext(tied, &nats.Msg{
		Subject: "counterfoil.v1." + s.cfg.Tenant + ".ledger.question.00",
		Header:  nats.Header{headerExpectLast: {strconv.Itoa(neverLast)}},
		Data:    []byte("never stored"),
	})
	if err != nil {
		return 0, unavailable("ask for the last sequence given", errors.Join(err, s.conn.reason()))
	}
	var answer struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return 0, unavailable("ask for the last sequence given", err)
	}
	if answer.Error == nil {
		return 0, fmt.Errorf("the stream stored a message in spite of its expectation: %.200s", m.Data)
	}
	if answer.Error.ErrCode != codeWrongLast {
		return 0, unavailable("ask for the last sequence given", answer.Error)
	}
	return wrongLastOf(answer.Error), nil
}

// hidden looks for messages that the stream once had and its state does not show.
// Among several servers the leader's word for the end comes otherwise.
func (h *healer) hidden(ctx context.Context) (given uint64, err error) {
	if h.s.cfg.clustered() {
		return h.report.Before.Last, nil
	}
	return h.s.lastGiven(ctx)
}

// loseHidden adds the sequences after the last that the state shows to those that
// are lost.
func (h *healer) loseHidden(j *journal, given uint64) {
	last := max(h.report.Before.Last, h.size)
	if given <= last {
		return
	}
	for seq := last + 1; seq <= given && len(j.Lost.First) < listMax; seq++ {
		j.Lost.First = append(j.Lost.First, seq)
	}
	j.Lost.Count += given - last
}
