package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"counterfoil/internal/durable"
	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
	"counterfoil/witness/state"
)

func (p *program) evidenceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evidence",
		Short: "Signed checkpoints that disagree with what was cosigned",
		Long: `The witness keeps validly signed checkpoints that do not continue the history it cosigned,
a bounded number a log. Each is one document, counterfoil.equivocation.v1, that others can
verify with the log's verifier key alone.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.evidenceList(), p.evidenceExport(), p.evidenceVerify())
	return cmd
}

// listed is a document in the list.
type listed struct {
	ID         string    `json:"id"`
	Kind       rule.Kind `json:"kind"`
	Conclusive bool      `json:"conclusive"`
	Origin     string    `json:"origin"`
	ObservedAt string    `json:"observedAt"`
}

func (p *program) evidenceList() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the documents of a state directory",
		Example: "  counterfoil-witness evidence list --state witness-state",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			docs, err := state.ReadEvidence(dir)
			if err != nil {
				return err
			}
			out := make([]listed, 0, len(docs))
			for _, d := range docs {
				out = append(out, listed{d.ID, d.Doc.Kind, d.Doc.Kind.Conclusive(), d.Doc.Origin, d.Doc.ObservedAt})
			}
			if asJSON {
				b, err := json.Marshal(struct {
					Schema   string   `json:"schemaVersion"`
					Evidence []listed `json:"evidence"`
				}{"counterfoil.evidence-list.v1", out})
				if err != nil {
					return fmt.Errorf("encode the list: %w", err)
				}
				return p.print(append(b, '\n'))
			}
			w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprint(w, "ID\tKIND\tCONCLUSIVE\tOBSERVED\tORIGIN\n")
			for _, l := range out {
				fmt.Fprintf(w, "%s\t%s\t%t\t%s\t%s\n", l.ID[:16], l.Kind, l.Conclusive, l.ObservedAt, strings.Trim(fmt.Sprintf("%+q", l.Origin), `"`))
			}
			if err := w.Flush(); err != nil {
				return fmt.Errorf("write to stdout: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "state", "", "state directory; a witness may serve from it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON document, counterfoil.evidence-list.v1")
	require(cmd, "state")
	return cmd
}

// minID is how many digits of an id name a document.
const minID = 8

func (p *program) evidenceExport() *cobra.Command {
	var dir, out string
	cmd := &cobra.Command{
		Use:     "export ID",
		Short:   "Print one document, for others to verify",
		Example: "  counterfoil-witness evidence export 0123456789abcdef --state witness-state --out fork.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args[0]) < minID {
				return usagef("id %q: give at least %d digits", args[0], minID)
			}
			docs, err := state.ReadEvidence(dir)
			if err != nil {
				return err
			}
			var found []state.Evidence
			for _, d := range docs {
				if strings.HasPrefix(d.ID, args[0]) {
					found = append(found, d)
				}
			}
			if len(found) != 1 {
				return fmt.Errorf("%d documents have an id that begins with %q (hint: evidence list)", len(found), args[0])
			}
			if out == "" {
				return p.print(found[0].Raw)
			}
			return durable.WriteFile(out, found[0].Raw, 0o644)
		},
	}
	cmd.Flags().StringVar(&dir, "state", "", "state directory; a witness may serve from it")
	cmd.Flags().StringVar(&out, "out", "", "file to write (default: stdout)")
	require(cmd, "state")
	return cmd
}

func (p *program) evidenceVerify() *cobra.Command {
	var vkey string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify a document with the log's verifier key",
		Long: `verify needs no network and no witness. FILE may be - for stdin. Take the verifier key from
where you trust it, not from the document.

Exit codes: 0 the log signed two histories, 1 the document does not show that,
2 it could not be judged.`,
		Example: "  counterfoil-witness evidence verify fork.json --log example.com/log+0a72cd63+AV2y…",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := trust.ParseVerifierKey(vkey)
			if err != nil {
				return usageError{err}
			}
			e, err := readDocument(args[0], cmd.InOrStdin())
			if err != nil {
				p.report(err, "")
				return exitCode(exitUsage)
			}
			if err := e.Verify([]trust.VerifierKey{key}); err != nil {
				return fmt.Errorf("not shown: %w", err)
			}
			if !e.Kind.Conclusive() {
				return errors.New("not shown: the checkpoints are the log's, and the proof between them is bad; anyone can offer a bad proof (hint: ask the log for a consistency proof between the two sizes)")
			}
			return p.print([]byte("the holder of " + key.String() + " signed two histories: " + string(e.Kind) + "\n"))
		},
	}
	cmd.Flags().StringVar(&vkey, "log", "", "verifier key of the log")
	require(cmd, "log")
	return cmd
}

func readDocument(path string, stdin io.Reader) (*rule.Evidence, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open the document: %w", err)
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, rule.MaxEvidenceBytes+2))
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	return rule.ParseEvidence(b)
}
