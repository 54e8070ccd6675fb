package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
)

func (c *cli) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Policies of admission: lint, digest, test",
		Long: `policy works on policy documents (YAML, docs/policy.md) without a ledger. A policy is named
by the digest of its canonical JSON form: comments and layout do not change it.

Exit codes: 0 nothing is wrong, 1 a problem of severity error or a case that fails, 2 wrong
usage or a file that cannot be read.`,
		Args: c.groupArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(c.policyLintCommand(), c.policyDigestCommand(), c.policyTestCommand())
	return cmd
}

type lintReport struct {
	SchemaVersion string     `json:"schemaVersion"` // counterfoil.policy-lint.v1
	OK            bool       `json:"ok"`
	Files         []lintFile `json:"files"`
}

type lintFile struct {
	File     string               `json:"file"`
	Policy   *admission.PolicyRef `json:"policy,omitempty"` // if it has no error
	Problems []policy.Problem     `json:"problems"`
}

func (c *cli) policyLintCommand() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "lint FILE…",
		Short: "Check policies: every problem with its line and a hint",
		Example: `  counterfoil policy lint deploy/policies/*.yaml
  counterfoil policy lint mine.yaml --strict --json`,
		Args: want(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report := lintReport{SchemaVersion: "counterfoil.policy-lint.v1", OK: true}
			for _, file := range args {
				f, err := c.lintFile(file)
				if err != nil {
					return err
				}
				report.OK = report.OK && !policy.HasErrors(f.Problems) && !(strict && len(f.Problems) > 0)
				report.Files = append(report.Files, f)
			}
			if c.json {
				if err := c.printJSON(report); err != nil {
					return err
				}
			} else if err := c.showLint(report.Files); err != nil {
				return err
			}
			return failed(report.OK)
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "warnings count as errors")
	c.addJSONFlag(cmd)
	return cmd
}

// failed is exit code 1 without a word, because all has been said.
func failed(ok bool) error {
	if ok {
		return nil
	}
	return exitCode(exitFailed)
}

// lintFile reads a policy, or a table of tests, and lists what is wrong.
func (c *cli) lintFile(file string) (f lintFile, err error) {
	b, err := readPolicy(file)
	if err != nil {
		return f, err
	}
	f = lintFile{File: file, Problems: []policy.Problem{}}
	if policy.IsTable(b) {
		_, problems := policy.ParseTable(b)
		f.Problems = append(f.Problems, problems...)
		return f, nil
	}
	f.Problems = append(f.Problems, policy.Lint(b, c.env.Now())...)
	if p, err := policy.Load(b); err == nil {
		ref := p.Ref()
		f.Policy = &ref
	}
	return f, nil
}

func (c *cli) showLint(files []lintFile) error {
	for _, f := range files {
		for _, p := range f.Problems {
			if _, err := fmt.Fprintf(c.env.Stdout, "%s:%s\n", f.File, plainLines(p.String())); err != nil {
				return fmt.Errorf("write to stdout: %w", err)
			}
		}
		if len(f.Problems) == 0 {
			c.say("%s: nothing is wrong", f.File)
		}
	}
	return nil
}

// plainLines makes every line fit for a terminal.
func plainLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = plain(lines[i])
	}
	return strings.Join(lines, "\n")
}

