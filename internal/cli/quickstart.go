package cli

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"counterfoil/internal/quickstart"
	"counterfoil/ledger/client"
	mcpsessions "counterfoil/testdata/sessions/mcp"
)

func (c *cli) quickstartCommand() *cobra.Command {
	var cfg ServeConfig
	var exit bool
	cmd := &cobra.Command{
		Use:   "quickstart",
		Short: "See receipts come about, on this machine alone",
		Long: `quickstart starts a ledger in ./counterfoil-data, records two real MCP sessions that are
built in, waits for the proofs, writes bundles and the trust file, verifies them offline
and tells what happened. Then it goes on serving. Running it again adds nothing.`,
		Example: `  counterfoil quickstart
  counterfoil quickstart --exit --data /tmp/try`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if cfg.Logger, err = c.logger("error"); err != nil {
				return err
			}
			listen := cfg.Listen
			if exit && cfg.Listen == "" {
				cfg.Listen = "127.0.0.1:0" // nobody else is to find it
			}
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			return c.deps.App.Serve(ctx, cfg, func(r Ready) error {
				if err := c.quickstart(ctx, cfg.Data, listen, r, exit); err != nil {
					return err
				}
				if exit {
					stop()
					return nil
				}
				c.say("serving at %s until interrupted", r.Listening)
				return nil
			})
		},
	}
	c.addServeFlags(cmd, &cfg)
	cmd.Flags().BoolVar(&exit, "exit", false, "stop when the story is told")
	return cmd
}

func (c *cli) quickstart(ctx context.Context, data, listen string, r Ready, exit bool) error {
	tokenFile := filepath.Join(data, tokenName)
	token, err := readToken(tokenFile)
	if err != nil {
		return err
	}
	cl, err := client.New(client.Config{Server: r.Listening, Token: token, UserAgent: "counterfoil/" + Version()})
	if err != nil {
		return err
	}
	defer cl.Close()
	// The commands of the story leave out what is the default.
	flags := ""
	serveFlags := ""
	server := r.Listening
	switch {
	case !exit:
	case listen == "" || strings.HasSuffix(listen, ":0"): // the suggested serve has the default
		server = defaultServer
	case server != defaultServer:
		serveFlags = " --listen " + quickstart.Quote(listen)
	}
	if server != defaultServer {
		flags += " --server " + quickstart.Quote(server)
	}
	if filepath.Clean(data) != defaultData {
		flags += " --token-file " + quickstart.Quote(tokenFile)
	}
	return quickstart.Run(ctx, quickstart.Config{
		Client: cl, Data: data, Sessions: mcpsessions.FS, Out: c.env.Stdout,
		Program: c.env.Program, ClientFlags: flags, ServeFlags: serveFlags, Stopping: exit,
	})
}
