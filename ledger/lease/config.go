package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"time"

	"counterfoil/ledger/trust"
)

// Register is one small value that all nodes share. Its methods may be called
// concurrently.
type Register interface {
	// Get returns the value and its revision, as new as the moment of the call.
	// No value: it was never written, or it is lost; the revision is then what
	// Put expects, 0 or that of its removal.
	Get(ctx context.Context) (value []byte, revision uint64, err error)
	// Put stores value durably on a majority if the register has revision expect,
	// and returns the new revision. After an error the value may be stored, now or
	// later, and only on that expectation. value is not kept.
	Put(ctx context.Context, value []byte, expect uint64) (revision uint64, err error)
	// Watch calls f with the newest value and with every newer one that it sees,
	// one call after the other, until ctx ends or f returns an error. It is a hint:
	// what it leaves out or brings late costs time and nothing else.
	Watch(ctx context.Context, f func(value []byte, revision uint64) error) error
}

// Guard is a tree that may have been signed: nobody signs a smaller one after it,
// nor another one of its size.
type Guard struct {
	Size uint64
	Root [32]byte // RFC 6962 root; of no leaves: SHA-256 of no bytes
}

func (g Guard) String() string { return fmt.Sprintf("size %d root %x", g.Size, g.Root) }

const (
	// DefaultTTL and DefaultBeat let another node sign within five seconds after
	// the holder died.
	DefaultTTL  = 3 * time.Second
	DefaultBeat = time.Second
)

// Config says whose lease it is.
type Config struct {
	// Register holds the record.
	Register Register
	// Node names this node to people, in [1, 64] bytes of A-Z a-z 0-9 _ -.
	Node string
	// Origin is the log's, and the first line of every checkpoint.
	Origin string
	// LogKey verifies the log's signature on what is written into the record.
	LogKey trust.VerifierKey
	// TTL is for how long nobody else must have seen a sign of the holder before
	// it takes over. Default: DefaultTTL. It must be at least twice Beat.
	TTL time.Duration
	// Beat is how often the holder writes. Default: DefaultBeat.
	Beat time.Duration
	// Margin is how long before TTL Held says no: the time that a decision made on
	// it may take. Default: a sixth of TTL.
	Margin time.Duration

	// Contains reports whether the node's own durable tree has at least size leaves
	// and this root at size; false while it is smaller. A tree with another root at
	// size is an error with a method Final() bool that returns true. It is called
	// while Reserve is waited for, so it must not wait for a publication.
	Contains func(ctx context.Context, size uint64, root [32]byte) (bool, error)
	// Own is the node's own guard, durable and of a tree that Contains would
	// confirm, and the newest checkpoint that it shows to others (nil: none). What
	// of it is newer than the register's is carried into the register when the node
	// takes over. It must not wait for a publication either.
	Own func() (Guard, []byte)
	// Fit reports whether the node may take the lease at all, beside what Contains
	// says. It must be false while a node that joined an existing ledger has not
	// shown a checkpoint yet. Default: always true.
	Fit func() bool

	// Random gives the 16 bytes that name this process. Default: crypto/rand.
	Random io.Reader
	// Logger is told of changes of the holder. Default: slog.Default().
	Logger *slog.Logger

	now func() time.Time // nil: time.Now, of which only the monotonic part is used
}

var nodeName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// complete fills in defaults and reports every problem at once.
func (c *Config) complete() error {
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Beat == 0 {
		c.Beat = DefaultBeat
	}
	if c.Margin == 0 {
		c.Margin = c.TTL / 6
	}
	if c.Fit == nil {
		c.Fit = func() bool { return true }
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.now == nil {
		c.now = time.Now
	}
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(c.Register != nil, "register is missing")
	want(nodeName.MatchString(c.Node), "node name %q is not 1 to 64 of A-Z a-z 0-9 _ -", c.Node)
	want(c.Origin != "" && len(c.Origin) <= maxOrigin, "origin has %d bytes, expected 1 to %d", len(c.Origin), maxOrigin)
	want(c.LogKey.Logs() && c.LogKey.Name == c.Origin, "logKey %q is not a key of the log %q", c.LogKey.Name, c.Origin)
	want(c.Contains != nil, "contains is missing")
	want(c.Own != nil, "own is missing")
	want(c.Beat > 0 && c.TTL >= 2*c.Beat, "ttl %v is not at least twice the beat %v", c.TTL, c.Beat)
	want(c.Margin > 0 && c.Margin < c.TTL-c.Beat, "margin %v is not between 0 and ttl %v less the beat %v", c.Margin, c.TTL, c.Beat)
	if len(errs) > 0 {
		return fmt.Errorf("configuration of the lease: %w", errors.Join(errs...))
	}
	return nil
}
