package cli

import (
	"encoding/hex"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

func (c *cli) reconcileCommand() *cobra.Command {
	var wait, sourceEventID, occurredAt string
	var auto bool
	var a autoFlags
	cmd := &cobra.Command{
		Use:   "reconcile ATTEMPT_ID < readback.json | reconcile --auto --readback-command TOOL=PATH",
		Short: "Record what an authoritative source shows of an open or unknown attempt",
		Long: `reconcile reads a read-back from standard input, {"source","observed","count"?,"value"?},
and records it as a reconciliation of an attempt. observed is present, absent or
unreachable. The status is derived by the ledger from keyed tags and never stated:
confirmed_committed, confirmed_absent, contradicted or still_unknown. No status says
that the action is safe to repeat.

Each run is an observation of its own, at its own time. A script that sends the same one
again names it with --source-event-id and --occurred-at, and gets the same receipt.

With --auto it goes over the attempts with the outcome unknown (and with --open-after
those without an outcome), asks the helper program of each one's tool, and records what
it says. A helper gets one JSON document on standard input and answers with a read-back on
standard output. It is started anew for each question, without a shell and without
arguments, in /, with nothing in its environment but PATH=/usr/bin:/bin and the variables
named with --readback-env. A helper that fails records nothing. An answer that tells no
more than the newest event already does is not recorded again.`,
		Example: `  counterfoil list --unknown
  echo '{"source":"bank.example/ledger","observed":"absent"}' | counterfoil reconcile att_00112233445566778899aabbccddeeff
  counterfoil reconcile --auto --readback-command pay=/usr/local/lib/pay-readback --unknown-after 1m
  counterfoil reconcile --auto --readback-command pay=/usr/local/lib/pay-readback --every 1m --open-after 15m`,
		Args: want(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if auto != (len(args) == 0) {
				return usagef(cmd.UseLine(), "want an attempt, or --auto")
			}
			if auto {
				for _, name := range []string{"source-event-id", "occurred-at", "wait"} {
					if cmd.Flags().Changed(name) {
						return usagef("leave it out", "--%s is for a single read-back", name)
					}
				}
				return c.reconcileAll(cmd.Context(), &a)
			}
			if len(a.commands) > 0 {
				return usagef("add --auto and name no attempt", "--readback-command goes with --auto")
			}
			return c.reconcileOne(cmd, args[0], wait, sourceEventID, occurredAt)
		},
	}
	f := cmd.Flags()
	f.StringVar(&sourceEventID, "source-event-id", "", "id of this observation (default: a random one)")
	f.StringVar(&occurredAt, "occurred-at", "", "when it was observed, RFC 3339 (default: now)")
	f.BoolVar(&auto, "auto", false, "ask helper programs about all attempts that nobody knows the end of")
	a.add(f)
	c.addClientFlags(cmd)
	addWait(cmd, &wait)
	return cmd
}

// readbackDoc is what is read from standard input.
type readbackDoc struct {
	Source   string         `json:"source"`
	Observed string         `json:"observed"`
	Count    int64          `json:"count,omitzero"`
	Value    jsontext.Value `json:"value,omitzero"`
}

func (c *cli) reconcileOne(cmd *cobra.Command, attempt, wait, id, at string) error {
	stage, err := stageOf(wait)
	if err != nil {
		return err
	}
	if at == "" {
		at = event.FormatTime(c.env.Now())
	} else if at, err = timeFlag("occurred-at", at); err != nil {
		return err
	}
	if id == "" {
		if id, err = c.randomID("readback:"); err != nil {
			return err
		}
	}
	cl, err := c.connect(false)
	if err != nil {
		return err
	}
	defer cl.Close()
	body, err := c.readBody("a read-back")
	if err != nil {
		return err
	}
	var rb readbackDoc
	if err := json.Unmarshal(body, &rb, json.RejectUnknownMembers(true)); err != nil {
		return &client.Error{Code: "invalid_request", Message: "the read-back is not {\"source\",\"observed\",\"count\"?,\"value\"?} in strict JSON: " + canon.Syntax(err).Detail,
			Hint: "it is read from standard input; the status is derived from it, and no caller states one"}
	}
	body, err = json.Marshal(struct {
		Lifecycle     string       `json:"lifecycle"`
		SourceEventID string       `json:"sourceEventId"`
		OccurredAt    string       `json:"occurredAt"`
		Readback      *readbackDoc `json:"readback"`
	}{string(event.Reconciliation), id, at, &rb})
	if err != nil {
		return fmt.Errorf("encode the reconciliation: %w", err)
	}
	r, err := cl.AppendRaw(cmd.Context(), attempt, body, stage)
	return show(c, r, err, c.showReceipt)
}

// randomID is a prefix and 32 hex digits.
func (c *cli) randomID(prefix string) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(c.env.Random, b[:]); err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return prefix + hex.EncodeToString(b[:]), nil
}
