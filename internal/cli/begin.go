package cli

import (
	"github.com/spf13/cobra"

	"counterfoil/ledger/client"
)

func (c *cli) beginCommand() *cobra.Command {
	var wait string
	cmd := &cobra.Command{
		Use:   "begin",
		Short: "Record an attempt, before the action leaves",
		Long: `begin reads the body of an attempt from standard input and prints its receipt.

The same source runtimeId and invocationId with the same content gives the same
receipt, whenever it is sent. privateInput stays private: the ledger keeps a salted
commitment. The receipt's openings show what was committed to: keep them secret. A
repeat of the same content returns them again.`,
		Example: `  counterfoil begin < begin.json
  counterfoil begin --wait published <<'JSON'
  {"source":{"runtimeId":"run-1","agentId":"agent:a","invocationId":"call-1",
             "protocol":"mcp/2025-11-25","implementation":"files@1.0.0"},
   "occurredAt":"2026-07-28T00:00:00.000Z",
   "action":{"name":"write_file","effectKind":"mcp.tools/call","effectMode":"destructive"},
   "privateInput":{"path":"/tmp/x"}}
  JSON`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.send(wait, "a begin", func(cl *client.Client, body []byte, stage client.Stage) (*client.Answer[client.Receipt], error) {
				return cl.BeginRaw(cmd.Context(), body, stage)
			})
		},
	}
	c.addClientFlags(cmd)
	addWait(cmd, &wait)
	return cmd
}
