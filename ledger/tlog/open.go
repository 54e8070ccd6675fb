package tlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"

	"github.com/gofrs/flock"
)

// Open opens the log, or makes it if Config.Create or Config.Join is set and there
// is none.
//
// Before anything is appended or signed it checks that the stored tree is the
// one that the guard knows, or continues it with acceptable leaves: see the
// errors of this package. The guard is then advanced to it. An Open that fails
// publishes nothing and changes no tile.
//
// ctx bounds the checks, not the life of the log.
func Open(ctx context.Context, cfg Config) (_ *Log, err error) {
	verifier, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	l := &Log{
		verifier:  verifier,
		appending: make(chan struct{}, 1),
		signing:   make(chan struct{}, 1),
		changed:   make(chan struct{}),
	}
	if cfg.Dir, err = resolve(cfg.Dir, cfg.Create || cfg.Join); err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	l.cfg = cfg
	l.guard = &guard{dir: cfg.GuardDir, origin: cfg.Origin, files: cfg.files}
	l.tiles = tiles.NewReader(tiles.Dir(cfg.Dir), tiles.Options{TileBytes: 1 << 20, BundleBytes: 1})
	if err := l.takeLock(); err != nil {
		return nil, fmt.Errorf("open the log %s: %w", cfg.Dir, err)
	}
	defer func() {
		if err != nil {
			if l.engine != nil {
				l.engine.close()
			}
			err = errors.Join(fmt.Errorf("open the log %s: %w", cfg.Dir, err), l.lock.Unlock())
		}
	}()
	fresh, err := l.examine()
	if err != nil {
		return nil, err
	}
	if fresh { // Tessera makes what the checks then read
		if l.engine, err = cfg.engine(&l.cfg); err != nil {
			return nil, err
		}
	}
	if l.tree, l.published, err = l.check(ctx); err != nil {
		return nil, err
	}
	l.target = l.tree.size
	if err := l.storeGuard(l.tree); err != nil {
		return nil, err
	}
	if !fresh {
		if l.engine, err = cfg.engine(&l.cfg); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// resolve returns the one name of the directory, so that two names of it share
// a lock. Its parent is made if create is set.
func resolve(dir string, create bool) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if create {
		if err := durable.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return "", err
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		var parent string
		if parent, err = filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
			real = filepath.Join(parent, filepath.Base(dir))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %w", ErrNoLog, err)
	}
	return real, err
}

// takeLock locks the log for this Log alone: flock(2) excludes other processes
// and other open files of this one alike.
func (l *Log) takeLock() error {
	lock := flock.New(l.cfg.Dir+".lock", flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	if !ok {
		return fmt.Errorf("%w: %s is locked (hint: another counterfoil runs on this directory)", ErrLocked, lock.Path())
	}
	l.lock = lock
	return nil
}

// examine finds out what is there, and decides whether Tessera may make a log.
// It loads the guard's record; a first start stores it before anything else, so
// that there is never a log without one.
func (l *Log) examine() (fresh bool, err error) {
	var found []string
	for _, name := range []string{"checkpoint", "tile", filepath.Dir(stateFile)} {
		if _, err := os.Lstat(filepath.Join(l.cfg.Dir, name)); err == nil {
			found = append(found, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	_, err = readState(l.cfg.Dir)
	hasState := !errors.Is(err, fs.ErrNotExist)
	if hasState && err != nil {
		return false, fmt.Errorf("%w: %w", ErrTiles, err)
	}
	switch err := l.guard.load(); {
	case errors.Is(err, fs.ErrNotExist) && len(found) > 0:
		return false, fmt.Errorf("%w: there is a %s but no %s (hint: restore the record from a backup that is not older than the checkpoint; a log without one is never adopted)",
			ErrNoGuard, found[0], l.guard.path())
	case errors.Is(err, fs.ErrNotExist) && !l.cfg.Create && !l.cfg.Join:
		return false, fmt.Errorf("%w: nothing in %s and no guard record in %s", ErrNoLog, l.cfg.Dir, l.cfg.GuardDir)
	case errors.Is(err, fs.ErrNotExist):
		return true, l.guard.create()
	case err != nil:
		return false, err
	}
	if hasState {
		return false, nil
	}
	if l.guard.tree.size > 0 {
		return false, fmt.Errorf("%w: there is no %s, the guard has %s", ErrRolledBack, stateFile, l.guard.tree)
	}
	if len(found) > 0 && found[0] != filepath.Dir(stateFile) {
		return false, fmt.Errorf("%w: there is a %s but no %s", ErrRolledBack, found[0], stateFile)
	}
	return true, nil // a first start that was interrupted
}

// check compares the stored tree with the guard's and returns it as computed
// from the guard's tree and the leaves beyond. It changes nothing.
func (l *Log) check(ctx context.Context) (tree, Checkpoint, error) {
	none := func(err error) (tree, Checkpoint, error) { return tree{}, Checkpoint{}, err }
	known := l.guard.tree
	st, err := readState(l.cfg.Dir)
	if err != nil {
		return none(fmt.Errorf("%w: %w", ErrTiles, err))
	}
	if st.size < known.size {
		return none(fmt.Errorf("%w: %s has %s, the guard %s", ErrRolledBack, stateFile, st, known))
	}
	// The state may be from a batch whose last flush a kill prevented.
	if err := syncStateDir(l.cfg.Dir); err != nil {
		return none(err)
	}
	root, err := l.tiles.Root(ctx, st.size)
	if err != nil {
		return none(tilesError(err))
	}
	if root != st.root {
		return none(fmt.Errorf("%w: %s has %s, the tiles give %x", ErrDisagrees, stateFile, st, root))
	}
	edge, err := l.tiles.RightEdge(ctx, known.size)
	if err != nil {
		return none(tilesError(err))
	}
	if root := tiles.EdgeRoot(edge); root != known.root {
		return none(fmt.Errorf("%w: the guard has %s, the tiles give %x", ErrDisagrees, known, root))
	}
	cp, err := l.checkCheckpoint(ctx, known)
	if err != nil {
		return none(err)
	}
	t, err := l.adopt(ctx, known, st.size)
	if err != nil {
		return none(err)
	}
	if !st.is(t) {
		return none(fmt.Errorf("%w: %s has %s, the leaves give %s", ErrDisagrees, stateFile, st, t))
	}
	return t, cp, nil
}

// checkCheckpoint reads the published checkpoint, if there is one, and compares
// it with the guard and with the tree.
func (l *Log) checkCheckpoint(ctx context.Context, known tree) (Checkpoint, error) {
	cp, err := l.readCheckpoint()
	if errors.Is(err, fs.ErrNotExist) {
		return Checkpoint{}, nil // a crash before the first one; Publish writes it
	}
	if err != nil {
		return Checkpoint{}, err
	}
	if cp.Size > known.size {
		return Checkpoint{}, fmt.Errorf("%w: it has size %d, the guard %d (hint: the guard record is an old copy)", ErrCheckpointAhead, cp.Size, known.size)
	}
	root, err := l.tiles.Root(ctx, cp.Size)
	if err != nil {
		return Checkpoint{}, tilesError(err)
	}
	if root != cp.Root {
		return Checkpoint{}, fmt.Errorf("%w: the checkpoint has size %d root %x, the tiles give %x", ErrDisagrees, cp.Size, cp.Root, root)
	}
	return cp, nil
}

// adopt continues the guard's tree with the leaves beyond it, each one judged
// by Config.CheckLeaf. The last, partial bundle is read in any case: Tessera
// will copy it into the next one without looking at it.
func (l *Log) adopt(ctx context.Context, known tree, size uint64) (tree, error) {
	g, err := known.grow()
	if err != nil {
		return tree{}, err
	}
	from := min(known.size, size/tiles.Width*tiles.Width)
	for leaf, err := range l.tiles.Leaves(ctx, from, size, size) {
		if err != nil {
			return tree{}, tilesError(err)
		}
		if leaf.Index < known.size {
			continue
		}
		if err := l.cfg.CheckLeaf(leaf.Index, leaf.Data); err != nil {
			return tree{}, fmt.Errorf("%w: leaf %d: %w", ErrLeafRefused, leaf.Index, err)
		}
		if err := g.append(leaf.Data); err != nil {
			return tree{}, err
		}
	}
	return g.tree()
}

// within reports whether path is dir or below it, by name.
func within(path, dir string) bool {
	p, err1 := filepath.Abs(path)
	d, err2 := filepath.Abs(dir)
	if err1 != nil || err2 != nil {
		return false
	}
	rel, err := filepath.Rel(d, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
