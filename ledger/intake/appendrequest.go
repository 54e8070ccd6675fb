package intake

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
)

// Append asks for a further event of an attempt (EVI-07).
type Append struct {
	AttemptID     string            `json:"attemptId"`
	Lifecycle     event.Lifecycle   `json:"lifecycle"`
	SourceEventID string            `json:"sourceEventId"`
	OccurredAt    string            `json:"occurredAt"`
	Status        string            `json:"status,omitempty"` // never on a reconciliation
	PrivateResult jsontext.Value    `json:"privateResult,omitzero"`
	PrivateRaw    string            `json:"privateResultRaw,omitempty"`
	ReasonCodes   []string          `json:"reasonCodes,omitempty"`
	Refs          map[string]string `json:"refs,omitempty"`
	ReadBack      *ReadBack         `json:"readback,omitempty"` // reconciliation only
	Reviewer      string            `json:"reviewer,omitempty"` // review only
	Rubric        string            `json:"rubric,omitempty"`   // review only
	Run           *event.ReviewRun  `json:"run,omitempty"`      // review by a run only
	KeepBody      bool              `json:"keepBody,omitzero"`

	canonical []byte
	raw       []byte
}

// ReadBack is what the caller read back from an authoritative source.
type ReadBack struct {
	Source   string         `json:"source"`
	Observed string         `json:"observed"`
	Count    int64          `json:"count,omitzero"`
	Value    jsontext.Value `json:"value,omitzero"`
}

// ParseAppend reads and checks the body of an append. attemptID is the one of
// the request's path, "" where there is none; the body may leave its own out.
func ParseAppend(body []byte, attemptID string) (*Append, error) {
	a := new(Append)
	if err := decode(body, a); err != nil {
		return nil, err
	}
	switch {
	case a.AttemptID == "":
		a.AttemptID = attemptID
	case attemptID != "" && a.AttemptID != attemptID:
		return nil, refuse("/attemptId", "name the same attempt in path and body, or in the path alone",
			"%q in the body, %q in the path", a.AttemptID, attemptID)
	}
	return a, a.prepare()
}

func (a *Append) prepare() error {
	if _, ok := event.ShardOfAttempt(a.AttemptID); !ok {
		return refuse("/attemptId", "use the attemptId that begin answered with", `%q is not "att_" and 32 lower-case hex digits`, a.AttemptID)
	}
	switch a.Lifecycle {
	case event.Outcome, event.Reversal, event.Reconciliation, event.Review:
	case event.Attempt:
		return refuse("/lifecycle", "begin a new attempt instead", "an attempt cannot be appended")
	default:
		return refuse("/lifecycle", "the lifecycles are in docs/spec/lifecycle.md", "%q is not outcome, reversal, reconciliation or review", a.Lifecycle)
	}
	if err := checkID("/sourceEventId", a.SourceEventID); err != nil {
		return err
	}
	if err := checkTime(a.OccurredAt); err != nil {
		return err
	}
	if err := a.checkStatus(); err != nil {
		return err
	}
	if (a.Lifecycle == event.Review) != (a.Reviewer != "" || a.Rubric != "") {
		return refuse("/reviewer", "a review names one of them or both, other lifecycles none", "a review, and only a review, names a reviewer or a rubric")
	}
	for _, f := range []struct{ path, value string }{{"/reviewer", a.Reviewer}, {"/rubric", a.Rubric}} {
		if f.value == "" {
			continue
		}
		if err := checkID(f.path, f.value); err != nil {
			return err
		}
	}
	if a.Run != nil && a.Lifecycle != event.Review {
		return refuse("/run", "leave it out, or append a review", "only a review is made by a run")
	}
	if err := a.checkReasons(true); err != nil {
		return err
	}
	var err error
	if a.raw, err = privateValue("/privateResult", &a.PrivateResult, a.PrivateRaw); err != nil {
		return err
	}
	if a.ReadBack != nil {
		if _, err = privateValue("/readback/value", &a.ReadBack.Value, ""); err != nil {
			return err
		}
	}
	a.canonical, err = canonicalRequest(a)
	return err
}

// checkReasons checks the reason codes. Those of an admission are for events of
// subject kind admission only, which is known when the attempt has been read.
func (a *Append) checkReasons(admissions bool) error {
	for i, c := range a.ReasonCodes {
		if _, ok := event.ReasonCodeMeaning(c); ok {
			continue
		}
		if _, ok := admission.Code(c).Info(); ok && admissions {
			continue
		}
		return refuse(fmt.Sprintf("/reasonCodes/%d", i), "see docs/spec/registries.md; those of docs/spec/admission.md are for attempts of kind admission",
			"%q is not a registered reason code", c)
	}
	return nil
}

func (a *Append) checkStatus() error {
	if a.Lifecycle != event.Reconciliation {
		if a.ReadBack != nil {
			return refuse("/readback", "leave it out, or append a reconciliation", "only a reconciliation carries a read-back")
		}
		if a.Status == "" {
			return refuse("/status", "the words of each lifecycle are in docs/spec/event.md", "missing")
		}
		return nil // the words depend on the subject kind: the event is validated later
	}
	if a.Status != "" {
		return refuse("/status", "leave it out: it is derived from the read-back", "a caller cannot state the result of a reconciliation")
	}
	rb := a.ReadBack
	if rb == nil {
		return refuse("/readback", `send {"source":…,"observed":"present"|"absent"|"unreachable"}`, "missing: a reconciliation needs what an authoritative source showed")
	}
	if err := checkID("/readback/source", rb.Source); err != nil {
		return err
	}
	switch rb.Observed {
	case event.ObservedPresent, event.ObservedAbsent, event.ObservedUnreachable:
	default:
		return refuse("/readback/observed", "say what the source showed", "%q is not present, absent or unreachable", rb.Observed)
	}
	if rb.Count < 0 || rb.Count > canon.MaxSafeInteger || rb.Count > 0 && rb.Observed != event.ObservedPresent {
		return refuse("/readback/count", "leave it out, or say how many were present", "%d: a count is 1 to 2^53-1 and comes with observed %q", rb.Count, event.ObservedPresent)
	}
	if rb.Observed != event.ObservedPresent && len(rb.Value) > 0 {
		return refuse("/readback/value", "leave the value out, or state what was present", "a value comes with observed %q", event.ObservedPresent)
	}
	if len(a.PrivateResult) > 0 || a.PrivateRaw != "" {
		return refuse("/privateResult", "put what was read into readback.value", "a reconciliation has no result of its own")
	}
	return nil
}
