package review

import (
	"context"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/excerpt"
)

// Live looks at a live registry. What it says is noted beside a result that is
// decided already; it never replaces evidence and never changes a disposition
// (REV-16, REV-18, REV-19). It is safe for concurrent use and bounds its own time.
type Live interface {
	// Notes compares the registry now with what was recorded then. A registry that
	// does not answer is an error, which is noted as well.
	Notes(ctx context.Context, then *admission.RegistrySnapshot) ([]Note, error)
}

// notes asks the live registry.
func (j *Judge) notes(ctx context.Context, l *loaded) []Note {
	if j.Live == nil || l.set.Snapshot == nil {
		return nil
	}
	notes, err := j.Live.Notes(ctx, l.set.Snapshot)
	if err != nil {
		return []Note{{What: "registry", Now: clip("unavailable: " + err.Error())}}
	}
	notes = notes[:min(len(notes), maxLive)]
	for i := range notes {
		notes[i].What, notes[i].Then, notes[i].Now = clip(notes[i].What), clip(notes[i].Then), clip(notes[i].Now)
	}
	return notes
}

// clip makes text of others fit for a note.
func clip(s string) string { return excerpt.Within(excerpt.Printable(s), maxNoteText) }
