package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

const (
	defaultServer = "http://127.0.0.1:8480"
	defaultData   = "counterfoil-data"
	tokenName     = "token"
)

// maxTokenBytes bounds a token file: 64 hex digits, or as much of another kind.
const maxTokenBytes = 4 << 10

// clientFlags are the flags of every command that speaks to a ledger.
type clientFlags struct {
	server, tokenFile string
}

func (c *cli) addClientFlags(cmd *cobra.Command) {
	c.addServerFlags(cmd)
	c.addJSONFlag(cmd)
}

// addServerFlags adds what says which ledger.
func (c *cli) addServerFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.client.server, "server", "", "URL of the ledger (COUNTERFOIL_SERVER; default "+defaultServer+")")
	f.StringVar(&c.client.tokenFile, "token-file", "", "file with the bearer token (COUNTERFOIL_TOKEN_FILE; default "+filepath.Join(defaultData, tokenName)+")")
}

func (c *cli) addJSONFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.json, "json", false, "print documents on stdout, refusals included")
}

// addWait adds --wait to a command that records.
func addWait(cmd *cobra.Command, wait *string) {
	cmd.Flags().StringVar(wait, "wait", "", "stage to wait for: accepted, logged, published or witnessed (default: as the ledger's durability says)")
	complete(cmd, "wait", string(client.Accepted), string(client.Logged), string(client.Published), string(client.Witnessed))
}

func stageOf(wait string) (client.Stage, error) {
	switch s := client.Stage(wait); s {
	case "", client.Accepted, client.Logged, client.Published, client.Witnessed:
		return s, nil
	}
	return "", usagef("--wait accepted, logged, published or witnessed", "unknown stage %q", wait)
}

// complete offers fixed words to the shell.
func complete(cmd *cobra.Command, flag string, words ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(fmt.Sprintf("flag --%s of %s is not defined: %v", flag, cmd.Name(), err))
	}
}

func (c *cli) setting(flag, env, fallback string) string {
	if flag != "" {
		return flag
	}
	if v := c.env.Getenv(env); v != "" {
		return v
	}
	return fallback
}

// connect makes the client of a command; public commands do without a token.
func (c *cli) connect(public bool) (*client.Client, error) {
	return c.connectWith(public, client.Config{})
}

// connectWith is connect with settings of its own beside server and token.
func (c *cli) connectWith(public bool, cfg client.Config) (*client.Client, error) {
	cfg.Server, cfg.UserAgent = c.setting(c.client.server, "COUNTERFOIL_SERVER", defaultServer), "counterfoil/"+readVersion().Version
	if !public {
		file := c.setting(c.client.tokenFile, "COUNTERFOIL_TOKEN_FILE", filepath.Join(defaultData, tokenName))
		token, err := readToken(file)
		if err != nil {
			return nil, err
		}
		cfg.Token = token
	}
	cl, err := client.New(cfg)
	if err != nil {
		hint := "--server " + defaultServer
		if !strings.Contains(cfg.Server, "://") {
			hint = "--server http://" + cfg.Server
		}
		return nil, &usageError{err: err, hint: hint}
	}
	return cl, nil
}

// readToken reads a token file. Its errors never show the content.
func readToken(file string) (string, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &hinted{fmt.Errorf("no token file at %s", file), "name it with --token-file or COUNTERFOIL_TOKEN_FILE; a ledger keeps it in its data directory, as DIR/token"}
	}
	if err != nil {
		return "", fmt.Errorf("read the token file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
	if err != nil {
		return "", fmt.Errorf("read the token file %s: %w", file, err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || len(b) > maxTokenBytes || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", &hinted{fmt.Errorf("%s holds no token: want one line of printable ASCII, at most %d bytes", file, maxTokenBytes), "is it the file token of the ledger's data directory?"}
	}
	return token, nil
}

// timeFlag brings what people write into the one spelling of times: RFC 3339,
// or a day, which is its first millisecond in UTC.
func timeFlag(name, s string) (string, error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			if t = t.UTC(); t.Year() >= 0 && t.Year() <= 9999 {
				return t.Format(event.TimeLayout), nil
			}
		}
	}
	return "", usagef("write it like 2026-07-28T00:00:00Z or 2026-07-28", "--%s %q is not a time", name, s)
}
