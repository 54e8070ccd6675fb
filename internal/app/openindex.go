package app

import (
	"context"
	"errors"
	"fmt"

	"counterfoil/ledger/event"
	"counterfoil/ledger/index"
	"counterfoil/ledger/stream"
)

// openIndex opens the index as it is; how far it goes tells healing how far back
// the stream must be whole.
func (l *Ledger) openIndex(context.Context) error {
	var x *index.Index
	err := l.openDerived(l.paths.index(), func() (err error) {
		x, err = index.Open(index.Config{Dir: l.paths.index(), Tenant: l.id.Tenant, Origin: l.id.Origin, Parse: l.check.parse, Check: l.check.check,
			MinFree: l.disk.toWrite(), Logger: l.log})
		return err
	})
	if err != nil {
		return err
	}
	l.index = x
	l.onClose(bounded("index", x.Close))
	return nil
}

// fitIndex empties the index if what it was derived from is not what the stream
// holds now.
func (l *Ledger) fitIndex(ctx context.Context) error {
	seq, digest := l.index.Position()
	if seq == 0 {
		return nil
	}
	m, err := l.stream.Get(ctx, seq)
	switch {
	case errors.Is(err, stream.ErrNotFound):
		// What the index has seen was accepted once. Say so before forgetting it.
		st, err := l.stream.State(ctx)
		if err != nil {
			return err
		}
		if err := l.noteGap(st.Last+1, seq, seq-st.Last); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("compare with the stream: %w", err)
	case event.DigestOf(m.Body) == digest && !l.rebuilt:
		return nil
	}
	l.log.Warn("the index does not fit the stream and is built again", "sequence", seq)
	return l.index.Reset()
}

func (l *Ledger) indexNext() uint64 {
	seq, _ := l.index.Position()
	return seq + 1
}
