package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report is what a campaign came to.
type report struct {
	kinds    map[string]*tally
	restored map[string]*restoredResult
}

// tally is what came of one kind of fault.
type tally struct {
	rounds, acked, lost, twice, announced int
	refused                               map[string]int
	ready                                 []time.Duration // each from the end of the fault
}

func newReport() *report {
	return &report{kinds: map[string]*tally{}, restored: map[string]*restoredResult{}}
}

func (p *report) add(k kind, r *round, f found, acked int, ready time.Duration) {
	x := p.kinds[k.name]
	if x == nil {
		x = &tally{refused: map[string]int{}}
		p.kinds[k.name] = x
	}
	x.rounds++
	x.acked += acked
	x.lost += f.lost
	x.twice += f.twice
	x.announced += f.announced
	for w, n := range r.refused {
		x.refused[w] += n
	}
	x.ready = append(x.ready, ready)
}

func (p *report) restore(c restoredCase, got outcome, detail string) {
	x := p.restored[c.name()]
	if x == nil {
		x = &restoredResult{got: got, detail: detail}
		p.restored[c.name()] = x
	}
	x.times++
	if got != c.want { // the worst is what is shown
		x.got, x.detail = got, detail
	}
}

const reportHead = `# Faults

Written by a command; do not edit. ` + "`task faults`" + ` runs the short form, ` + "`task faults -- -minutes 30 -out docs/faults.md`" + ` a long one and
writes this page; ` + "`-seed N`" + ` repeats the order and the chosen moments of a run.

A campaign lets kinds of faults happen, in random order, to real ledgers under load: twelve clients
record attempts and outcomes and note every receipt, another reads every checkpoint. Several faults
happen to one ledger. After each of them:

- every acknowledged event is at its index, under at least its stage, and no event is there twice;
- each client's events have the order in which it got its receipts, and nothing is there that nobody sent;
- every root that was ever signed is the root of the leaves at that size, and no checkpoint went back;
- calls that were not acknowledged are sent again: each is recorded once;
- Tessera's fsck derives every tile and the root again from the leaves;
- the views are, byte for byte, those that are made anew from the log.

`

// publish writes the report to the file that was asked for, or to the test's log.
func (c *campaign) publish() error {
	var b strings.Builder
	b.WriteString(reportHead)
	c.facts(&b)
	c.kindTable(&b)
	c.restoredTable(&b)
	b.WriteString(reportFoot)
	if *campaignOut == "" {
		c.t.Log("\n" + b.String())
		return nil
	}
	out := *campaignOut
	if !filepath.IsAbs(out) {
		out = filepath.Join("..", "..", out)
	}
	return os.WriteFile(out, []byte(b.String()), 0o644)
}

func (c *campaign) facts(b *strings.Builder) {
	result := "passed"
	if c.t.Failed() {
		result = "FAILED"
	}
	fmt.Fprintf(b, "| | |\n|---|---|\n| result | %s |\n| date | %s |\n| machine | %s/%s, %d CPUs, %s |\n| seed | %d |\n| minutes | %.0f |\n| ledgers | %d |\n\n",
		result, c.began.UTC().Format("2006-01-02 15:04 MST"), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), c.seed,
		time.Since(c.began).Minutes(), c.eras)
}

func (c *campaign) kindTable(b *strings.Builder) {
	b.WriteString("## Kinds of faults\n\nLosses announced are events that were accepted and never acknowledged. Ready is the time from the end of the fault, its clients' last answers\nincluded, or from the start of the process that follows it.\n\n")
	b.WriteString("| fault | rounds | acknowledged | lost | twice | losses announced | ready p50 | ready max | refusals |\n|---|--:|--:|--:|--:|--:|--:|--:|---|\n")
	var sum tally
	for _, k := range c.kinds {
		x := c.report.kinds[k.name]
		if x == nil {
			why := c.skipped[k.name]
			if why == "" {
				why = "did not come up"
			}
			fmt.Fprintf(b, "| %s | 0 | | | | | | | not run: %s |\n", k.name, why)
			continue
		}
		slices.Sort(x.ready)
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %s | %s | %s |\n", k.name, x.rounds, x.acked, x.lost, x.twice, x.announced,
			seconds(x.ready[len(x.ready)/2]), seconds(x.ready[len(x.ready)-1]), refusalsOf(x.refused))
		sum.rounds, sum.acked, sum.lost, sum.twice, sum.announced = sum.rounds+x.rounds, sum.acked+x.acked, sum.lost+x.lost, sum.twice+x.twice, sum.announced+x.announced
	}
	fmt.Fprintf(b, "| all | %d | %d | %d | %d | %d | | | |\n\n", sum.rounds, sum.acked, sum.lost, sum.twice, sum.announced)
	b.WriteString("What each is:\n\n")
	for _, k := range c.kinds {
		fmt.Fprintf(b, "- **%s**: %s.\n", k.name, k.says)
	}
	b.WriteString("\n")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func refusalsOf(m map[string]int) string {
	var out []string
	for why, n := range m {
		out = append(out, fmt.Sprintf("%d × %s", n, why))
	}
	slices.Sort(out)
	if out == nil {
		return "none"
	}
	return strings.Join(out, ", ")
}

func (c *campaign) restoredTable(b *strings.Builder) {
	b.WriteString("## Old copies put back\n\nA ledger is copied, grows, and parts of the copy are put back. *Refuses*: it does not start, and changes and signs nothing; the newest parts,\n" +
		"put back in their turn, make it go on. *Signs nothing*: it starts for reading alone. *Cannot know*: it goes on from the copy, and signs a second\nhistory. Where nothing is said of witnesses, one watches in the tests of every combination.\n\n" +
		"| put back | outcome | because | tried |\n|---|---|---|--:|\n")
	for _, k := range restoredCases() {
		x := c.report.restored[k.name()]
		times, got := 0, k.want
		if x != nil {
			times, got = x.times, x.got
		}
		note := ""
		if got != k.want {
			note = fmt.Sprintf(" (WANTED: %s)", k.want)
		}
		fmt.Fprintf(b, "| %s | %s%s | %s | %d |\n", k.name(), got, note, k.because, times)
	}
	b.WriteString("\n")
}

const reportFoot = `## How the faults are made

The file systems are ext4 on loop devices, which the tests mount where they may (as root, on Linux). A power loss and
a disk that is gone are the kernel's shutdown of a mounted file system (FS_IOC_SHUTDOWN), with and without
what was not flushed; write errors come from a file below the loop device that cannot grow; a stall is a frozen
file system (FIFREEZE); a slow disk is one that others flush on. The clock is the ledger's own, in a process that
has it as a parameter: the machine's clock stays as it is.

The file systems are mounted with errors=remount-ro. One that is told to go on after an error (errors=continue, which
mkfs.ext4 writes if nothing else is said) had lost what it had flushed in every fifth round of write errors: zeros, or bytes
of another file, in the newest tiles or in a database. The ledger then refused to start and named what is damaged
([damaged](runbooks/damaged.md)), and signed nothing; with remount-ro it was not seen again. The table would count it as
"a start: flushed data is gone".

Not tried: reads that give other bytes than were written (the audit and the damage tests do that on files), reordered
writes below the file system, and disks that lie about flushes.

Each durable step by itself, failing without effect and failing with it, is tried by the tests of its package:
` + "`internal/durable`, `ledger/tlog`, `ledger/stream`, `ledger/vault`, `witness/state`" + `.
`
