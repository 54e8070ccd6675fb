package cli

import (
	"time"

	"github.com/spf13/cobra"

	"counterfoil/internal/admit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
)

// trustFlags name the files that verifiers of evidence believe, as the flags of
// admit do.
type trustFlags struct {
	root, npmKeys, mcpbRoots string
	keys                     []string
}

func (f *trustFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.root, "trusted-root", "", "Sigstore trusted_root.json; without it no keyless signature verifies")
	fs.StringVar(&f.npmKeys, "npm-keys", "", "key file of the npm registry")
	fs.StringArrayVar(&f.keys, "key", nil, "public key in PEM that is believed; may be given several times")
	fs.StringVar(&f.mcpbRoots, "mcpb-roots", "", "certificates in PEM that may sign MCP bundles")
}

// verifiers are those of admissions, with what the flags name. They read no network.
func (f *trustFlags) verifiers(now func() time.Time) ([]admission.Verifier, error) {
	m := admit.Material{Now: now}
	for _, t := range []struct {
		to         **sigstore.File
		name, file string
	}{{&m.TrustedRoot, "trusted_root", f.root}, {&m.NPMKeys, "npm_keys", f.npmKeys}, {&m.MCPBRoots, "mcpb_roots", f.mcpbRoots}} {
		if t.file == "" {
			continue
		}
		b, err := readNamed(t.file, maxTrustBytes)
		if err != nil {
			return nil, err
		}
		*t.to = &sigstore.File{Name: t.name, Body: b}
	}
	for _, file := range f.keys {
		b, err := readNamed(file, maxTrustBytes)
		if err != nil {
			return nil, err
		}
		m.Keys = append(m.Keys, &sigstore.File{Name: "key", Body: b})
	}
	s, err := admit.NewStack(m)
	if err != nil {
		return nil, usagef("what each file holds is in docs/review.md", "trust material: %v", err)
	}
	return s.Verifiers, nil
}

// readNamed reads a file that the command line names. One that cannot be read is
// wrong usage.
func readNamed(name string, most int64) ([]byte, error) {
	b, err := readBounded(name, most)
	if err != nil {
		return nil, usagef("is it the right file?", "%v", err)
	}
	return b, nil
}
