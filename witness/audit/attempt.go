package audit

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// attempt is what the fold knows of one attempt.
type attempt struct {
	// unjudged: it began before the first leaf that was folded.
	unjudged bool
	indices  []uint64 // the leaves of its events
	state    lifecycle.State
}

type attemptID [16]byte

// parseAttemptID reads the id of a valid event.
func parseAttemptID(s string) (id attemptID, err error) {
	const prefix = "att_"
	if len(s) != len(prefix)+2*len(id) || s[:len(prefix)] != prefix {
		return id, fmt.Errorf("attempt id %.40q has no form", s)
	}
	if _, err := hex.Decode(id[:], []byte(s[len(prefix):])); err != nil {
		return id, fmt.Errorf("attempt id %.40q: %w", s, err)
	}
	return id, nil
}

func (id attemptID) String() string { return "att_" + hex.EncodeToString(id[:]) }

// weight bounds the bytes of the row.
func (a *attempt) weight() int { return 160 + 170*len(a.state.Entries) }

// append encodes the row: a flag, the number of indices, the indices as steps, the
// state.
func (a *attempt) append(dst []byte) ([]byte, error) {
	if a.unjudged {
		return append(dst, 1), nil
	}
	dst = append(dst, 0)
	dst = binary.AppendUvarint(dst, uint64(len(a.indices)))
	before := uint64(0)
	for _, i := range a.indices {
		dst = binary.AppendUvarint(dst, i-before)
		before = i
	}
	return a.state.AppendBinary(dst)
}

func parseAttempt(b []byte) (*attempt, error) {
	bad := fmt.Errorf("%w: a row is no attempt", errStoreDamaged)
	if len(b) == 0 || b[0] > 1 {
		return nil, bad
	}
	if b[0] == 1 {
		return &attempt{unjudged: true}, nil
	}
	a := &attempt{}
	n, size := binary.Uvarint(b[1:])
	if size <= 0 || n > event.MaxRevision {
		return nil, bad
	}
	b = b[1+size:]
	at := uint64(0)
	for range n {
		step, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, bad
		}
		b, at = b[size:], at+step
		a.indices = append(a.indices, at)
	}
	if err := a.state.UnmarshalBinary(b); err != nil || len(a.state.Entries) != len(a.indices) {
		return nil, bad
	}
	return a, nil
}

// attempts reads and changes the attempts of a fold. What was read lately is kept
// in two generations: when the younger one is full, the older is dropped.
type attempts struct {
	store        *store
	young, old   map[attemptID]*attempt
	weight, most int
	dirty        map[attemptID]*attempt
	dirtyWeight  int
}

func newAttempts(s *store) *attempts {
	return &attempts{store: s, most: 8 << 20, young: map[attemptID]*attempt{}, old: map[attemptID]*attempt{}, dirty: map[attemptID]*attempt{}}
}

// get returns an attempt, nil if no event of it was folded.
func (as *attempts) get(id attemptID) (*attempt, error) {
	if a := as.dirty[id]; a != nil {
		return a, nil
	}
	if a := as.young[id]; a != nil {
		return a, nil
	}
	if a := as.old[id]; a != nil {
		as.remember(id, a)
		return a, nil
	}
	row, err := as.store.get(append([]byte{nsAttempt}, id[:]...))
	if err != nil || row == nil {
		return nil, err
	}
	a, err := parseAttempt(row)
	if err != nil {
		return nil, err
	}
	as.remember(id, a)
	return a, nil
}

func (as *attempts) remember(id attemptID, a *attempt) {
	if as.weight > as.most/2 {
		as.old, as.young, as.weight = as.young, map[attemptID]*attempt{}, 0
	}
	as.young[id] = a
	as.weight += a.weight()
}

// changed says that an attempt is to be written.
func (as *attempts) changed(id attemptID, a *attempt) {
	if as.dirty[id] == nil {
		as.dirtyWeight += a.weight()
	} else {
		as.dirtyWeight += 170
	}
	as.dirty[id] = a
}

// write puts what changed into the transaction.
func (as *attempts) write() error {
	for id, a := range as.dirty {
		row, err := a.append(nil)
		if err != nil {
			return err
		}
		if err := as.store.set(append([]byte{nsAttempt}, id[:]...), row); err != nil {
			return err
		}
		as.remember(id, a)
	}
	clear(as.dirty)
	as.dirtyWeight = 0
	return nil
}
