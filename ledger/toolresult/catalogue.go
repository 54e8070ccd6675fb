package toolresult

import "strconv"

// Code names an error of a result. Codes are stable.
type Code string

// The codes that a call on record can have.
const (
	TimeoutBeforeExecute Code = "TIMEOUT_BEFORE_EXECUTE" // it never left
	UnknownOutcome       Code = "OUTCOME_UNKNOWN"        // no outcome is known
	StatusConflict       Code = "STATUS_CONFLICT"        // what is on record does not agree
	ToolError            Code = "TOOL_ERROR"             // it failed
)

// Recovery says what may be done next. None is not leave to repeat the call.
type Recovery string

// The recoveries that the codes above have.
const (
	NoRecovery  Recovery = "none"
	RetryAfter  Recovery = "retry_after"  // the same call may be made again, after some time
	QueryStatus Recovery = "query_status" // ask what became of it, and do not make it again before
	HumanReview Recovery = "human_review" // a person decides
)

// control is what a code stands for. Nothing of it comes from a tool, a caller or
// an event.
type control struct {
	message  string
	recovery Recovery
	// afterSeconds goes with retry_after alone: long enough for a ledger that
	// starts again.
	afterSeconds int
}

// catalogue has the errors. Texts are printable ASCII without quotes, so that
// they are canonical JSON as they stand; a test says so.
var catalogue = map[Code]control{
	TimeoutBeforeExecute: {"The call never left, so nothing was done. The same call can be made again.", RetryAfter, 5},
	UnknownOutcome:       {"No outcome of the call is known. It may have taken effect: ask for its status, and do not make it again before.", QueryStatus, 0},
	StatusConflict:       {"What is on record of the call does not agree: its effect was contradicted, undone, or is in doubt. A person has to look.", HumanReview, 0},
	ToolError:            {"The call failed. This does not show that it had no effect.", NoRecovery, 0},
}

// Message is the fixed text of the code.
func (c Code) Message() string { return catalogue[c].message }

// Recovery says what may be done next.
func (c Code) Recovery() Recovery { return catalogue[c].recovery }

// RetryAfterSeconds is how long to wait before the call is made again; 0 unless
// Recovery is RetryAfter.
func (c Code) RetryAfterSeconds() int { return catalogue[c].afterSeconds }

// appendError adds the member error.
func (c Code) appendError(dst []byte) []byte {
	if c == "" {
		return append(dst, `null`...)
	}
	e := catalogue[c]
	dst = append(dst, `{"code":"`+string(c)+`","label":"`+TrustedControl+`","message":"`+e.message+`","recovery":"`+string(e.recovery)+`"`...)
	if e.recovery == RetryAfter {
		dst = append(dst, `,"retryAfterSeconds":`...)
		dst = strconv.AppendInt(dst, int64(e.afterSeconds), 10)
	}
	return append(dst, '}')
}
