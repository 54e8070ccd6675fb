package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"counterfoil/ledger/trust"
)

// Kind says what a witness did.
type Kind string

// The kinds of an incident.
const (
	// KindAhead: it states a larger size than the log has published.
	KindAhead Kind = "ahead"
	// KindUnproven: it says that our checkpoint does not follow from its own.
	KindUnproven Kind = "root_mismatch"
	// KindForgot: it states a smaller size than it has cosigned.
	KindForgot Kind = "witness_set_back"
)

// Verdict says what came of comparing the witness's own checkpoint with the log.
type Verdict string

// The verdicts.
const (
	// VerdictNone: there was nothing to compare.
	VerdictNone Verdict = "none"
	// VerdictUnproven: it shows no checkpoint that the log's key signed and the
	// log's tree does not hold. It is alone with what it says.
	VerdictUnproven Verdict = "unproven"
	// VerdictSetBack: the log's key signed a larger tree than the log has, so the
	// log was set back to an older copy. Final.
	VerdictSetBack Verdict = "log_set_back"
	// VerdictForked: the log's key signed a tree that the log's tree does not
	// hold. Final.
	VerdictForked Verdict = "log_forked"
)

// IncidentSchema is the schemaVersion of an Incident.
const IncidentSchema = "counterfoil.witness-incident.v1"

// Incident is kept for ever, as one JSON document a file.
type Incident struct {
	SchemaVersion string  `json:"schemaVersion"`
	Kind          Kind    `json:"kind"`
	Verdict       Verdict `json:"verdict"`
	Origin        string  `json:"origin"`
	Witness       string  `json:"witness"` // its name in the policy
	VKey          string  `json:"vkey"`
	URL           string  `json:"url"`
	ObservedAt    string  `json:"observedAt"` // RFC 3339, UTC, milliseconds
	Status        int     `json:"status"`     // of the answer to add-checkpoint
	Body          string  `json:"body"`       // its first KiB, as UTF-8
	OurSize       uint64  `json:"ourSize"`    // that we had published
	TheirSize     uint64  `json:"theirSize"`  // that the witness stated, or that its checkpoint has; 0 if unknown
	Ours          string  `json:"ours"`       // our newest checkpoint, a signed note; empty without one
	Theirs        string  `json:"theirs"`     // the witness's checkpoint, if it showed one that the log's key signed
	Detail        string  `json:"detail"`
}

// id is the same for what says the same, whenever it was seen.
func (i *Incident) id() string {
	h := sha256.New()
	for _, s := range []string{string(i.Kind), string(i.Verdict), i.VKey, strconv.FormatUint(i.TheirSize, 10), i.Theirs} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// final reports whether nothing may be signed after it.
func (i *Incident) final() bool {
	return i.Verdict != VerdictNone && i.Verdict != VerdictUnproven
}

func (i *Incident) String() string {
	return fmt.Sprintf("witness %s: %s, %s: our size %d, its size %d: %s", i.Witness, i.Kind, i.Verdict, i.OurSize, i.TheirSize, i.Detail)
}

// StoppedError says that a witness showed that the log was set back or forked.
type StoppedError struct {
	Incident *Incident
	File     string // that an operator removes to let the log sign again
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("this log signs nothing any more: %s; our checkpoint: %q; the witness's: %q (hint: see docs/runbooks/unwitnessed.md; %s stands until an operator removes it)",
		e.Incident, e.Incident.Ours, e.Incident.Theirs, e.File)
}

// shown is a checkpoint that a witness serves and that the log's key signed.
type shown struct {
	cp   trust.Checkpoint
	note string
}

var errNoCheckpoint = errors.New("the witness has no checkpoint of this log")

// theirs fetches the witness's own checkpoint of this log.
func (g *Gatherer) theirs(ctx context.Context, w *witness) (*shown, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.RequestLimit)
	defer cancel()
	a, fail := g.http.latest(ctx, w.policy.URL, g.cfg.Log.Name)
	switch {
	case fail != nil:
		return nil, fail
	case a.status == http.StatusNotFound:
		return nil, errNoCheckpoint
	case a.status != http.StatusOK:
		return nil, fmt.Errorf("its checkpoint: status %d: %q", a.status, a.clip())
	}
	n, cp, err := g.signed(a.body)
	if err != nil {
		return nil, fmt.Errorf("its checkpoint: %w", err)
	}
	return &shown{cp, string(n.Append(nil))}, nil
}

// signed opens a checkpoint that the log's key must have signed.
func (g *Gatherer) signed(note []byte) (*trust.Note, trust.Checkpoint, error) {
	n, err := trust.ParseNote(note)
	if err != nil {
		return nil, trust.Checkpoint{}, err
	}
	cp, err := trust.ParseCheckpoint(n.Text)
	if err != nil {
		return nil, cp, err
	}
	v, err := n.VerifyBy(g.cfg.Log)
	switch {
	case err != nil:
		return nil, cp, err
	case v.Lines == 0:
		return nil, cp, errors.New("no signature of the log's key")
	case cp.Origin != g.cfg.Log.Name:
		return nil, cp, fmt.Errorf("its origin is %q, expected %q", cp.Origin, g.cfg.Log.Name)
	}
	return n, cp, nil
}

