package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// proxyPatience is how long the module proxy has to answer.
const proxyPatience = time.Minute

// peerModules are modules of their own, so that what others need stays out of
// the product's module; needs is what the module proxy must give for each.
var peerModules = []struct{ dir, needs string }{
	{"interop", "filippo.io/torchwood"},
	{"benchpeers", "github.com/codenotary/immudb"},
}

// peers runs the ledger and the witness against programs and libraries of
// others, and the programs that measure them side by side on very little.
func peers(ctx context.Context, e *env) error {
	var failed []error
	var skipped []string
	for _, m := range peerModules {
		err := peerModule(ctx, e, m.dir, m.needs)
		var skip errSkip
		switch {
		case errors.As(err, &skip):
			skipped = append(skipped, fmt.Sprintf("internal/%s: %s", m.dir, skip.reason))
		case err != nil:
			failed = append(failed, fmt.Errorf("internal/%s: %w", m.dir, err))
		}
	}
	if len(failed) == 0 && len(skipped) > 0 {
		return errSkip{strings.Join(skipped, "; ")}
	}
	return errors.Join(failed...)
}

func peerModule(ctx context.Context, e *env, dir, needs string) error {
	sub := *e
	sub.root = filepath.Join(e.root, "internal", dir)
	asked, cancel := context.WithTimeout(ctx, proxyPatience)
	defer cancel()
	if out, err := sub.combined(asked, "go", "mod", "download", needs); err != nil && ctx.Err() == nil {
		last := strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:])
		return errSkip{fmt.Sprintf("the module proxy does not give the peers: %s", last)}
	}
	if err := sub.stream(ctx, "go", "mod", "tidy", "-diff"); err != nil {
		return fmt.Errorf("%w\nhint: go -C internal/%s mod tidy", err, dir)
	}
	if err := sub.stream(ctx, "go", "vet", "./..."); err != nil {
		return err
	}
	if err := sub.stream(ctx, "go", "tool", "-modfile="+filepath.Join(e.root, "tools", "go.mod"), "staticcheck", "./..."); err != nil {
		return err
	}
	return sub.goTest(ctx, nil, "./...")
}
