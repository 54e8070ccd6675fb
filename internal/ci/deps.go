package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"counterfoil/internal/licence"
)

// shipped are the programs of a release.
const shipped = "./cmd/..."

// deps looks at what others wrote and we ship: every module's licence must be one
// that is allowed, and none may have a known vulnerability that our code reaches.
func deps(ctx context.Context, e *env) error {
	modules, err := shippedModules(ctx, e)
	if err != nil {
		return err
	}
	count, refused := map[string]int{}, 0
	for _, m := range modules {
		if why := m.Refused(); why != "" {
			fmt.Fprintf(e.out, "%s %s: %s\n", m.Path, m.Version, why)
			refused++
		}
		count[strings.Join(m.Licences, "+")]++
	}
	names := make([]string, 0, len(count))
	for name := range count {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(e.out, "%4d %s\n", count[name], name)
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d modules are under a licence that is not allowed", refused, len(modules))
	}
	if e.notices != "" {
		var b bytes.Buffer
		if err := licence.WriteNotices(&b, modules); err != nil {
			return err
		}
		if err := os.WriteFile(e.notices, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("write the notices: %w", err)
		}
	}
	return vulnerabilities(ctx, e)
}

// shippedModules are the modules of others in the programs, for every system that
// they are built for.
func shippedModules(ctx context.Context, e *env) ([]*licence.Module, error) {
	var root bytes.Buffer
	where := e.command(ctx, "go", "env", "GOVERSION", "GOROOT")
	where.Stdout, where.Stderr = &root, e.out
	if err := where.Run(); err != nil {
		return nil, err
	}
	version, goroot, _ := strings.Cut(strings.TrimSpace(root.String()), "\n")
	std, err := licence.Read("the Go standard library", version, goroot)
	if err != nil {
		return nil, err
	}
	seen, modules := map[string]bool{}, []*licence.Module{std}
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := e.command(ctx, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}", shipped)
		list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		var out bytes.Buffer
		list.Stdout, list.Stderr = &out, e.out
		if err := list.Run(); err != nil {
			return nil, fmt.Errorf("list the modules for %s: %w", system, err)
		}
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSpace(line)
			if line == "" || seen[line] {
				continue
			}
			seen[line] = true
			f := strings.Split(line, "\t")
			if len(f) != 3 {
				return nil, fmt.Errorf("go list says %q\nhint: go mod download", line)
			}
			m, err := licence.Read(f[0], f[1], f[2])
			if err != nil {
				return nil, err
			}
			modules = append(modules, m)
		}
	}
	return modules, nil
}

// vulnerabilities asks the public database, where it can be reached.
func vulnerabilities(ctx context.Context, e *env) error {
	out, err := e.combined(ctx, "go", "tool", toolFile, "govulncheck", shipped)
	switch {
	case err == nil:
		fmt.Fprint(e.out, out)
		return nil
	case strings.Contains(out, "fetching vulnerabilities:"):
		return errSkip{"licences are in order; the database of vulnerabilities is not reachable from here"}
	}
	fmt.Fprint(e.out, out)
	return fmt.Errorf("govulncheck: %w\nhint: go get the versions that it names", err)
}
