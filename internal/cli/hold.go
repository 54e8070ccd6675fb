package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"counterfoil/ledger/client"
)

func (c *cli) holdCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hold",
		Short: "Legal holds: add, remove, list",
		Long: `A legal hold keeps private values and evidence: while it is in force, erase refuses and
retention does not end. Each hold is an event of the log, and so is its end.`,
		Args: c.groupArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(c.holdAddCommand(), c.holdRemoveCommand(), c.holdListCommand())
	return cmd
}

func (c *cli) holdAddCommand() *cobra.Command {
	var attempt, subject string
	cmd := &cobra.Command{
		Use:   "add --attempt ID|--subject KIND:ID",
		Short: "Put a legal hold on an attempt or a subject",
		Long: `add puts a hold on one attempt, or on all attempts about a subject, those to come included.
A hold that is there stays as it is. A subject stands in the log as it is written here.`,
		Example: `  counterfoil hold add --attempt att_…
  counterfoil hold add --subject tool_action:invoice-17`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var ids []string
			if attempt != "" {
				ids = []string{attempt}
			}
			s, err := eitherOf(ids, subject)
			if err != nil {
				return err
			}
			return c.changeHold(func(cl *client.Client) (*client.Answer[client.Hold], error) {
				return cl.AddHold(cmd.Context(), attempt, s)
			})
		},
	}
	cmd.Flags().StringVar(&attempt, "attempt", "", "attempt to hold")
	cmd.Flags().StringVar(&subject, "subject", "", "hold all attempts about a subject, as KIND:ID")
	c.addClientFlags(cmd)
	return cmd
}

func (c *cli) holdRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove HOLD_ID",
		Short:   "End a legal hold",
		Example: `  counterfoil hold remove att_…`,
		Args:    want(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeHold(func(cl *client.Client) (*client.Answer[client.Hold], error) {
				return cl.ReleaseHold(cmd.Context(), args[0])
			})
		},
	}
	c.addClientFlags(cmd)
	return cmd
}

func (c *cli) holdListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the legal holds in force",
		Example: `  counterfoil hold list
  counterfoil hold list --json`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := withClient(c, func(cl *client.Client) (*client.Answer[client.Holds], error) { return cl.Holds(cmd.Context()) })
			return show(c, a, err, func(all *client.Holds) error {
				rows := [][]string{{"hold", "on", "since", "leaf"}}
				for _, h := range all.Holds {
					rows = append(rows, []string{h.HoldID, heldBy(&h), h.Since, strconv.FormatUint(h.LeafIndex, 10)})
				}
				return table(c.env.Stdout, rows)
			})
		},
	}
	c.addClientFlags(cmd)
	return cmd
}

func heldBy(h *client.Hold) string {
	if h.Subject != nil {
		return h.Subject.Kind + ":" + h.Subject.ID
	}
	return h.Attempt
}

func (c *cli) changeHold(change func(*client.Client) (*client.Answer[client.Hold], error)) error {
	a, err := withClient(c, change)
	return show(c, a, err, func(h *client.Hold) error {
		state := "released"
		if h.InForce {
			state = "in force"
		}
		return pairs(c.env.Stdout, "hold", h.HoldID, "on", heldBy(h), "state", state, "since", h.Since, "leaf", strconv.FormatUint(h.LeafIndex, 10))
	})
}
