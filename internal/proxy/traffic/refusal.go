package traffic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/internal/proxy/gate"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
	"counterfoil/ledger/toolresult"
)

// RefusalCode is the JSON-RPC error code of a call that did not leave.
const RefusalCode = -32090

// Codes of refusals, in error.data.code. They are stable.
const (
	refusalEvidence = "evidence_unavailable"
	refusalBusy     = "too_many_open_requests"
	refusalContract = "contract_refused"
	refusalNoAnswer = gate.ReasonNoAnswer
)

type refusal struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Error   refusalError   `json:"error"`
}

type refusalError struct {
	Code    int         `json:"code"`
	Message string      `json:"message"`
	Data    refusalData `json:"data"`
}

// refusalData tells a client what to do next, in the words of a tool result
// (docs/spec/tool-result.md). Nothing of it comes from the call, and no id of the
// evidence is in it, but for the review because of which calls are refused.
type refusalData struct {
	Code              string              `json:"code"`
	Reason            string              `json:"reason"`
	Dispatched        bool                `json:"dispatched"` // always false
	Hint              string              `json:"hint"`
	Label             string              `json:"label"`
	Status            toolresult.Status   `json:"status"`
	Outcome           toolresult.Outcome  `json:"outcome"`
	Recovery          toolresult.Recovery `json:"recovery"`
	RetryAfterSeconds int                 `json:"retryAfterSeconds,omitzero"`

	// Of a call that may not be made under its contract.
	Contract      string   `json:"contract,omitzero"`
	ReviewEventID string   `json:"reviewEventId,omitzero"`
	ReasonCodes   []string `json:"reasonCodes,omitempty"`
	Expected      string   `json:"expected,omitzero"`
	Got           string   `json:"got,omitzero"`
}

// neverLeft is what every refusal says of its call.
func neverLeft(code, reason string) refusalData {
	c := toolresult.TimeoutBeforeExecute
	return refusalData{Code: code, Reason: reason, Hint: "nothing was done; the same call can be made again",
		Label: toolresult.TrustedControl, Status: toolresult.Failed, Outcome: toolresult.NotStarted,
		Recovery: c.Recovery(), RetryAfterSeconds: c.RetryAfterSeconds()}
}

var messages = map[string]string{
	refusalEvidence: "counterfoil: no evidence of this call could be recorded, so it was not sent to the server",
	refusalBusy:     "counterfoil: too many requests wait for the server, so this call was not sent to it",
}

// refuse makes the answer that the client gets in place of the server's: an
// error for each request of the packet. Where none has an id there is nothing to
// answer, unless it is not known what was asked.
func (p *Packet) refuse(code, reason string) {
	p.refuseWith(refusalError{Code: RefusalCode, Message: messages[code], Data: neverLeft(code, reason)})
}

// refuseWith answers every request of the packet with one error.
func (p *Packet) refuseWith(e refusalError) {
	p.refusal = []byte{}
	var answers [][]byte
	for i := range p.messages {
		if m := &p.messages[i]; m.Method != "" && m.ID != nil {
			answers = append(answers, answer(m.ID, e))
		}
	}
	if p.suspect {
		answers = append(answers, answer([]byte("null"), e))
	}
	switch {
	case len(answers) == 0:
	case p.batch:
		p.refusal = append(append([]byte{'['}, bytes.Join(answers, []byte{','})...), ']')
	default:
		p.refusal = bytes.Join(answers, []byte{'\n'})
	}
}

// answer repeats the id as it was spelled: a client compares what it sent.
func answer(id []byte, e refusalError) []byte {
	r := refusal{JSONRPC: "2.0", ID: id, Error: e}
	b, err := json.Marshal(r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))
	if err != nil { // an id that is no scalar, with more than JSON can spell
		r.ID = jsontext.Value("null")
		b, _ = json.Marshal(r)
	}
	return b
}

// reasonOf words why there is no evidence, without addresses. It is labelled as
// control, so of what answers in the ledger's place only codes get into it, and no
// text.
func reasonOf(err error) string {
	var e *client.Error
	var gone *client.Unreachable
	switch {
	case errors.As(err, &e) && e.Status == http.StatusUnauthorized: // no retry helps, and whoever reads it can tell the operator
		return "the ledger says unauthorized: the token file of the proxy is not this ledger's"
	case errors.As(err, &e) && e.Status == http.StatusForbidden && e.Code == "forbidden":
		return "the ledger says forbidden: the token of the proxy needs the role writer"
	case errors.As(err, &e) && event.ValidReasonCode(e.Code) && event.ValidReasonCode(e.Reason):
		return fmt.Sprintf("the ledger says %s (%s)", e.Code, e.Reason)
	case errors.As(err, &e) && event.ValidReasonCode(e.Code):
		return "the ledger says " + e.Code
	case errors.As(err, &e):
		return fmt.Sprintf("the ledger answers with HTTP status %d", e.Status)
	case errors.As(err, &gone):
		return "the ledger does not answer"
	case errors.Is(err, context.DeadlineExceeded):
		return "the ledger did not answer in time"
	case errors.Is(err, context.Canceled):
		return "the proxy stops"
	}
	return "the ledger's answer is not understood"
}
