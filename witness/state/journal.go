package state

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"

	"counterfoil/internal/durable"
)

const (
	// maxBatch bounds the updates that share a flush, and so how far the guard
	// can be behind the journal after a crash.
	maxBatch = 1024
	// maxOp bounds the updates of one operation.
	maxOp = maxBatch / 2
	// compactBytes is the size from which a journal is written anew, if most of
	// it is no longer needed.
	compactBytes = 64 << 20
)

// step names a step on the disk, for tests that let one fail.
type step string

const (
	stepWriteJournal step = "write journal"
	stepSyncJournal  step = "flush journal"
	stepWriteGuard   step = "write guard"
	stepSyncGuard    step = "flush guard"
	stepCompact      step = "write the journal anew"
)

// journal owns the two files. It is used by one goroutine at a time.
type journal struct {
	dir, path string
	file      *os.File
	size      int64 // of the file; everything before is whole lines
	guard     *os.File
	slot      int // of the guard, written last

	id, witness string
	sequence    uint64
	chain       hash
	compactAt   int64

	do func(s step, op func() error) error
}

// op is what one caller wants stored, all or nothing.
type op struct {
	entries []entry // Sequence is filled in by the journal
	apply   func()  // called when it is durable, before done is answered
	done    chan error
}

// append stores operations with one flush of each file. After an error nothing
// is known about what is on the disk, and the journal must not be used again.
func (j *journal) append(ops []*op) error {
	var buf []byte
	sequence, last := j.sequence, j.chain
	for _, o := range ops {
		for _, e := range o.entries {
			sequence++
			e.Sequence = sequence
			text, err := encode(e)
			if err != nil {
				return err
			}
			last = chain(last, text)
			buf = appendLine(buf, last, text)
		}
	}
	if err := j.do(stepWriteJournal, func() error { _, err := j.file.WriteAt(buf, j.size); return err }); err != nil {
		return fmt.Errorf("append to %s: %w", j.path, err)
	}
	if err := j.do(stepSyncJournal, j.file.Sync); err != nil {
		return fmt.Errorf("flush %s: %w", j.path, err)
	}
	j.size += int64(len(buf))
	j.sequence, j.chain = sequence, last
	// The commit point is the flush in mark. A crash before it leaves lines
	// that nobody was told of; open keeps those that are whole, which is always
	// allowed: the state may be ahead of what was answered, never behind.
	return j.mark()
}

// mark stores how far the journal is, in the slot that was not written last.
func (j *journal) mark() error {
	slot := 1 - j.slot
	b := mark{j.id, j.sequence, j.chain}.slot()
	if err := j.do(stepWriteGuard, func() error { _, err := j.guard.WriteAt(b, int64(slot)*slotDistance); return err }); err != nil {
		return fmt.Errorf("write %s: %w", j.guard.Name(), err)
	}
	if err := j.do(stepSyncGuard, j.guard.Sync); err != nil {
		return fmt.Errorf("flush %s: %w", j.guard.Name(), err)
	}
	j.slot = slot
	return nil
}

// snapshot is the content of a journal that starts with the given entries.
func (j *journal) snapshot(entries []entry) ([]byte, error) {
	text, err := encode(header{Version: journalVersion, StateID: j.id, Witness: j.witness, Sequence: j.sequence,
		Chain: hex.EncodeToString(j.chain[:]), Snapshot: len(entries)})
	if err != nil {
		return nil, err
	}
	b := appendLine(nil, sha256.Sum256(text), text)
	for _, e := range entries {
		if text, err = encode(e); err != nil {
			return nil, err
		}
		b = appendLine(b, sha256.Sum256(text), text)
	}
	return b, nil
}

// compact writes the journal anew if it has grown, from the entries that make
// up the present state. The guard is up to date, and the header of the new
// journal carries its sequence and chain, so both files stay comparable whatever
// a crash leaves. An error is as in append.
func (j *journal) compact(entries func() []entry) error {
	if j.size < j.compactAt {
		return nil
	}
	b, err := j.snapshot(entries())
	if err != nil {
		return err
	}
	if err := j.do(stepCompact, func() error { return durable.WriteFile(j.path, b, 0o600) }); err != nil {
		return err
	}
	f, err := os.OpenFile(j.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the new journal: %w", err)
	}
	_ = j.file.Close()
	j.file, j.size = f, int64(len(b))
	j.compactAt = max(j.compactAt, 4*j.size)
	return nil
}

// run stores operations until the channel is closed, as many at once as wait.
// After an error it answers every operation with that error.
func (s *Store) run() {
	defer close(s.stopped)
	for first := range s.ops {
		ops, n := []*op{first}, len(first.entries)
	gather:
		for n < maxOp {
			select {
			case o, ok := <-s.ops:
				if !ok {
					break gather
				}
				ops, n = append(ops, o), n+len(o.entries)
			default:
				break gather
			}
		}
		err := s.Err()
		if err == nil {
			err = s.journal.append(ops)
		}
		for _, o := range ops {
			if err == nil {
				o.apply()
			}
		}
		if err == nil {
			// Not before the state is that of the journal's end, and before
			// anybody is told: if it fails, what is on the disk is not known.
			err = s.journal.compact(s.entries)
		}
		if err != nil {
			s.fail(err)
			err = fmt.Errorf("%w: %w", ErrStopped, s.Err())
		}
		for _, o := range ops {
			o.done <- err
		}
	}
}

// entries is the present state as lines of a snapshot, in order of origin.
func (s *Store) entries() []entry {
	logs := s.all()
	out := make([]entry, 0, len(logs))
	for _, k := range logs {
		e := entry{Log: newLogEntry(k.log)}
		if l := k.latest.Load(); l != nil {
			e.Checkpoint = &checkEntry{l.Note, l.Timestamp}
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b entry) int {
		if a.Log.Origin < b.Log.Origin {
			return -1
		}
		return 1
	})
	return out
}
