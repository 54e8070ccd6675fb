package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// deployed tries what is in deploy/ without a container engine. Its tests are a module
// of their own, with Prometheus' language and a NATS server, which the module proxy
// must give. That module is not tidied here: it would fetch what the tests of all those
// modules import.
func deployed(ctx context.Context, e *env) error {
	sub := *e
	sub.root = filepath.Join(e.root, "internal", "deploytest")
	asked, cancel := context.WithTimeout(ctx, proxyPatience)
	defer cancel()
	if out, err := sub.combined(asked, "go", "mod", "download", "github.com/prometheus/prometheus"); err != nil && ctx.Err() == nil {
		last := strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:])
		return errSkip{fmt.Sprintf("the module proxy does not give Prometheus: %s", last)}
	}
	if err := sub.stream(ctx, "go", "vet", "./..."); err != nil {
		return err
	}
	if err := sub.stream(ctx, "go", "tool", "-modfile="+filepath.Join(e.root, "tools", "go.mod"), "staticcheck", "./..."); err != nil {
		return err
	}
	return sub.goTest(ctx, nil, "./...")
}
