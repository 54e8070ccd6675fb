package cli

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

func (c *cli) tailCommand() *cobra.Command {
	var from uint64
	var follow bool
	var v tailVerify
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow the events of the log",
		Long: `tail prints every published event in the order of the log, and then new ones as they
are published, until it is interrupted. Where the connection breaks it goes on at the
next event; a missing or repeated index is an error.

With --verify it believes nobody: it prints an event once the event is under a checkpoint
that the log signed and enough witnesses cosigned, as the trust file says, that
checkpoint fits all those before, and the event's signature counts. It needs the public
tiles alone and no token, so --log may be any copy of them; a token, or --nats, lets it
hear of new events sooner. With --cursor it goes on where it stopped, and notices if the
log's history was changed meanwhile.

Exit codes with --verify: 0 the end, or told to stop; 1 something does not verify; 2 it
cannot be judged: no trust file, no answer, a damaged cursor.`,
		Example: `  counterfoil tail
  counterfoil tail --from 1000 --json
  counterfoil tail --follow=false
  counterfoil tail --verify --trust trust.json --cursor tail.cursor
  counterfoil tail --verify --trust trust.json --log https://mirror.example/log --follow=false
  counterfoil tail --verify --trust trust.json --nats nats://127.0.0.1:4222 --nats-token-file consumer.token`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if v.on {
				return c.tailVerified(cmd, v, from, follow)
			}
			if name := v.given(cmd); name != "" {
				return usagef("counterfoil tail --verify --trust FILE", "--%s is for tail --verify", name)
			}
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			ctx := cmd.Context()
			for ev, err := range cl.Events(ctx, client.EventsOptions{From: from, Stop: !follow, Interrupted: c.interrupted}) {
				if err != nil {
					if ctx.Err() != nil {
						return nil // that is how following ends
					}
					return err
				}
				if c.json {
					err = c.printRaw(ev.Raw)
				} else {
					err = c.showEvent(ev)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().Uint64Var(&from, "from", 0, "leaf index of the first event")
	cmd.Flags().BoolVar(&follow, "follow", true, "wait for new events")
	v.addFlags(cmd)
	c.addClientFlags(cmd)
	return cmd
}

func (c *cli) interrupted(err error, wait time.Duration) {
	c.say("counterfoil: %s; trying again in %s", plain(err.Error()), wait)
}

// showEvent prints one line: leaf, time, lifecycle, status, tool, attempt.
func (c *cli) showEvent(ev *client.StreamedEvent) error {
	var rec struct {
		Event event.Event `json:"event"`
	}
	line := fmt.Sprintf("%6d  %s", ev.LeafIndex, "parked: "+plain(ev.Parked))
	if ev.Parked == "" {
		if err := json.Unmarshal(ev.Record, &rec); err != nil {
			return fmt.Errorf("event at leaf %d: %w", ev.LeafIndex, err)
		}
		e := &rec.Event
		line = fmt.Sprintf("%6d  %s  %-14s  %-12s  %-28s  %s", ev.LeafIndex, plain(e.OccurredAt), plain(string(e.Lifecycle)), plain(e.Status), plain(e.Action.Name), plain(e.AttemptID))
	}
	if _, err := fmt.Fprintln(c.env.Stdout, line); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}
