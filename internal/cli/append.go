package cli

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/client"
)

func (c *cli) appendCommand() *cobra.Command {
	var wait string
	cmd := &cobra.Command{
		Use:   "append [ATTEMPT_ID]",
		Short: "Record what came of an attempt",
		Long: `append reads the body of an outcome, reversal, reconciliation or review from standard
input and prints its receipt. The attempt is named in the body or as an argument.

The same sourceEventId with the same content gives the same receipt, whenever it is
sent. A reconciliation carries what was read back and no status: that is derived.`,
		Example: `  counterfoil append < outcome.json
  counterfoil append att_00112233445566778899aabbccddeeff <<'JSON'
  {"lifecycle":"outcome","sourceEventId":"call-1/outcome","occurredAt":"2026-07-28T00:00:01.000Z",
   "status":"succeeded","privateResult":{"ok":true}}
  JSON`,
		Args: want(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.send(wait, "an append", func(cl *client.Client, body []byte, stage client.Stage) (_ *client.Answer[client.Receipt], err error) {
				id := ""
				if len(args) == 1 {
					id = args[0]
				} else if id, err = attemptOf(body); err != nil {
					return nil, err
				}
				return cl.AppendRaw(cmd.Context(), id, body, stage)
			})
		},
	}
	c.addClientFlags(cmd)
	addWait(cmd, &wait)
	return cmd
}

// attemptOf reads where an append goes. What else is wrong with the body is for
// the ledger to say.
func attemptOf(body []byte) (string, error) {
	var b struct {
		AttemptID string `json:"attemptId"`
	}
	err := json.Unmarshal(body, &b, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return "", &client.Error{Code: "invalid_request", Message: "the body is not a JSON object with an attemptId: " + canon.Syntax(err).Detail,
			Hint: "the body is read from standard input"}
	}
	if b.AttemptID == "" {
		return "", &client.Error{Code: "invalid_request", Path: "/attemptId", Message: "missing", Hint: "use the attemptId that begin answered with"}
	}
	return b.AttemptID, nil
}
