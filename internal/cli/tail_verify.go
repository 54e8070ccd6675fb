package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"counterfoil/internal/durable"
	"counterfoil/ledger/consumer"
	"counterfoil/ledger/consumer/natsfeed"
	"counterfoil/ledger/trust"
)

// tailVerify are the flags of tail --verify.
type tailVerify struct {
	on                         bool
	trust, policy              string
	log, cursor                string
	nats, natsToken, natsCreds string
}

func (v *tailVerify) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&v.on, "verify", false, "print nothing that was not checked under a checkpoint that meets the policy")
	f.StringVar(&v.trust, "trust", "", "trust file, from the log's operator")
	f.StringVar(&v.policy, "policy", "", "tlog-policy text: its witnesses count in place of the trust file's")
	f.StringVar(&v.log, "log", "", "URL or directory of the tiles (default: those of the ledger)")
	f.StringVar(&v.cursor, "cursor", "", "file that remembers where to go on")
	f.StringVar(&v.nats, "nats", "", "URL of the NATS server that has the ledger's stream")
	f.StringVar(&v.natsToken, "nats-token-file", "", "file with the token of a read-only consumer; a ledger keeps it as DIR/consumer.token")
	f.StringVar(&v.natsCreds, "nats-creds", "", "credentials file for --nats")
}

// given names a flag that is given and makes no sense without --verify.
func (v *tailVerify) given(cmd *cobra.Command) string {
	for _, name := range []string{"trust", "policy", "log", "cursor", "nats", "nats-token-file", "nats-creds"} {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// tailVerified follows the log and prints what was checked.
func (c *cli) tailVerified(cmd *cobra.Command, v tailVerify, from uint64, follow bool) error {
	switch {
	case v.trust == "":
		return c.notJudged(errors.New("no trust file: nothing can be judged"), "name it with --trust FILE; get it from the log's operator, not from the log")
	case v.natsToken != "" && v.natsCreds != "":
		return usagef("leave out one of them", "--nats-token-file and --nats-creds exclude each other")
	case v.nats == "" && v.natsToken+v.natsCreds != "":
		return usagef("--nats nats://127.0.0.1:4222", "credentials for NATS without --nats")
	}
	if v.cursor != "" && cmd.Flags().Changed("from") {
		if _, err := os.Stat(v.cursor); err == nil {
			return usagef("leave out one of them", "--from says where to begin, and the cursor %s knows that", v.cursor)
		}
	}
	cfg, done, err := c.tailConfig(cmd, v, follow)
	if err != nil {
		var usage *usageError
		if errors.As(err, &usage) {
			return err
		}
		return c.notJudged(err, "")
	}
	defer done()
	cfg.From = from
	t := &verifiedTail{c: c, out: bufio.NewWriter(c.env.Stdout)}
	c.env.Stdout = t.out
	ctx := cmd.Context()
	var store consumer.Store = nowhere{}
	if v.cursor != "" {
		store = consumer.File(v.cursor)
	}
	err = consumer.Run(ctx, cfg, store, t.batch)
	if flushed := t.out.Flush(); err == nil && flushed != nil {
		err = fmt.Errorf("write to stdout: %w", flushed)
	}
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = nil // that is how following ends
	}
	if err == nil {
		t.summary()
		return nil
	}
	defer t.out.Flush()
	return c.tailFailed(err)
}

// tailConfig opens what the flags name.
func (c *cli) tailConfig(cmd *cobra.Command, v tailVerify, follow bool) (cfg consumer.Config, done func(), err error) {
	done = func() {}
	raw, err := durable.ReadFile(v.trust, trust.MaxFileBytes)
	if err != nil {
		return cfg, done, fmt.Errorf("the trust file cannot be read: %w", err)
	}
	if cfg.Trust, err = trust.Parse(raw); err != nil {
		return cfg, done, fmt.Errorf("%s: %w", v.trust, err)
	}
	if v.policy != "" {
		if raw, err = durable.ReadFile(v.policy, trust.MaxPolicyBytes); err != nil {
			return cfg, done, fmt.Errorf("the policy cannot be read: %w", err)
		}
		if cfg.Policy, err = trust.ParsePolicy(raw); err != nil {
			return cfg, done, fmt.Errorf("%s: %w", v.policy, err)
		}
	}
	server := strings.TrimSuffix(c.setting(c.client.server, "COUNTERFOIL_SERVER", defaultServer), "/")
	log := v.log
	if log == "" {
		if log = server + "/log"; !strings.Contains(server, "://") {
			return cfg, done, usagef("--server http://"+server, "server %q has no scheme", server)
		}
	}
	if cfg.Log, cfg.Witnessed, err = openLog(cmd.Context(), log, 30*time.Second); err != nil {
		return cfg, done, err
	}
	cfg.Stop = !follow
	cfg.Waiting = c.waiting()
	switch {
	case v.nats != "":
		feed, err := c.natsFeed(v, cfg.Trust.Origin())
		if err != nil {
			return cfg, done, err
		}
		cfg.Feed, done = feed, feed.Close
	case v.log == "" && follow:
		feed, err := c.eventsFeed(cmd, server)
		if err != nil {
			return cfg, done, err
		}
		if feed != nil {
			cfg.Feed, done = feed, feed.Close
		}
	}
	return cfg, done, nil
}

// waiting says why nothing comes: once for as long as it is the same trouble, and
// of what passes by itself, a checkpoint without its cosignatures yet, only when
// it lasts.
func (c *cli) waiting() func(error, time.Duration) {
	said := ""
	return func(err error, pause time.Duration) {
		var quorum *consumer.QuorumError
		text := err.Error()
		if errors.As(err, &quorum) {
			if pause < consumer.DefaultPoll {
				return
			}
			text = "waiting for cosignatures: " + quorum.Lacking
		}
		if text != said {
			said = text
			c.say("counterfoil: %s; trying again", plain(text))
		}
	}
}

func (c *cli) natsFeed(v tailVerify, origin string) (*natsfeed.Feed, error) {
	cfg := natsfeed.Config{URL: v.nats, CredsFile: v.natsCreds, Origin: origin}
	if v.natsToken != "" {
		token, err := readToken(v.natsToken)
		if err != nil {
			return nil, err
		}
		cfg.Token = token
	}
	return natsfeed.Connect(cfg)
}

// eventsFeed is the ledger's event stream; nil if nobody gave a token, since the
// tiles are enough.
func (c *cli) eventsFeed(cmd *cobra.Command, server string) (*consumer.Events, error) {
	file := c.setting(c.client.tokenFile, "COUNTERFOIL_TOKEN_FILE", filepath.Join(defaultData, tokenName))
	if _, err := os.Stat(file); err != nil && !cmd.Flags().Changed("token-file") {
		return nil, nil
	}
	token, err := readToken(file)
	if err != nil {
		return nil, err
	}
	return consumer.NewEvents(consumer.EventsConfig{Server: server, Token: token})
}

// nowhere is the store of a tail without a cursor.
type nowhere struct{}

func (nowhere) Load() ([]byte, error) { return nil, fs.ErrNotExist }
func (nowhere) Save([]byte) error     { return nil }
