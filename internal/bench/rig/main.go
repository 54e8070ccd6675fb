package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"counterfoil/internal/bench/report"
)

// Section is a measurement that can run alone.
type Section struct {
	Name string // for -only
	Run  func(context.Context, *Rig) (*report.Section, error)
}

// Main runs sections as the command line asks. Each is written as soon as it is
// complete, so that a run that fails keeps what it had. command is how the
// program is called, for the report.
func Main(ctx context.Context, command string, args []string, stdout, stderr io.Writer, sections []Section) (err error) {
	var names []string
	for _, s := range sections {
		names = append(names, s.Name)
	}
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(stderr)
	rounds := fs.Int("rounds", 5, "rounds of every measurement")
	seconds := fs.Float64("seconds", 4, "length of one measurement")
	out := fs.String("out", "", "merge the sections into this Markdown `file`; a relative name is taken from the module's root")
	only := fs.String("only", "", "sections, comma separated, of "+strings.Join(names, ", ")+" (default: all)")
	program := fs.String("program", "./cmd/counterfoil", "package of the program to measure")
	dir := fs.String("dir", "", "`directory` for data, on the disk that is to be measured (default: that for temporary files)")
	clients := fs.String("clients", "1,8,64,512", "numbers of clients, comma separated")
	maxLeaves := fs.Int("max", 300_000, "largest log of the growth section, in leaves; up to 5000000")
	takeovers := fs.Int("takeovers", 10, "how often the cluster section kills the node that signs")
	catchup := fs.Int("catchup", 100_000, "leaves that a node of the cluster section catches up with; up to 1000000")
	profiles := fs.String("cpuprofile", "", "store processor profiles of the ledger in this `directory`, named by section; measures ./internal/bench/profiled in place of -program")
	if err := fs.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(sections, *only)
	if err != nil {
		return err
	}
	r := &Rig{Rounds: *rounds, Length: time.Duration(*seconds * float64(time.Second)), Max: *maxLeaves, Takeovers: *takeovers, Catchup: *catchup}
	if r.Rounds < 1 || r.Length <= 0 || r.Max < 1 || r.Takeovers < 1 || r.Catchup < 1 {
		return errors.New("-rounds, -seconds, -max, -takeovers and -catchup must be above 0")
	}
	if r.Clients, err = numbers(*clients); err != nil {
		return fmt.Errorf("-clients: %w", err)
	}
	if r.Root, err = moduleRoot(ctx); err != nil {
		return err
	}
	if *profiles != "" {
		*program = "./internal/bench/profiled"
		r.profiles = fromRoot(r.Root, *profiles)
		if err := os.MkdirAll(r.profiles, 0o755); err != nil {
			return err
		}
	}
	if r.Work, err = os.MkdirTemp(*dir, "counterfoil-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.Work)) }()
	if r.Work, err = filepath.Abs(r.Work); err != nil {
		return err
	}
	if r.Bin, err = r.Build(ctx, *program); err != nil {
		return err
	}
	for _, c := range chosen {
		r.section, r.profiled = c.Name, 0
		began := time.Now()
		s, err := c.Run(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		s.Made = made(r, fmt.Sprintf("%s -only %s", command, c.Name), began)
		if r.profiles != "" {
			s.Made += " Profiles were taken, which costs."
		}
		fmt.Fprintf(stdout, "%s\n", report.Text(s))
		if *out != "" {
			if err := report.Write(fromRoot(r.Root, *out), s); err != nil {
				return err
			}
		}
	}
	return nil
}

// made is the sentence that every section has: by what, when and on what.
func made(r *Rig, command string, began time.Time) string {
	what := "rounds"
	if r.Rounds == 1 {
		what = "round"
	}
	return fmt.Sprintf("Measured on %s by `%s`, %d %s of %s, on %d cores (%s), %s, %s/%s.", began.UTC().Format(time.DateOnly), command,
		r.Rounds, what, r.Length, runtime.NumCPU(), machine(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func choose(sections []Section, only string) ([]Section, error) {
	if only == "" {
		return sections, nil
	}
	var out []Section
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(sections, func(s Section) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no section %q (hint: -help lists them)", name)
		}
		out = append(out, sections[i])
	}
	return out, nil
}

func numbers(list string) (out []int, err error) {
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number above 0", s)
		}
		out = append(out, n)
	}
	return out, nil
}

func fromRoot(root, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(root, name)
}

// ClientsOf names a number of clients, as a heading.
func ClientsOf(n int) string {
	if n == 1 {
		return "1 client"
	}
	return report.Count(n) + " clients"
}
