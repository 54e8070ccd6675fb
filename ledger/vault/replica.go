package vault

import (
	"context"
	"errors"
)

// MaxChange is the largest message that a vault gives to its [Replica], in bytes.
const MaxChange = 1<<20 - 4<<10

var (
	// ErrUnavailable: the log that the vaults of several nodes share does not
	// answer now. What the call would have changed may be changed all the same,
	// whole, here and everywhere, now or a little later; calling again is safe.
	ErrUnavailable = errors.New("the log of the vault is not available")
	// ErrForeign: the rows of this directory and those of the log do not belong
	// together. Only Open.
	ErrForeign = errors.New("the vault belongs to another log")
)

// Replica is the log of changes that the vaults of several nodes have in common:
// each vault is the same function of it. Its messages have sequences from 1 on and
// are sealed as rows are. *stream.Rows is one.
//
// All methods are safe for concurrent use. An answer means that it holds for every
// node and for ever, also after the end of some: what Publish and Erase did is
// durable on most of the log's servers when they return.
type Replica interface {
	// ID names the log; one that was made anew has another.
	ID() string
	// Last is the sequence of the last message that was ever stored, also if it
	// was erased since; 0: none.
	Last(ctx context.Context) (uint64, error)
	// Publish stores body, of at most [MaxChange] bytes, as the message after
	// sequence expect, and returns its sequence. Sequence 0 and no error: another
	// message came first, or this one of an earlier send of the same call, and
	// last is the last sequence. After an error it may be stored, now or a little
	// later, but never after another message has taken its place.
	Publish(ctx context.Context, body []byte, expect uint64) (seq, last uint64, err error)
	// Get reads one message; nil and no error: it was erased.
	Get(ctx context.Context, seq uint64) ([]byte, error)
	// Erase deletes one message and overwrites what it was stored in. One that is
	// gone already is no error.
	Erase(ctx context.Context, seq uint64) error
	// Follow calls f with every message from sequence from on, in order, and waits
	// for more, over lost connections, until ctx ends. Messages that were erased
	// are left out.
	Follow(ctx context.Context, from uint64, f func(seq uint64, body []byte)) error
}
