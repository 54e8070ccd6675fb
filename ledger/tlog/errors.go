package tlog

import (
	"errors"
	"fmt"
)

// Errors of Open. Nothing was signed, published or appended.
var (
	// ErrLocked: another Open, in this or another process, holds the log.
	ErrLocked = errors.New("the log is in use")
	// ErrNoLog: there is neither log nor guard, and Config.Create is not set.
	ErrNoLog = errors.New("there is no log")
	// ErrNoGuard: there is a log without its guard record. It is never adopted.
	ErrNoGuard = errors.New("the log has no guard record")
	// ErrGuard: the guard record is unreadable, or of another log.
	ErrGuard = errors.New("the guard record is not usable")
	// ErrTiles: a tile or bundle that the check needs is missing or damaged.
	ErrTiles = errors.New("the stored tree is damaged")
	// ErrCheckpoint: the published checkpoint is not one that this log signed.
	ErrCheckpoint = errors.New("the published checkpoint is not this log's")
	// ErrCheckpointAhead: the published checkpoint is larger than the guard's
	// tree, so the guard is an old copy or somebody else signed.
	ErrCheckpointAhead = errors.New("the published checkpoint is ahead of the guard")
	// ErrLeafRefused: Config.CheckLeaf refused a leaf beyond the guard's tree.
	ErrLeafRefused = errors.New("a leaf beyond the guard is not acceptable")
)

// Errors that say that somebody or something else changed the log. Open,
// Append, Publish and Adopt return them; a log that has met one neither appends nor
// publishes any more (see Log.Err). They have a method Final that returns true.
var (
	// ErrRolledBack: the stored tree is smaller than one that was computed here.
	ErrRolledBack error = finalError("the log was rolled back")
	// ErrDisagrees: the stored tree is not the one computed from the leaves, or the
	// log's key signed another one.
	ErrDisagrees error = finalError("the log disagrees with its leaves")
	// ErrGuardChanged: the guard record is not the one stored last.
	ErrGuardChanged error = finalError("somebody else writes the guard record")
)

// Errors of Append, Publish, Adopt and Close.
var (
	// ErrNotKept: the batch failed and nothing of it is in the tree. The caller
	// appends the same leaves again.
	ErrNotKept = errors.New("the batch was not kept")
	// ErrUnanswered: whether the batch is in the tree is not known yet. The
	// caller reads Size before it appends again; the next Append settles it.
	ErrUnanswered = errors.New("the outcome of the batch is not known")
	// ErrMoved: an unanswered batch turned out to be durable, so the tree is
	// larger than the caller of Append may have believed. Nothing was appended.
	// The caller reads Size and appends what is missing.
	ErrMoved = errors.New("the tree has grown since")
	// ErrBehind: a checkpoint is of a larger tree than the durable one here.
	ErrBehind = errors.New("the log has not reached the checkpoint yet")
	// ErrClosed: the log is closed.
	ErrClosed = errors.New("the log is closed")
)

// LeafTooLargeError reports a leaf that no entry bundle can hold. Nothing of
// the call was appended.
type LeafTooLargeError struct {
	Position int // in the slice given to Append
	Size     int // bytes
}

func (e *LeafTooLargeError) Error() string {
	return fmt.Sprintf("leaf %d of the batch has %d bytes, the limit is %d", e.Position, e.Size, MaxLeaf)
}

// final reports whether err says that the log must not be touched any more.
func final(err error) bool { return err != nil && isFinal(err) }
