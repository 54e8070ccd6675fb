package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"counterfoil/internal/upgrade"
)

// upgraded is the document of upgrade --json.
type upgraded struct {
	SchemaVersion string   `json:"schemaVersion"` // counterfoil.upgrade.v1
	From          int      `json:"from"`
	To            int      `json:"to"`
	Steps         []string `json:"steps"`
}

func (c *cli) upgradeCommand() *cobra.Command {
	var data string
	var check bool
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Bring a data directory of an older format to this program's",
		Long: `upgrade runs the steps from the format of a data directory to the one that this program
writes, and says what each does. No ledger may run on it. Take a backup or a copy first: an
older program does not read a newer format. Cut off, it goes on where it was when it is run
again. What was signed is never rewritten, and every receipt stays good.`,
		Example: `  counterfoil upgrade --check
  counterfoil upgrade --data /var/lib/counterfoil`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := isLedger(data); err != nil {
				return err
			}
			from, steps, err := upgrade.Plan(data)
			if err != nil {
				return err
			}
			doc := upgraded{"counterfoil.upgrade.v1", from, upgrade.Format, append([]string{}, steps...)}
			if !check {
				done, err := upgrade.Run(cmd.Context(), data, func(line string) { c.say("%s", line) })
				if err != nil {
					return err
				}
				doc.To = done.To
			}
			switch {
			case c.json:
				return c.printJSON(doc)
			case len(steps) == 0:
				_, err = fmt.Fprintf(c.env.Stdout, "data format %d: nothing to do\n", from)
			case check:
				for i, s := range steps {
					if _, err = fmt.Fprintf(c.env.Stdout, "data format %d to %d: %s\n", from+i, from+i+1, s); err != nil {
						return err
					}
				}
				c.say("hint: counterfoil backup, or a copy of the stopped directory; then upgrade without --check")
			default:
				_, err = fmt.Fprintf(c.env.Stdout, "data format %d, from %d\n", doc.To, doc.From)
			}
			return err
		},
	}
	addData(cmd, &data)
	cmd.Flags().BoolVar(&check, "check", false, "say what would be done, and do nothing")
	c.addJSONFlag(cmd)
	return cmd
}
