package tlog

import (
	"errors"
	"fmt"
	"io/fs"
)

// errNoGuardRecord: there is a log and nothing says which tree it must be.
var errNoGuardRecord = errors.New("the log has no guard record")

// Inspect compares the state of a log with its guard record, of a log that is not
// open, and returns the size of the tree; 0 for a log that has not been made. It
// changes nothing and reads no leaf: what is beyond the guard is judged by [Open].
func Inspect(dir, guardDir, origin string) (size uint64, err error) {
	st, err := readState(dir)
	noState := errors.Is(err, fs.ErrNotExist)
	if err != nil && !noState {
		return 0, err
	}
	g := guard{dir: guardDir}
	raw, err := g.read()
	switch {
	case errors.Is(err, fs.ErrNotExist) && noState:
		return 0, nil
	case errors.Is(err, fs.ErrNotExist):
		return st.size, errNoGuardRecord
	case err != nil:
		return st.size, err
	}
	name, t, err := parseRecord(raw)
	if err != nil {
		return st.size, fmt.Errorf("guard record %s: %w", g.path(), err)
	}
	switch {
	case name != origin:
		return st.size, fmt.Errorf("the guard record is of log %q, not %q", name, origin)
	case noState && t.size > 0, st.size < t.size:
		return st.size, fmt.Errorf("%w: the log has %d leaves, the guard has seen %d", ErrRolledBack, st.size, t.size)
	case st.size == t.size && !noState && !st.is(t):
		return st.size, fmt.Errorf("log and guard disagree: the log has %s, the guard %s", st, t)
	}
	return st.size, nil
}
