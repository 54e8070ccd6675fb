package tlog

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"

	"golang.org/x/mod/sumdb/note"
)

// MaxLeaf is the largest leaf in bytes: tlog-tiles stores lengths as uint16.
const MaxLeaf = tiles.MaxEntry

// Config says where a log is and who it is.
type Config struct {
	// Dir holds the log: checkpoint, tiles and Tessera's state. Its parent
	// holds the lock file, Dir + ".lock".
	Dir string
	// GuardDir holds the guard record. It must not be inside Dir: what rolls
	// the one back should not roll back the other.
	GuardDir string
	// Origin is the first line of every checkpoint and the name of the log key.
	Origin string
	// Signer signs checkpoints. Its name must be Origin. What it returns is
	// verified before it is published.
	Signer note.Signer
	// VerifierKey is the public side of Signer as a C2SP signed-note verifier
	// key ("name+hex+base64").
	VerifierKey string
	// Create allows to start a log where there is neither log nor guard. A
	// start that was interrupted before the first leaf is completed without it.
	Create bool
	// Join allows to start a log where there is neither log nor guard although the
	// ledger exists: this node joins the others and gets its leaves from the stream.
	// It needs a Fence, which keeps the small log from being published.
	Join bool
	// Fence is asked around every signature when other nodes share the log's key.
	// nil: this node is alone. With a fence the log is fit for Publish on the node
	// that the fence lets through, and for Adopt on the others.
	Fence Fence
	// CheckLeaf judges a leaf that is in the tree but not in the guard's, at
	// the start: those appended last before a crash. It must refuse what is not
	// canonical, validly signed, lawful, or not the stream's message at that
	// place. It is called with ascending indexes.
	CheckLeaf func(index uint64, leaf []byte) error
	// Logger gets Tessera's talk, at debug and warn level. Tessera logs through
	// one logger for the whole process: the log opened last decides. Default:
	// slog.Default().
	Logger *slog.Logger

	files  *files                        // nil: the real ones
	engine func(*Config) (engine, error) // nil: Tessera
}

// files are the durable steps that this package takes itself. Tests let them
// fail.
type files struct {
	write  func(path string, data []byte, perm fs.FileMode) error
	create func(path string, data []byte, perm fs.FileMode) error
}

var realFiles = files{write: durable.WriteFile, create: durable.Create}

// complete fills in defaults and reports every problem at once.
func (c *Config) complete() (note.Verifier, error) {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(c.Dir != "", "dir is empty")
	want(c.GuardDir != "", "guardDir is empty")
	want(c.Origin != "", "origin is empty")
	want(c.CheckLeaf != nil, "checkLeaf is missing")
	want(c.Signer != nil, "signer is missing")
	want(c.Signer == nil || c.Signer.Name() == c.Origin, "signer has another name than origin %q", c.Origin)
	want(!c.Join || c.Fence != nil, "join is set without a fence (hint: a node alone creates its log)")
	want(!c.Join || !c.Create, "join and create are both set")
	verifier, err := note.NewVerifier(c.VerifierKey)
	want(err == nil, "verifierKey: %v (hint: the public side of signer, name+hex+base64)", err)
	if err == nil && c.Signer != nil {
		want(verifier.Name() == c.Signer.Name() && verifier.KeyHash() == c.Signer.KeyHash(),
			"verifierKey is %s+%08x, signer is %s+%08x", verifier.Name(), verifier.KeyHash(), c.Signer.Name(), c.Signer.KeyHash())
	}
	if c.Dir != "" && c.GuardDir != "" {
		want(!within(c.GuardDir, c.Dir), "guardDir %s is inside dir %s", c.GuardDir, c.Dir)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("configuration of the log: %w", errors.Join(errs...))
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.files == nil {
		c.files = &realFiles
	}
	if c.engine == nil {
		c.engine = newTessera
	}
	return verifier, nil
}
