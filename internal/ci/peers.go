package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// proxyPatience is how long the module proxy has to answer.
const proxyPatience = time.Minute

// peers runs the ledger and the witness against programs and libraries of
// others. They are a module of their own, which the module proxy must give.
func peers(ctx context.Context, e *env) error {
	sub := *e
	sub.root = filepath.Join(e.root, "internal", "interop")
	asked, cancel := context.WithTimeout(ctx, proxyPatience)
	defer cancel()
	if out, err := sub.combined(asked, "go", "list", "-m", "-versions", "filippo.io/torchwood"); err != nil && ctx.Err() == nil {
		last := strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:])
		return errSkip{fmt.Sprintf("the module proxy does not give the peers: %s", last)}
	}
	if err := sub.stream(ctx, "go", "mod", "tidy", "-diff"); err != nil {
		return fmt.Errorf("%w\nhint: go -C internal/interop mod tidy", err)
	}
	if err := sub.stream(ctx, "go", "vet", "./..."); err != nil {
		return err
	}
	if err := sub.stream(ctx, "go", "tool", "-modfile="+filepath.Join(e.root, "tools", "go.mod"), "staticcheck", "./..."); err != nil {
		return err
	}
	return sub.goTest(ctx, nil, "./...")
}
