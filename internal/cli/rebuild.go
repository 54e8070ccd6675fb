package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Rebuilt says what a rebuild came to.
type Rebuilt struct {
	TreeSize   uint64 // leaves that the views reflect
	Parked     uint64 // of them, those that do not count
	ViewDigest string // "sha256:" and hex, over the view's rows
}

// rebuilt is the document of rebuild --json.
type rebuilt struct {
	SchemaVersion string `json:"schemaVersion"` // counterfoil.rebuild.v1
	TreeSize      uint64 `json:"treeSize"`
	Parked        uint64 `json:"parked"`
	ViewDigest    string `json:"viewDigest"`
}

func (c *cli) rebuildCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Make the views anew from the log",
		Long: `rebuild deletes the views of a data directory and makes them from the log alone. No
ledger may run on the directory. At the same tree size the view digest is the same,
whenever and wherever the views are made.`,
		Example: `  counterfoil rebuild --data counterfoil-data`,
		Args:    want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := c.logger("warn")
			if err != nil {
				return err
			}
			r, err := c.deps.App.Rebuild(cmd.Context(), ServeConfig{Data: dir, Logger: logger})
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(rebuilt{"counterfoil.rebuild.v1", r.TreeSize, r.Parked, r.ViewDigest})
			}
			_, err = fmt.Fprintf(c.env.Stdout, "rebuilt the views of %d leaves, %d of them parked\nview digest %s\n", r.TreeSize, r.Parked, r.ViewDigest)
			return err
		},
	}
	addData(cmd, &dir)
	c.addJSONFlag(cmd)
	return cmd
}

func addData(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "data", defaultData, "data directory of the ledger")
	if err := cmd.MarkFlagDirname("data"); err != nil {
		panic("flag --data is not defined: " + err.Error())
	}
}
