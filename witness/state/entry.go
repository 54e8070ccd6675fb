package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/trust"
)

// A line of the journal is
//
//	<hex of a hash> <JSON>\n
//
// The first line is the header, then come the lines of the snapshot, then one
// line an update. The hash of header and snapshot lines is SHA-256(JSON). The
// hash of an update is its chain: SHA-256(chain of the update before ‖ JSON),
// where the chain before the first update is in the header.
const (
	hashDigits = 2 * sha256.Size
	// maxLine bounds a line: a checkpoint's note is at most a request, and JSON
	// at most doubles it.
	maxLine        = 2 << 20
	journalVersion = 1
)

type hash = [sha256.Size]byte

// header is the first line.
type header struct {
	Version int    `json:"version"`
	StateID string `json:"stateId"` // 32 hex digits, chosen once
	Witness string `json:"witness"` // verifier key
	// Sequence and Chain are those of the last update in the snapshot; 0 and
	// zeros in a new journal.
	Sequence uint64 `json:"sequence"`
	Chain    string `json:"chain"`
	// Snapshot is the number of snapshot lines that follow.
	Snapshot int `json:"snapshot"`
}

// entry is an update, or a line of the snapshot. Members that are not set are
// absent.
type entry struct {
	Sequence   uint64      `json:"sequence,omitzero"` // absent in the snapshot
	Log        *logEntry   `json:"log,omitzero"`
	Checkpoint *checkEntry `json:"checkpoint,omitzero"`
}

type logEntry struct {
	VKey    string `json:"vkey"`
	Origin  string `json:"origin"`
	QPD     uint64 `json:"qpd"`
	Contact string `json:"contact"`
}

type checkEntry struct {
	// Note is the checkpoint with the log's signatures and the witness's own.
	Note string `json:"note"`
	// Timestamp is the time of the witness's cosignature.
	Timestamp uint64 `json:"timestamp"`
}

func (l *logEntry) log() (Log, error) {
	k, err := trust.ParseVerifierKey(l.VKey)
	return Log{Key: k, Origin: l.Origin, QPD: l.QPD, Contact: l.Contact}, err
}

func newLogEntry(l Log) *logEntry {
	return &logEntry{VKey: l.Key.String(), Origin: l.Origin, QPD: l.QPD, Contact: l.Contact}
}

func (c *checkEntry) latest() (Latest, error) {
	n, err := trust.ParseNote([]byte(c.Note))
	if err != nil {
		return Latest{}, err
	}
	cp, err := trust.ParseCheckpoint(n.Text)
	return Latest{Checkpoint: cp, Note: c.Note, Timestamp: c.Timestamp}, err
}

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err == nil && len(b)+hashDigits+2 > maxLine {
		err = fmt.Errorf("line of %d bytes, limit %d", len(b), maxLine)
	}
	if err != nil {
		return nil, fmt.Errorf("encode a line of the journal: %w", err)
	}
	return b, nil
}

func decode(b []byte, v any) error { return json.Unmarshal(b, v, json.RejectUnknownMembers(true)) }

func chain(before hash, text []byte) hash {
	h := sha256.New()
	h.Write(before[:])
	h.Write(text)
	return hash(h.Sum(nil))
}

func appendLine(dst []byte, h hash, text []byte) []byte {
	dst = hex.AppendEncode(dst, h[:])
	dst = append(dst, ' ')
	dst = append(dst, text...)
	return append(dst, '\n')
}

var errLine = errors.New("not a line of the journal")

// splitLine takes a line apart, without its newline.
func splitLine(line []byte) (hash, []byte, error) {
	digits, text, ok := bytes.Cut(line, []byte(" "))
	h, err := parseHash(string(digits))
	if !ok || err != nil {
		return h, nil, errLine
	}
	return h, text, nil
}

func parseHash(s string) (h hash, err error) {
	if len(s) != hashDigits {
		return h, fmt.Errorf("%d hex digits, want %d", len(s), hashDigits)
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return h, err
	}
	if hex.EncodeToString(h[:]) != s {
		return h, errors.New("hex digits in upper case")
	}
	return h, nil
}
