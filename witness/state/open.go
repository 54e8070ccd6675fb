package state

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"counterfoil/internal/durable"
)

// Why a state is refused. Each of these means that the witness might have signed
// more than the files say, so that going on could give one size two roots.
var (
	// ErrInUse: another process holds the state.
	ErrInUse = errors.New("the witness state is in use")
	// ErrRolledBack: the journal ends before the guard's mark.
	ErrRolledBack = errors.New("the witness state was set back to an older copy")
	// ErrGuard: the guard is missing, damaged, older than a crash can explain,
	// or that of another history.
	ErrGuard = errors.New("the guard of the witness state does not fit")
	// ErrDamaged: the journal cannot be read up to the guard's mark.
	ErrDamaged = errors.New("the witness state is damaged")
	// ErrOtherKey: the state is another key's, or the key another state's.
	ErrOtherKey = errors.New("key and witness state do not belong together")
)

const (
	journalName = "journal"
	guardName   = "high-water"
)

// Open opens the state of a witness, and makes it if neither journal nor guard
// nor marker exists. It refuses with one of the errors above.
func Open(cfg Config) (*Store, error) {
	s, err := open(cfg, func(_ step, op func() error) error { return op() })
	if err != nil {
		return nil, err
	}
	go s.run()
	return s, nil
}

func open(cfg Config, do func(step, func() error) error) (_ *Store, err error) {
	if cfg.GuardDir == "" {
		cfg.GuardDir = filepath.Join(cfg.Dir, "guard")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	for _, dir := range []string{cfg.Dir, cfg.GuardDir} {
		if err := durable.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the state directory: %w", err)
		}
	}
	lock := flock.New(filepath.Join(cfg.Dir, "lock"), flock.SetPermissions(0o600))
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", cfg.Dir, err)
	}
	if !held {
		return nil, fmt.Errorf("%w: %s is locked by another process", ErrInUse, cfg.Dir)
	}
	defer func() {
		if err != nil {
			_ = lock.Unlock()
		}
	}()
	s := &Store{cfg: cfg, lock: lock, logs: map[string]*known{}, hash: map[string]*known{}, ops: make(chan *op, maxBatch),
		stopped: make(chan struct{}), failed: make(chan struct{}),
		journal: &journal{dir: cfg.Dir, path: filepath.Join(cfg.Dir, journalName), witness: cfg.Witness.String(), compactAt: compactBytes, do: do}}
	if err := s.create(); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	if s.evidence, err = openEvidence(cfg.Dir); err != nil {
		_ = errors.Join(s.journal.file.Close(), s.journal.guard.Close())
		return nil, err
	}
	return s, nil
}

func (s *Store) guardPath() string { return filepath.Join(s.cfg.GuardDir, guardName) }

