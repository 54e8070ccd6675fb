package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/transparency-dev/merkle/compact"

	"counterfoil/internal/wait"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// Defaults and bounds of a [Config].
const (
	// DefaultBatch leaves are read at once: four bundles. With leaves of the
	// largest size that is 64 MiB.
	DefaultBatch = 4 * tiles.Width
	// MaxBatch bounds Config.Batch.
	MaxBatch = 16 * tiles.Width
	// DefaultPoll is the longest pause between two looks at the checkpoint.
	DefaultPoll = time.Second
	// DefaultTries is how often a follower that stops at the end tries in vain,
	// over three to four seconds.
	DefaultTries = 8
)

// Bounds of time.
const (
	firstPoll = 50 * time.Millisecond // between two looks, doubling
	// feedPatience is how long a feed may take for a leaf that is published.
	feedPatience = time.Second
	// feedRests bounds how many batches are read without a feed that failed.
	feedRests = 64
	// tileBytes bounds the tiles that are kept: the tree over 60,000 leaves.
	tileBytes = 4 << 20
)

// Config says what to follow and whom to believe. Log and Trust are required;
// the zero value of any other field is its default.
type Config struct {
	// Log is the tiles of the log: tiles.HTTP for a ledger or any static server,
	// tiles.Dir for a copy on disk.
	Log tiles.Source
	// Trust names the log's key, the keys that sign events, and the witnesses.
	Trust *trust.File
	// Policy is used for log and witnesses in place of the trust file's. It must
	// not contradict it (trust.File.CheckPolicy).
	Policy *trust.Policy

	// Witnessed reads the newest checkpoint that the log knows to meet its quorum,
	// and is asked where the newest one of all lacks cosignatures, which on a busy
	// log is nearly always: see WitnessedHTTP. An [fs.ErrNotExist] says that there
	// is none. Nil for none.
	Witnessed func(context.Context) ([]byte, error)

	// From is the index of the first leaf. Not beside Cursor.
	From uint64
	// Cursor is where a former follower of this log stopped; nil without one.
	Cursor *Cursor
	// Stop ends at the size of the first checkpoint that meets the policy, and
	// not at all otherwise.
	Stop bool

	// Feed brings leaves sooner; nil for tiles alone. The follower does not close
	// it, and must be its only user.
	Feed Feed
	// Batch is how many leaves are read at once at most, 1 to MaxBatch.
	Batch int
	// Poll is the longest pause between two looks at the checkpoint, and between
	// two tries where the log does not answer.
	Poll time.Duration
	// Tries is how often in a row nothing may come of a try before Next returns
	// the *[UnavailableError] or *[QuorumError]. 0 is DefaultTries if Stop is set,
	// and without limit otherwise.
	Tries int

	// Waiting, if set, is told why nothing comes, and how long the pause is: an
	// *[UnavailableError], a *[QuorumError] or a *[FeedError].
	Waiting func(err error, pause time.Duration)
	// Pause waits; it returns early with the cause of ctx. Nil waits for real.
	Pause func(ctx context.Context, d time.Duration) error
}

// New makes a follower. It reads nothing yet. An error about the cursor is a
// *[CursorError].
func New(cfg Config) (*Follower, error) {
	switch {
	case cfg.Log == nil:
		return nil, errors.New("consumer: no log to read")
	case cfg.Trust == nil:
		return nil, errors.New("consumer: no trust file: nothing can be judged")
	case cfg.Batch < 0 || cfg.Batch > MaxBatch:
		return nil, fmt.Errorf("consumer: a batch of %d leaves, expected 1 to %d", cfg.Batch, MaxBatch)
	case cfg.Poll < 0 || cfg.Tries < 0:
		return nil, errors.New("consumer: poll and tries cannot be negative")
	case cfg.From > trust.MaxIndex:
		return nil, fmt.Errorf("consumer: first leaf %d, expected at most %d", cfg.From, uint64(trust.MaxIndex))
	case cfg.From > 0 && cfg.Cursor != nil:
		return nil, errors.New("consumer: a first leaf and a cursor exclude each other")
	}
	if err := cfg.Trust.Validate(); err != nil {
		return nil, fmt.Errorf("consumer: trust file: %w", err)
	}
	if cfg.Policy == nil {
		cfg.Policy = cfg.Trust.Policy()
	} else if err := errors.Join(cfg.Policy.Validate(), cfg.Trust.CheckPolicy(cfg.Policy)); err != nil {
		return nil, fmt.Errorf("consumer: policy: %w", err)
	}
	if cfg.Batch == 0 {
		cfg.Batch = DefaultBatch
	}
	if cfg.Poll == 0 {
		cfg.Poll = DefaultPoll
	}
	if cfg.Tries == 0 && cfg.Stop {
		cfg.Tries = DefaultTries
	}
	if cfg.Pause == nil {
		cfg.Pause = wait.For
	}
	f := &Follower{cfg: cfg, next: cfg.From, edge: ranges.NewEmptyRange(0)}
	f.freshTiles()
	f.eager()
	if cfg.Cursor != nil {
		if err := f.resume(cfg.Cursor); err != nil {
			return nil, err
		}
	}
	return f, nil
}

var ranges = compact.RangeFactory{Hash: foldBytes}
