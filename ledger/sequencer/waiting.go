package sequencer

// waiting are the callers of Wait, by the sequence that they wait for. Each is woken
// once, when it is there: a thousand that wait cost a batch that is not theirs
// nothing.
type waiting struct {
	at map[uint64]*waiter
	n  int
}

// waiter are those who wait for one sequence.
type waiter struct {
	n    int
	done chan struct{} // closed when it is there, or never will be
}

func (w *waiting) add(seq uint64) *waiter {
	if w.at == nil {
		w.at = map[uint64]*waiter{}
	}
	x := w.at[seq]
	if x == nil {
		x = &waiter{done: make(chan struct{})}
		w.at[seq] = x
	}
	x.n++
	w.n++
	return x
}

// upTo is how many wait for a sequence up to last.
func (w *waiting) upTo(last uint64) (n int) {
	for seq, x := range w.at {
		if seq <= last {
			n += x.n
		}
	}
	return n
}

// leave takes out one that gives up; one that was woken is out.
func (w *waiting) leave(seq uint64, x *waiter) {
	if w.at[seq] != x {
		return
	}
	w.n--
	if x.n--; x.n == 0 {
		delete(w.at, seq)
	}
}

// reached wakes those who wait for a sequence after from, up to to.
func (w *waiting) reached(from, to uint64) {
	for seq := from + 1; seq <= to && w.n > 0; seq++ {
		if x := w.at[seq]; x != nil {
			close(x.done)
			delete(w.at, seq)
			w.n -= x.n
		}
	}
}

// end wakes all.
func (w *waiting) end() {
	for _, x := range w.at {
		close(x.done)
	}
	w.at, w.n = nil, 0
}
