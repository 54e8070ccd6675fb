package admit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/admission/evidence/mcpb"
	"counterfoil/ledger/admission/evidence/namespace"
	"counterfoil/ledger/admission/evidence/npm"
	"counterfoil/ledger/admission/evidence/oci"
	"counterfoil/ledger/admission/evidence/pypi"
	"counterfoil/ledger/admission/evidence/remote"
	"counterfoil/ledger/admission/evidence/sigstore"
)

// Material is what the shipped verifiers believe, and where the shipped resolvers
// look. Every file is optional; without a trusted root no keyless signature
// verifies.
type Material struct {
	TrustedRoot *sigstore.File   // a Sigstore trusted_root.json
	NPMKeys     *sigstore.File   // the key file of an npm registry
	Keys        []*sigstore.File // public keys in PEM
	MCPBRoots   *sigstore.File   // certificates in PEM
	// NPMRegistry is asked in place of npm.DefaultRegistry, such as a mirror.
	NPMRegistry string
	// Transport makes requests; nil refuses every URL.
	Transport http.RoundTripper
	// PlainHTTP allows http:// URLs.
	PlainHTTP bool
	Now       func() time.Time
	// Pause waits between two tries at one URL; nil waits for real.
	Pause func(ctx context.Context, d time.Duration) error
	// LookupTXT asks for TXT records; nil asks nobody.
	LookupTXT namespace.LookupTXT
}

// NewStack makes the resolvers and verifiers that are shipped.
func NewStack(m Material) (*Stack, error) {
	f, err := fetch.New(fetch.Config{Transport: m.Transport, Now: m.Now, PlainHTTP: m.PlainHTTP, Attempts: rights("discovery").Attempts, Pause: m.Pause})
	if err != nil {
		return nil, err
	}
	s := &Stack{Fetch: f, LookupTXT: m.LookupTXT}
	if s.LookupTXT == nil {
		s.LookupTXT = func(context.Context, string) ([]string, error) { return nil, errors.New("no network is given") }
	}
	return s, errors.Join(s.resolvers(m), s.verifiers(m))
}

func (s *Stack) resolvers(m Material) error {
	npmConfig := npm.Config{Fetch: s.Fetch, Registry: npm.DefaultRegistry}
	if m.NPMRegistry != "" {
		at := strings.TrimSuffix(m.NPMRegistry, "/")
		npmConfig.Registry, npmConfig.Mirrors, npmConfig.SameHost = at, map[string]string{npm.DefaultRegistry: at}, true
	}
	n, err1 := npm.NewResolver(npmConfig)
	o, err2 := oci.NewResolver(oci.Config{Fetch: s.Fetch})
	p, err3 := pypi.NewResolver(pypi.Config{Fetch: s.Fetch})
	b, err4 := mcpb.NewResolver(mcpb.Config{Fetch: s.Fetch})
	r, err5 := remote.NewResolver(remote.Config{Fetch: s.Fetch})
	s.Resolvers = []admission.Resolver{n, o, p, b, r}
	return errors.Join(err1, err2, err3, err4, err5)
}

func (s *Stack) verifiers(m Material) error {
	var cfg sigstore.Config
	cfg.Root = m.TrustedRoot
	for _, f := range m.Keys {
		k, err := sigstore.ParsePEMKey(f.Body)
		if err != nil {
			return fmt.Errorf("key %s: %w", f.Name, err)
		}
		cfg.Keys, cfg.KeyFiles = append(cfg.Keys, k), append(cfg.KeyFiles, *f)
	}
	bundles, err := sigstore.New(cfg)
	if err != nil {
		return err // others read the same root
	}
	registry, err1 := npm.NewVerifier(m.TrustedRoot, m.NPMKeys)
	python, err2 := pypi.NewVerifier(m.TrustedRoot)
	blocks, err3 := mcpb.NewVerifier(m.MCPBRoots)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	s.Verifiers = []admission.Verifier{registry, python, blocks, bundles}
	for _, f := range append([]*sigstore.File{m.TrustedRoot, m.NPMKeys, m.MCPBRoots}, m.Keys...) {
		if f != nil {
			s.Trust = append(s.Trust, *f)
		}
	}
	return nil
}
