package stream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// Leaves is the durable log: what is in it is right.
type Leaves interface {
	// Size is the number of durable leaves. It must not change during Heal.
	Size() uint64
	// Leaf returns the bytes of one leaf.
	Leaf(ctx context.Context, index uint64) ([]byte, error)
}

// HealConfig says what the stream is healed from.
type HealConfig struct {
	Leaves Leaves
	// SubjectOf is the subject of a leaf, a pure function of its bytes.
	SubjectOf func(leaf []byte) string
	// Chains tells whether a message that is not in the log can still follow
	// what is: it is called once for each, in order, in one run of Heal, and
	// only when the stream is rebuilt. After a refusal it must refuse what
	// builds on the refused one. An error that wraps ErrNotJudged is no
	// refusal, it ends Heal. Nil accepts everything.
	Chains func(leaf []byte) error
	// Note is called when events are lost or may be (Report.Announce), before
	// anything is changed that would hide this from the next run: what it
	// makes durable is never missed, and may be noted twice after a crash. An
	// error ends Heal. Optional.
	Note func(*Report) error
	// AsideDir gets the messages that are not in the log before a stream with
	// holes is thrown away, and the journal of that. Created if needed.
	AsideDir string
	// MayRepair tells whether this node may change the stream, in a cluster: one
	// node at a time may. While it says no, Heal waits until the stream is whole;
	// it is asked again and again, so it may change its mind. Nil: it may.
	MayRepair func(ctx context.Context) (bool, error)
	// Compare is how many of the last logged messages are compared with their
	// leaves; default 1,024. A reader that will start further back wants more:
	// what is older is taken as it is, and a hole there is found by who reads
	// it.
	Compare uint64
}

// ErrNotJudged: Chains could not tell.
var ErrNotJudged = errors.New("the message could not be judged")

// DefaultCompare is how many messages are compared at every start.
const DefaultCompare = 1024

// DisagreeError: the stream and the log have different bytes at one place, so
// one of them was changed. Nothing may be signed then. Digests are "sha256:"
// and hex over the bytes.
type DisagreeError struct {
	Index                     uint64 // of the leaf; the sequence is one more
	LeafDigest, MessageDigest string
}

func (e *DisagreeError) Error() string {
	return fmt.Sprintf("stream and log disagree: leaf %d is %s, message %d is %s (hint: one of them was changed; restore the log or the stream from a backup, do not delete either)",
		e.Index, e.LeafDigest, e.Index+1, e.MessageDigest)
}

func digest(b []byte) string {
	d := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(d[:])
}

var errHealing = fmt.Errorf("the stream is being healed: %w", ErrUnavailable)

// Heal compares the stream with the log and makes the stream hold every leaf
// again, byte for byte, at its sequence (invariant 3):
//
//   - A whole stream is compared over the last logged messages. A difference is
//     a *DisagreeError, and nothing is changed.
//   - A stream that ends before the log is refilled from the leaves.
//   - A stream with holes, or that does not start at 1, cannot be refilled:
//     JetStream never gives out a sequence twice. What is readable beyond the
//     log is set aside durably, the stream is made anew from the leaves, and
//     what still chains is appended.
//
// In a cluster every node compares, and one repairs (HealConfig.MayRepair), once
// it is certain that the stream itself is broken and not what one server shows of
// it. ctx bounds the waiting of the others.
//
// It must run after Open and before anything reads or publishes, with no other
// process publishing; publishes are refused meanwhile. It may be interrupted at
// any point, by an error or a crash: the next call, of this process or another,
// comes to the same end.
func (s *Stream) Heal(ctx context.Context, cfg HealConfig) (*Report, error) {
	s.maintain.Lock() // no restart of the server meanwhile
	defer s.maintain.Unlock()
	s.gate.set(errHealing)
	defer s.gate.set(nil)
	h := &healer{s: s, cfg: cfg, size: cfg.Leaves.Size()}
	if h.cfg.Compare == 0 {
		h.cfg.Compare = DefaultCompare
	}
	if err := h.run(ctx); err != nil {
		return nil, fmt.Errorf("heal the stream: %w", err)
	}
	if s.cfg.Cluster != nil { // what another has as the leader may be more than our copy
		if err := s.checkReplica(ctx); err != nil {
			return nil, fmt.Errorf("heal the stream: %w", err)
		}
	}
	st, err := s.State(ctx)
	if err != nil {
		return nil, fmt.Errorf("heal the stream: %w", err)
	}
	s.seen.Store(st.Last)
	s.gate.rewound.Store(nil)
	return &h.report, nil
}

