package consumer

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/bits"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// CursorSchema is the schemaVersion of a cursor.
const CursorSchema = "counterfoil.cursor.v1"

// MaxCursorBytes bounds a cursor: a note of the largest size with its newlines
// escaped, and 64 hashes.
const MaxCursorBytes = 2 * trust.MaxNoteBytes

// Cursor is where to go on, and what was checked so far. As canonical JSON:
//
//	{"checkpoint":"<signed note>","next":7,"origin":"<log>",
//	 "range":["<base64>",…],"schemaVersion":"counterfoil.cursor.v1"}
//
// Of what it says only that its log signed the checkpoint is believed; the range
// is compared with the log before anything is handed out. It holds nothing
// private.
type Cursor struct {
	Origin string // of the log
	Next   uint64 // index of the leaf that comes next
	// Note is the signed checkpoint that the leaves before Next were under.
	Note []byte
	// Range is the compact range of the leaves before Next: the roots of the
	// complete subtrees, the largest first, one for every bit set in Next.
	Range []tiles.Hash
}

type cursorJSON struct {
	Checkpoint    string   `json:"checkpoint"`
	Next          uint64   `json:"next"`
	Origin        string   `json:"origin"`
	Range         []string `json:"range"`
	SchemaVersion string   `json:"schemaVersion"`
}

// Append adds the text of the cursor, one line without its end, to dst.
func (c *Cursor) Append(dst []byte) []byte {
	doc := cursorJSON{Checkpoint: string(c.Note), Next: c.Next, Origin: c.Origin, Range: make([]string, len(c.Range)), SchemaVersion: CursorSchema}
	for i := range c.Range {
		doc.Range[i] = base64.StdEncoding.EncodeToString(c.Range[i][:])
	}
	b, err := json.Marshal(&doc)
	if err != nil {
		panic("consumer: a cursor has no text: " + err.Error()) // only if the note is no UTF-8, and then it was refused
	}
	return append(dst, b...)
}

// ParseCursor reads what Append writes, and one newline behind it; no other
// spelling. It verifies nothing: New does, with the trust file. Errors are of
// type *[CursorError].
func ParseCursor(b []byte) (*Cursor, error) {
	refuse := func(format string, args ...any) (*Cursor, error) {
		return nil, &CursorError{Detail: fmt.Sprintf(format, args...)}
	}
	if len(b) > MaxCursorBytes {
		return refuse("%d bytes, expected at most %d", len(b), MaxCursorBytes)
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	if len(b) == 0 {
		return refuse("it is empty")
	}
	var doc cursorJSON
	if err := json.Unmarshal(b, &doc, json.RejectUnknownMembers(true)); err != nil {
		return refuse("it is no JSON document of this kind: %v", err)
	}
	if doc.SchemaVersion != CursorSchema {
		return refuse("schemaVersion %.64q, expected %q", doc.SchemaVersion, CursorSchema)
	}
	if doc.Next > trust.MaxIndex {
		return refuse("next %d, expected at most %d", doc.Next, uint64(trust.MaxIndex))
	}
	if want := bits.OnesCount64(doc.Next); len(doc.Range) != want {
		return refuse("range of %d hashes, expected %d for the first %d leaves", len(doc.Range), want, doc.Next)
	}
	c := &Cursor{Origin: doc.Origin, Next: doc.Next, Note: []byte(doc.Checkpoint), Range: make([]tiles.Hash, len(doc.Range))}
	for i, text := range doc.Range {
		h, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(h) != tiles.HashSize {
			return refuse("range hash %d is not %d bytes of base64", i, tiles.HashSize)
		}
		c.Range[i] = tiles.Hash(h)
	}
	if !bytes.Equal(c.Append(nil), b) {
		return refuse("it is not in canonical form")
	}
	return c, nil
}

// resume takes up a cursor.
func (f *Follower) resume(c *Cursor) error {
	if c.Origin != f.cfg.Trust.Origin() {
		return &CursorError{Detail: fmt.Sprintf("it is of the log %.256q, expected %q", c.Origin, f.cfg.Trust.Origin())}
	}
	cp, _, err := verifyNote(c.Note, f.cfg.Trust, f.cfg.Policy)
	if err != nil {
		return &CursorError{Detail: "its checkpoint does not verify: " + err.Error()}
	}
	if c.Next > cp.Size {
		return &CursorError{Detail: fmt.Sprintf("next leaf %d, beyond its checkpoint of size %d", c.Next, cp.Size)}
	}
	edge, err := ranges.NewRange(0, c.Next, nodesOf(append([]tiles.Hash(nil), c.Range...)))
	if err != nil {
		return &CursorError{Detail: err.Error()}
	}
	if got := rootOf(edge); c.Next == cp.Size && got != cp.Root {
		return &CursorError{Detail: fmt.Sprintf("its range does not give the root of its checkpoint: expected %x, got %x", cp.Root, got)}
	}
	// It meets the policy of then. What is handed out is under one of now.
	f.next, f.edge, f.seen = c.Next, edge, &signed{note: c.Note, cp: cp}
	return nil
}
