package cli

import (
	"github.com/spf13/cobra"

	"counterfoil/internal/admit"

	"counterfoil/internal/durable"
)

// trustFlags name the files that verifiers of evidence believe, as the flags of
// admit do.
type trustFlags struct {
	root, npmKeys, mcpbRoots string
	keys                     []string
	live, private, plainHTTP bool
}

func (f *trustFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.root, "trusted-root", "", "Sigstore trusted_root.json; without it no keyless signature verifies")
	fs.StringVar(&f.npmKeys, "npm-keys", "", "key file of the npm registry")
	fs.StringArrayVar(&f.keys, "key", nil, "public key in PEM that is believed; may be given several times")
	fs.StringVar(&f.mcpbRoots, "mcpb-roots", "", "certificates in PEM that may sign MCP bundles")
}

// addLive adds what looks at the registries of today.
func (f *trustFlags) addLive(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.live, "live", false, "note what the registries say of the entries today; it decides nothing")
	fs.BoolVar(&f.private, "private-network", false, "with --live, let registries be in the operator's own network")
	fs.BoolVar(&f.plainHTTP, "plain-http", false, "with --live, allow http:// registries, for those on this machine")
}

// stack makes the verifiers of admissions, with what the flags name. Without
// --live nothing asks the network.
func (f *trustFlags) stack(c *cli) (*admit.Stack, error) {
	s, err := c.stack(&admitFlags{trustedRoot: f.root, npmKeys: f.npmKeys, mcpbRoots: f.mcpbRoots, keys: f.keys,
		offline: !f.live, privateNetwork: f.private, plainHTTP: f.plainHTTP})
	if err != nil {
		return nil, usagef("what each file holds is in docs/review.md", "trust material: %v", err)
	}
	return s, nil
}

// readNamed reads a file that the command line names. One that cannot be read is
// wrong usage.
func readNamed(name string, most int64) ([]byte, error) {
	b, err := durable.ReadFile(name, most)
	if err != nil {
		return nil, usagef("is it the right file?", "%v", err)
	}
	return b, nil
}
