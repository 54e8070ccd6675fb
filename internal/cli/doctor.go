package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"counterfoil/ledger/client"
)

func (c *cli) doctorCommand() *cobra.Command {
	var cluster bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Ask a ledger how it is, and what to do next",
		Long: `doctor shows the ledger's own checks with the next step for each that fails. It exits
with 1 unless the ledger takes events now and no witness is at odds with its log. A
failing check is about storage, connections or witnesses; it is never a judgement on
evidence.`,
		Example: `  counterfoil doctor
  counterfoil doctor --cluster
  counterfoil doctor --json`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster {
				return c.doctorCluster(cmd.Context())
			}
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			a, err := cl.Status(cmd.Context())
			if err != nil {
				return err
			}
			if c.json {
				err = c.printRaw(a.Raw)
			} else {
				err = c.showStatus(cl.Server(), &a.Value)
			}
			if err == nil && !a.Value.Ready {
				err = exitCode(exitFailed)
			}
			return err
		},
	}
	c.addClientFlags(cmd)
	cmd.Flags().BoolVar(&cluster, "cluster", false, "ask all nodes of the ledger, and compare their trees by the tiles that they serve")
	return cmd
}

func (c *cli) showStatus(server string, s *client.Status) error {
	ready := "ready"
	if !s.Ready {
		ready = "not ready: it takes no events now"
		fails := slices.DeleteFunc(slices.Clone(s.Checks), func(ch client.Check) bool { return ch.OK })
		if len(fails) == 1 && fails[0].Name == "tiles" {
			ready = "not ready: it takes events, but a file of the log is damaged"
		} else if len(fails) > 0 && !slices.ContainsFunc(fails, func(ch client.Check) bool { return !strings.HasPrefix(ch.Name, "witness ") }) {
			ready = "not ready: it takes events, but a witness is at odds with the log"
		}
	}
	witnessed := ""
	if s.WitnessedSize > 0 {
		witnessed = fmt.Sprintf(", %d witnessed", s.WitnessedSize)
	}
	err := pairs(c.env.Stdout,
		"ledger", server,
		"origin", s.Origin,
		"tenant", s.Tenant,
		"version", s.Version,
		"durability", s.Durability,
		"stream", fmt.Sprintf("%d messages", s.StreamLast),
		"log", fmt.Sprintf("%d durable leaves, %d published%s, %d in the views", s.LogSize, s.PublishedSize, witnessed, s.ViewSize),
		"parked", fmt.Sprintf("%d leaves that do not count", s.Parked),
		"state", ready,
	)
	if err != nil {
		return err
	}
	rows := [][]string{{"check", "result", "detail"}}
	for _, ch := range s.Checks {
		result := "ok"
		if !ch.OK {
			result = "FAILS"
		}
		rows = append(rows, []string{ch.Name, result, ch.Detail})
	}
	fmt.Fprintln(c.env.Stdout)
	if err := table(c.env.Stdout, rows); err != nil {
		return err
	}
	for _, ch := range s.Checks {
		if !ch.OK && ch.Hint != "" {
			c.say("hint: %s: %s", plain(ch.Name), plain(ch.Hint))
		}
	}
	return nil
}