// healer is one run of Heal.
type healer struct {
	s      *Stream
	cfg    HealConfig
	size   uint64 // of the log
	report Report
	intact bool // what lookAgain found
}

func (h *healer) run(ctx context.Context) error {
	h.report.LogSize = h.size
	if h.s.emb != nil {
		h.report.Damaged = h.s.emb.damaged
	}
	j, err := h.readJournal()
	if err != nil {
		return err
	}
	if err := h.s.openStream(ctx); err != nil {
		return err
	}
	if h.report.Before, err = h.s.State(ctx); err != nil {
		return err
	}
	h.s.seen.Store(h.report.Before.Last)
	if j != nil && h.s.cfg.clustered() {
		if done, err := h.overtaken(ctx, j); done || err != nil {
			return err
		}
	}
	if j != nil {
		h.s.log.Warn("an interrupted rebuild of the stream goes on", "aside", j.Aside)
		return h.rebuild(ctx, j)
	}
	gen, _ := h.s.conn.get()
	whole, err := h.whole(ctx)
	if err != nil {
		return err
	}
	if h.s.cfg.clustered() && !(whole && h.report.Before.Last >= h.size) {
		if healed, err := h.awaitRepair(ctx); err != nil {
			return err
		} else if healed {
			h.report.Action = Nothing
			if !whole { // another node has made it anew
				h.report.Action = Rebuilt
			}
			return nil
		}
		whole = h.intact
		gen, _ = h.s.conn.get()
	}
	last := h.report.Before.Last
	given, err := h.hidden(ctx)
	if err != nil {
		return err
	}
	whole = whole && given <= last
	h.report.MaybeLost = max(last, given) < h.size
	switch {
	case whole && last >= h.size:
		h.report.Action = Nothing
		return nil
	case whole:
		h.report.Action = Refilled
		if err := h.note(); err != nil {
			return err
		}
		h.s.log.Warn("the stream ends before the log and is refilled", "stream", last, "log", h.size)
		return h.republish(ctx, last+1)
	}
	h.s.log.Warn("the stream has holes and is rebuilt from the log", "first", h.report.Before.First, "last", last,
		"messages", h.report.Before.Messages, "log", h.size)
	if j, err = h.setAside(ctx); err != nil {
		return err
	}
	// A server that stopped meanwhile would have shown holes that are none.
	if now, _ := h.s.conn.get(); now != gen || h.s.conn.reason() != nil {
		return unavailable("read the stream", errors.New("the connection was lost while it was read"))
	}
	h.loseHidden(j, given)
	if err := h.writeJournal(j); err != nil {
		return err
	}
	return h.rebuild(ctx, j)
}

// note tells the caller of losses.
func (h *healer) note() error {
	if h.cfg.Note == nil || !h.report.Announce() {
		return nil
	}
	if err := h.s.step("note"); err != nil {
		return err
	}
	if err := h.cfg.Note(&h.report); err != nil {
		return fmt.Errorf("note lost events: %w", err)
	}
	return nil
}