// create makes a new state, or refuses if only a part of one is there.
func (s *Store) create() error {
	hasJournal, err := exists(s.journal.path)
	if err != nil {
		return err
	}
	hasGuard, err := exists(s.guardPath())
	if err != nil {
		return err
	}
	switch {
	case hasJournal:
		return nil // load looks at the guard
	case hasGuard:
		return fmt.Errorf("%w: there is %s, but no %s (hint: restore the newest copy of the state directory; if it is lost, this key has ended: make a new one)",
			ErrRolledBack, s.guardPath(), s.journal.path)
	}
	for _, marker := range s.cfg.Markers {
		if had, err := readMarker(marker); err != nil {
			return err
		} else if had != "" {
			return fmt.Errorf("%w: %s says that this key signed with state %s, and %s holds none (hint: give the right --state; if it is lost, this key has ended: make a new one)",
				ErrOtherKey, marker, had, s.cfg.Dir)
		}
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	s.journal.id = hex.EncodeToString(id[:])
	b, err := s.journal.snapshot(nil)
	if err != nil {
		return err
	}
	if err := durable.Create(s.journal.path, b, 0o600); err != nil {
		return fmt.Errorf("make the state: %w", err)
	}
	s.cfg.Logger.Info("a new witness state", "dir", s.cfg.Dir, "state", s.journal.id)
	return nil
}

// nameAndID is a verifier key without its public key, which may be long.
func nameAndID(vkey string) string {
	parts := strings.SplitN(vkey, "+", 3)
	return strings.Join(parts[:min(len(parts), 2)], "+")
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// load reads the journal, compares it with the guard, cuts an end that was
// never finished, and brings the guard up to the journal.
func (s *Store) load() (err error) {
	j := s.journal
	if j.file, err = os.OpenFile(j.path, os.O_RDWR, 0); err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	defer func() {
		if err != nil {
			_ = j.file.Close()
			if j.guard != nil {
				_ = j.guard.Close()
			}
		}
	}()
	r := reader{r: bufio.NewReaderSize(j.file, 1<<16)}
	base, err := s.loadSnapshot(&r)
	if errors.Is(err, ErrOtherKey) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %s: line %d: %w", ErrDamaged, j.path, r.line, err)
	}
	newest, err := s.openGuard(base)
	if err != nil {
		return err
	}
	if newest.sequence < base.sequence {
		return fmt.Errorf("%w: %s says update %d, the journal begins at %d (hint: restore the newest copy of the guard)",
			ErrGuard, s.guardPath(), newest.sequence, base.sequence)
	}
	met := newest.sequence == base.sequence && newest.chain == base.chain
	j.sequence, j.chain, j.size = base.sequence, base.chain, r.offset
	var end error
	for {
		var e entry
		h, text, err := r.next()
		if err == nil {
			if h != chain(j.chain, text) {
				err = errors.New("the hash is not that of the line")
			} else if err = decode(text, &e); err == nil && e.Sequence != j.sequence+1 {
				err = fmt.Errorf("update %d follows update %d", e.Sequence, j.sequence)
			}
		}
		if err == nil {
			err = s.replay(e)
		}
		if err != nil {
			end = err
			break
		}
		j.sequence, j.chain, j.size = e.Sequence, h, r.offset
		met = met || newest.sequence == e.Sequence && newest.chain == h
	}
	clean := errors.Is(end, io.EOF)
	switch {
	case j.sequence < newest.sequence && clean:
		return fmt.Errorf("%w: %s ends with update %d, %s knows update %d (hint: restore the newest copy of the state directory; if it is lost, this key has ended: make a new one)",
			ErrRolledBack, j.path, j.sequence, s.guardPath(), newest.sequence)
	case j.sequence < newest.sequence:
		return fmt.Errorf("%w: %s: line %d: %w; it can be read up to update %d, the guard knows update %d (hint: restore the newest copy of the state directory)",
			ErrDamaged, j.path, r.line, end, j.sequence, newest.sequence)
	case !met:
		return fmt.Errorf("%w: journal and guard have different histories at update %d (hint: restore the copies that belong together)", ErrGuard, newest.sequence)
	case j.sequence-newest.sequence > maxBatch:
		return fmt.Errorf("%w: it knows update %d, the journal has %d; a crash leaves at most %d between (hint: restore the newest copy of the guard)",
			ErrGuard, newest.sequence, j.sequence, maxBatch)
	}
	if !clean {
		// An update that was cut off: it is behind the guard's mark, so nobody
		// was told of it.
		s.cfg.Logger.Warn("cut an unfinished end off the journal", "line", r.line, "why", end.Error(), "size", j.size)
		if err := j.file.Truncate(j.size); err != nil {
			return fmt.Errorf("cut the unfinished end off %s: %w", j.path, err)
		}
	}
	if err := j.file.Sync(); err != nil { // what was read may not have been flushed
		return fmt.Errorf("flush %s: %w", j.path, err)
	}
	if err := j.mark(); err != nil {
		return err
	}
	return s.checkMarkers()
}

// loadSnapshot reads the header and the state that the journal begins with.
func (s *Store) loadSnapshot(r *reader) (base mark, err error) {
	h, text, err := r.next()
	if err != nil {
		return base, err
	}
	if h != sha256.Sum256(text) {
		return base, errors.New("the hash is not that of the line")
	}
	var head header
	if err := decode(text, &head); err != nil {
		return base, err
	}
	if head.Version != journalVersion {
		return base, fmt.Errorf("version %d, this program knows %d", head.Version, journalVersion)
	}
	if len(head.StateID) != 32 {
		return base, errors.New("state id is not 32 hex digits")
	}
	if head.Witness != s.journal.witness {
		return base, fmt.Errorf("%w: the state is that of %s, the key is %s (hint: give the right --key-file; of two, first the one that the state was made with)",
			ErrOtherKey, nameAndID(head.Witness), nameAndID(s.journal.witness))
	}
	s.journal.id = head.StateID
	base = mark{id: head.StateID, sequence: head.Sequence}
	if base.chain, err = parseHash(head.Chain); err != nil {
		return base, fmt.Errorf("chain: %w", err)
	}
	for range head.Snapshot {
		h, text, err := r.next()
		if err != nil {
			return base, err
		}
		var e entry
		if h != sha256.Sum256(text) {
			return base, errors.New("the hash is not that of the line")
		}
		if err := decode(text, &e); err != nil {
			return base, err
		}
		if err := s.replay(e); err != nil {
			return base, err
		}
	}
	return base, nil
}

// replay applies a line to the state in memory.
func (s *Store) replay(e entry) error {
	if e.Log == nil && e.Checkpoint == nil {
		return errors.New("neither a log nor a checkpoint")
	}
	if e.Log != nil {
		l, err := e.Log.log()
		if err != nil {
			return err
		}
		s.addLocked(l)
	}
	if e.Checkpoint == nil {
		return nil
	}
	l, err := e.Checkpoint.latest()
	if err != nil {
		return err
	}
	k := s.logs[l.Checkpoint.Origin]
	if k == nil {
		return fmt.Errorf("a checkpoint of %q, which is not known", l.Checkpoint.Origin)
	}
	var before Latest
	if b := k.latest.Load(); b != nil {
		before = *b
	}
	if err := follows(k.log.Origin, before, l); err != nil {
		return err
	}
	k.latest.Store(&l)
	return nil
}

// openGuard opens the high-water file, and makes it for a state that has just
// been made.
func (s *Store) openGuard(base mark) (mark, error) {
	path := s.guardPath()
	has, err := exists(path)
	if err != nil {
		return mark{}, err
	}
	if !has {
		if base.sequence > 0 || len(s.logs) > 0 || s.grown() {
			return mark{}, fmt.Errorf("%w: %s is missing (hint: restore it; never make one)", ErrGuard, path)
		}
		if err := durable.Create(path, newGuard(base), 0o600); err != nil {
			return mark{}, fmt.Errorf("make the guard: %w", err)
		}
	}
	if s.journal.guard, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return mark{}, fmt.Errorf("open the guard: %w", err)
	}
	m, slot, err := readGuard(s.journal.guard)
	if err != nil {
		return m, fmt.Errorf("%w: read %s: %w", ErrGuard, path, err)
	}
	if m.id != s.journal.id {
		return m, fmt.Errorf("%w: %s is of state %s, the journal of %s", ErrGuard, path, m.id, s.journal.id)
	}
	s.journal.slot = slot
	return m, nil
}

