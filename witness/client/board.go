package client

import (
	"slices"
	"time"

	"counterfoil/ledger/trust"
)

// keptPartial is how many checkpoints are kept that have cosignatures but do
// not meet the quorum yet.
const keptPartial = 8

// sheet is a published checkpoint with the cosignatures that it has.
type sheet struct {
	cp     trust.Checkpoint
	note   *trust.Note // as the log signed it
	lines  []cosig     // by witness
	merged []byte      // note and lines; nil if not made since they changed
}

// cosig is a cosignature; the zero one is none.
type cosig struct {
	line       trust.NoteSignature
	time       uint64    // as the witness states it, seconds since 1970
	receivedAt time.Time // our clock
}

func (s *sheet) has(i int) bool { return s.lines[i].time > 0 }

func (s *sheet) any() bool {
	return slices.ContainsFunc(s.lines, func(c cosig) bool { return c.time > 0 })
}

// bytes is the note with the log's lines first and then the cosignatures in the
// order of the policy. They are not to be changed.
func (s *sheet) bytes() []byte {
	if s.merged == nil {
		n := trust.Note{Text: s.note.Text, Signatures: slices.Clone(s.note.Signatures)}
		for _, c := range s.lines {
			if c.time > 0 && len(n.Signatures) < trust.MaxNoteSignatures {
				n.Signatures = append(n.Signatures, c.line)
			}
		}
		s.merged = n.Append(nil)
	}
	return s.merged
}

// standing is how far a witness is.
type standing struct {
	// old is the size of the latest checkpoint that it cosigned, as far as we
	// know: it signs none that is smaller.
	old uint64
	// asking is the size that it is being asked for; of meaning while busy.
	asking uint64
	busy   bool
	// down: the last request failed.
	down bool
}

// board is what is known of the newest checkpoints and of the witnesses. It has
// no lock and reads no clock.
type board struct {
	quorum  quorum
	sheets  []*sheet // by size, ascending; the last one is the newest published
	w       []standing
	metSize uint64 // of the largest checkpoint that meets the quorum
}

func newBoard(q quorum) *board { return &board{quorum: q, w: make([]standing, len(q.counts))} }

func (b *board) newest() *sheet {
	if len(b.sheets) == 0 {
		return nil
	}
	return b.sheets[len(b.sheets)-1]
}

// met is the largest checkpoint that meets the quorum, nil if there is none.
func (b *board) met() *sheet {
	if b.metSize == 0 {
		return nil
	}
	return b.at(b.metSize)
}

func (b *board) at(size uint64) *sheet {
	for _, s := range b.sheets {
		if s.cp.Size == size {
			return s
		}
	}
	return nil
}

// add puts a checkpoint on the board, which is larger than all others, or from
// the store.
func (b *board) add(s *sheet) {
	at, found := slices.BinarySearchFunc(b.sheets, s.cp.Size, func(s *sheet, size uint64) int {
		switch {
		case s.cp.Size < size:
			return -1
		case s.cp.Size > size:
			return 1
		}
		return 0
	})
	if !found {
		b.sheets = slices.Insert(b.sheets, at, s)
	}
}

// sign puts a cosignature on a sheet, if it is not older than the one there.
func (b *board) sign(s *sheet, i int, c cosig) {
	b.w[i].old = max(b.w[i].old, s.cp.Size)
	if c.time < s.lines[i].time {
		return
	}
	s.lines[i], s.merged = c, nil
	if s.cp.Size > b.metSize && b.quorum.met(s.has) {
		b.metSize = s.cp.Size
	}
}

// choose returns the checkpoint that witness i is to be asked for, nil if it has
// signed the newest. Of those that would go beyond the newest that meets the
// quorum, and still can, it is the one that most others have signed or are asked
// for, and of these the newest; so witnesses of any speed meet on one tree. If
// there is none it is the newest.
func (b *board) choose(i int) *sheet {
	newest := b.newest()
	if newest == nil || newest.has(i) {
		return nil
	}
	best, most := newest, -1
	for _, s := range b.sheets {
		if s.cp.Size < b.w[i].old || s.has(i) || s.cp.Size <= b.metSize || !b.reachable(s, i) {
			continue
		}
		backed := 0
		for j := range b.w {
			if j != i && b.quorum.counts[j] && (s.has(j) || b.w[j].busy && b.w[j].asking == s.cp.Size) {
				backed++
			}
		}
		if backed >= most {
			best, most = s, backed
		}
	}
	return best
}

// reachable reports whether a checkpoint can meet the quorum if witness i signs
// it and the others do what they can.
func (b *board) reachable(s *sheet, i int) bool {
	return b.quorum.met(func(j int) bool {
		w := b.w[j]
		switch {
		case j == i || s.has(j):
			return true
		case w.busy:
			return w.asking <= s.cp.Size
		}
		return !w.down && w.old <= s.cp.Size
	})
}

// prune forgets checkpoints that are of no more use.
func (b *board) prune() {
	best, partial := b.partial(0), 0
	var keep []*sheet
	for _, s := range slices.Backward(b.sheets) {
		asked := slices.ContainsFunc(b.w, func(w standing) bool { return w.busy && w.asking == s.cp.Size })
		switch {
		case s == b.newest(), s == best, s.cp.Size == b.metSize, asked, len(b.latest(s)) > 0:
		case s.any() && s.cp.Size > b.metSize && partial < keptPartial:
			partial++
		default:
			continue
		}
		keep = append(keep, s)
	}
	slices.Reverse(keep)
	b.sheets = keep
}

// latest lists the witnesses whose largest cosigned checkpoint this is.
func (b *board) latest(s *sheet) (who []int) {
	for i := range b.w {
		if !s.has(i) {
			continue
		}
		if !slices.ContainsFunc(b.sheets, func(x *sheet) bool { return x.cp.Size > s.cp.Size && x.has(i) }) {
			who = append(who, i)
		}
	}
	return who
}

// partial is, of the checkpoints of at least size leaves, the one that most
// witnesses of the quorum signed, and of these the newest; nil if there is none.
func (b *board) partial(size uint64) (best *sheet) {
	most := -1
	for _, s := range b.sheets {
		if n := b.quorum.have(s.has); s.cp.Size >= size && n >= most {
			best, most = s, n
		}
	}
	return best
}
