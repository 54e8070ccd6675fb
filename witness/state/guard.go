package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// The high-water file has two slots, of which the valid one with the larger
// sequence counts; they are written in turn, each flushed, so that a write that
// is cut off leaves the other. A slot is one line
//
//	<state id> <sequence, 20 digits> <hex of the chain> <hex of SHA-256 of all before>\n
//
// with single spaces, and the second begins at byte slotDistance, so that they
// share no sector.
const (
	slotDistance = 4096
	slotText     = 32 + 1 + 20 + 1 + hashDigits + 1 // what the last hash covers
	slotSize     = slotText + hashDigits + 1
)

// mark is how far the journal was known to be durable.
type mark struct {
	id       string
	sequence uint64
	chain    hash
}

func (m mark) slot() []byte {
	b := fmt.Appendf(nil, "%s %020d %s ", m.id, m.sequence, hex.EncodeToString(m.chain[:]))
	sum := sha256.Sum256(b)
	b = hex.AppendEncode(b, sum[:])
	return append(b, '\n')
}

func parseSlot(b []byte) (m mark, ok bool) {
	if len(b) != slotSize {
		return m, false
	}
	var err error
	m.id = string(b[:32])
	if m.sequence, err = strconv.ParseUint(string(b[33:53]), 10, 64); err != nil {
		return m, false
	}
	if m.chain, err = parseHash(string(b[54 : 54+hashDigits])); err != nil {
		return m, false
	}
	return m, string(m.slot()) == string(b)
}

// newGuard is the content of a new high-water file.
func newGuard(m mark) []byte {
	b := make([]byte, slotDistance+slotSize)
	copy(b, m.slot())
	for i := slotSize; i < slotDistance; i++ {
		b[i] = '\n'
	}
	copy(b[slotDistance:], m.slot())
	return b
}

var errGuardFile = errors.New("neither of its two slots can be read")

// readGuard returns the newest mark of an open high-water file and the slot that
// holds it.
func readGuard(f *os.File) (m mark, slot int, err error) {
	b := make([]byte, slotDistance+slotSize)
	n, err := io.ReadFull(io.NewSectionReader(f, 0, int64(len(b))), b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return m, 0, err
	}
	b = b[:n]
	found := false
	for i := range 2 {
		at := i * slotDistance
		if len(b) < at+slotSize {
			continue
		}
		if s, ok := parseSlot(b[at : at+slotSize]); ok && (!found || s.sequence > m.sequence) {
			m, slot, found = s, i, true
		}
	}
	if !found {
		return m, 0, errGuardFile
	}
	return m, slot, nil
}
