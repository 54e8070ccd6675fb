package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"counterfoil/ledger/client"
)

func (c *cli) getCommand() *cobra.Command {
	var proof bool
	cmd := &cobra.Command{
		Use:   "get ATTEMPT_ID|EVENT_ID",
		Short: "Show an attempt with its events, or one receipt",
		Long: `get shows an attempt (att_…) with all its receipts, or the receipt of one event
(evt_…). What was acknowledged is shown at once, with its true stage. With --tlog-proof
the receipt is a C2SP tlog-proof, for tools that know nothing of this ledger.`,
		Example: `  counterfoil get att_00112233445566778899aabbccddeeff
  counterfoil get evt_… --json
  counterfoil get evt_… --tlog-proof > event.tlog-proof`,
		Args: want(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := args[0]
			isAttempt := strings.HasPrefix(id, "att_")
			if !isAttempt && !strings.HasPrefix(id, "evt_") {
				return usagef("an id starts with att_ or evt_; "+c.env.Program+" list shows some", "%q is neither an attempt nor an event", id)
			}
			if proof && (isAttempt || c.json) {
				return usagef("name the event, evt_…, without --json", "--tlog-proof is the text of one event")
			}
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			if proof {
				b, err := cl.TlogProof(cmd.Context(), id)
				if err != nil {
					return err
				}
				return c.deliver(b, "")
			}
			if isAttempt {
				a, err := cl.Attempt(cmd.Context(), id)
				return show(c, a, err, c.showAttempt)
			}
			r, err := cl.Receipt(cmd.Context(), id)
			return show(c, r, err, c.showReceipt)
		},
	}
	cmd.Flags().BoolVar(&proof, "tlog-proof", false, "print the proof of one event as C2SP tlog-proof")
	c.addClientFlags(cmd)
	return cmd
}

func (c *cli) showAttempt(a *client.Attempt) error {
	err := pairs(c.env.Stdout,
		"attempt", a.AttemptID,
		"state", stateOf(a.State, a.InDoubt, a.Corrected, a.Review),
		"action", actionOf(a.Action),
		"agent", a.Source.AgentID,
		"source", a.Source.RuntimeID+" invocation "+a.Source.InvocationID,
		"protocol", a.Source.Protocol,
		"server", a.Source.Implementation,
		"stage", fmt.Sprintf("%s, newest checkpoint at %d leaves", attemptStage(a), a.TreeSize),
	)
	if err != nil {
		return err
	}
	rows := [][]string{{"rev", "leaf", "lifecycle", "status", "reasons", "occurred", "stage", "event"}}
	var codes []string
	for i := range a.Receipts {
		r := &a.Receipts[i]
		rows = append(rows, []string{fmt.Sprint(r.Revision), utoa(r.LeafIndex), r.Lifecycle, r.Action.Status, strings.Join(r.ReasonCodes, ","), r.OccurredAt, r.StageText(), r.EventID})
		codes = append(codes, r.ClaimBoundary)
	}
	fmt.Fprintln(c.env.Stdout)
	if err := table(c.env.Stdout, rows); err != nil {
		return err
	}
	return boundaries(c.env.Stdout, codes...)
}

// attemptStage is the stage of the newest event, which is the lowest.
func attemptStage(a *client.Attempt) string {
	if n := len(a.Receipts); n > 0 && a.Receipts[n-1].Stage == a.Stage {
		return a.Receipts[n-1].StageText()
	}
	return string(a.Stage)
}

// stateOf words the state of an attempt with what qualifies it.
func stateOf(state string, inDoubt, corrected bool, review string) string {
	if inDoubt {
		state += ", in doubt"
	}
	if corrected {
		state += ", corrected"
	}
	if review != "" {
		state += ", reviewed: " + review
	}
	return state
}

func actionOf(a client.Action) string {
	return fmt.Sprintf("%s (%s, %s)", a.Name, a.EffectKind, a.EffectMode)
}

func (c *cli) showReceipt(r *client.Receipt) error {
	skew := ""
	if r.ClockSkew {
		skew = "the two times are more than 60 s apart; the order is the leaf index"
	}
	stage := r.StageText()
	if r.TreeSize > 0 {
		stage += fmt.Sprintf(", in the tree of %d leaves", r.TreeSize)
	}
	err := pairs(c.env.Stdout,
		"event", r.EventID,
		"type", r.EventType,
		"attempt", r.AttemptID,
		"revision", fmt.Sprint(r.Revision),
		"status", r.Action.Status,
		"reasons", strings.Join(r.ReasonCodes, ", "),
		"action", actionOf(r.Action),
		"agent", r.Source.AgentID,
		"source", r.Source.RuntimeID+" invocation "+r.Source.InvocationID,
		"assurance", r.SourceAttestation.Level+", "+r.SourceAttestation.Status,
		"occurred", r.OccurredAt,
		"captured", r.CapturedAt,
		"clocks", skew,
		"ledger", r.Ledger,
		"leaf", utoa(r.LeafIndex),
		"stage", stage,
		"digest", r.Commitment.Digest,
	)
	if err != nil {
		return err
	}
	return boundaries(c.env.Stdout, r.ClaimBoundary)
}