// grown reports whether the journal holds more than the header.
func (s *Store) grown() bool {
	b, err := s.journal.snapshot(nil)
	fi, serr := s.journal.file.Stat()
	return err != nil || serr != nil || fi.Size() != int64(len(b))
}

func readMarker(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the marker of the key: %w", err)
	}
	return strings.TrimSuffix(string(b[:min(len(b), 64)]), "\n"), nil
}

// checkMarkers binds the keys to this state. No marker is written unless all
// agree.
func (s *Store) checkMarkers() error {
	var missing []string
	for _, marker := range s.cfg.Markers {
		had, err := readMarker(marker)
		if err != nil {
			return err
		}
		if had == "" {
			missing = append(missing, marker)
		} else if had != s.journal.id {
			return fmt.Errorf("%w: %s says that this key signed with state %s, this is %s (hint: give the right --state)",
				ErrOtherKey, marker, had, s.journal.id)
		}
	}
	for _, marker := range missing {
		err := durable.Create(marker, []byte(s.journal.id+"\n"), 0o600)
		if errors.Is(err, fs.ErrPermission) || isReadOnly(err) {
			s.cfg.Logger.Warn("no marker beside the key: a lost state will not be noticed", "why", err.Error())
			continue
		}
		if err != nil {
			return fmt.Errorf("write the marker of the key: %w", err)
		}
	}
	return nil
}

// reader reads lines.
type reader struct {
	r      *bufio.Reader
	offset int64 // behind the last whole line
	line   int   // that was read last
}

// next returns hash and text of the next line; io.EOF at the end, and an error
// for a last line that is not whole.
func (r *reader) next() (hash, []byte, error) {
	r.line++
	var line []byte
	for {
		part, err := r.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return hash{}, nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
		switch {
		case err == nil:
			h, text, serr := splitLine(bytes.TrimSuffix(line, []byte("\n")))
			if serr != nil {
				return h, nil, serr
			}
			r.offset += int64(len(line))
			return h, text, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) == 0:
			return hash{}, nil, io.EOF
		case errors.Is(err, io.EOF):
			return hash{}, nil, errors.New("the line is cut off")
		default:
			return hash{}, nil, err
		}
	}
}
