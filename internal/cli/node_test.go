package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestNodePrepare(t *testing.T) {
	a := &app{}
	e := newExecution(t, nil)
	e.deps.App = a
	if r := e.run("node", "prepare", "--data", "n1", "--origin", "example.com/x", "--out", "n2", "--out", "n3"); r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.errOut)
	}
	if want := []string{"n1", "example.com/x", "n2", "n3"}; !slices.Equal(a.prepared, want) {
		t.Errorf("%q, want %q", a.prepared, want)
	}
	if r := e.run("node", "prepare", "--data", "n1"); r.code != 2 || !strings.Contains(r.errOut, "--out DIR") {
		t.Errorf("without --out: exit %d: %s", r.code, r.errOut)
	}
}

// TestNodeFlags: flags that do not make a node together are refused before anything
// is started.
func TestNodeFlags(t *testing.T) {
	for _, x := range []struct {
		args string
		hint string // "" for what is good
	}{
		{"--cluster-name c --node a --cluster-listen 127.0.0.1:1 --routes 127.0.0.1:2,127.0.0.1:3", ""},
		{"--cluster-name c --node a --nats nats://h1,nats://h2,nats://h3 --replicas 3", ""},
		{"--node a", "--cluster-name NAME"},
		{"--replicas 3", "--cluster-name NAME"},
		{"--cluster-name c", "--node NAME"},
		{"--cluster-name c --node a", "--cluster-listen ADDR --routes ADDR,ADDR"},
		{"--cluster-name c --node a --cluster-listen 127.0.0.1:1 --routes 127.0.0.1", "--routes 10.0.0.2:6222"},
	} {
		a := &app{}
		e := newExecution(t, nil)
		e.deps.App = a
		r := e.run(append([]string{"serve"}, strings.Fields(x.args)...)...)
		if x.hint == "" {
			if r.code != 0 || a.served.Node.Name != "a" {
				t.Errorf("%s: exit %d, %+v: %s", x.args, r.code, a.served.Node, r.errOut)
			}
			continue
		}
		if r.code != 2 || !strings.Contains(r.errOut, x.hint) {
			t.Errorf("%s: exit %d: %s", x.args, r.code, r.errOut)
		}
	}
}

func TestCLU11_NodeFetchSaysByWhomTheTreeIsSigned(t *testing.T) {
	a := &app{}
	e := newExecution(t, nil)
	e.deps.App = a
	r := e.run("node", "fetch", "--data", "n3", "--from", "http://n1", "--from", "http://n2")
	if r.code != 0 || !strings.Contains(r.out, "7 leaves, 5 of them fetched") || !strings.Contains(r.out, "the log's key alone") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if want := []string{"n3", "", "http://n1", "http://n2"}; !slices.Equal(a.fetched, want) {
		t.Errorf("%q, want %q", a.fetched, want)
	}
	a.cosigned = "2 of 3"
	r = e.run("node", "fetch", "--data", "n3", "--from", "http://n1", "--witness-policy", "w.policy", "--json")
	if r.code != 0 || !strings.Contains(r.out, `"schemaVersion":"counterfoil.fetched.v1"`) || !strings.Contains(r.out, `"cosigned":"2 of 3"`) || a.fetched[1] != "w.policy" {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if r := e.run("node", "fetch", "--data", "n3"); r.code != 2 || !strings.Contains(r.errOut, "--from http://") {
		t.Errorf("without --from: exit %d: %s", r.code, r.errOut)
	}
}
