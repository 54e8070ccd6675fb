package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Error codes of the JetStream API that we branch on.
const (
	codeTooFewServers      = 10005 // for the replicas
	codeMessageTooLarge    = 10054
	codeNoMessage          = 10037
	codeStreamNotFound     = 10059
	codeStoreFailed        = 10049
	codeWrongLast          = 10071
	codeWrongLastInFlight  = 10164 // a cluster has another write of this filter in flight
	codeExpectedNotReady   = 10163
	codeTooManyRequests    = 10167
	statusNoResponders     = "503"
	statusMessageNotFound  = "404"
	statusHeader           = "Status"
	descriptionHeader      = "Description"
	headerSequence         = "Nats-Sequence"
	headerSubject          = "Nats-Subject"
	headerExpectLast       = "Nats-Expected-Last-Sequence"
	headerExpectShardLast  = "Nats-Expected-Last-Subject-Sequence"
	headerExpectShardUnder = "Nats-Expected-Last-Subject-Sequence-Subject"
)

// apiError is an error that JetStream answered with.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s (JetStream error %d)", e.Description, e.ErrCode)
}

var errLostConnection = errors.New("the connection was lost before the answer")

// request sends one request to the JetStream API and returns the raw answer.
// ctx without a deadline gets AckTimeout.
func (s *Stream) request(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.AckTimeout)
		defer cancel()
	}
	if s.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if s.cfg.clustered() {
		return s.requestAgain(ctx, subject, body)
	}
	return s.requestOnce(ctx, subject, body)
}

func (s *Stream) requestOnce(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	tied, stop := s.conn.with(ctx)
	defer stop()
	m, err := s.nc.RequestMsgWithContext(tied, &nats.Msg{Subject: subject, Data: body})
	if err != nil {
		if tied.Err() != nil && ctx.Err() == nil {
			err = errLostConnection
		}
		return nil, unavailable("request to "+subject, errors.Join(err, s.conn.reason()))
	}
	return m, nil
}

// api is request for the part of the API that answers JSON. answer may be nil.
func (s *Stream) api(ctx context.Context, subject string, body, answer any) error {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return fmt.Errorf("request to %s: %w", subject, err)
		}
	}
	m, err := s.request(ctx, "$JS.API."+subject, b)
	if err != nil {
		return err
	}
	var head struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &head); err != nil {
		return unavailable("answer to "+subject, err)
	}
	if head.Error != nil && head.Error.passes() {
		return unavailable("request to "+subject, head.Error)
	}
	if head.Error != nil {
		return fmt.Errorf("request to %s: %w", subject, head.Error)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		return unavailable("answer to "+subject, err)
	}
	return nil
}

// isCode tells whether err is the JetStream error with this code.
func isCode(err error, code int) bool {
	var e *apiError
	return errors.As(err, &e) && e.ErrCode == code
}
