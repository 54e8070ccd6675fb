package traffic

import (
	"counterfoil/internal/proxy/gate"
	"counterfoil/ledger/toolresult"
)

// deniedFor are the reason codes of a call that may not be made.
func deniedFor(r *gate.Refusal) []string {
	if r.Reason == gate.ReasonNoAnswer {
		return []string{"not_dispatched"} // nobody denied it
	}
	return []string{"access_denied", "not_dispatched"}
}

// deny refuses a packet with calls that may not be made under their contract. It
// names the review, and never says that the agent failed (REV-30).
func (p *Packet) deny(r *gate.Refusal) {
	code, hint := refusalContract, "nothing was done; a person has to review the contract, and until then the same call is refused"
	data := neverLeft(code, r.Reason)
	data.Recovery, data.RetryAfterSeconds = toolresult.HumanReview, 0
	switch {
	case r.Reason == gate.ReasonNoAnswer:
		code = refusalNoAnswer
		data = neverLeft(code, "the ledger does not answer")
		if r.Fault != nil {
			data.Reason = reasonOf(r.Fault)
		}
		hint = data.Hint
	case r.Reason == gate.ReasonTools && r.Got == "":
		data = neverLeft(code, r.Reason)
		hint = "nothing was done; list all tools of the server (tools/list), then the same call can be made again"
	}
	data.Hint = hint
	data.Contract, data.ReviewEventID, data.ReasonCodes, data.Expected, data.Got = r.Contract, r.ReviewEventID, r.ReasonCodes, r.Expected, r.Got
	p.denied = true
	p.refuseWith(refusalError{Code: RefusalCode, Message: r.Message, Data: data})
}

// Denied reports whether the packet must not pass because of its contract.
func (p *Packet) Denied() bool { return p.denied }
