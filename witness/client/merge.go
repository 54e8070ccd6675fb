package client

import (
	"fmt"

	"counterfoil/ledger/trust"
)

// Merge takes over the cosignatures of a checkpoint that another node of the same
// ledger gathered under the same policy. It counts what verifies under the
// policy's keys and ignores the rest; what counts is stored as if it had been
// asked for here, and is witnessed only then. A checkpoint that is not known here
// is taken as with [Gatherer.Offer] if it is the newest, and ignored if not.
func (g *Gatherer) Merge(note []byte) error {
	n, cp, err := g.signed(note)
	if err != nil {
		return fmt.Errorf("take over cosignatures: %w", err)
	}
	own := trust.Note{Text: n.Text}
	for _, sig := range n.Signatures {
		if sig.Name == g.cfg.Log.Name && sig.ID == g.cfg.Log.ID {
			own.Signatures = append(own.Signatures, sig)
		}
	}
	if err := g.Offer(own.Append(nil)); err != nil {
		return err
	}
	body := n.Append(nil)[len(n.Text)+1:]
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.board.at(cp.Size)
	if s == nil || s.cp.Root != cp.Root {
		return nil
	}
	for i, w := range g.witnesses {
		line, stated, err := cosignatureOf(body, n.Text, w.policy.Key)
		if err != nil || stated <= s.lines[i].time {
			continue // not among them, or older than what is there
		}
		now := g.cfg.Now()
		g.board.sign(s, i, cosig{line, stated, now})
		if cp.Size >= w.size {
			w.last, w.stated, w.size, w.open = now, stated, cp.Size, nil
		}
		g.dirtyLocked()
	}
	return nil
}

// idle reports whether another node asks the witnesses now, and what to wait for.
func (g *Gatherer) idle() (bool, <-chan struct{}) {
	if g.cfg.Idle == nil {
		return false, nil
	}
	return g.cfg.Idle()
}

// skip says that w need not be waited for.
func (g *Gatherer) skip(w *witness) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !w.firstDone {
		w.firstDone = true
		close(w.first)
	}
}
