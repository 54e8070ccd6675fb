package tlog

import (
	"context"
	"errors"
)

// Fence is asked around every signature when several nodes share the log's key, so
// that they sign one history. It is called by one goroutine at a time.
//
// Any error keeps the log from publishing now, and Publish returns it; the next
// Publish begins again. An error with a method Final() bool that returns true says
// that this log is wrong: it is not touched any more, see [Log.Err].
type Fence interface {
	// Reserve is called after the tree is durable in this node's guard and before
	// it is signed. When it returns nil, no node signs a smaller tree any more, or
	// another one of this size.
	Reserve(ctx context.Context, size uint64, root [32]byte) error
	// Publish is called with the signed checkpoint before it is in place here. When
	// it returns nil, every node may show it. After an error the checkpoint may
	// still be published there; Adopt brings it back then.
	Publish(ctx context.Context, note []byte) error
}

// isFinal reports whether err, or what it wraps, says of itself that it is final.
func isFinal(err error) bool {
	var f interface{ Final() bool }
	return errors.As(err, &f) && f.Final()
}

// finalError is an error after which a log is not touched any more.
type finalError string

func (e finalError) Error() string { return string(e) }

// Final tells others than this package.
func (finalError) Final() bool { return true }
