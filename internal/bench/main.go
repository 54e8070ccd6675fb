// Command bench measures a ledger against a plain file in the same run.
//
// Times differ from machine to machine and from minute to minute; ratios
// travel. So every figure is a median of rounds, and where there is a baseline (a
// plain file with group commit) each round measures it right beside the ledger.
// The load generator is a process of its own and shares the machine's cores; its
// processor time is part of the report.
//
//	go run ./internal/bench [-only SECTION,…] [-rounds 5] [-seconds 4] [-out docs/benchmarks.md]
//
// A section is merged into the file and leaves the others there as they are.
// What needs programs of others is measured by internal/benchpeers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"counterfoil/internal/bench/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return rig.Main(ctx, "go run ./internal/bench", args, stdout, stderr, []rig.Section{
		{Name: "throughput", Run: throughput},
		{Name: "batch", Run: batch},
		{Name: "intake", Run: inProcess},
		{Name: "stages", Run: stages},
		{Name: "cluster", Run: cluster},
		{Name: "witnessed", Run: witnessed},
		{Name: "growth", Run: growth},
		{Name: "witness", Run: witness},
	})
}
