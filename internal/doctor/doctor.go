// Package doctor looks at the data directory of a ledger, stopped or running, and at
// what a running ledger says of itself, and explains each thing that is wrong: what it
// means, what to type next, and which page tells more.
//
// It changes nothing. Of a directory that a ledger runs on it reads only files that the
// ledger replaces whole, and holds the directory's lock for no longer than it takes to
// see that nobody else does.
package doctor

import (
	"context"
	"time"

	"counterfoil/internal/durable"
)

// Schema is the schemaVersion of a Report.
const Schema = "counterfoil.doctor.v1"

// Results of a check.
const (
	OK      = "ok"
	Warning = "warning" // not well, and nothing is refused for it
	Fails   = "fails"
	Skipped = "skipped" // it could not be looked at, which the detail explains
)

// Check is one thing that was looked at. Meaning, Next and Runbook are there unless it
// is OK.
type Check struct {
	Name    string   `json:"name"`
	Result  string   `json:"result"`
	Detail  string   `json:"detail"`
	Meaning string   `json:"meaning,omitempty"`
	Next    []string `json:"next,omitempty"`    // commands, or what else to do, in this order
	Runbook string   `json:"runbook,omitempty"` // path#section in the project's documents
}

// Config says what to look at.
type Config struct {
	Dir     string // data directory; required
	Program string // how the user calls this program, for the commands to type
	// Listen is the address that a stopped ledger would listen on; empty leaves the
	// check out.
	Listen string
	// NATS, NATSCreds and NATSPasswordFile are those of serve; NATS is empty for the
	// ledger's own.
	NATS, NATSCreds, NATSPasswordFile string
	// DiskReserve is how many bytes the ledger keeps free.
	DiskReserve uint64
	// Space asks the file system of a directory; nil stands for durable.Space.
	Space func(dir string) (free, size uint64, err error)
	Now   time.Time
}

// Directory looks at a data directory. running tells that a process has it.
func Directory(ctx context.Context, cfg Config) (checks []Check, running bool) {
	if cfg.Space == nil {
		cfg.Space = durable.Space
	}
	d := &look{cfg: cfg}
	if !d.directory() {
		return d.checks, false
	}
	d.running = locked(d.path("lock"))
	d.permissions()
	d.identity()
	d.keys()
	d.clock()
	d.stopped()
	if !d.running {
		d.space()
		d.guard()
		d.checkpoint()
		d.vault()
		d.address()
	}
	d.nats(ctx)
	return d.checks, d.running
}

// look is one look at a directory.
type look struct {
	cfg     Config
	running bool
	id      identity
	known   bool // id was read
	vkey    string
	tenant  string // fingerprint of the tenant's key
	size    uint64 // of the log
	checks  []Check
}

func (d *look) ok(name, detail string) {
	d.checks = append(d.checks, Check{Name: name, Result: OK, Detail: detail})
}

// not adds a check that is not well, with what is said of it.
func (d *look) not(result, name, detail string, next ...string) {
	d.checks = append(d.checks, Explain(d.cfg.Program, Check{Name: name, Result: result, Detail: detail, Next: next}))
}

func (d *look) fail(name string, err error, next ...string) {
	d.not(Fails, name, err.Error(), next...)
}
