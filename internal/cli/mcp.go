package cli

import (
	"github.com/spf13/cobra"

	"counterfoil/internal/mcp"
)

func (c *cli) mcpCommand() *cobra.Command {
	var cfg mcp.Config
	var trustFile, level string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve a ledger to an MCP client over standard input and output",
		Long: `mcp is an MCP server over standard input and output, to be started by an MCP client. Its
tools record and check evidence on a running ledger: receipt_begin, receipt_append,
receipt_get, receipt_search, bundle_export and receipt_verify.

Standard output holds JSON-RPC messages and nothing else; logs are JSON lines on stderr.
A ledger that does not answer is said in the result of a tool; the server goes on.

Who records is not the caller's to say: it is --runtime-id and --agent-id, or what the
client calls itself. receipt_verify judges by the trust file of --trust alone; without
one it judges nothing. A ledger serves the same over HTTP under /mcp.`,
		Example: `  counterfoil mcp
  counterfoil mcp --trust trust.json --runtime-id desk-17
  counterfoil mcp --server https://ledger.example --token-file ~/.counterfoil/token`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if cfg.Logger, err = c.logger(level); err != nil {
				return err
			}
			if cfg.Trust, err = mcp.TrustFile(trustFile); err != nil {
				return &hinted{err, "get one by a way that you trust; " + c.env.Program + " trust export writes that of a ledger"}
			}
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			cfg.Ledger, cfg.Version = mcp.Remote{Client: cl}, readVersion().Version
			server := mcp.New(cfg)
			defer server.Close()
			return server.ServeStdio(cmd.Context(), c.env.Stdin, c.env.Stdout)
		},
	}
	f := cmd.Flags()
	f.StringVar(&trustFile, "trust", "", "trust file by which receipt_verify judges")
	f.StringVar(&cfg.RuntimeID, "runtime-id", "", "runtime id of what is begun here (default: mcp: and the client's name)")
	f.StringVar(&cfg.AgentID, "agent-id", "", "agent id of what is begun here (default: agent: and the client's name and version)")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	complete(cmd, "log-level", "debug", "info", "warn", "error")
	c.addServerFlags(cmd)
	return cmd
}
