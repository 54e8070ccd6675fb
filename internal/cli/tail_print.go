package cli

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/client"
	"counterfoil/ledger/consumer"
)

// verifiedTail prints batches.
type verifiedTail struct {
	c           *cli
	out         *bufio.Writer
	leaves, bad int
	first, last uint64
	size        uint64
}

// verifiedEvent is one line of tail --verify --json: that of the event stream,
// and what the check adds to it.
type verifiedEvent struct {
	LeafIndex uint64         `json:"leafIndex"`
	LeafHash  string         `json:"leafHash"`
	EventID   string         `json:"eventId,omitempty"`
	Record    jsontext.Value `json:"record,omitzero"`
	Parked    string         `json:"parked,omitempty"`
	Leaf      string         `json:"leaf,omitempty"` // base64, of a leaf that has no record
	TreeSize  uint64         `json:"treeSize"`
	KeyID     string         `json:"keyId,omitempty"`
}

func (t *verifiedTail) batch(_ context.Context, b *consumer.Batch) error {
	for i := range b.Events {
		if err := t.event(&b.Events[i], b.Checkpoint.Size); err != nil {
			return err
		}
	}
	if err := t.out.Flush(); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

func (t *verifiedTail) event(e *consumer.Event, size uint64) error {
	if t.leaves == 0 {
		t.first = e.Index
	}
	t.leaves++
	t.last, t.size = e.Index, size
	line := verifiedEvent{LeafIndex: e.Index, LeafHash: base64.StdEncoding.EncodeToString(e.Hash[:]), TreeSize: size, KeyID: e.KeyID}
	if e.Invalid != nil {
		t.bad++
		line.Parked, line.Leaf = e.Invalid.String(), base64.StdEncoding.EncodeToString(e.Leaf)
	} else {
		line.EventID, line.Record = e.Record.Digest().EventID(), e.Leaf
	}
	if t.c.json {
		return t.c.printJSON(&line)
	}
	return t.c.showEvent(&client.StreamedEvent{LeafIndex: e.Index, Record: line.Record, Parked: line.Parked})
}

// summary says what was checked: an end without a word looks like one that
// checked nothing.
func (t *verifiedTail) summary() {
	if t.leaves == 0 {
		t.c.say("counterfoil: no new leaf was published under a checkpoint that meets the policy")
		return
	}
	text := fmt.Sprintf("leaves %d to %d verified, under the checkpoint of size %d", t.first, t.last, t.size)
	if t.bad > 0 {
		text += fmt.Sprintf("; %d of them are no record that counts", t.bad)
	}
	t.c.say("counterfoil: %s", text)
}
