package gate

import (
	"fmt"
	"unicode/utf8"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// Words of an answer.
const (
	callAllow  = "allow"
	callQueue  = "queue"
	callRefuse = "refuse"
)

// Reasons of the proxy's own.
const (
	// ReasonTools says that the server does not show the tools that were pinned.
	ReasonTools = "tool_contract_mismatch"
	// ReasonNoAnswer says that the ledger did not say what to do.
	ReasonNoAnswer = "contract_unanswered"
)

// Refs of outcomes.
const (
	refReview   = "review"
	refContract = "contract"
)

// Verdict says what becomes of a call. The zero Verdict lets it pass.
type Verdict struct {
	// Refusal is nil if the call passes.
	Refusal *Refusal
	// Refs are for the outcome of the call.
	Refs map[string]string
	// Unasked says that the call passes although the ledger gave no answer.
	Unasked bool
	// Away says that the ledger did not answer when it was asked last.
	Away bool
}

// Refusal says why calls must not reach the server.
type Refusal struct {
	Reason, Message, Contract string
	ReviewEventID             string // empty if no review says so
	ReasonCodes               []string
	// Expected and Got are digests of a list of tools; Got is empty if no
	// whole list was seen.
	Expected, Got string
	// Fault is why there is no answer, with ReasonNoAnswer.
	Fault error
}

// verdict reads the last answer.
func (g *Gate) verdict(shown Shown) Verdict {
	v := Verdict{Away: g.fault != nil}
	if !g.stands() {
		if g.cfg.FailOpen {
			v.Unasked = true
			return v
		}
		v.Away = true
		v.Refusal = &Refusal{Reason: ReasonNoAnswer, Contract: g.cfg.Contract, Fault: g.fault,
			Message: "the ledger does not say whether tools may be called under contract " + g.cfg.Contract}
		return v
	}
	a := g.last
	v.Refs = map[string]string{}
	if a.ContractDigest != "" {
		v.Refs[refContract] = a.ContractDigest
	}
	if a.Call != callAllow && a.ReviewEventID != "" {
		v.Refs[refReview] = a.ReviewEventID
	}
	got, differs := g.differs(a.Tools, shown)
	switch {
	case a.Call == callRefuse:
		v.Refusal = &Refusal{Reason: a.Reason, Message: a.Message, Contract: g.cfg.Contract, ReviewEventID: a.ReviewEventID, ReasonCodes: a.ReasonCodes}
		if a.Message == "" {
			v.Refusal.Message = "tools may not be called under contract " + g.cfg.Contract
		}
	case a.Tools != "" && differs:
		v.Refusal = &Refusal{Reason: ReasonTools, Contract: g.cfg.Contract, Expected: a.Tools, Got: got,
			Message: "the server does not show the tools that contract " + g.cfg.Contract + " pins"}
		if got == "" {
			v.Refusal.Message = "the server has not shown all its tools, of which contract " + g.cfg.Contract + " pins the list"
		}
	}
	return v
}

// Bounds of an answer.
const (
	maxMessage = 4096
	maxReasons = 64
)

// check refuses an answer that is none.
func check(d *client.Disposition, contract string) error {
	if d.Contract != contract {
		return fmt.Errorf("the answer is about contract %q, asked was %q", d.Contract, contract)
	}
	switch d.Call {
	case callAllow, callQueue:
		if !d.Known || d.ContractDigest == "" {
			return fmt.Errorf("the answer is %s for a contract that it does not name by its digest", d.Call)
		}
	case callRefuse:
	default:
		return fmt.Errorf("the answer is %q, expected allow, queue or refuse", d.Call)
	}
	if (d.Call == callAllow) != (d.Reason == "") || d.Reason != "" && !event.ValidReasonCode(d.Reason) {
		return fmt.Errorf("the answer is %s with the reason %q", d.Call, d.Reason)
	}
	for name, s := range map[string]string{"contractDigest": d.ContractDigest, "tools": d.Tools} {
		if _, ok := event.ParseDigest(s); s != "" && !ok {
			return fmt.Errorf("the answer's %s is no digest", name)
		}
	}
	if _, ok := event.ParseEventID(d.ReviewEventID); d.ReviewEventID != "" && !ok {
		return fmt.Errorf("the answer's reviewEventId is no event id")
	}
	if len(d.Message) > maxMessage || !utf8.ValidString(d.Message) || len(d.ReasonCodes) > maxReasons {
		return fmt.Errorf("the answer's message has %d bytes, expected at most %d of UTF-8, or it has over %d reason codes", len(d.Message), maxMessage, maxReasons)
	}
	for _, c := range d.ReasonCodes {
		if !event.ValidReasonCode(c) {
			return fmt.Errorf("the answer's reason code %q is none", c)
		}
	}
	return nil
}
