package faults

import (
	"bufio"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// durableCalls are the system calls that change files or make changes durable.
// Plain writes are not among them: sockets have them too.
var durableCalls = []string{"fsync", "fdatasync", "msync", "renameat", "linkat", "unlinkat", "pwrite64", "ftruncate", "mkdirat", "openat"}

// callsKind lets single system calls of a running ledger fail. The kernel does not
// make the call: a rename or a write has failed and is not kept, and what a failed
// flush was for is there as long as the machine runs.
var callsKind = kind{
	name:  "system calls fail",
	says:  "one of fsync, msync, rename, link, unlink, pwrite, truncate, mkdir and open gives EIO or ENOSPC, once or for a while",
	needs: debugger,
	inject: func(r *round) {
		call := durableCalls[r.rng.IntN(len(durableCalls))]
		when := strconv.Itoa(1 + r.rng.IntN(20))
		if r.rng.IntN(2) == 0 {
			when += "+"
		}
		fault := fmt.Sprintf("%s:error=%s:when=%s", call, []string{"EIO", "ENOSPC"}[r.rng.IntN(2)], when)
		r.say(fault)
		cmd := exec.Command("strace", "-f", "-p", strconv.Itoa(r.p.cmd.Process.Pid), "-e", "trace="+call, "-e", "inject="+fault, "-o", "/dev/null")
		said, err := cmd.StderrPipe()
		if err != nil {
			r.t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			r.t.Fatal(err)
		}
		lines := bufio.NewScanner(said)
		for lines.Scan() && !strings.Contains(lines.Text(), "attached") {
		}
		go func() {
			for lines.Scan() {
			}
		}()
		r.sleep(200*time.Millisecond, r.atMost(2*time.Second))
		_ = cmd.Process.Signal(syscall.SIGINT) // lets go of the ledger
		_ = cmd.Wait()
	},
	recover:  (*round).backAgain,
	refusals: diskTrouble,
}

// canDebug says why system calls of a child cannot be made to fail here.
func canDebug() error {
	out, err := exec.Command("strace", "-e", "inject=fsync:error=EIO:when=1", "-o", "/dev/null", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("strace: %w %s", err, out)
	}
	return nil
}
