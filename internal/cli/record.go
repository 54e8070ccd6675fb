package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"counterfoil/internal/client"
	"counterfoil/internal/session"
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
answer is unknown. Recording a file again adds nothing.

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
						c.say("%s: %d new events are recorded, %d were before; run the same again to go on", file, sum.NewEvents, sum.KnownEvents)
					}
					return fmt.Errorf("%s: %w", file, err)
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
