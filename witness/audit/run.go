package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// run is one audit.
type run struct {
	cfg    Config
	report *Report

	store  *store
	temp   string // directory to remove
	mirror *mirror
	fold   *fold
	memory *Checkpoint // of the state file
	now    *Checkpoint
	prover *prover

	paths  map[string]bool // of findings about files that were made
	began  uint64          // where the fold was when the run began
	copied bool            // every bundle up to now.Size is in the mirror
}

// open opens what is remembered.
func (r *run) open() error {
	cfg := &r.cfg
	if cfg.Trust == nil {
		return errors.New("no trust file (hint: get it from the log's operator, not from the log)")
	}
	dir := ""
	if cfg.State != "" {
		var err error
		if !cfg.foldOnly {
			if r.memory, err = readMemory(cfg.State, cfg.Trust.Log); err != nil {
				return err
			}
		}
		dir = cfg.State + ".fold"
	} else {
		var err error
		if r.temp, err = os.MkdirTemp(cfg.TempDir, "counterfoil-audit-"); err != nil {
			return fmt.Errorf("make a directory for the states of attempts: %w", err)
		}
		dir = r.temp
	}
	var err error
	if r.store, err = openStore(dir); errors.Is(err, errStoreDamaged) {
		err = r.anew(dir, err)
	}
	if err != nil {
		return err
	}
	if _, err := r.store.position(); err != nil {
		if err = r.anew(dir, err); err != nil {
			return err
		}
	}
	if err := r.store.wipe(nsRun); err != nil {
		return err
	}
	if cfg.Mirror != "" {
		if r.mirror, err = openMirror(cfg.Mirror, cfg.Trust.Log); err != nil {
			return err
		}
	}
	return nil
}

// anew starts a damaged fold over: it is derived, unlike the state file.
func (r *run) anew(dir string, why error) error {
	r.cfg.Logger.Warn("the fold cannot be read: every leaf is judged again", "dir", dir, "why", why.Error())
	r.report.Notes = append(r.report.Notes, "The fold of the audit state could not be read, so every leaf is judged again: "+clip(why.Error()))
	if r.store == nil {
		var err error
		if err = os.RemoveAll(filepath.Join(dir, "db")); err != nil {
			return fmt.Errorf("delete the damaged fold: %w", err)
		}
		r.store, err = openStore(dir)
		return err
	}
	return r.store.startOver()
}

func (r *run) close() error {
	var err error
	if r.store != nil {
		err = r.store.close()
	}
	if r.temp != "" {
		err = errors.Join(err, os.RemoveAll(r.temp))
	}
	return err
}

// audit looks at the checkpoint and at history, and then walks the leaves.
func (r *run) audit(ctx context.Context) error {
	if err := r.checkpoint(ctx); err != nil {
		return err
	}
	if r.now.Size == 0 {
		if len(r.seen()) == 0 {
			return errEmpty
		}
	}
	if err := r.history(ctx); err != nil {
		return err
	}
	from, err := r.start(ctx)
	if err != nil {
		return err
	}
	if err := r.walk(ctx, from); err != nil {
		return err
	}
	return r.end(ctx)
}

var errEmpty = errors.New("the log is empty: there is nothing to judge")

// checkpoint reads the newest checkpoint and its cosignatures.
func (r *run) checkpoint(ctx context.Context) error {
	r.now = r.cfg.given
	if r.now == nil {
		policy, err := r.cfg.policy()
		if err != nil {
			return err
		}
		c, f, err := fetchCheckpoint(ctx, r.cfg.Source, r.cfg.Trust.Log)
		if err != nil {
			return err
		}
		if f != nil {
			r.found(*f)
			return errDone
		}
		if c, err = r.preferWitnessed(ctx, c, policy); err != nil {
			return err
		}
		r.now = c
		cosigned, faults := cosignatures(c, policy, r.cfg.MaxAge, r.cfg.Now())
		r.report.Cosignatures = &cosigned
		for _, f := range faults {
			r.found(f)
		}
	}
	r.report.Size, r.report.Root = r.now.Size, fmt.Sprintf("%x", r.now.Root)
	if r.now.Size > math.MaxInt64 {
		return fmt.Errorf("%w: a tree of %d leaves", ErrNoCheckpoint, r.now.Size)
	}
	return nil
}

