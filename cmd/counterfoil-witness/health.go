package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

const (
	// healthLimit bounds the question to a witness on this machine.
	healthLimit = 5 * time.Second
	// maxHealthBytes bounds its answer, two checks of a few words.
	maxHealthBytes = 64 << 10
)

// healthCommand is for the health checks of containers, which have no shell.
func (p *program) healthCommand() *cobra.Command {
	var server string
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a witness whether it cosigns",
		Long: `health shows the checks of a running witness and ends with 1 unless all of them pass. It
needs no key.`,
		Example: "  counterfoil-witness health\n  counterfoil-witness health --server http://127.0.0.1:8482",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := url.Parse(server)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return usagef("--server %q is not http://HOST:PORT", server)
			}
			return p.health(cmd.Context(), u)
		},
	}
	cmd.Flags().StringVar(&server, "server", "http://127.0.0.1:8481", "URL of the witness")
	return cmd
}

func (p *program) health(ctx context.Context, server *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.JoinPath("readyz").String(), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask the witness: %w (hint: does it run, and listen there?)", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxHealthBytes))
	if err != nil {
		return fmt.Errorf("read the witness's answer: %w", err)
	}
	var doc struct {
		Ready  bool `json:"ready"`
		Checks []struct {
			Name   string `json:"name"`
			OK     bool   `json:"ok"`
			Detail string `json:"detail"`
		} `json:"checks"`
	}
	if err := json.Unmarshal(b, &doc); err != nil || len(doc.Checks) == 0 {
		return fmt.Errorf("status %d of %s is no answer of a witness", res.StatusCode, server.Redacted())
	}
	var out []byte
	for _, c := range doc.Checks {
		word := "ok"
		if !c.OK {
			word = "FAILS"
		}
		out = fmt.Appendf(out, "%s: %s: %q\n", c.Name, word, c.Detail)
	}
	if err := p.print(out); err != nil {
		return err
	}
	if !doc.Ready {
		return exitCode(exitFailed)
	}
	return nil
}
