package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// ServeConfig says how to run a ledger. Empty fields have the ledger's
// defaults.
type ServeConfig struct {
	Data                      string        // data directory
	Origin                    string        // name of the log, chosen once
	Tenant                    string        // chosen once
	Listen                    string        // address of the HTTP API
	AllowRemote               bool          // admit an address that is not loopback
	Durability                string        // hardened or balanced
	NATS                      string        // URL of an external NATS
	NATSCreds                 string        // its credentials file
	NATSPasswordFile          string        // password of the user in NATS
	NATSListen                string        // address for read-only stream consumers
	EventKeyID, EventSeedFile string        // another event key than the data directory's
	Signer                    string        // absolute path of a helper that signs with EventKeyID, "" for none
	SignerEnv                 []string      // its environment, NAME=value
	SignerLimit               time.Duration // bounds one signature
	WitnessPolicy             string        // tlog-policy file
	CosignEvery               time.Duration // shortest time between two requests to one witness
	RecosignEvery             time.Duration // age at which an unchanged checkpoint is cosigned again
	MCPTrust                  string        // trust file that /mcp judges by
	ExternalURL               string        // base URL that clients know the API by
	RatePerToken              int           // requests a second of one token, 0 for no limit
	RatePerAddress            int           // requests a second of one remote address, 0 for no limit
	TraceEndpoint             string        // URL of an OTLP/HTTP receiver, "" for no traces
	TraceRatio                float64       // part of the calls that is traced whose callers do not say
	Node                      Node          // one of several nodes
	Logger                    *slog.Logger
}

// Ready is what a ledger that has started says of itself.
type Ready struct {
	Listening string // base URL
	Data      string // data directory, absolute
	Origin    string // name of the log
}

// readyLine is the line that serve prints.
type readyLine struct {
	Listening string `json:"listening"`
	Data      string `json:"data"`
	Origin    string `json:"origin"`
}