// preferWitnessed returns the newest checkpoint, or, if that does not meet the
// quorum, the newest one that does. One that is older than what was seen before is
// no answer: a log does not go back.
func (r *run) preferWitnessed(ctx context.Context, newest *Checkpoint, policy *trust.Policy) (*Checkpoint, error) {
	if r.cfg.Witnessed == nil || policy.Tally(newest.Note).Met() {
		return newest, nil
	}
	raw, err := r.cfg.Witnessed(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return newest, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the witnessed checkpoint: %w", err)
	}
	c, f, err := ParseCheckpoint(raw, r.cfg.Trust.Log)
	if err != nil || f != nil || c.Size > newest.Size || !policy.Tally(c.Note).Met() {
		return newest, nil // it claims more than it shows
	}
	if c.Size == newest.Size && c.Root != newest.Root {
		r.found(about(Forked, "checkpoint", fmt.Sprintf("root %x", c.Root), fmt.Sprintf("root %x", newest.Root),
			"two roots are signed for size %d: one in checkpoint.witnessed, one in checkpoint", c.Size))
		return nil, errDone
	}
	for _, s := range r.seen() {
		if s.Size > c.Size {
			return newest, nil
		}
	}
	if c.Size < newest.Size {
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("The newest checkpoint, of size %d, does not have its cosignatures yet; the log is audited up to size %d, the newest that has.", newest.Size, c.Size))
	}
	return c, nil
}

// seen returns all that is remembered of the log.
func (r *run) seen() (all []seen) {
	state := r.cfg.State
	if r.memory != nil {
		all = append(all, seen{r.memory, "the state file " + state, state})
	}
	if p, err := r.store.position(); err == nil && p != nil {
		if c, f, err := ParseCheckpoint([]byte(p.Under), r.cfg.Trust.Log); err == nil && f == nil {
			all = append(all, seen{c, "the fold of the state " + state, state})
		}
	}
	if r.mirror != nil && r.mirror.have != nil {
		all = append(all, seen{r.mirror.have, "the mirror " + r.mirror.dir, besideDir(r.mirror.dir)})
	}
	return all
}

// history compares the checkpoint with everything that was seen before. If one
// does not fit, the audit ends.
func (r *run) history(ctx context.Context) error {
	prover, err := newProver(ctx, r.cfg.Source, r.now.Size, r.now.Root, r.found)
	if err != nil && !errors.Is(err, errRoot) {
		return fmt.Errorf("the edge of the tree: %w", err)
	}
	r.prover = prover
	noRoot := err
	broken := false
	for _, old := range r.seen() {
		f, err := follows(ctx, prover, r.now, old, r.cfg.Trust.Log, r.cfg.Now())
		if f != nil {
			r.found(*f)
			broken = true
		}
		switch {
		case err == nil && f == nil:
			r.report.remembers(old.Size, fmt.Sprintf("%x", old.Root))
		case err != nil && !notProven(err):
			return err
		case err != nil:
			r.found(about(RootMismatch, "", fmt.Sprintf("the tree of size %d as a beginning", old.Size), "tiles that lead from neither tree to the other",
				"whether the tree of size %d, which was seen in %s, is a beginning of this one cannot be proven from the tiles", old.Size, old.where))
			broken = true
		}
	}
	if broken || noRoot != nil {
		return errDone
	}
	return nil
}

// start opens the fold and returns the first leaf to read.
func (r *run) start(ctx context.Context) (uint64, error) {
	p, err := r.store.position()
	if err != nil {
		return 0, err
	}
	tenant := r.cfg.Tenant
	if p != nil {
		switch {
		case p.Origin != r.now.Origin:
			return 0, fmt.Errorf("%w: the fold is of log %s (hint: use another state file for each log)", ErrState, p.Origin)
		case tenant != "" && p.Tenant != "" && p.Tenant != tenant:
			return 0, fmt.Errorf("%w: it judged tenant %s, and tenant %s is asked for (hint: use another state file)", ErrState, p.Tenant, tenant)
		}
	}
	var edge []tiles.Hash
	if p == nil {
		if r.cfg.From > r.now.Size {
			return 0, fmt.Errorf("the log has %d leaves, and the audit is to begin at leaf %d", r.now.Size, r.cfg.From)
		}
		if edge, err = r.prover.edgeAt(ctx, r.cfg.From); err != nil {
			if notProven(err) {
				return 0, fmt.Errorf("the tree before leaf %d cannot be proven: %w (hint: begin at leaf 0)", r.cfg.From, err)
			}
			return 0, err
		}
	}
	if r.fold, err = newFold(r.store, r.now.Origin, tenant, r.cfg.From, edge); err != nil {
		return 0, err
	}
	if r.cfg.batch > 0 {
		r.fold.most = r.cfg.batch
	}
	if r.fold.pos.Size > r.now.Size {
		return 0, fmt.Errorf("%w: it is at leaf %d of a tree of %d", errStoreDamaged, r.fold.pos.Size, r.now.Size)
	}
	r.began = r.fold.pos.Size
	r.report.Leaves.Before = r.began - r.fold.pos.From
	from := r.began
	if r.mirror != nil {
		from = 0                // the copy is vouched for, so all of it is read, in every run
		clear(r.prover.last[:]) // history has read some tiles already
		r.prover.proven = func(p tiles.Path, hashes []tiles.Hash) error { return r.mirror.keep(p, joinTile(hashes)) }
	}
	return from, nil
}

