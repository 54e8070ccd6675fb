package arch

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "counterfoil"

// pkg is what go list says of a package.
type pkg struct {
	ImportPath, Dir, Name string
	Standard              bool
	Module                *struct{ Path string }
	GoFiles               []string
	Imports               []string
	TestImports           []string
	XTestImports          []string
	Error                 *struct{ Err string }
}

// name is the package as the rules name it.
func name(importPath string) string {
	if rel, ok := strings.CutPrefix(importPath, module+"/"); ok {
		return rel
	}
	return importPath
}

func (p *pkg) ours() bool { return p.Module != nil && p.Module.Path == module }

// match reports whether a package's name is one of the patterns.
func match(name string, patterns ...string) bool {
	for _, p := range patterns {
		dir, tree := strings.CutSuffix(p, "...")
		if name == strings.TrimSuffix(dir, "/") || tree && strings.HasPrefix(name, dir) {
			return true
		}
	}
	return false
}

// matchWhy returns the entry that names the package.
func matchWhy(name string, list []why) (why, bool) {
	for _, w := range list {
		if match(name, w.what) {
			return w, true
		}
	}
	return why{}, false
}

// graph is every package of the module with all that it depends on.
type graph map[string]*pkg

var load = sync.OnceValues(func() (graph, error) {
	cmd := exec.Command("go", "list", "-e", "-deps",
		"-json=ImportPath,Dir,Name,Standard,Module,GoFiles,Imports,TestImports,XTestImports,Error", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.Join(err, errors.New(string(exit.Stderr)))
		}
		return nil, err
	}
	g := make(graph)
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(pkg)
		if err := dec.Decode(p); err == io.EOF {
			return g, nil
		} else if err != nil {
			return nil, err
		}
		g[name(p.ImportPath)] = p
	}
})

func loadGraph(t *testing.T) graph {
	t.Helper()
	g, err := load()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return g
}

// ours returns the names of this module's packages that match.
func (g graph) ours(patterns ...string) []string {
	var names []string
	for n, p := range g {
		if p.ours() && match(n, patterns...) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

// chain returns the shortest way of imports from a package to one that to
// accepts, both ends included; nil if there is none. Tests are not followed.
func (g graph) chain(from string, to func(string) bool) []string {
	via := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		p := g[queue[0]]
		if p == nil {
			continue
		}
		for _, imp := range p.Imports {
			n := name(imp)
			if _, seen := via[n]; seen {
				continue
			}
			via[n] = queue[0]
			if to(n) {
				way := []string{n}
				for n = via[n]; n != ""; n = via[n] {
					way = append(way, n)
				}
				slices.Reverse(way)
				return way
			}
			queue = append(queue, n)
		}
	}
	return nil
}

// checkPure returns what makes a package impure by its imports.
func (g graph) checkPure(n string) (faults []string) {
	for _, imp := range g[n].Imports {
		imp = name(imp)
		p := g[imp]
		switch {
		case p != nil && p.ours():
			if !match(imp, pure...) {
				faults = append(faults, n+" imports "+imp+", which is not pure")
			}
		case p != nil && p.Standard:
			if w, bad := matchWhy(imp, impureStd); bad {
				faults = append(faults, n+" imports "+imp+": "+w.reason)
			}
		default:
			if _, ok := matchWhy(imp, pureModules); !ok {
				faults = append(faults, n+" imports "+imp+", which is not in pureModules")
			}
		}
	}
	return faults
}

// checkExclusive returns who imports a thing that is not theirs.
func (g graph) checkExclusive(x exclusive) (faults []string) {
	for _, n := range g.ours("...") {
		if match(n, x.by...) || match(n, x.what) {
			continue
		}
		p := g[n]
		report := func(imports []string, kind string) {
			for _, imp := range imports {
				if imp = name(imp); match(imp, x.what) {
					faults = append(faults, n+kind+" imports "+imp+": "+x.reason)
				}
			}
		}
		report(p.Imports, "")
		if !match(n, x.tests...) {
			report(p.TestImports, " (in a test)")
			report(p.XTestImports, " (in a test)")
		}
	}
	return faults
}

// checkBarrier returns the ways through a wall.
func (g graph) checkBarrier(b barrier) (faults []string) {
	for _, n := range g.ours(b.from...) {
		if way := g.chain(n, func(to string) bool { return match(to, b.to...) }); way != nil {
			faults = append(faults, strings.Join(way, " → ")+": "+b.reason)
		}
	}
	return faults
}

// checkVerifier returns what the verifier's binary should not hold.
func (g graph) checkVerifier() (faults []string) {
	if g[verifier.main] == nil {
		return nil
	}
	bad := func(n string) bool {
		p := g[n]
		switch {
		case p == nil:
			return false
		case p.ours():
			return !match(n, pure...) && !match(n, verifier.packages...)
		case p.Standard:
			_, never := matchWhy(n, verifier.never)
			return never
		default:
			return !moduleAllowed(p)
		}
	}
	if way := g.chain(verifier.main, bad); way != nil {
		faults = append(faults, strings.Join(way, " → "))
	}
	return faults
}

// moduleAllowed reports whether a package is of a module that pureModules names
// a part of: what such a module imports from itself is its own affair.
func moduleAllowed(p *pkg) bool {
	if p.Module == nil {
		return false
	}
	return slices.ContainsFunc(pureModules, func(w why) bool {
		dir := strings.TrimSuffix(w.what, "/...")
		return dir == p.Module.Path || strings.HasPrefix(dir, p.Module.Path+"/")
	})
}

func TestPackagesLoad(t *testing.T) {
	g := loadGraph(t)
	if len(g.ours("ledger/...")) == 0 {
		t.Fatal("go list found no package of the ledger: nothing would be checked")
	}
	for _, n := range g.ours("...") {
		if e := g[n].Error; e != nil {
			t.Errorf("%s: %s", n, e.Err)
		}
	}
}

func TestPureFloor(t *testing.T) {
	g := loadGraph(t)
	for _, n := range g.ours(pure...) {
		for _, f := range g.checkPure(n) {
			t.Error(f)
		}
		fset := token.NewFileSet()
		for _, file := range g[n].GoFiles {
			path := filepath.Join(g[n].Dir, file)
			parsed, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Error(err)
				continue
			}
			for _, f := range impurities(fset, parsed) {
				t.Errorf("%s: %s", n, f)
			}
		}
	}
}

