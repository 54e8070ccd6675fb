package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"counterfoil/internal/bench/report"
	"counterfoil/internal/bench/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "benchpeers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return rig.Main(ctx, "go -C internal/benchpeers run .", args, stdout, stderr, []rig.Section{
		{Name: "peers", Run: func(ctx context.Context, r *rig.Rig) (*report.Section, error) { return beside(ctx, r, stderr) }},
	})
}
