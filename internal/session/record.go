package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"counterfoil/ledger/client"
)

// Ledger takes events; *client.Client is one.
type Ledger interface {
	Begin(ctx context.Context, b *client.Begin, wait client.Stage) (*client.Answer[client.Receipt], error)
	Append(ctx context.Context, a *client.Append, wait client.Stage) (*client.Answer[client.Receipt], error)
}

// Summary is what recording a session came to.
type Summary struct {
	RuntimeID      string         `json:"runtimeId"`
	Implementation string         `json:"implementation"`
	Attempts       int            `json:"attempts"`
	Outcomes       map[string]int `json:"outcomes"` // by status
	NewEvents      int            `json:"newEvents"`
	KnownEvents    int            `json:"knownEvents"`       // recorded before, with the same content
	TornLine       int            `json:"tornLine,omitzero"` // the last line, if it breaks off
	Calls          []Call         `json:"calls"`             // in the order of the recording
}

// Call is one tools/call and what came of it.
type Call struct {
	AttemptID string `json:"attemptId"`
	Tool      string `json:"tool"`
	Status    string `json:"status,omitempty"` // of the outcome
}

// AttemptIDs lists the attempts in the order of the recording.
func (s *Summary) AttemptIDs() []string {
	ids := make([]string, len(s.Calls))
	for i, c := range s.Calls {
		ids[i] = c.AttemptID
	}
	return ids
}

// String words the summary, like "9 calls of files@1.0.0: 3 failed, 6
// succeeded". The statuses stand in the order of the alphabet.
func (s *Summary) String() string {
	var words []string
	for _, status := range slices.Sorted(maps.Keys(s.Outcomes)) {
		words = append(words, fmt.Sprintf("%d %s", s.Outcomes[status], status))
	}
	calls := "calls"
	if s.Attempts == 1 {
		calls = "call"
	}
	if len(words) == 0 {
		return fmt.Sprintf("%d %s of %s", s.Attempts, calls, s.Implementation)
	}
	return fmt.Sprintf("%d %s of %s: %s", s.Attempts, calls, s.Implementation, strings.Join(words, ", "))
}

// Record sends the steps of a recording in their order and returns once all of
// them have reached the stage. The log has one order, so the steps are handed
// over at stage accepted and only the last place in the log is waited for.
// A recording of which a line is refused is refused before anything is sent.
// Recording again adds nothing. On an error the summary holds what was done
// until then.
func Record(ctx context.Context, ledger Ledger, r *Reader, wait client.Stage) (*Summary, error) {
	sum := &Summary{RuntimeID: r.RuntimeID(), Outcomes: map[string]int{}, Calls: []Call{}}
	if err := r.Check(); err != nil {
		return sum, err
	}
	var last *Step
	var lastIndex uint64
	for {
		s, err := r.Next()
		sum.Implementation = r.Implementation()
		if errors.Is(err, io.EOF) {
			sum.TornLine = r.TornLine()
			break
		}
		if err != nil {
			return sum, err
		}
		if s.Outcome != nil {
			s.Outcome.AttemptID = sum.Calls[s.Call-1].AttemptID // calls are numbered from 1, without holes
		}
		a, err := send(ctx, ledger, s, client.Accepted)
		if err != nil {
			return sum, err
		}
		sum.count(s, a)
		if last == nil || a.Value.LeafIndex >= lastIndex {
			last, lastIndex = s, a.Value.LeafIndex
		}
	}
	if last == nil || wait == client.Accepted {
		return sum, nil
	}
	_, err := send(ctx, ledger, last, wait)
	return sum, err
}

func (s *Summary) count(step *Step, a *client.Answer[client.Receipt]) {
	if a.New {
		s.NewEvents++
	} else {
		s.KnownEvents++
	}
	if b := step.Begin; b != nil {
		s.Attempts++
		s.Calls = append(s.Calls, Call{AttemptID: a.Value.AttemptID, Tool: b.Action.Name})
		return
	}
	s.Outcomes[step.Outcome.Status]++
	s.Calls[step.Call-1].Status = step.Outcome.Status
}

func send(ctx context.Context, ledger Ledger, s *Step, wait client.Stage) (a *client.Answer[client.Receipt], err error) {
	what := "begin"
	if s.Begin != nil {
		a, err = ledger.Begin(ctx, s.Begin, wait)
	} else {
		what = "outcome"
		a, err = ledger.Append(ctx, s.Outcome, wait)
	}
	if err != nil {
		return nil, fmt.Errorf("line %d, %s of call %d: %w", s.Line, what, s.Call, err)
	}
	return a, nil
}