// end compares the root, finishes the mirror, compares the views, and then
// remembers the checkpoint.
func (r *run) end(ctx context.Context) error {
	covered := r.fold.pos.Size == r.now.Size
	if covered {
		if root := tiles.EdgeRoot(rangeHashes(r.fold.rng)); root != r.now.Root {
			r.found(about(RootMismatch, "", fmt.Sprintf("root %x", r.now.Root), fmt.Sprintf("root %x", root), "the leaves do not give the root that the log signed for size %d", r.now.Size))
			return errDone
		}
	}
	if r.mirror != nil {
		if r.copied {
			if err := r.mirror.finish(ctx, r.prover, r.now); err != nil {
				return err
			}
		}
		for _, f := range r.mirror.found {
			r.found(f)
		}
		r.report.Mirror = &MirrorReport{Dir: r.mirror.dir, Size: r.mirror.size(), Written: r.mirror.files}
	}
	if !covered {
		return errDone
	}
	if r.cfg.Views != nil {
		if err := r.compare(ctx); err != nil {
			return err
		}
	}
	if r.cfg.State == "" || r.cfg.foldOnly {
		return nil
	}
	if err := r.store.sync(); err != nil {
		return err
	}
	return writeMemory(r.cfg.State, r.now, rangeHashes(r.fold.rng), &r.fold.pos)
}

// found takes a finding that is no part of the fold.
func (r *run) found(f Finding) {
	if f.Kind == DamagedTile || f.Kind == MissingTile || f.Kind == DamagedBundle {
		if r.paths == nil {
			r.paths = map[string]bool{}
		}
		if r.paths[f.Path] {
			return
		}
		if len(r.paths) < 1<<16 {
			r.paths[f.Path] = true
		}
	}
	r.report.count(f.Kind)
	if err := r.keepFinding(f); err != nil {
		r.cfg.Logger.Error("a finding was counted and not kept", "kind", string(f.Kind), "why", err.Error())
	}
}

// keepFinding stores a finding on disk, so that a log of nothing but damage takes
// no memory.
func (r *run) keepFinding(f Finding) error {
	if r.store == nil {
		return nil
	}
	row, err := encodeFinding(&f)
	if err != nil {
		return err
	}
	r.store.runs++
	if r.fold != nil {
		r.fold.rows, r.fold.bytes = r.fold.rows+1, r.fold.bytes+len(row)+32
	} else if r.store.runs%1024 == 0 {
		if err := r.store.flush(); err != nil {
			return err
		}
	}
	return r.store.set(indexKey(nsRun, r.store.runs), row)
}

// finish brings what the fold counted into the report and hands out the findings.
func (r *run) finish() error {
	if r.store == nil || r.store.db == nil {
		return nil
	}
	if r.fold != nil {
		r.report.take(&r.fold.pos)
	} else if p, err := r.store.position(); err == nil && p != nil {
		r.report.take(p)
	}
	give := func(_, row []byte) error {
		f, err := decodeFinding(row)
		if err != nil {
			return err
		}
		if len(r.report.Findings.Listed) < MaxListed {
			r.report.Findings.Listed = append(r.report.Findings.Listed, f)
		}
		if r.cfg.Each != nil {
			return r.cfg.Each(f)
		}
		return nil
	}
	if err := r.store.each(nsRun, give); err != nil {
		return err
	}
	return r.store.each(nsFinding, give)
}
