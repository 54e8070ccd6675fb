package admit

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"strconv"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// Names of the source of an admission's events, and of its action. A mark's action
// is actionName, a dot, and the mark.
const (
	runtimeID      = "counterfoil-admit"
	agentID        = "operator"
	protocol       = "counterfoil"
	implementation = "counterfoil"
	actionName     = "admission"
	effectKind     = "counterfoil/admission"
	effectMode     = "idempotent"
)

// recorder keeps what identifies the events of one admission.
type recorder struct {
	id, trace string
	subject   client.Subject
	attempt   string            // of the admission
	marks     map[string]string // event id of the newest mark by name
	count     map[string]int
	verdicts  []string // event ids
}

// status is how a mark ended: without a code it succeeded.
type status struct {
	code admission.Code
	refs map[string]string // digests
}

// begin begins the admission, before anything is discovered.
func (r *run) begin(ctx context.Context) error {
	var random [24]byte
	if _, err := io.ReadFull(r.cfg.Random, random[:]); err != nil {
		return fmt.Errorf("make an id: %w", err)
	}
	subject := r.subject()
	if len(subject) > event.MaxIDBytes {
		subject = admission.Digest([]byte(subject)) // a file of no entry, with a very long name
	}
	r.events = recorder{
		id: hex.EncodeToString(random[:8]), trace: hex.EncodeToString(random[8:]), subject: client.Subject{Kind: string(event.Admission), ID: subject},
		marks: map[string]string{}, count: map[string]int{},
	}
	a, err := r.cfg.Ledger.Begin(ctx, r.draft("", r.events.subject), client.Accepted)
	if err != nil {
		return fmt.Errorf("begin the admission: %w", err)
	}
	r.events.attempt = a.Value.AttemptID
	return nil
}

// draft is the begin of an attempt of this admission.
func (r *run) draft(part string, subject client.Subject) *client.Begin {
	name, id := actionName, r.events.id
	if part != "" {
		name, id = actionName+"."+part, id+":"+part
		if n := r.events.count[part]; n > 1 {
			id += "-" + strconv.Itoa(n)
		}
	}
	return &client.Begin{
		Source:     client.Source{RuntimeID: runtimeID, AgentID: agentID, InvocationID: id, Protocol: protocol, Implementation: implementation},
		OccurredAt: r.now(), TraceID: r.events.trace, Subject: subject,
		Action: client.Action{Name: name, EffectKind: effectKind, EffectMode: effectMode},
	}
}

func (r *run) now() string { return event.FormatTime(r.cfg.Stack.Fetch.Now()) }

// mark begins an attempt for a mark, does its work, and records how that ended. A
// mark whose work ended in an error stays open: nothing is known of it.
func (r *run) mark(ctx context.Context, name string, do func(context.Context) (status, error)) error {
	r.events.count[name]++
	a, err := r.cfg.Ledger.Begin(ctx, r.draft(name, r.events.subject), client.Accepted)
	if err != nil {
		return fmt.Errorf("record the mark %s: %w", name, err)
	}
	st, err := do(ctx)
	if err != nil {
		return err
	}
	out := &client.Append{
		AttemptID: a.Value.AttemptID, Lifecycle: string(event.Outcome), SourceEventID: "mark", OccurredAt: r.now(),
		Status: event.StatusSucceeded, Refs: st.refs,
	}
	if st.code != "" {
		out.Status, out.ReasonCodes = event.StatusFailed, []string{string(st.code)}
	}
	done, err := r.cfg.Ledger.Append(ctx, out, client.Accepted)
	if err != nil {
		return fmt.Errorf("record the mark %s: %w", name, err)
	}
	r.events.marks[name] = done.Value.EventID
	return nil
}

// verdict records the decision: as the outcome of the admission or, after an earlier
// one, as its correction. It names the marks and what was kept.
func (r *run) verdict(ctx context.Context, o admission.Outcome, k *kept) (eventID string, err error) {
	refs := maps.Clone(r.events.marks)
	refs[event.RefPolicy] = r.cfg.Policy.Ref().Digest
	if o.Receipt != "" {
		refs[event.RefReceipt], refs["spanning_set"] = o.Receipt, k.span
	}
	id := "verdict"
	if n := len(r.events.verdicts); n > 0 {
		id += "-" + strconv.Itoa(n+1)
		refs["corrects"] = r.events.verdicts[n-1]
	}
	said, err := json.Marshal(struct {
		Decision admission.Decision `json:"decision"`
		Class    string             `json:"class"`
		Answers  admission.Answers  `json:"answers"`
	}{o.Decision, r.req.Class, o.Answers}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("encode the decision: %w", err)
	}
	out := &client.Append{
		AttemptID: r.events.attempt, Lifecycle: string(event.Outcome), SourceEventID: id, OccurredAt: r.now(),
		Status: event.StatusFailed, Refs: refs, PrivateResult: said, KeepBody: true,
	}
	if o.Decision == admission.Admit {
		out.Status = event.StatusSucceeded
	}
	for i, c := range o.ReasonCodes {
		if i < event.MaxReasonCodes {
			out.ReasonCodes = append(out.ReasonCodes, string(c))
		}
	}
	a, err := r.cfg.Ledger.Append(ctx, out, r.cfg.Wait)
	if err != nil {
		return "", fmt.Errorf("record the decision %s: %w", o.Decision, err)
	}
	r.events.verdicts = append(r.events.verdicts, a.Value.EventID)
	return a.Value.EventID, nil
}
