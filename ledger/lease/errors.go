package lease

import "errors"

// Errors that pass: the caller tries again, as the holder or when it has become it.
var (
	// ErrNotHeld: another node holds the lease, or nobody. Nothing was written.
	ErrNotHeld = errors.New("this node does not hold the lease")
	// ErrOlder: the register has a larger tree, which continues the one offered.
	// The caller goes on with its newest tree.
	ErrOlder = errors.New("the register has a larger tree already")
	// ErrUnavailable: the register gives no answer. What was asked for may be
	// written, now or a little later; the next call finds out.
	ErrUnavailable = errors.New("the register is not available")
)

// Errors that show a fault of somebody.
var (
	// ErrRecord: what the register holds is no record of this log. Nobody writes
	// over it.
	ErrRecord = errors.New("the register's record is not usable")
	// ErrNote: a note is not a checkpoint that this log's key signed, or it is not
	// of the tree that was reserved. Nothing was written.
	ErrNote = errors.New("not a checkpoint for the register")
)

// Final errors: one of the trees is wrong, and no new try will change that. They
// and what wraps them have a method Final that returns true (see [Final]).
var (
	// ErrRolledBack: the node's tree is smaller than the register's guard although
	// the node took the lease with it: its log lost leaves.
	ErrRolledBack error = finalError("the node's log is behind the register's guard")
	// ErrDisagrees: the node's log has another root at a size of the register.
	ErrDisagrees error = finalError("the node's log disagrees with the register")
)

type finalError string

func (e finalError) Error() string { return string(e) }
func (finalError) Final() bool     { return true }

// Final reports whether err, or what it wraps, has a method Final() bool that
// returns true. So packages that do not know each other tell each other that a
// log is not to be touched any more.
func Final(err error) bool {
	var f interface{ Final() bool }
	return errors.As(err, &f) && f.Final()
}
