package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"counterfoil/internal/session"
	"counterfoil/ledger/client"
)

// recorded is the document of record --json.
type recorded struct {
	SchemaVersion string            `json:"schemaVersion"` // counterfoil.record.v1
	Sessions      []recordedSession `json:"sessions"`
}

type recordedSession struct {
	File string `json:"file"`
	session.Summary
}

func (c *cli) recordCommand() *cobra.Command {
	var wait string
	cmd := &cobra.Command{
		Use:   "record FILE…",
		Short: "Record MCP sessions from their recordings",
		Long: `record reads recorded MCP sessions, one message a line, and records every tools/call
as an attempt and its answer as the outcome. An answer with isError is failed, a missing
answer is unknown. Recording a file again adds nothing. A file with a line that cannot be
read is refused whole; a last line that breaks off is left out.

A line is {"at": RFC 3339 time, "dir": "client"|"server", "message": JSON-RPC message}.`,
		Example: `  counterfoil record session.jsonl
  counterfoil record --wait published --json *.jsonl`,
		Args: want(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			stage, err := stageOf(wait)
			if err != nil {
				return err
			}
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			doc := recorded{SchemaVersion: "counterfoil.record.v1"}
			for _, file := range args {
				sum, err := recordFile(cmd.Context(), cl, file, stage)
				if err != nil {
					if sum != nil && sum.NewEvents+sum.KnownEvents > 0 {
						next := ""
						if goesOn(err) {
							next = "; run the same again to go on"
						}
						c.say("%s: %d new events are recorded, %d were before%s", file, sum.NewEvents, sum.KnownEvents, next)
					}
					if len(doc.Sessions) > 0 { // of the files before
						if perr := c.printJSON(doc); perr != nil {
							return perr
						}
					}
					return fmt.Errorf("%s: %w", file, err)
				}
				if sum.TornLine > 0 {
					c.say("%s: line %d breaks off and is left out: calls without an answer before it are unknown", file, sum.TornLine)
				}
				if c.json {
					doc.Sessions = append(doc.Sessions, recordedSession{file, *sum})
				} else if err := c.showRecorded(file, sum); err != nil {
					return err
				}
			}
			if c.json {
				return c.printJSON(doc)
			}
			return nil
		},
	}
	c.addClientFlags(cmd)
	addWait(cmd, &wait)
	return cmd
}

// goesOn reports whether sending the same again may do better.
func goesOn(err error) bool {
	var refusal *client.Error
	var gone *client.Unreachable
	return errors.As(err, &refusal) && refusal.Code == "unavailable" || errors.As(err, &gone) || errors.Is(err, context.Canceled)
}

func recordFile(ctx context.Context, cl *client.Client, file string, stage client.Stage) (*session.Summary, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := session.NewReader(f)
	if err != nil {
		return nil, err
	}
	return session.Record(ctx, cl, r, stage)
}

func (c *cli) showRecorded(file string, sum *session.Summary) error {
	_, err := fmt.Fprintf(c.env.Stdout, "%s: %s; %d new events, %d recorded before\n", file, plain(sum.String()), sum.NewEvents, sum.KnownEvents)
	if err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}
