package app

import (
	"context"
	"fmt"
)

// fitViews refuses to go on from a log that was set back together with its guard
// and its stream (invariant 4). The views were folded from published trees alone,
// and a tree is durable before it is published: views that have seen more than log
// and stream hold say that the end of the log is missing. It runs before anything
// is healed, noted or signed, so that a newer log can still be put in place.
// Whoever deletes the views decides otherwise.
func (l *Ledger) fitViews(ctx context.Context) error {
	c, err := l.views.db.Cursor()
	if err != nil {
		return err
	}
	st, err := l.stream.State(ctx)
	if err != nil {
		return err
	}
	size := l.tlog.Size()
	if err := l.fitSigner(max(size, st.Last)); err != nil {
		return err
	}
	if c.Size <= size {
		return nil
	}
	if st.Last < c.Size {
		return fmt.Errorf("the log has %d leaves and the stream %d messages, but the views were folded from a published tree of size %d: the log went back; nothing is changed and nothing is signed (hint: put the newer log, guard or stream in place; if they are lost for good, see docs/runbooks/will-not-sign.md)",
			size, st.Last, c.Size)
	}
	l.log.Warn("the log is older than the views and goes on from the stream", "log", size, "stream", st.Last, "views", c.Size)
	return nil
}

// fitSigner refuses to sign with a key that does not count yet. It was registered
// by an event that was logged, so a log that ends before it is an old copy, and
// what the key signs there would never count.
func (l *Ledger) fitSigner(next uint64) error {
	signing := l.event.signer.KeyID()
	for _, e := range l.event.registry.Entries() {
		if e.KeyID == signing && e.FromIndex > next {
			return fmt.Errorf("event key %s counts from leaf %d on, but the next leaf is %d: the log went back, or the registry of keys is of another log (hint: put the newer log in place; if it is lost for good, see docs/runbooks/will-not-sign.md)",
				signing, e.FromIndex, next)
		}
	}
	return nil
}
