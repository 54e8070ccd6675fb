// Package rig is what measurements of the ledger share: a ledger in a process of
// its own or in this one, clients that load it, a plain file as the baseline,
// and the command line of the programs that measure.
package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Rig is one run of a program that measures.
type Rig struct {
	Root    string        // of the ledger's module
	Bin     string        // the program to measure
	Work    string        // for data; removed at the end
	Rounds  int           // of every measurement
	Length  time.Duration // of one round
	Clients []int         // numbers of clients
	Max     int           // largest log, in leaves
	// Takeovers is how often a node is killed, Catchup how many leaves it lacks when
	// it comes back.
	Takeovers, Catchup int

	profiles string // where profiles go; empty for none
	section  string // that runs now
	dirs     int

	mu       sync.Mutex
	profiled int
}

// NewDir names a directory that nobody used.
func (r *Rig) NewDir() string {
	r.dirs++
	return filepath.Join(r.Work, "data-"+strconv.Itoa(r.dirs))
}

// profile names the file of the next processor profile, of what; empty if none is
// wanted.
func (r *Rig) profile(what string) string {
	if r.profiles == "" {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.profiled++
	return filepath.Join(r.profiles, fmt.Sprintf("%s-%s-%d.prof", r.section, what, r.profiled))
}

// Build builds a package of the ledger's module, named from its root, and
// returns the program.
func (r *Rig) Build(ctx context.Context, pkg string) (string, error) {
	bin := filepath.Join(r.Work, filepath.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", bin, pkg)
	cmd.Dir = r.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", pkg, err, out)
	}
	return bin, nil
}

// Program is the built command line program, whatever is measured.
func (r *Rig) Program(ctx context.Context) (string, error) {
	if r.profiles == "" {
		return r.Bin, nil
	}
	return r.Build(ctx, "./cmd/counterfoil")
}

// moduleRoot is the folder of the ledger's module, from this one or from one
// that requires it.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "counterfoil").Output()
	if err != nil {
		return "", fmt.Errorf("find the ledger's module: %w (hint: run it inside the repository)", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// machine names the processor that is measured on.
func machine() string {
	cpu := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				cpu = strings.TrimSpace(v)
				break
			}
		}
	}
	return cpu
}
