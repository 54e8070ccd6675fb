package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
)

// stages in their order.
var stages = []Stage{Accepted, Logged, Published, Witnessed}

// longestWait is the longest pause between two looks at a receipt.
const longestWait = 2 * time.Second

// Wait reads the receipt of an event until it has reached the stage, for as long as
// ctx lasts. The ledger's views know an event from the stage published on; until
// then it is looked for again, so an event id that was never recorded is waited for
// as well.
func (c *Client) Wait(ctx context.Context, eventID string, stage Stage) (*Answer[Receipt], error) {
	want := slices.Index(stages, stage)
	if want < 0 {
		return nil, fmt.Errorf("wait for event %s: %q is no stage", eventID, stage)
	}
	for wait := firstPause; ; wait = min(2*wait, longestWait) {
		a, err := c.Receipt(ctx, eventID)
		var refused *Error
		switch {
		case err == nil && slices.Index(stages, a.Value.Stage) >= want:
			return a, nil
		case errors.As(err, &refused) && refused.Code == "not_found":
		case err != nil && !passing(err):
			return nil, err
		}
		if err := c.cfg.Pause(ctx, wait); err != nil {
			return nil, fmt.Errorf("wait for event %s to be %s: %w", eventID, stage, err)
		}
	}
}

// Verify exports the bundle of attempts and judges it here, by a trust file that
// came another way: what the ledger says about itself does not count. The bundle is
// returned with the report, to be kept.
func (c *Client) Verify(ctx context.Context, file *trust.File, opts receipt.Options, attemptIDs ...string) (*receipt.Report, []byte, error) {
	if file == nil {
		return nil, nil, errors.New("verify: no trust file; one from the ledger itself proves nothing")
	}
	bundle, err := c.Bundle(ctx, attemptIDs...)
	if err != nil {
		return nil, nil, err
	}
	return receipt.Verify(bundle, file, opts), bundle, nil
}
