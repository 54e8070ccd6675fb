package consumer

import (
	"errors"
	"fmt"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// ErrEnd is what Next returns when a follower with Config.Stop is at its end.
var ErrEnd = errors.New("end of the log")

// The errors below come from Next. Those that say that something does not verify
// (CheckpointError, HistoryError, LeafError, TreeError, DisagreeError) and
// CursorError are final: nothing comes after them, and every further call returns
// the same. UnavailableError and QuorumError are not; the next call tries again.

// CheckpointError: a note that was served as checkpoint is none of this log, is
// not signed by the log's key, or has a line of a trusted key that does not
// verify.
type CheckpointError struct {
	Note []byte
	Err  error
}

func (e *CheckpointError) Error() string { return "the checkpoint does not verify: " + e.Err.Error() }
func (e *CheckpointError) Unwrap() error { return e.Err }

// HistoryKind says how two checkpoints do not fit together.
type HistoryKind string

const (
	// Rollback: the log shows an older checkpoint than before.
	Rollback HistoryKind = "rollback"
	// OtherRoot: two roots at one size. The log forked.
	OtherRoot HistoryKind = "other_root"
	// Fork: the tree of the larger checkpoint does not begin with that of the
	// smaller one; the tiles of the larger one prove it.
	Fork HistoryKind = "fork"
	// Unproven: the tiles that are served do not connect the two.
	Unproven HistoryKind = "not_proven_consistent"
)

// HistoryError: the log signed two checkpoints that do not fit together, or
// cannot be shown to. Keep both notes: unless Kind is Rollback or Unproven they
// prove by themselves, or with the tiles, that the log misbehaved.
type HistoryError struct {
	Kind          HistoryKind
	Known, Shown  []byte           // signed notes: seen before, and now
	Before, After trust.Checkpoint // what they say
	// Root is the root at Before.Size in the tree of After, for Fork; the root
	// that the tiles give at After.Size, for Unproven.
	Root tiles.Hash
}

func (e *HistoryError) Error() string {
	switch e.Kind {
	case Rollback:
		return fmt.Sprintf("the log went back: it shows size %d, and showed size %d before", e.After.Size, e.Before.Size)
	case OtherRoot:
		return fmt.Sprintf("the log forked: two roots at size %d, expected %x, got %x", e.Before.Size, e.Before.Root, e.After.Root)
	case Fork:
		return fmt.Sprintf("the log forked: the tree of size %d has another root at size %d, expected %x, got %x", e.After.Size, e.Before.Size, e.Before.Root, e.Root)
	default:
		return fmt.Sprintf("sizes %d and %d are not shown to be consistent: the tiles give another root at size %d, expected %x, got %x", e.Before.Size, e.After.Size, e.After.Size, e.After.Root, e.Root)
	}
}

// LeafError: the bytes of a leaf do not have the hash that the tree has. If
// Proven, Expected is under the checkpoint's root, so the bytes are wrong;
// otherwise the tiles contradict themselves.
type LeafError struct {
	Index         uint64
	Expected, Got tiles.Hash
	Proven        bool
}

func (e *LeafError) Error() string {
	by := "its tile, which is not under the checkpoint either, has"
	if e.Proven {
		by = "the tree has"
	}
	return fmt.Sprintf("leaf %d is not the one that was logged: it hashes to %x, %s %x", e.Index, e.Got, by, e.Expected)
}

// TreeError: leaves and tiles do not give the root of the checkpoint.
type TreeError struct {
	From, To      uint64 // the leaves that were added
	Size          uint64 // of the checkpoint
	Expected, Got tiles.Hash
	// Err is what is wrong with the form of a tile or bundle; nil without such.
	Err error
}

func (e *TreeError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("leaves %d to %d of %d cannot be checked: %v", e.From, e.To-1, e.Size, e.Err)
	}
	return fmt.Sprintf("leaves %d to %d do not give the root at size %d: expected %x, got %x", e.From, e.To-1, e.Size, e.Expected, e.Got)
}
func (e *TreeError) Unwrap() error { return e.Err }

// DisagreeError: what the feed brought for an index, also when it was asked anew,
// is not the leaf of the log, which is under the checkpoint's root. Digests are "sha256:" and hex over the
// bytes.
type DisagreeError struct {
	Index                     uint64
	LeafDigest, MessageDigest string
}

func (e *DisagreeError) Error() string {
	return fmt.Sprintf("the feed does not bring what was logged at leaf %d: the leaf is %s, the message is %s", e.Index, e.LeafDigest, e.MessageDigest)
}

// CursorError: a cursor is damaged, of another version or of another log. Start
// without it, from an index.
type CursorError struct{ Detail string }

func (e *CursorError) Error() string { return "cursor refused: " + e.Detail }

// UnavailableError: the log could not be read now, or withholds what it has
// signed. Trying again may help.
type UnavailableError struct {
	Doing string
	Err   error
}

func (e *UnavailableError) Error() string { return e.Doing + ": " + e.Err.Error() }
func (e *UnavailableError) Unwrap() error { return e.Err }

// QuorumError: the newest checkpoint lacks cosignatures that the policy asks for.
type QuorumError struct {
	Size uint64
	// Lacking explains: "1 of 2; missing B; …".
	Lacking string
}

func (e *QuorumError) Error() string {
	return fmt.Sprintf("the checkpoint of size %d has too few cosignatures: %s", e.Size, e.Lacking)
}

// FeedError: the feed brings nothing. The tiles are read instead.
type FeedError struct{ Err error }

func (e *FeedError) Error() string { return "the feed brings nothing: " + e.Err.Error() }
func (e *FeedError) Unwrap() error { return e.Err }