func (c *cli) serveCommand() *cobra.Command {
	var cfg ServeConfig
	var level, signer string
	var signerEnv []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a ledger",
		Long: `serve runs a ledger in a data directory, which it creates at first start, until it is
told to stop (SIGINT or SIGTERM; a second one ends it at once). When requests are
answered it prints one JSON line {"listening","data","origin"}. Logs are JSON lines on
stderr. The bearer token is in DIR/token; others are made with counterfoil tokens.

The profile hardened answers when the leaf of an event is flushed to the disk. The
profile balanced answers when the stream has it, and a power loss can then cost events
that were accepted and not logged yet; neither can promise what the hardware does not.`,
		Example: `  counterfoil serve
  counterfoil serve --data /var/lib/counterfoil --origin example.com/ledger
  counterfoil serve --witness-policy witnesses.policy
  counterfoil serve --nats tls://nats.example:4222 --nats-creds ledger.creds`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d := cfg.Durability; d != "" && d != "hardened" && d != "balanced" {
				return usagef("--durability hardened or balanced", "unknown durability profile %q", d)
			}
			if err := readSigner(&cfg, signer, signerEnv); err != nil {
				return err
			}
			if err := cfg.Node.check(cfg.NATS); err != nil {
				return err
			}
			var err error
			if cfg.Logger, err = c.logger(level); err != nil {
				return err
			}
			return c.deps.App.Serve(cmd.Context(), cfg, func(r Ready) error {
				return c.printJSON(readyLine(r))
			})
		},
	}
	c.addServeFlags(cmd, &cfg)
	addNodeFlags(cmd, &cfg.Node)
	f := cmd.Flags()
	f.StringVar(&cfg.Origin, "origin", "", "name of the log, like example.com/ledger; chosen once, at first start (default: a random one)")
	f.StringVar(&cfg.Tenant, "tenant", "", "tenant of all events; chosen once, at first start")
	f.BoolVar(&cfg.AllowRemote, "allow-remote", false, "admit addresses that are not loopback, behind something that encrypts")
	f.StringVar(&cfg.Durability, "durability", "", "hardened or balanced (default hardened)")
	f.StringVar(&cfg.NATS, "nats", "", "URLs of an external NATS with JetStream, by commas (default: one in this process)")
	f.StringVar(&cfg.NATSCreds, "nats-creds", "", "credentials file for --nats")
	f.StringVar(&cfg.NATSPasswordFile, "nats-password-file", "", "file with the password of the user that --nats names, like nats://ledger@nats:4222")
	f.StringVar(&cfg.NATSListen, "nats-listen", "", "address for read-only consumers of the stream; their token is in DIR/consumer.token")
	f.StringVar(&cfg.EventKeyID, "event-key-id", "", "id of the event key to sign with")
	f.StringVar(&cfg.EventSeedFile, "event-seed-file", "", "file with the seed of --event-key-id")
	f.StringVar(&signer, "signer", "", "exec: and the absolute path of a helper that signs digests with --event-key-id")
	f.StringArrayVar(&signerEnv, "signer-env", nil, "NAME of a variable that the helper may see; may be repeated. It sees no other")
	f.DurationVar(&cfg.SignerLimit, "signer-limit", 5*time.Second, "how long one signature of the helper may take")
	f.StringVar(&cfg.WitnessPolicy, "witness-policy", "", "tlog-policy file: the witnesses that are asked to cosign checkpoints, and their quorum")
	f.DurationVar(&cfg.CosignEvery, "cosign-every", 0, "shortest time between two requests to one witness (default: as often as checkpoints are published)")
	f.DurationVar(&cfg.RecosignEvery, "recosign-every", 0, "age at which witnesses cosign an unchanged checkpoint again (default 1h)")
	f.StringVar(&cfg.MCPTrust, "mcp-trust", "", "trust file by which /mcp verifies; without one it judges nothing")
	f.StringVar(&cfg.ExternalURL, "external-url", "", "base URL that clients know the API by, like https://ledger.example (default: the Host header)")
	f.StringVar(&cfg.TraceEndpoint, "otlp-endpoint", "", "send traces to this OTLP/HTTP receiver, like http://127.0.0.1:4318 (default: no traces)")
	f.Float64Var(&cfg.TraceRatio, "trace-ratio", 1, "part of the calls that is traced whose callers do not say, 0 to 1")
	f.IntVar(&cfg.RatePerToken, "rate-per-token", 0, "requests a second that one token may make, twice as many at once (default: no limit)")
	f.IntVar(&cfg.RatePerAddress, "rate-per-address", 0, "requests a second that one remote address may make, twice as many at once (default: no limit)")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	complete(cmd, "durability", "hardened", "balanced")
	complete(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}

// readSigner reads the flags of an external signer.
func readSigner(cfg *ServeConfig, signer string, env []string) error {
	if signer == "" {
		if len(env) > 0 {
			return usagef("--signer exec:/path/of/helper", "--signer-env without --signer")
		}
		return nil
	}
	path, ok := strings.CutPrefix(signer, "exec:")
	if !ok || !filepath.IsAbs(path) {
		return usagef("--signer exec:/path/of/helper", "--signer %q is not exec: and an absolute path", signer)
	}
	if cfg.EventKeyID == "" {
		return usagef("--event-key-id ed25519ph:…", "--signer without the id of its key")
	}
	if cfg.SignerLimit <= 0 {
		return usagef("--signer-limit 5s", "--signer-limit %s leaves no time", cfg.SignerLimit)
	}
	cfg.Signer = path
	for _, name := range env {
		value, set := os.LookupEnv(name)
		if !set || strings.Contains(name, "=") {
			return usagef("--signer-env NAME, of a variable that is set", "--signer-env %q names no variable", name)
		}
		cfg.SignerEnv = append(cfg.SignerEnv, name+"="+value)
	}
	return nil
}

func (c *cli) addServeFlags(cmd *cobra.Command, cfg *ServeConfig) {
	addData(cmd, &cfg.Data)
	cmd.Flags().StringVar(&cfg.Listen, "listen", "", "address of the HTTP API (default 127.0.0.1:8480; port 0 chooses one)")
}

// logger writes JSON lines to stderr.
func (c *cli) logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usagef("--log-level debug, info, warn or error", "unknown log level %q", level)
	}
	return slog.New(slog.NewJSONHandler(c.env.Stderr, &slog.HandlerOptions{Level: l})), nil
}
