package stream

// Action is what Heal did.
type Action string

// The actions, by how much the stream had lost.
const (
	// Nothing: the stream is whole and at least as long as the log.
	Nothing Action = "nothing"
	// Refilled: the stream ended before the log; the rest was published again.
	Refilled Action = "refilled"
	// Rebuilt: the stream had holes. It was set up anew from the leaves and
	// those unlogged messages that still chain. Unlogged messages may have
	// other sequences and logged ones other subjects than before, so what was
	// derived from the old stream by them must be derived again. In a cluster
	// also the action of a node that waited for another to do it.
	Rebuilt Action = "rebuilt"
)

// listMax bounds the sequences that a report names one by one.
const listMax = 1000

// Sequences is a set of stream sequences: how many, and the first of them,
// ascending.
type Sequences struct {
	Count uint64   `json:"count"`
	First []uint64 `json:"first,omitempty"` // at most 1,000
}

func (s *Sequences) add(seq uint64) {
	if s.Count++; len(s.First) < listMax {
		s.First = append(s.First, seq)
	}
}

// Report says what Heal found and did.
type Report struct {
	Action  Action
	Before  State // the stream as it was found
	LogSize uint64
	// Republished counts leaves that were published again, Reappended messages
	// that were not logged and could be kept when the stream was rebuilt.
	Republished, Reappended uint64
	// Lost are the sequences beyond the log whose messages are gone, Unchained
	// those whose messages were readable and do not follow what is left: they
	// are in AsideFile only. Both are sequences of the old stream.
	Lost, Unchained Sequences
	// MaybeLost: the stream ended before the log, so messages beyond the log,
	// if there were any, are gone without a trace.
	MaybeLost bool
	// AsideFile has the messages that were not in the log when the stream was
	// rebuilt: JSON lines {seq, subject, bodyBase64}. Empty if there were none.
	AsideFile string
	// Damaged is a directory to which the store was moved because the embedded
	// server could not use it. Empty if there is none.
	Damaged string
}

// Announce tells whether a gap must be announced (LOG-13): events are lost or
// may be.
func (r *Report) Announce() bool {
	return r.Lost.Count > 0 || r.Unchained.Count > 0 || r.MaybeLost
}