func (c *cli) policyDigestCommand() *cobra.Command {
	var canonical bool
	cmd := &cobra.Command{
		Use:   "digest FILE…",
		Short: "Print the digest by which decisions name a policy",
		Example: `  counterfoil policy digest deploy/policies/standard.yaml
  counterfoil policy digest --canonical mine.yaml | sha256sum`,
		Args: want(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			type named struct {
				File   string              `json:"file"`
				Policy admission.PolicyRef `json:"policy"`
			}
			var out []named
			for _, file := range args {
				p, err := loadPolicy(file)
				if err != nil {
					return err
				}
				if canonical { // the bytes and nothing else, so that they can be hashed
					if _, err := c.env.Stdout.Write(p.Canonical()); err != nil {
						return fmt.Errorf("write to stdout: %w", err)
					}
				}
				out = append(out, named{file, p.Ref()})
			}
			switch {
			case canonical:
				return nil
			case c.json:
				return c.printJSON(struct {
					SchemaVersion string  `json:"schemaVersion"`
					Policies      []named `json:"policies"`
				}{"counterfoil.policy-digest.v1", out})
			}
			for _, n := range out {
				if _, err := fmt.Fprintf(c.env.Stdout, "%s  %s\n", n.Policy.Digest, plain(n.File)); err != nil {
					return fmt.Errorf("write to stdout: %w", err)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&canonical, "canonical", false, "print the canonical JSON form instead, without a line end")
	c.addJSONFlag(cmd)
	return cmd
}

type testReport struct {
	SchemaVersion string     `json:"schemaVersion"` // counterfoil.policy-test-report.v1
	OK            bool       `json:"ok"`
	Files         []testFile `json:"files"`
}

type testFile struct {
	File   string              `json:"file"`
	Policy admission.PolicyRef `json:"policy"`
	Cases  []policy.CaseResult `json:"cases"`
}

func (c *cli) policyTestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test FILE…",
		Short: "Run tables of cases against a policy",
		Long: `test runs cases: facts, and the decision that a policy must come to. FILE is a table, which
names the policy beside it, or a policy with a table beside it: of mine.yaml it is
mine_test.yaml.`,
		Example: `  counterfoil policy test deploy/policies/standard.yaml
  counterfoil policy test mine_test.yaml --json`,
		Args: want(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report := testReport{SchemaVersion: "counterfoil.policy-test-report.v1", OK: true}
			for _, file := range args {
				f, err := runPolicyTable(file)
				if err != nil {
					return err
				}
				for _, r := range f.Cases {
					report.OK = report.OK && r.OK
				}
				report.Files = append(report.Files, f)
			}
			if c.json {
				if err := c.printJSON(report); err != nil {
					return err
				}
			} else if err := c.showTables(report.Files); err != nil {
				return err
			}
			return failed(report.OK)
		},
	}
	c.addJSONFlag(cmd)
	return cmd
}

func runPolicyTable(file string) (f testFile, err error) {
	b, err := readPolicy(file)
	if err != nil {
		return f, err
	}
	if !policy.IsTable(b) {
		file = strings.TrimSuffix(file, filepath.Ext(file)) + "_test" + filepath.Ext(file)
		if b, err = readPolicy(file); err != nil {
			return f, err
		}
	}
	t, problems := policy.ParseTable(b)
	if t == nil {
		return f, refusedPolicy(file, problems)
	}
	p, err := loadPolicy(filepath.Join(filepath.Dir(file), t.Policy))
	if err != nil {
		return f, err
	}
	return testFile{file, p.Ref(), t.Run(p)}, nil
}

func (c *cli) showTables(files []testFile) error {
	for _, f := range files {
		passed := 0
		for _, r := range f.Cases {
			if r.OK {
				passed++
				continue
			}
			if _, err := fmt.Fprintf(c.env.Stdout, "%s:%d: %s\n  %s\n", f.File, r.Line, plain(r.Name), plainLines(strings.Join(r.Differences, "\n  "))); err != nil {
				return fmt.Errorf("write to stdout: %w", err)
			}
		}
		c.say("%s: %d of %d cases as expected, policy %s %s", f.File, passed, len(f.Cases), f.Policy.ID, f.Policy.Digest)
	}
	return nil
}

// loadPolicy reads a policy that has no errors.
func loadPolicy(file string) (*policy.Policy, error) {
	b, err := readPolicy(file)
	if err != nil {
		return nil, err
	}
	p, err := policy.Load(b)
	var refused *policy.Refused
	if errors.As(err, &refused) {
		return nil, refusedPolicy(file, refused.Problems)
	}
	return p, err
}

// refusedPolicy says the first error and where the others are.
func refusedPolicy(file string, problems []policy.Problem) error {
	i := slices.IndexFunc(problems, func(p policy.Problem) bool { return p.Severity == policy.SeverityError })
	p := problems[i]
	return &hinted{fmt.Errorf("%s:%d:%d: %s: %s", file, p.Line, p.Column, p.Path, p.Message), "all problems: counterfoil policy lint " + file}
}

// readPolicy reads a file with a bound. One that cannot be read is wrong usage:
// nothing was found out about a policy.
func readPolicy(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, usagef("name a policy document, such as deploy/policies/standard.yaml", "read %s: %v", file, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, policy.MaxDocumentBytes+1))
	if err != nil {
		return nil, usagef("name a policy document, such as deploy/policies/standard.yaml", "read %s: %v", file, err)
	}
	return b, nil
}
