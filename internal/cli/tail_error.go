package cli

import (
	"errors"
	"fmt"
	"strings"

	"counterfoil/ledger/consumer"
	"counterfoil/ledger/tiles"
)

// tailError is the document of a tail --verify that ended.
type tailError struct {
	Code      string  `json:"code"`
	Message   string  `json:"message"`
	Hint      string  `json:"hint,omitempty"`
	LeafIndex *uint64 `json:"leafIndex,omitempty"`
	Expected  string  `json:"expected,omitempty"`
	Got       string  `json:"got,omitempty"`
	// Known and Shown are the two signed notes that do not fit together.
	Known string `json:"known,omitempty"`
	Shown string `json:"shown,omitempty"`
}

// Codes of tail --verify.
const (
	codeNotVerified = "not_verified"
	codeNotJudged   = "not_judged"
)

// tailFailed says what does not verify and ends with 1, or with 2 if nothing can
// be judged.
func (c *cli) tailFailed(err error) error {
	doc := tailError{Code: codeNotVerified, Message: err.Error()}
	var (
		leaf     *consumer.LeafError
		tree     *consumer.TreeError
		disagree *consumer.DisagreeError
		history  *consumer.HistoryError
		note     *consumer.CheckpointError
		quorum   *consumer.QuorumError
		cursor   *consumer.CursorError
	)
	switch {
	case errors.As(err, &leaf):
		doc.LeafIndex, doc.Expected, doc.Got = &leaf.Index, hexHash(leaf.Expected), hexHash(leaf.Got)
	case errors.As(err, &disagree):
		doc.LeafIndex, doc.Expected, doc.Got = &disagree.Index, disagree.LeafDigest, disagree.MessageDigest
	case errors.As(err, &tree):
		doc.LeafIndex = &tree.From
		if tree.Err == nil {
			doc.Expected, doc.Got = hexHash(tree.Expected), hexHash(tree.Got)
		}
	case errors.As(err, &history):
		doc.Known, doc.Shown = string(history.Known), string(history.Shown)
		doc.Hint = "keep both checkpoints: they show what the log did; ask its operator and its witnesses"
	case errors.As(err, &note):
		doc.Hint = "is it the log of the trust file, and is the trust file the newest?"
	case errors.As(err, &quorum):
		doc.Hint = "wait for the witnesses: --follow"
	case errors.As(err, &cursor):
		return c.notJudged(err, "start without the cursor, from an index that you know: --from")
	default:
		return c.notJudged(err, "")
	}
	return c.tailEnds(doc, exitFailed)
}

func hexHash(h tiles.Hash) string { return fmt.Sprintf("%x", h[:]) }

// notJudged ends with 2.
func (c *cli) notJudged(err error, hint string) error {
	message := err.Error()
	var withH *hinted
	if errors.As(err, &withH) && hint == "" {
		hint = withH.hint
	}
	if m, h, ok := strings.Cut(message, " (hint: "); ok && hint == "" && strings.HasSuffix(h, ")") {
		message, hint = m, strings.TrimSuffix(h, ")")
	}
	return c.tailEnds(tailError{Code: codeNotJudged, Message: message, Hint: hint}, exitUsage)
}

func (c *cli) tailEnds(doc tailError, code int) error {
	if c.json {
		if err := c.printJSON(struct {
			Error tailError `json:"error"`
		}{doc}); err != nil {
			c.say("counterfoil: %s", plain(err.Error()))
		}
	}
	c.say("counterfoil: %s", plain(doc.Message))
	for _, n := range []struct{ what, note string }{{"seen before", doc.Known}, {"shown now", doc.Shown}} {
		if n.note == "" {
			continue
		}
		c.say("%s:", n.what)
		for line := range strings.Lines(n.note) {
			c.say("  %s", plain(strings.TrimSuffix(line, "\n")))
		}
	}
	if doc.Hint != "" {
		c.say("hint: %s", plain(doc.Hint))
	}
	return exitCode(code)
}
