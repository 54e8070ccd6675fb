package faults

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"counterfoil/internal/testkit/natskit"
)

var (
	campaignMinutes = flag.Float64("minutes", 0, "run the campaign for so long; 0: every kind of fault once")
	campaignSeed    = flag.Uint64("seed", 0, "seed of the order and the moments of the campaign; 0: a new one")
	campaignOut     = flag.String("out", "", "write the results of the campaign to this file, relative to the module")
	campaignKinds   = flag.String("kinds", "", "only the kinds of faults that match this regular expression")
)

// longMinutes is how long the campaign of the long loops takes.
const longMinutes = 60

// kind is a kind of fault. The ledger runs and clients load it when it happens;
// afterwards the ledger must be ready again, and everything that it acknowledged
// be there.
type kind struct {
	name    string
	says    string // what happens, for the report
	needs   needs
	prepare func(r *round) // optional: before the load
	inject  func(r *round) // the fault, under load
	recover func(r *round) // what an operator or a supervisor does; afterwards a ledger runs
	// refusals are the answers that clients may get meanwhile, beside receipts.
	refusals []string
}

// kinds are all of them. Each is in a file of its own.
func kinds() []kind {
	return append(diskKinds(), killKind, killStartingKind, stopKind, frozenKind, clockKind, twiceKind, derivedKind,
		streamKind, restoredKind, natsKilledKind, natsFrozenKind)
}

// TestCampaign_LOG14_INV2_FaultsAtRandom runs kinds of faults in a random order
// against real ledgers under load, several on one ledger, and compares each time
// with the model of what was acknowledged. Without -minutes each kind happens once.
// The seed repeats the order and the chosen moments, not the machine's scheduling.
func TestCampaign_LOG14_INV2_FaultsAtRandom(t *testing.T) {
	c := newCampaign(t)
	for c.more() {
		t.Run(fmt.Sprintf("era %d", c.eras+1), c.era)
		c.eras++
	}
	if *campaignOut != "" {
		t.Run("every old copy", func(t *testing.T) { restoreAll(t, c.report.restore) })
	}
	if err := c.publish(); err != nil {
		t.Error(err)
	}
}

// campaign is a series of eras; an era is one ledger and several faults.
type campaign struct {
	t       testing.TB
	seed    uint64
	rng     *rand.Rand
	began   time.Time
	until   time.Time // zero: each kind once
	eras    int
	done    map[string]bool
	skipped map[string]string // kinds that cannot happen here, and why
	kinds   []kind
	report  *report
}

func newCampaign(t testing.TB) *campaign {
	c := &campaign{t: t, seed: *campaignSeed, began: time.Now(), done: map[string]bool{}, skipped: map[string]string{}, report: newReport()}
	for c.seed == 0 {
		c.seed = uint64(time.Now().UnixNano()) % 1e9
	}
	c.rng = rand.New(rand.NewPCG(c.seed, 1))
	t.Logf("seed %d", c.seed)
	c.kinds = chosenKinds(t, *campaignKinds)
	minutes := *campaignMinutes
	if minutes == 0 && os.Getenv("COUNTERFOIL_LONG") != "" {
		minutes = longMinutes
	}
	if minutes > 0 {
		c.until = c.began.Add(time.Duration(minutes * float64(time.Minute)))
	}
	return c
}

// more tells whether there is another era.
func (c *campaign) more() bool {
	if !c.until.IsZero() {
		return time.Now().Before(c.until)
	}
	return c.eras < 3*len(surroundings) && slices.ContainsFunc(c.kinds, func(k kind) bool { return !c.done[k.name] && c.skipped[k.name] == "" })
}

// surroundings are where ledgers live; a campaign goes through them in turn.
var surroundings = []struct {
	memory, ext4, nats bool
}{{true, true, false}, {true, true, true}, {false, true, false}, {false, false, true}}

// era makes a ledger and lets the kinds that fit happen to it, in random order.
func (c *campaign) era(t *testing.T) {
	at := surroundings[c.eras%len(surroundings)]
	e := &era{c: c, number: c.eras + 1, model: newModel()}
	if at.ext4 {
		var err error
		if e.volume, err = ext4Volume(t, at.memory); err != nil {
			t.Logf("no file system of its own: %v", err)
			c.cannot(ownDisk|thinDisk, fmt.Sprintf("no file system can be mounted here: %v", err))
		}
	}
	if e.volume == nil {
		e.volume = plainVolume(t)
	}
	has := e.volume.has
	if err := canDebug(); err != nil {
		c.cannot(debugger, err.Error())
	} else {
		has |= debugger
	}
	if at.nats {
		e.nats = natskit.Start(t, t.TempDir())
		e.args = []string{"--nats", e.nats.URL}
		has |= externalNATS
	} else {
		has |= embeddedNATS
	}
	e.dir = filepath.Join(e.volume.dir, "data")
	var fit []kind
	for _, k := range c.kinds {
		// The short form does everything once.
		if k.needs&^has == 0 && (!c.until.IsZero() || !c.done[k.name]) {
			fit = append(fit, k)
		}
	}
	c.rng.Shuffle(len(fit), func(i, j int) { fit[i], fit[j] = fit[j], fit[i] })
	t.Logf("%s; NATS %s", e.volume.says, map[bool]string{true: "in a process of its own", false: "embedded"}[at.nats])
	for _, k := range fit {
		if !c.until.IsZero() && time.Now().After(c.until) {
			return
		}
		e.rounds++
		ok := t.Run(fmt.Sprintf("round %d %s", e.rounds, k.name), func(t *testing.T) { e.round(t, k) })
		c.done[k.name] = true
		if !ok || e.over {
			return // the ledger is broken; the next era has a new one
		}
	}
}

// cannot notes kinds that cannot happen on this machine.
func (c *campaign) cannot(n needs, reason string) {
	for _, k := range c.kinds {
		if k.needs&n != 0 {
			c.skipped[k.name] = reason
		}
	}
}

// era is the life of one ledger.
type era struct {
	c      *campaign
	number int
	volume *volume
	nats   *natskit.Server // nil: embedded
	dir    string          // data directory
	args   []string        // of every start
	model  *acks
	rounds int
	over   bool // nothing more can happen to its ledger
}

func chosenKinds(t testing.TB, pattern string) []kind {
	t.Helper()
	want, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	chosen := slices.DeleteFunc(kinds(), func(k kind) bool { return !want.MatchString(k.name) })
	if len(chosen) == 0 {
		t.Fatalf("no kind of fault matches %q", pattern) // a campaign of nothing would pass
	}
	return chosen
}
