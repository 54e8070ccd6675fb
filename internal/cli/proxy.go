package cli

import (
	"context"
	"crypto/rand"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"counterfoil/internal/proxy"
	"counterfoil/internal/proxy/gate"
	"counterfoil/internal/proxy/record"
	"counterfoil/internal/proxy/stdio"
	"counterfoil/internal/proxy/traffic"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// proxyFlags are the flags of proxy.
type proxyFlags struct {
	state       string
	failOpen    bool
	async       bool
	keepBody    bool
	callTimeout time.Duration
	patience    time.Duration
	contract    string
	grace       time.Duration
	maxMessage  int
	level       string

	listen, upstream string
	allowRemote      bool
}

func (c *cli) proxyCommand() *cobra.Command {
	var p proxyFlags
	cmd := &cobra.Command{
		Use:   "proxy [flags] -- COMMAND [ARGUMENT…] | proxy --listen ADDRESS --upstream URL",
		Short: "Record the tool calls of an MCP server, from between it and its client",
		Long: `proxy starts an MCP server and stands between it and the client that started proxy: put
"counterfoil proxy --" before the command in the client's configuration. Every byte passes
as it was sent. Beside it, every tools/call is recorded: the attempt before the call
leaves, the outcome before the answer arrives. Lists of tools are recorded as contracts,
and a definition that changed says so.

Without evidence a call does not leave: the client gets JSON-RPC error -32090. With
--fail-open it passes, and how many did and when is recorded later. A call without an
answer is unknown, never failed.

Standard output holds the server's messages and nothing else. The exit code is the
server's.

With --listen and --upstream it stands in front of an MCP server over streamable HTTP, and
prints one JSON line {"listening","upstream"} when it is ready.`,
		Example: `  counterfoil proxy -- npx -y @modelcontextprotocol/server-filesystem /srv/files
  counterfoil proxy --token-file ~/.counterfoil/token --outcome-async -- ./server --stdio
  counterfoil proxy --listen 127.0.0.1:9480 --upstream https://mcp.example/mcp`,
		Args: func(cmd *cobra.Command, args []string) error {
			if (p.listen == "") != (p.upstream == "") || p.listen != "" && len(args) > 0 {
				return usagef(cmd.CommandPath()+" --listen 127.0.0.1:9480 --upstream https://mcp.example/mcp", "--listen and --upstream belong together, and take no command")
			}
			if p.listen == "" && len(args) == 0 {
				return usagef(cmd.CommandPath()+" -- npx -y @modelcontextprotocol/server-everything", "there is no command to stand in front of")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.listen != "" {
				return c.proxyHTTP(cmd.Context(), &p)
			}
			return c.proxyStdio(cmd.Context(), &p, args)
		},
	}
	c.addServerFlags(cmd)
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the command is the command's
	f.StringVar(&p.listen, "listen", "", "address to serve streamable HTTP on, in front of --upstream")
	f.StringVar(&p.upstream, "upstream", "", "URL of an MCP server over streamable HTTP")
	f.BoolVar(&p.allowRemote, "allow-remote", false, "admit a --listen address that is not loopback, behind something that encrypts")
	f.StringVar(&p.state, "state", "", "state directory of this proxy alone (default: a free slot below $XDG_STATE_HOME/counterfoil/proxy, by the command or URL)")
	f.BoolVar(&p.failOpen, "fail-open", false, "let calls pass without evidence, and record how many did")
	f.BoolVar(&p.async, "outcome-async", false, "pass answers on without waiting for their outcomes to be recorded")
	f.BoolVar(&p.keepBody, "keep-body", false, "keep arguments and results in the ledger's vault, encrypted")
	f.DurationVar(&p.callTimeout, "call-timeout", time.Hour, "record a call as unknown that has no answer after this time; 0 for never")
	f.DurationVar(&p.patience, "evidence-timeout", 10*time.Second, "how long a call may wait for the ledger")
	f.StringVar(&p.contract, "contract", "", "name of the contract under which tools are called: what its reviews refuse does not reach the server")
	f.DurationVar(&p.grace, "contract-grace", gate.DefaultGrace, "how long the ledger's last answer about the contract stands when it gives none; a refusal stands for ever")
	f.IntVar(&p.maxMessage, "max-message", stdio.DefaultMaxLine, "bytes that one message may have")
	f.StringVar(&p.level, "log-level", "warn", "debug, info, warn or error; logs are JSON lines on stderr")
	complete(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}

// evidence opens what a proxy keeps beside its traffic.
func (c *cli) evidence(p *proxyFlags, server []string) (*proxy.Evidence, error) {
	if p.patience <= 0 || p.callTimeout < 0 || p.maxMessage < 1<<10 {
		return nil, usagef("--evidence-timeout 10s --call-timeout 1h --max-message 67108864", "a time is negative, or a bound under 1024 bytes")
	}
	if p.grace < 0 || p.contract != "" && event.CheckID("", p.contract) != nil {
		return nil, usagef("--contract mcp/files --contract-grace 5m", "--contract is no name of 1 to 255 bytes, or --contract-grace is negative")
	}
	log, err := c.logger(p.level)
	if err != nil {
		return nil, err
	}
	cl, err := c.connectWith(false, client.Config{Retries: -1}) // the recorder repeats
	if err != nil {
		return nil, err
	}
	return proxy.Open(proxy.Config{Ledger: cl, State: p.state, StateBase: c.stateBase(), Server: server, FailOpen: p.failOpen, KeepBody: p.keepBody,
		Contract: p.contract, Grace: p.grace, Patience: p.patience, CallTimeout: p.callTimeout, Random: rand.Reader, Now: time.Now, Log: log})
}

// stateBase is where programs of a user keep their state.
func (c *cli) stateBase() string {
	base := c.env.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home := c.env.Getenv("HOME")
		if home == "" {
			home, _ = os.UserHomeDir()
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "counterfoil", "proxy")
}

func (c *cli) proxyStdio(ctx context.Context, p *proxyFlags, command []string) error {
	e, err := c.evidence(p, command)
	if err != nil {
		return err
	}
	code, err := c.standBetween(ctx, p, e, command)
	if cerr := e.Close(); err == nil {
		err = cerr
	}
	if err == nil && code != 0 {
		return exitCode(code)
	}
	return err
}

func (c *cli) standBetween(ctx context.Context, p *proxyFlags, e *proxy.Evidence, command []string) (int, error) {
	trace, err := e.Name()
	if err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 8)
	// A client that is gone must not end this process before the outcomes are
	// recorded: SIGPIPE becomes an error of the write.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	log, err := c.logger(p.level)
	if err != nil {
		return 0, err
	}
	return stdio.Run(context.WithoutCancel(ctx), stdio.Config{Command: command, Stdin: c.env.Stdin, Stdout: c.env.Stdout, Stderr: c.env.Stderr, Signals: signals,
		Conn: traffic.NewConn(e.Traffic, trace, record.Peers{}), MaxLine: p.maxMessage, Async: p.async, Log: log})
}