// impurities finds goroutines and uses of the clock.
func impurities(fset *token.FileSet, file *ast.File) (faults []string) {
	clock := ""
	for _, imp := range file.Imports {
		if path, err := strconv.Unquote(imp.Path.Value); err == nil && path == "time" {
			clock = "time"
			if imp.Name != nil {
				clock = imp.Name.Name
			}
		}
	}
	at := func(n ast.Node, what string) {
		pos := fset.Position(n.Pos())
		faults = append(faults, filepath.Base(pos.Filename)+":"+strconv.Itoa(pos.Line)+": "+what)
	}
	if clock == "." {
		at(file, "imports time with a dot")
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			at(n, "starts a goroutine")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && clock != "" && x.Name == clock && slices.Contains(impureTime, n.Sel.Name) {
				at(n, "time."+n.Sel.Name+": time enters through parameters")
			}
		}
		return true
	})
	return faults
}

func TestExclusiveImports(t *testing.T) {
	g := loadGraph(t)
	for _, x := range exclusives {
		for _, f := range g.checkExclusive(x) {
			t.Error(f)
		}
	}
}

func TestBarriers(t *testing.T) {
	g := loadGraph(t)
	for _, b := range barriers {
		for _, f := range g.checkBarrier(b) {
			t.Error(f)
		}
	}
}

func TestBND06VerifierReachesOnlyPurePackages(t *testing.T) {
	for _, f := range loadGraph(t).checkVerifier() {
		t.Error(f)
	}
}

func TestEveryRuleSaysWhy(t *testing.T) {
	for _, list := range [][]why{pureModules, impureStd, verifier.never} {
		for _, w := range list {
			if w.reason == "" {
				t.Errorf("%s has no reason", w.what)
			}
		}
	}
	for _, x := range exclusives {
		if x.reason == "" {
			t.Errorf("exclusive %s has no reason", x.what)
		}
	}
	for _, b := range barriers {
		if b.reason == "" {
			t.Errorf("barrier %v has no reason", b.from)
		}
	}
}
