// Package upgrade knows the formats of a data directory and brings an older one to
// the newest, one step after the other.
//
// The format is a number in DIR/ledger.json. It changes when a program of before
// would misread what is there, or lose something of it; what is derived (index,
// views) carries versions of its own and is made anew by whoever finds another one,
// so it asks for no step. Signed bytes have no format: leaves, tiles, checkpoints
// and guard records are never rewritten.
//
// A step is done when ledger.json has the next number. One that was cut off, by
// kill -9 or a power loss, is run again as a whole, so each must come to the same
// from whatever a part of it has left.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/flock"

	"counterfoil/internal/durable"
)

// Format is the format that this program writes.
const Format = 1

const (
	identityFile = "ledger.json"
	lockFile     = "lock"
	member       = "formatVersion"
	// maxIdentityBytes bounds ledger.json, which has a few hundred bytes.
	maxIdentityBytes = 64 << 10
)

// A Step brings a directory from one format to the next.
type Step struct {
	// From is the format before; the one after is From+1.
	From int
	// Does says in a line, for the operator, what changes on the disk.
	Does string
	// Run changes the directory; nothing else runs on it. What it did is durable
	// when it returns. It may find any part of its own work done. It leaves the
	// number in ledger.json alone.
	Run func(ctx context.Context, dir string) error
}

// steps are all there ever were, in order: the first for format 1. A step stays as
// long as directories of its format may be around, with a directory of that format in
// testdata/olddirs.
var steps = []Step{}

// ErrNewer and ErrOlder say that a directory has another format than [Format].
var (
	ErrNewer = errors.New("the data directory was written by a newer program")
	ErrOlder = errors.New("the data directory has an older format")
)

// Check reads the format from the content of ledger.json and refuses another one
// than [Format]. dir is named in the error.
func Check(dir string, identity []byte) error {
	n, _, err := format(identity)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, identityFile), err)
	}
	return fits(dir, n, Format)
}

func fits(dir string, n, newest int) error {
	switch {
	case n > newest:
		return fmt.Errorf("%w: %s has data format %d, this one knows %d (hint: use the program version that wrote it)", ErrNewer, dir, n, newest)
	case n < newest:
		return fmt.Errorf("%w: %s has data format %d, this program writes %d (hint: copy it, then: counterfoil upgrade --data %s; docs/runbooks/upgrade.md)", ErrOlder, dir, n, newest, dir)
	}
	return nil
}

// format reads ledger.json as little as possible: what else is in it is a matter of
// the format.
func format(identity []byte) (n int, members map[string]jsontext.Value, err error) {
	if len(identity) > maxIdentityBytes {
		return 0, nil, fmt.Errorf("it has more than %d bytes", maxIdentityBytes)
	}
	if err := json.Unmarshal(identity, &members); err != nil {
		return 0, nil, err
	}
	if err := json.Unmarshal(members[member], &n); err != nil || n < 1 {
		return 0, nil, fmt.Errorf("%s is not a number from 1 on (hint: restore the file from a backup)", member)
	}
	return n, members, nil
}

// Done is what an upgrade came to.
type Done struct{ From, To int }

// Run brings a directory to [Format]; no ledger may run on it. say hears of each step
// before it begins and after. It stops at the first error, and can be run again.
func Run(ctx context.Context, dir string, say func(string)) (Done, error) {
	return run(ctx, dir, steps, Format, say)
}

func run(ctx context.Context, dir string, steps []Step, newest int, say func(string)) (done Done, err error) {
	name := filepath.Join(dir, identityFile)
	if _, err := os.Stat(name); err != nil {
		return done, fmt.Errorf("%s is not the data directory of a ledger (hint: name it with --data)", dir)
	}
	lock := flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return done, fmt.Errorf("lock the data directory: %w", err)
	}
	if !ok {
		return done, fmt.Errorf("the data directory is in use: %s (hint: stop the ledger first)", dir)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	for {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		identity, err := os.ReadFile(name)
		if err != nil {
			return done, fmt.Errorf("read the format: %w", err)
		}
		n, _, err := format(identity)
		if err != nil {
			return done, fmt.Errorf("%s: %w", name, err)
		}
		if done.From == 0 {
			done = Done{n, n}
		}
		if n >= newest {
			return done, fits(dir, n, newest)
		}
		step := find(steps, n)
		if step == nil {
			return done, fmt.Errorf("no step leads from data format %d to %d (hint: upgrade with a program version between)", n, n+1)
		}
		say(fmt.Sprintf("data format %d to %d: %s", n, n+1, step.Does))
		if err := step.Run(ctx, dir); err != nil {
			return done, fmt.Errorf("data format %d to %d: %w (hint: nothing is lost; put the reason right and upgrade again)", n, n+1, err)
		}
		// The step may have changed other members of the file.
		if identity, err = os.ReadFile(name); err != nil {
			return done, fmt.Errorf("read the format: %w", err)
		}
		_, members, err := format(identity)
		if err != nil {
			return done, fmt.Errorf("%s: %w", name, err)
		}
		members[member] = jsontext.Value(fmt.Sprint(n + 1))
		b, err := json.Marshal(members, json.Deterministic(true), jsontext.WithIndent("  "))
		if err != nil {
			return done, err
		}
		// From here on the step is done, and is never run again.
		if err := durable.WriteFile(name, append(b, '\n'), 0o600); err != nil {
			return done, fmt.Errorf("write the format: %w", err)
		}
		done.To = n + 1
		say(fmt.Sprintf("data format %d is written", n+1))
	}
}

func find(steps []Step, from int) *Step {
	for i := range steps {
		if steps[i].From == from {
			return &steps[i]
		}
	}
	return nil
}

// Plan are the steps that a directory needs, in the words of each; none if it has
// [Format].
func Plan(dir string) (from int, does []string, err error) {
	identity, err := os.ReadFile(filepath.Join(dir, identityFile))
	if err != nil {
		return 0, nil, fmt.Errorf("%s is not the data directory of a ledger (hint: name it with --data)", dir)
	}
	from, _, err = format(identity)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", filepath.Join(dir, identityFile), err)
	}
	if from > Format {
		return from, nil, fits(dir, from, Format)
	}
	for n := from; n < Format; n++ {
		step := find(steps, n)
		if step == nil {
			return from, does, fmt.Errorf("no step leads from data format %d to %d (hint: upgrade with a program version between)", n, n+1)
		}
		does = append(does, step.Does)
	}
	return from, does, nil
}
