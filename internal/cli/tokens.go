package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"counterfoil/internal/access"
	"counterfoil/internal/durable"
)

const tokensSchema = "counterfoil.tokens.v1"

// tokenAdded is the document of tokens add --json. Token is left out if it went to a
// file.
type tokenAdded struct {
	SchemaVersion string   `json:"schemaVersion"`
	Name          string   `json:"name"`
	Roles         []string `json:"roles"`
	Token         string   `json:"token,omitempty"`
}

// tokenList is the document of tokens list --json.
type tokenList struct {
	SchemaVersion string     `json:"schemaVersion"`
	Tokens        []tokenRow `json:"tokens"`
}

type tokenRow struct {
	Name    string   `json:"name"`
	Roles   []string `json:"roles"`
	Created string   `json:"created"`
}

func (c *cli) tokensCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tokens",
		Short: "Who may call a ledger: add, list, revoke tokens with roles",
		Long: `tokens makes and revokes the bearer tokens of a data directory, on the machine that it is on.
A ledger that runs takes each change at once. DIR/tokens.json keeps a digest of each token,
never the token. The first token, in DIR/token, is an admin's and stands in no list.

  writer   records; reads attempts and receipts by id, contracts and dispositions
  auditor  reads everything, changes nothing
  admin    may do everything: keys, erasure, holds, retention, backup`,
		Args: c.groupArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(c.tokensAddCommand(), c.tokensListCommand(), c.tokensRevokeCommand())
	return cmd
}

func tokensFile(data string) string { return filepath.Join(data, access.File) }

func (c *cli) tokensAddCommand() *cobra.Command {
	var data, out string
	var roles []string
	cmd := &cobra.Command{
		Use:   "add NAME --role ROLE",
		Short: "Make a token",
		Long: `add prints a new token, once: it is kept nowhere. With --out it goes to a file (mode 0600,
never over a file that is there), for --token-file of whoever will use it.`,
		Example: `  counterfoil tokens add billing-agent --role writer --out billing.token
  counterfoil tokens add reviews --role writer --role auditor`,
		Args: want(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := access.ParseRoles(roles)
			if err != nil {
				return usagef("--role "+strings.Join(access.RoleNames(), ", --role "), "%v", strings.Join(roles, ", ")+" are no roles: want one or more of "+strings.Join(access.RoleNames(), ", "))
			}
			if err := isLedger(data); err != nil {
				return err
			}
			token, err := access.Add(tokensFile(data), args[0], r, c.env.Now(), c.env.Random)
			if err != nil {
				return err
			}
			if out != "" {
				if err := durable.Create(out, []byte(token+"\n"), 0o600); err != nil {
					// Nobody has it: a token that cannot be used is not left behind.
					if rerr := access.Revoke(tokensFile(data), args[0]); rerr != nil {
						return fmt.Errorf("write the token: %w; it still counts: %w", err, rerr)
					}
					return fmt.Errorf("write the token: %w", err)
				}
				token = ""
			}
			if c.json {
				return c.printJSON(tokenAdded{tokensSchema, args[0], r.Names(), token})
			}
			if token == "" {
				c.say("%s has the token %s, of role %s", out, args[0], r)
				return nil
			}
			_, err = fmt.Fprintln(c.env.Stdout, token)
			return err
		},
	}
	addData(cmd, &data)
	cmd.Flags().StringArrayVar(&roles, "role", nil, "writer, auditor or admin; may be repeated")
	cmd.Flags().StringVarP(&out, "out", "o", "", "file for the token (default: standard output)")
	cmd.Flags().BoolVar(&c.json, "json", false, "answer with one JSON document")
	complete(cmd, "role", access.RoleNames()...)
	return cmd
}

func (c *cli) tokensListCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Show the tokens, without what they are",
		Example: `  counterfoil tokens list`,
		Args:    want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := isLedger(data); err != nil {
				return err
			}
			tokens, err := access.List(tokensFile(data))
			if err != nil {
				return err
			}
			doc := tokenList{SchemaVersion: tokensSchema, Tokens: []tokenRow{}}
			rows := [][]string{{"name", "roles", "created"}}
			for _, t := range tokens {
				doc.Tokens = append(doc.Tokens, tokenRow{t.Name, t.Roles, t.Created})
				rows = append(rows, []string{t.Name, strings.Join(t.Roles, ","), t.Created})
			}
			if c.json {
				return c.printJSON(doc)
			}
			return table(c.env.Stdout, rows)
		},
	}
	addData(cmd, &data)
	cmd.Flags().BoolVar(&c.json, "json", false, "answer with one JSON document")
	return cmd
}

func (c *cli) tokensRevokeCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "End a token: no new call passes, and what is open ends within a second",
		Example: `  counterfoil tokens revoke billing-agent
  counterfoil doctor   # the ledger's log names the token that counts no more`,
		Args: want(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := isLedger(data); err != nil {
				return err
			}
			if err := access.Revoke(tokensFile(data), args[0]); err != nil {
				return err
			}
			c.say("the token %s counts no more", args[0])
			return nil
		},
	}
	addData(cmd, &data)
	return cmd
}
