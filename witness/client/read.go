package client

import (
	"context"
	"maps"
	"time"

	"counterfoil/ledger/trust"
)

// Checkpoint is a published checkpoint with the cosignatures that it has.
type Checkpoint struct {
	Size uint64
	// Note is the log's note, its own signatures first, then the cosignatures.
	// Not to be changed.
	Note []byte
	// Have is how many of the witnesses that the quorum asks for cosigned it,
	// Need how few can meet the quorum.
	Have, Need int
	// Witnessed: the quorum is met, and the cosignatures are stored.
	Witnessed bool
}

func (g *Gatherer) checkpointLocked(s *sheet) Checkpoint {
	q := g.board.quorum
	return Checkpoint{Size: s.cp.Size, Note: s.bytes(), Have: q.have(s.has), Need: q.need, Witnessed: s == g.met}
}

// Need is how few witnesses can meet the quorum. It is 0 if the quorum asks for
// none; nothing is ever witnessed then.
func (g *Gatherer) Need() int { return g.board.quorum.need }

// Covering returns the checkpoint to show for a leaf: the newest that meets the
// quorum if that covers it, else the one over it that most witnesses cosigned,
// and of these the newest. It is false if no checkpoint that is known covers it.
func (g *Gatherer) Covering(leaf uint64) (Checkpoint, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.met != nil && leaf < g.met.cp.Size {
		return g.checkpointLocked(g.met), true
	}
	s := g.board.partial(leaf + 1)
	if s == nil {
		return Checkpoint{}, false
	}
	return g.checkpointLocked(s), true
}

// Cosigned returns the checkpoint of a size with the cosignatures that it has;
// false if it is not known.
func (g *Gatherer) Cosigned(size uint64) (Checkpoint, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.board.at(size)
	if s == nil {
		return Checkpoint{}, false
	}
	return g.checkpointLocked(s), true
}

// Wait blocks until a checkpoint that meets the quorum covers size leaves.
func (g *Gatherer) Wait(ctx context.Context, size uint64) error {
	for {
		g.mu.Lock()
		ok, ended, changed := g.met != nil && g.met.cp.Size >= size, g.ended, g.changed
		g.mu.Unlock()
		switch {
		case ok:
			return nil
		case g.Stopped() != nil:
			return g.Stopped()
		case ended:
			return ErrEnded
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Status is how the gathering stands.
type Status struct {
	// Published is the size of the newest checkpoint that was offered.
	Published uint64
	// Witnessed is the size of the newest one that meets the quorum, 0 for none,
	// and WitnessedAt when that was stored.
	Witnessed   uint64
	WitnessedAt time.Time
	// Have and Need are those of the newest checkpoint.
	Have, Need int
	// Unsaved is why cosignatures could not be stored, nil if they were.
	Unsaved   error
	Witnesses []WitnessStatus
}

// WitnessStatus is how one witness stands.
type WitnessStatus struct {
	// Name is its name in the policy.
	Name string
	// Asked is false for a witness without a URL.
	Asked bool
	// Counts: the quorum asks for it.
	Counts bool
	// Size is that of the largest checkpoint that it cosigned, 0 for none; Stated
	// the time that the cosignature states, and Last when it came.
	Size         uint64
	Stated, Last time.Time
	// Trouble is why the last request failed; nil after one that did not.
	Trouble error
	// Failures are the failed requests since the start, by class.
	Failures map[string]uint64
	// Incidents is how many are kept. Open is the last one, if the witness has
	// not cosigned since.
	Incidents int
	Open      *Incident
}

// Status returns how the gathering stands.
func (g *Gatherer) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := Status{Need: g.board.quorum.need, Unsaved: g.unsaved}
	if s := g.board.newest(); s != nil {
		st.Published, st.Have = s.cp.Size, g.board.quorum.have(s.has)
	}
	if g.met != nil {
		st.Witnessed, st.WitnessedAt = g.met.cp.Size, g.metAt
	}
	for i, w := range g.witnesses {
		x := WitnessStatus{Name: w.policy.Name, Asked: w.policy.URL != "", Counts: g.board.quorum.counts[i], Size: w.size, Last: w.last,
			Trouble: w.trouble, Failures: maps.Clone(w.failures), Incidents: w.incidents, Open: w.open}
		if w.stated > 0 {
			x.Stated = time.Unix(int64(min(w.stated, 1<<40)), 0)
		}
		st.Witnesses = append(st.Witnesses, x)
	}
	return st
}

// Policy is the policy, of this log alone.
func (g *Gatherer) Policy() *trust.Policy {
	p := *g.cfg.Policy
	p.Logs = []trust.PolicyLog{{Key: g.cfg.Log}}
	return &p
}

// Changed is closed when another checkpoint meets the quorum, or the gathering
// stopped or ended. Ask for it before reading them.
func (g *Gatherer) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}
