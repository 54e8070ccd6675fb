package archive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
	"counterfoil/ledger/vault"
)

// check refuses a retention that is not chosen, or not lawful (ARC-06, ARC-07).
func (r Retention) check(sensitive bool) error {
	denied := func(format string, args ...any) error {
		return &codeError{admission.ArchiveRetentionDenied, fmt.Sprintf(format, args...)}
	}
	switch {
	case r.Class == "":
		return denied("no retention class; it is chosen before anything is stored")
	case len(r.Class) > 64:
		return denied("a retention class of %d bytes, at most 64", len(r.Class))
	case r.Kind != event.RetentionEvidence && r.Kind != event.RetentionTelemetry:
		return denied("kind %q of class %q is neither %s nor %s", clip(r.Kind), r.Class, event.RetentionEvidence, event.RetentionTelemetry)
	case r.Days < 1 || r.Days > MaxDays:
		return denied("class %q keeps for %d days, 1 to %d are lawful", r.Class, r.Days, MaxDays)
	case sensitive && r.Kind == event.RetentionTelemetry:
		return denied("class %q is of kind %s; what a privileged or secret-reading tool was admitted on is %s", r.Class, r.Kind, event.RetentionEvidence)
	}
	return nil
}

func (r Retention) until(at time.Time) time.Time {
	return at.Add(time.Duration(r.Days) * 24 * time.Hour)
}

// Held tells whether a legal hold is on an attempt. A nil Held holds nothing.
type Held func(owner string) bool

func (h Held) on(owner string) bool { return h != nil && h(owner) }

// Ended counts what an expiry did.
type Ended struct {
	Expired int // references that ended
	Held    int // references that would have, but for a legal hold
}

// Expire ends the references whose retention is over at now, and deletes the
// bodies that no reference is left to. A held owner's stay. Leaves are not
// touched: the log is as long as before (ARC-15). It is durable when it returns;
// after an error, call it again.
func (a *Archive) Expire(ctx context.Context, now time.Time, held Held) (done Ended, err error) {
	err = a.v.EachRef(func(r vault.Ref) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.State != vault.ObjectKept || r.Until > now.UnixMilli() {
			return nil
		}
		if held.on(r.Owner) {
			done.Held++
			return nil
		}
		expired := 0
		err := a.v.ChangeRef(r, func(r *vault.Ref) bool {
			expired = 0
			if r.Until > now.UnixMilli() { // kept for longer meanwhile
				return false
			}
			expired = 1
			r.State = vault.ObjectExpired
			return true
		})
		done.Expired += expired
		return err
	})
	if err == nil && done.Expired > 0 {
		err = a.v.Sync()
	}
	return done, fail("end retention", err)
}

// CheckRetention says whether [Archive.SetRetention] would be refused.
func (a *Archive) CheckRetention(owner string, to Retention, at time.Time) error {
	_, err := a.changeable("change the retention of "+clip(owner), owner, to, at)
	return err
}

// changeable reads the references that a change of retention is about.
func (a *Archive) changeable(doing, owner string, to Retention, at time.Time) ([]vault.Ref, error) {
	if err := to.check(false); err != nil {
		return nil, refused(doing, err)
	}
	refs, err := a.v.Refs(owner)
	if err != nil {
		return nil, fail(doing, err)
	}
	refs = slices.DeleteFunc(refs, func(r vault.Ref) bool { return r.Stored > at.UnixMilli() })
	for _, r := range refs {
		if r.Kind == event.RetentionEvidence && to.Kind == event.RetentionTelemetry {
			return nil, refused(doing, &codeError{admission.ArchiveRetentionDenied, r.Role + " is security evidence and cannot become telemetry"})
		}
	}
	return refs, nil
}

// SetRetention puts everything that an owner refers to and that was stored up to
// at, the time of the change, under another class, counted from when each piece was
// stored. It returns how many references changed; to make the same change again
// changes none. What is security evidence stays so: it cannot become telemetry
// (ARC-07). The caller records it as an event first (ARC-16). It is durable when
// it returns.
func (a *Archive) SetRetention(_ context.Context, owner string, to Retention, at time.Time) (changed int, err error) {
	doing := "change the retention of " + clip(owner)
	refs, err := a.changeable(doing, owner, to, at)
	if err != nil {
		return 0, err
	}
	for _, r := range refs {
		if r.State != vault.ObjectKept {
			continue
		}
		hit := 0
		err := a.v.ChangeRef(r, func(r *vault.Ref) bool {
			hit = 0
			until := to.until(time.UnixMilli(r.Stored)).UnixMilli()
			if r.Class == to.Class && r.Kind == to.Kind && r.Until == until {
				return false
			}
			r.Class, r.Kind, r.Until = to.Class, to.Kind, until
			hit = 1
			return true
		})
		changed += hit
		if err != nil {
			return changed, fail(doing, err)
		}
	}
	if changed == 0 {
		return 0, nil
	}
	return changed, fail(doing, a.v.Sync())
}
