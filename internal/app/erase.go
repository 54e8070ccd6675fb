package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"counterfoil/internal/api"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/vault"
	"counterfoil/projections/query"
)

// target is an attempt that an erasure or a hold is about.
type target struct {
	id      string
	subject event.Subject
	open    bool // it has no outcome
}

// Erase destroys private values: see docs/erasure.md.
func (l *Ledger) Erase(ctx context.Context, r api.EraseRequest) (*api.Erasure, error) {
	if err := l.admit(); err != nil {
		return nil, err
	}
	if r.State == "" {
		r.State = event.PrivacyPurged
	}
	if r.State != event.PrivacyPurged && r.State != event.PrivacyRedacted {
		return nil, api.NewInvalid("/state", "use redacted or purged", "nothing leads to this state")
	}
	done, err := l.beginChange(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	out := &api.Erasure{SchemaVersion: api.ErasureSchema, State: r.State, Notices: []api.Notice{}, Verdict: "incomplete", Kept: keptAfter(r.State), NotCovered: notCovered}
	targets, err := l.targets(ctx, r, out)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		if holdID, held := l.custody.holding(t); held {
			return nil, api.NewHeld(t.id, holdID)
		}
	}
	if !r.Confirm {
		return nil, api.NewUnconfirmed(len(targets), r.State)
	}
	slices.SortFunc(targets, func(a, b target) int { return strings.Compare(a.id, b.id) })
	for part := range slices.Chunk(targets, event.MaxErased) {
		n, err := l.erasePart(ctx, r.State, part)
		if err != nil {
			return nil, err
		}
		out.Notices, out.Affected = append(out.Notices, *n), out.Affected+len(part)
		for _, t := range part {
			if t.open {
				out.Open++
			}
		}
	}
	return out, nil
}

// erasePart erases what one notice names.
func (l *Ledger) erasePart(ctx context.Context, state string, part []target) (*api.Notice, error) {
	x := event.Erasure{State: state}
	for _, t := range part {
		x.Attempts = append(x.Attempts, t.id)
	}
	res, err := l.announce(ctx, "erasure", x.Value(), func(id string) (*intake.Result, error) { return l.intake.ErasureNotice(ctx, id, x) })
	if err != nil {
		return nil, err
	}
	if err := l.custody.step("announced"); err != nil {
		return nil, err
	}
	// From here on a crash loses nothing: the next start finds a notice without an
	// outcome and calls destroy again.
	if err := l.destroy(x); err != nil {
		return nil, l.explain(fmt.Errorf("erase, as leaf %d says: %w", res.LeafIndex(), err))
	}
	l.log.Info("private values were erased", "state", state, "attempts", len(part), "leaf", res.LeafIndex())
	if err := l.custody.step("destroyed"); err != nil {
		return nil, err
	}
	id := res.Rec.Event.AttemptID
	done, err := l.confirm(ctx, id)
	if err != nil {
		return nil, err
	}
	return &api.Notice{AttemptID: id, LeafIndex: res.LeafIndex(), DoneIndex: done}, nil
}

