// Package readback asks a helper program what an authoritative source shows of
// an action whose outcome nobody knows, and records the answer as a
// reconciliation.
//
// It runs beside a ledger and never within one: a ledger calls no tool and no
// provider (EVI-02). What the helper says is a read-back like any other, with its
// source; the ledger derives the status from it, and nothing here says that an
// action is safe to repeat.
//
//	helper.go      one program, asked once
//	reconciler.go  which attempts are asked about, and what is recorded
package readback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/internal/program"
)

// RequestSchema names what a helper reads.
const RequestSchema = "counterfoil.readback-request.v1"

// Bounds of a helper.
const (
	// MaxAnswerBytes bounds what a helper writes to standard output. Source and
	// count are small; a value may be as large as an agent's own answers.
	MaxAnswerBytes = 1 << 20
	// maxTalkBytes is how much of its standard error is kept.
	maxTalkBytes = 4 << 10
	// endDelay is how long a program that was killed may hold its output open
	// through others that it started.
	endDelay = 2 * time.Second
)

// ErrHelper: the helper gave no answer that counts. Nothing is recorded then: a
// program that fails says nothing of the source that it was to read.
var ErrHelper = errors.New("the read-back helper did not answer")

// Request is what a helper is asked, one JSON document on its standard input. It
// holds what a receipt shows: no private value, which the ledger does not have
// either. Members are only ever added.
type Request struct {
	Schema    string `json:"schema"`
	AttemptID string `json:"attemptId"`
	State     string `json:"state"` // open or unknown
	Tool      string `json:"tool"`  // name of the action
	Effect    struct {
		Kind string `json:"kind"`
		Mode string `json:"mode"`
	} `json:"effect"`
	Subject struct {
		Kind string `json:"kind"`
		ID   string `json:"id"`
	} `json:"subject"`
	Source struct {
		RuntimeID    string `json:"runtimeId"`
		AgentID      string `json:"agentId"`
		InvocationID string `json:"invocationId"`
	} `json:"source"`
	TraceID    string `json:"traceId,omitempty"`
	OccurredAt string `json:"occurredAt"` // of the attempt
	CapturedAt string `json:"capturedAt"`
}

// Answer is what a helper says, one JSON document on its standard output with
// these members and no others.
type Answer struct {
	// Source names what was read: an identifier of the authority, such as
	// "bank.example/ledger".
	Source string `json:"source"`
	// Observed is present, absent or unreachable.
	Observed string `json:"observed"`
	// Count is how many were present, where more than one were; 0 leaves it out.
	Count int64 `json:"count,omitzero"`
	// Value is what was present, any JSON, compared with the expected effect. It
	// is private.
	Value jsontext.Value `json:"value,omitzero"`
}

// Helper is a program that reads back for one tool or several. It is started
// once for each question, without a shell, without arguments, in the root
// directory and with nothing in its environment but Env.
type Helper struct {
	Path string // see program.Check
	// Env is the whole environment, NAME=value.
	Env []string
	// Limit bounds one answer; the program is killed then. Required.
	Limit time.Duration
}

// Ask runs the program. Errors wrap [ErrHelper], or are those of ctx. The
// program is checked again before each run.
func (h *Helper) Ask(ctx context.Context, q *Request) (*Answer, error) {
	if err := program.Check(h.Path); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHelper, err)
	}
	in, err := json.Marshal(q, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write the question about %s: %w", q.AttemptID, err)
	}
	limited, cancel := context.WithTimeout(ctx, h.Limit)
	defer cancel()
	cmd := exec.CommandContext(limited, h.Path)
	cmd.Dir, cmd.Env, cmd.WaitDelay = "/", append([]string{}, h.Env...), endDelay
	cmd.Stdin = bytes.NewReader(append(in, '\n'))
	out, talk := &bounded{limit: MaxAnswerBytes, stop: cancel}, &bounded{limit: maxTalkBytes}
	cmd.Stdout, cmd.Stderr = out, talk
	ownGroup(cmd)
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case out.over:
		return nil, fmt.Errorf("%w: over %d bytes on its standard output", ErrHelper, MaxAnswerBytes)
	case limited.Err() != nil:
		return nil, fmt.Errorf("%w: nothing within %s", ErrHelper, h.Limit)
	case err != nil:
		return nil, fmt.Errorf("%w: %w%s", ErrHelper, err, talk.said())
	}
	a := new(Answer)
	if err := json.Unmarshal(out.kept, a, json.RejectUnknownMembers(true)); err != nil {
		// The text of the error could quote the value, which is private.
		return nil, fmt.Errorf(`%w: its standard output is not {"source","observed","count"?,"value"?} in strict JSON, at %s`, ErrHelper, where(err))
	}
	return a, nil
}

// where is the place of a fault in JSON, without what stands there.
func where(err error) string {
	var se *json.SemanticError
	var sy *jsontext.SyntacticError
	pointer := jsontext.Pointer("")
	switch {
	case errors.As(err, &se):
		pointer = se.JSONPointer
	case errors.As(err, &sy):
		pointer = sy.JSONPointer
	}
	if pointer == "" {
		return "its top"
	}
	return string(pointer)
}

// bounded keeps what is written up to a limit, and calls stop where there is
// more. It embeds no buffer: one would offer to read without a limit.
type bounded struct {
	kept  []byte
	limit int
	over  bool
	stop  func()
}

func (b *bounded) Write(p []byte) (int, error) {
	room := min(len(p), b.limit-len(b.kept))
	b.kept = append(b.kept, p[:room]...)
	if room < len(p) {
		b.over = true
		if b.stop != nil {
			b.stop()
			return room, io.ErrShortWrite
		}
	}
	return len(p), nil
}

// said is the last of what a program said, for people.
func (b *bounded) said() string {
	lines := bytes.Split(bytes.TrimSpace(b.kept), []byte("\n"))
	if last := bytes.TrimSpace(lines[len(lines)-1]); len(last) > 0 {
		return fmt.Sprintf(": it said %q", last)
	}
	return ""
}