// ahead deals with a 409 that states a larger size than that of the checkpoint
// that was offered.
func (g *Gatherer) ahead(ctx context.Context, w *witness, a answer, n uint64) *failure {
	g.mu.Lock()
	if newest := g.board.newest(); n <= newest.cp.Size {
		// It signed a newer one whose cosignature was lost on the way.
		g.board.w[w.i].old = n
		g.mu.Unlock()
		return &failure{class: classAgain, err: errors.New("another checkpoint is to be chosen")}
	}
	g.mu.Unlock()
	i := &Incident{Kind: KindAhead, Status: a.status, Body: a.clip(), TheirSize: n}
	return g.investigate(ctx, w, i, classAhead)
}

// unproven deals with a 422, and with a 409 that states no size.
func (g *Gatherer) unproven(ctx context.Context, w *witness, s *sheet, a answer) *failure {
	i := &Incident{Kind: KindUnproven, Status: a.status, Body: a.clip(), Detail: fmt.Sprintf("offered size %d", s.cp.Size)}
	return g.investigate(ctx, w, i, classUnproven)
}

// investigate asks a witness to show the checkpoint that it means.
func (g *Gatherer) investigate(ctx context.Context, w *witness, i *Incident, class string) *failure {
	theirs, err := g.theirs(ctx, w)
	if ctx.Err() != nil {
		return failed(class, "%w", ctx.Err())
	}
	if err != nil {
		i.Verdict, i.Detail = VerdictUnproven, joined(i.Detail, "it shows no checkpoint of this log: "+err.Error())
		g.keep(w, i)
		return failed(class, "%s", i)
	}
	return g.judge(ctx, w, i, theirs)
}

// judge compares a checkpoint that the log's key signed with the log, and stops
// the log if that does not hold it.
func (g *Gatherer) judge(ctx context.Context, w *witness, i *Incident, theirs *shown) *failure {
	class := classUnproven
	if i.Kind == KindAhead {
		class = classAhead
	}
	fit, err := g.cfg.Tree.Judge(ctx, theirs.cp.Size, theirs.cp.Root)
	if err != nil {
		g.mu.Lock()
		g.held[w.i] = theirs // signed by our key: not to be passed over
		g.mu.Unlock()
		return failed(classLocal, "compare the witness's checkpoint of size %d with the log: %w", theirs.cp.Size, err)
	}
	i.Theirs = theirs.note
	g.mu.Lock()
	published := uint64(0)
	if s := g.board.newest(); s != nil {
		published = s.cp.Size
	}
	switch fit {
	case Holds:
		delete(g.held, w.i)
	case Behind:
		g.held[w.i] = theirs
	}
	g.mu.Unlock()
	switch {
	case fit == Behind:
		return failed(classBehind, "it has our checkpoint of size %d; the log is not there yet, and signs nothing before it has grown to it", theirs.cp.Size)
	case fit == Holds && i.Kind == KindAhead && theirs.cp.Size > published:
		return failed(classBehind, "it has our checkpoint of size %d, which the log holds and has not published again yet", theirs.cp.Size)
	case fit == Holds:
		i.Verdict, i.Detail = VerdictUnproven, joined(i.Detail, fmt.Sprintf("the checkpoint that it shows has size %d and is in the log", theirs.cp.Size))
	case fit == SetBack:
		i.TheirSize = theirs.cp.Size
		i.Verdict, i.Detail = VerdictSetBack, joined(i.Detail, fmt.Sprintf("the log's key signed a tree of size %d, which this copy of the log does not have", theirs.cp.Size))
	default:
		i.TheirSize = theirs.cp.Size
		i.Verdict, i.Detail = VerdictForked, joined(i.Detail, fmt.Sprintf("the log's key signed another tree of size %d than that of this log", theirs.cp.Size))
	}
	g.keep(w, i)
	return failed(class, "%s", i)
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// keep stores an incident and tells of it. A final one stops the log at once;
// that it could not be stored changes nothing about that.
func (g *Gatherer) keep(w *witness, i *Incident) {
	g.mu.Lock()
	i.SchemaVersion, i.Origin, i.Witness, i.VKey, i.URL = IncidentSchema, g.cfg.Log.Name, w.policy.Name, w.policy.Key.String(), w.policy.URL
	i.ObservedAt = g.cfg.Now().UTC().Format(timeLayout)
	if s := g.board.newest(); s != nil {
		i.OurSize, i.Ours = s.cp.Size, string(s.bytes())
	}
	if i.Kind != KindForgot {
		w.open = i
	}
	first := i.final() && g.stopped == nil
	if first {
		g.stopped = &StoppedError{i, g.store.stoppedFile()}
		g.broadcastLocked()
		g.halt()
	}
	g.mu.Unlock()
	isNew, err := g.store.incident(i)
	g.mu.Lock()
	if isNew {
		w.incidents++
	}
	g.mu.Unlock()
	if first {
		err = errors.Join(err, g.store.stop(i))
	}
	if isNew || first || err != nil {
		g.cfg.Logger.Error("incident with a witness", "witness", i.Witness, "kind", string(i.Kind), "verdict", string(i.Verdict), "status", i.Status, "body", i.Body,
			"ourSize", i.OurSize, "theirSize", i.TheirSize, "detail", i.Detail, "ours", i.Ours, "theirs", i.Theirs, "notKept", err)
	}
}
