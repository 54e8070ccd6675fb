package admit_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"counterfoil/internal/admit"
	"counterfoil/internal/app"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/client"
)

// room is a running ledger and what admissions are made with.
type room struct {
	t testing.TB
	*app.Server
	client *client.Client
	ledger admit.Ledger // the client, unless a test puts trouble in between
	wait   client.Stage
	pauses []time.Duration
}

func newRoom(t testing.TB) *room {
	t.Helper()
	s, err := app.Start(context.Background(), app.Config{Dir: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler), Random: rand.Reader, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	r := &room{t: t, Server: s, wait: client.Published}
	if r.client, err = client.New(client.Config{Server: s.Ready.Listening, Token: s.Token}); err != nil {
		t.Fatal(err)
	}
	r.ledger = r.client
	t.Cleanup(func() {
		r.client.Close()
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func evidence(name string) string { return filepath.Join("..", "..", "testdata", "evidence", name) }

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func shipped(t testing.TB, name string) *policy.Policy {
	t.Helper()
	p, err := policy.Load(read(t, filepath.Join("..", "..", "deploy", "policies", name+".yaml")))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const publicGood = "trusted_root.public-good.2023.json"

// material is the trust material of a root.
func material(t testing.TB, root string) admit.Material {
	m := admit.Material{Now: time.Now}
	if root != "" {
		m.TrustedRoot = &sigstore.File{Name: "trusted_root", Body: read(t, evidence(root))}
	}
	return m
}

// admit runs an admission with files only.
func (r *room) admit(policyName, root string, req admit.Request) *admit.Result {
	r.t.Helper()
	return r.run(shipped(r.t, policyName), material(r.t, root), "", req)
}

func (r *room) run(p *policy.Policy, m admit.Material, registry string, req admit.Request) *admit.Result {
	r.t.Helper()
	res, err := r.try(p, m, registry, req)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func (r *room) try(p *policy.Policy, m admit.Material, registry string, req admit.Request) (*admit.Result, error) {
	r.t.Helper()
	stack, err := admit.NewStack(m)
	if err != nil {
		r.t.Fatal(err)
	}
	return admit.Run(r.t.Context(), admit.Config{
		Ledger: r.ledger, Policy: p, Stack: stack, Registry: registry, Wait: r.wait, Random: rand.Reader,
		Pause: func(_ context.Context, d time.Duration) error { r.pauses = append(r.pauses, d); return nil },
	}, req)
}

// entry writes a server.json with one npm package.
func entry(t testing.TB, server, version, repository, identifier string) string {
	t.Helper()
	doc := map[string]any{
		"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json", "name": server, "description": "A server.", "version": version,
		"packages": []any{map[string]any{"registryType": "npm", "identifier": identifier, "version": version, "transport": map[string]any{"type": "stdio"}}},
	}
	if repository != "" {
		doc["repository"] = map[string]any{"url": repository, "source": "github"}
	}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "server.json", b)
}

func write(t testing.TB, name string, b []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// sigstoreJS is the request for a real package with its real provenance.
func sigstoreJS(t testing.TB, class string) admit.Request {
	return admit.Request{
		Entry: entry(t, "io.github.sigstore/sigstore", "2.0.0", "https://github.com/sigstore/sigstore-js", "sigstore"), Class: class,
		Artifact: evidence("sigstore-2.0.0.tgz"), Evidence: []string{evidence("sigstore-2.0.0.provenance.json")},
	}
}

func want(t testing.TB, res *admit.Result, d admission.Decision, codes ...admission.Code) {
	t.Helper()
	if res.Decision != d || !slices.Equal(res.ReasonCodes, codes) {
		t.Errorf("%s %v, want %s %v (failed: %+v)", res.Decision, res.ReasonCodes, d, codes, res.Failed)
	}
}

// events are the events under a trace id, in the order of the log.
func (r *room) events(trace string) []client.Receipt {
	r.t.Helper()
	last := r.last()
	var page *client.Answer[client.Receipts]
	var err error
	for page == nil || page.Value.TreeSize < last { // the views follow the log
		if page, err = r.client.Receipts(r.t.Context(), url.Values{"limit": {"256"}}); err != nil {
			r.t.Fatal(err)
		}
	}
	var out []client.Receipt
	for _, e := range page.Value.Receipts {
		if e.TraceID == trace {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b client.Receipt) int { return int(a.LeafIndex) - int(b.LeafIndex) })
	return out
}

// last is the last sequence of the stream.
func (r *room) last() uint64 {
	r.t.Helper()
	status, err := r.client.Status(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return status.Value.StreamLast
}

// body reads a body of the archive.
func (r *room) body(digest string) []byte {
	r.t.Helper()
	b, err := r.client.ArchiveBody(r.t.Context(), digest, 1<<20)
	if err != nil {
		r.t.Fatal(err)
	}
	if admission.Digest(b) != digest {
		r.t.Fatalf("%s has other bytes", digest)
	}
	return b
}
