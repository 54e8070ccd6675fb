// Command bench measures a ledger against a plain file in the same run.
//
// Times differ from machine to machine and from minute to minute; ratios
// travel. So every figure is a median of rounds, and each round measures the
// baseline (a plain file with group commit) right beside the ledger. The load
// generator is a process of its own and shares the machine's cores; its CPU time
// is part of the report.
//
//	go run ./internal/bench [-rounds 5] [-seconds 4] [-out docs/benchmarks.md]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 5, "rounds of every measurement")
	seconds := flag.Float64("seconds", 4, "length of one measurement")
	out := flag.String("out", "", "write the report to this file as well")
	only := flag.String("only", "", "one of throughput, batch, latency, witnessed, growth, witness (default: all)")
	pkg := flag.String("program", "./cmd/counterfoil", "package of the program to measure")
	dir := flag.String("dir", "", "directory for data (default: a temporary one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	work, err := os.MkdirTemp(*dir, "counterfoil-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	bin := filepath.Join(work, "counterfoil")
	if b, err := exec.CommandContext(ctx, "go", "build", "-o", bin, *pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, b)
	}
	b := &bench{bin: bin, work: work, rounds: *rounds, length: time.Duration(*seconds * float64(time.Second))}
	r := newReport()
	for _, m := range []struct {
		name string
		run  func(context.Context, *report) error
	}{{"throughput", b.throughput}, {"batch", b.batch}, {"latency", b.latency}, {"witnessed", b.witnessed}, {"growth", b.growth}, {"witness", b.witness}} {
		if *only != "" && *only != m.name {
			continue
		}
		if err := m.run(ctx, r); err != nil {
			return err
		}
	}
	text := r.markdown()
	fmt.Print(text)
	if *out != "" {
		return os.WriteFile(*out, []byte(text), 0o644)
	}
	return nil
}

// machine describes what the figures were measured on.
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
	return fmt.Sprintf("%d cores (%s), %s, %s/%s", runtime.NumCPU(), cpu, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
