package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"counterfoil/ledger/client"
)

func (c *cli) nodeRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Take a node out of the cluster that was started by mistake",
		Long: `remove takes back a name that a node was started under by mistake. Every name that was ever
started has a vote, and most votes must be there: of four, three.

A node that runs is refused, and one that keeps a copy of the stream: start that again, or a
prepared directory under its name. It needs a token of the admin role. For five minutes after
it the same name is not let in again.`,
		Example: `  counterfoil node remove n4 --server http://10.0.0.1:8480`,
		Args:    want(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := withClient(c, func(cl *client.Client) (*client.Answer[client.NodeRemoved], error) {
				return cl.RemoveNode(cmd.Context(), args[0])
			})
			return show(c, a, err, func(r *client.NodeRemoved) error {
				_, err := fmt.Fprintf(c.env.Stdout, "%s is no member of the cluster any more\n", plain(r.Node))
				return err
			})
		},
	}
	c.addClientFlags(cmd)
	return cmd
}