// targets are the attempts that a request is about and that are not there yet.
func (l *Ledger) targets(ctx context.Context, r api.EraseRequest, out *api.Erasure) (all []target, err error) {
	take := func(t target) error {
		p, err := l.vault.Privacy(t.id)
		switch {
		case err != nil && !errors.Is(err, vault.ErrNotFound):
			return l.explain(err)
		case p >= privacyOf(r.State):
			out.Already++
		case len(all) == api.MaxErase:
			out.More = true
		default:
			all = append(all, t)
		}
		return nil
	}
	switch {
	case (len(r.Attempts) == 0) == (r.Subject == nil):
		return nil, api.NewInvalid("", "give attempts or subject", "an erasure is of attempts or of a subject, one of the two")
	case len(r.Attempts) > api.MaxErase:
		return nil, api.NewInvalid("/attempts", fmt.Sprintf("at most %d a call", api.MaxErase), fmt.Sprintf("%d attempts", len(r.Attempts)))
	case r.Subject != nil:
		if err := checkSubject(*r.Subject); err != nil {
			return nil, err
		}
		if err := l.about(ctx, *r.Subject, take); err != nil {
			return nil, err
		}
		if len(all)+out.Already == 0 {
			return nil, api.NewNotFound("no attempt is about this subject", "a subject is KIND:ID, as counterfoil get shows it")
		}
		return all, nil
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(r.Attempts))) {
		t, err := l.target(ctx, id)
		if err == nil {
			err = take(t)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// target looks an attempt up.
func (l *Ledger) target(ctx context.Context, id string) (target, error) {
	row, err := l.index.Attempt(id)
	if err != nil {
		return target{}, err
	}
	if row == nil {
		return target{}, api.NewNotFound("no such attempt: "+id[:min(len(id), 64)], "check the id; counterfoil list shows attempts")
	}
	m, err := l.stream.Get(ctx, row.Seqs[0])
	if err != nil {
		return target{}, l.explain(err)
	}
	rec, err := event.ParseRecord(m.Body)
	if err != nil {
		return target{}, fmt.Errorf("attempt %s: %w", id, err)
	}
	t := target{id, rec.Event.Subject, row.State.Summary().Outcome == ""}
	if ownKind(t.subject.Kind) {
		return target{}, api.NewInvalid("/attempts", "there is nothing private in it", "attempt "+id+" is the ledger's own, of kind "+string(t.subject.Kind))
	}
	return t, nil
}

// about calls f with every attempt about a subject that had begun before the call.
func (l *Ledger) about(ctx context.Context, s event.Subject, f func(target) error) error {
	l.CatchUp(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	for p := (query.Page{Limit: query.MaxLimit}); ; {
		ans, err := l.views.query.Receipts(ctx, query.ReceiptFilter{Kind: string(s.Kind), Lifecycle: string(event.Attempt)}, p)
		if err != nil {
			return err
		}
		for _, row := range ans.Receipts {
			if row.Subject != s.ID {
				continue
			}
			t, err := l.target(ctx, row.AttemptID)
			if err == nil && t.subject == s {
				err = f(t)
			}
			if err != nil {
				return err
			}
		}
		if p.Token = ans.Next; p.Token == "" {
			return nil
		}
	}
}

// ownKind tells the kinds of attempts in which the ledger speaks of itself.
func ownKind(k event.SubjectKind) bool { return k == event.Ledger || k == event.Key }

func checkSubject(s event.Subject) error {
	switch {
	case !event.KnownKind(s.Kind):
		return api.NewInvalid("/subject/kind", "the kinds are in docs/spec/event.md", "unknown subject kind")
	case ownKind(s.Kind):
		return api.NewInvalid("/subject/kind", "there is nothing private in it", "attempts of kind "+string(s.Kind)+" are the ledger's own")
	}
	if err := event.CheckID("/subject/id", s.ID); err != nil {
		return api.NewInvalid("/subject/id", "an identifier is text of 1 to 255 bytes, without control characters", err.Error())
	}
	return nil
}

// keptAfter says what an erasure leaves on purpose.
func keptAfter(state string) []api.Remark {
	kept := []api.Remark{
		{Code: "log", Text: "The events stay in the log, and with them ids, times, names, status words, commitments and tags. The log never held the private values."},
		{Code: "tombstone", Text: "The vault remembers, under a keyed name, that the attempt was erased, so that no older copy brings it back."},
		{Code: "shared_evidence", Text: "Evidence that other attempts refer to as well stays until theirs ends."},
	}
	if state == event.PrivacyRedacted {
		kept = append(kept, api.Remark{Code: "attempt_key", Text: "The attempt's key stays, sealed, so that a repeat is known as one. Whoever has it and the tenant's key can test guesses of a value; a purge ends that."})
	}
	return kept
}

// notCovered is what no ledger can reach (PRV-06, PRV-07).
var notCovered = []api.Remark{
	{Code: "backups", Text: "Backups and copies of the data directory that were made before still hold what was erased, and with the tenant's key they open. Delete them, or erase again after restoring one."},
	{Code: "exports", Text: "Openings that were given out with an answer, bundles, logs and copies that others made are theirs."},
	{Code: "sources", Text: "The systems that sent the values, models and caches included, were not asked. This is not a statement that anything was forgotten there."},
	{Code: "storage", Text: "Sealed leftovers stay in the files of the vault until a compaction, and file system and disk may keep blocks after that. Whoever has those and the keys of before can open them."},
}