// whole tells whether the stream has every message from 1 to its last, as far
// as its state and the messages that count tell: the last logged ones, which
// must equal their leaves, and all beyond the log.
func (h *healer) whole(ctx context.Context) (bool, error) {
	st := h.report.Before
	if st.Last == 0 {
		return true, nil
	}
	if st.First != 1 || st.Deleted != 0 || st.Messages != st.Last {
		return false, nil
	}
	from := uint64(1)
	if logged := min(st.Last, h.size); logged > h.cfg.Compare {
		from = logged - h.cfg.Compare + 1
	}
	whole := true
	err := h.s.scan(ctx, from, st.Last, func(seq uint64, m *Message) error {
		if m == nil {
			whole = false
			return nil
		}
		return h.compare(ctx, m)
	})
	return whole, err
}

// compare checks a message against its leaf, if it has one.
func (h *healer) compare(ctx context.Context, m *Message) error {
	if m.Seq > h.size {
		return nil
	}
	leaf, err := h.cfg.Leaves.Leaf(ctx, m.Seq-1)
	if err != nil {
		return fmt.Errorf("leaf %d: %w", m.Seq-1, err)
	}
	if string(leaf) != string(m.Body) {
		return &DisagreeError{Index: m.Seq - 1, LeafDigest: digest(leaf), MessageDigest: digest(m.Body)}
	}
	return nil
}

// republish publishes the leaves from sequence first to the end of the log.
func (h *healer) republish(ctx context.Context, first uint64) error {
	w := h.s.window()
	for seq := first; seq <= h.size; seq++ {
		if err := h.s.step("republish"); err != nil {
			return err
		}
		leaf, err := h.cfg.Leaves.Leaf(ctx, seq-1)
		if err != nil {
			return fmt.Errorf("leaf %d: %w", seq-1, err)
		}
		if err := w.put(ctx, Msg{h.cfg.SubjectOf(leaf), leaf}, seq); err != nil {
			return fmt.Errorf("republish leaf %d: %w", seq-1, err)
		}
		h.report.Republished++
	}
	if err := w.flush(ctx); err != nil {
		return fmt.Errorf("republish the leaves from %d: %w", first-1, err)
	}
	return nil
}

// rebuild makes the stream anew. The journal is in place: from here on a crash
// loses nothing of the log and of what was set aside, the next Heal comes here
// again and starts over.
func (h *healer) rebuild(ctx context.Context, j *journal) error {
	h.report.Action = Rebuilt
	h.report.Lost, h.report.MaybeLost = j.Lost, j.MaybeLost
	if j.Aside != "" {
		h.report.AsideFile = h.path(j.Aside)
	}
	keep, err := h.judgeAside(j)
	if err != nil {
		return err
	}
	if err := h.s.step("delete"); err != nil {
		return err
	}
	if err := h.s.destroy(ctx); err != nil {
		return err
	}
	if err := h.s.step("create"); err != nil {
		return err
	}
	if err := h.s.create(ctx); err != nil {
		return err
	}
	h.s.seen.Store(0)
	if err := h.republish(ctx, 1); err != nil {
		return err
	}
	if err := h.reappend(ctx, j, keep); err != nil {
		return err
	}
	if err := h.note(); err != nil {
		return err
	}
	if err := h.s.step("journal-remove"); err != nil {
		return err
	}
	return h.removeJournal()
}

// reappend publishes those messages set aside that are to be kept.
func (h *healer) reappend(ctx context.Context, j *journal, keep []bool) error {
	w := h.s.window()
	n := 0
	err := h.eachAside(j, func(m asideMessage) error {
		n++
		if !keep[n-1] {
			return nil
		}
		if err := h.s.step("reappend"); err != nil {
			return err
		}
		h.report.Reappended++
		err := w.put(ctx, Msg{h.cfg.SubjectOf(m.Body), m.Body}, h.size+h.report.Reappended)
		if err != nil {
			return fmt.Errorf("append message %d again: %w", m.Seq, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.flush(ctx); err != nil {
		return fmt.Errorf("append the messages set aside: %w", err)
	}
	return nil
}
