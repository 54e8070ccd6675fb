// Package remote resolves MCP servers that somebody else runs. There are no bytes
// to bind, and none are made up: what is bound is what the server shows to every
// client, its tools, resources and prompts, and the key by which it speaks TLS.
//
// The server is asked as a client would ask it, over streamable HTTP: initialize,
// or server/discover where there is no initialize, and the lists, page by page. No
// tool is called. The answers are digested as they came (package toolcontract).
//
// Sources: requirements ADM-18, ADM-21, ADM-26; Model Context Protocol 2025-11-25
// and 2026-07-28.
package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"counterfoil/internal/toolcontract"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/event"
)

// Config says how servers are asked.
type Config struct {
	Fetch *fetch.Fetcher // required
	// Header goes to the server, such as an authorization. What a server shows
	// may depend on it.
	Header http.Header
}

// Resolver asks servers. It implements [admission.Resolver].
type Resolver struct{ cfg Config }

// NewResolver returns a resolver.
func NewResolver(cfg Config) (*Resolver, error) {
	if cfg.Fetch == nil {
		return nil, errors.New("remote: nothing to ask with")
	}
	return &Resolver{cfg}, nil
}

// PackageType implements [admission.Resolver].
func (r *Resolver) PackageType() string { return admission.TypeRemote }

// Resolve implements [admission.Resolver]. An override is another URL of the same
// server.
func (r *Resolver) Resolve(ctx context.Context, s admission.Selection) (admission.Resolution, error) {
	if s.Remote == nil {
		return admission.Resolution{}, errors.New("remote: the selection is no remote server")
	}
	at := s.Remote.URL
	if s.Override != "" {
		at = s.Override
	}
	if strings.ContainsAny(s.Remote.URL, "{}") && s.Override == "" {
		return fetch.Failed(admission.ArtifactUnresolved, fmt.Sprintf("URL %.300q has variables; give the URL itself", at)), nil
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return fetch.Failed(admission.ArtifactUnresolved, "the server's URL cannot be read, or has a user or a fragment in it"), nil
	}
	if s.Remote.Type != "streamable-http" {
		return fetch.Failed(admission.RemoteNotBytePinnable, fmt.Sprintf("transport %.100q is not asked, only streamable-http", s.Remote.Type)), nil
	}
	inner, cancel := context.WithTimeout(ctx, r.cfg.Fetch.Timeout())
	defer cancel()
	c := &client{url: at, header: r.cfg.Header, guard: r.cfg.Fetch.Guard(maxAnswer)}
	seen, err := c.observe(inner)
	c.end(inner)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return admission.Resolution{}, context.Cause(ctx)
	default:
		return fetch.Failed(code(err), err.Error()), nil
	}
	a := &admission.ArtifactBinding{
		Schema: admission.BindingSchema, Kind: admission.KindPinnedDeployment, PackageType: admission.TypeRemote,
		Identifier: s.Remote.URL, Transport: s.Remote.Type, Locator: locator(u), RetrievedAt: event.FormatTime(r.cfg.Fetch.Now()),
		Deployment: &admission.DeploymentBinding{ToolContract: seen.surface.Digest, Tools: seen.surface.Tools, TLSKey: c.key, Discovery: seen.discovery},
	}
	return admission.Resolution{Binding: a, Checks: checks(s.Expected, a, u.Host)}, nil
}

// locator is a URL without what may be secret.
func locator(u *url.URL) string {
	c := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return c.String()
}

// checks compares a deployment with an expected one. A key that was replaced and
// tools that changed are two things: a policy may excuse one of them.
func checks(expected *admission.ArtifactBinding, a *admission.ArtifactBinding, host string) []admission.Check {
	out := []admission.Check{{ID: admission.CheckSource, State: admission.CheckPass, Expected: host, Got: host}}
	var want admission.DeploymentBinding
	if expected != nil {
		if expected.Deployment == nil {
			return append(out, admission.Check{
				ID: admission.CheckToolContract, State: admission.CheckFail, Code: admission.ToolContractMismatch,
				Expected: "a binding of kind " + string(expected.Kind), Got: a.Deployment.ToolContract,
			})
		}
		want = *expected.Deployment
	}
	key := fetch.Compared(admission.CheckTLSIdentity, want.TLSKey, a.Deployment.TLSKey, admission.TLSIdentityMismatch)
	if want.TLSKey != "" && a.Deployment.TLSKey == "" {
		key.State, key.Code, key.Got = admission.CheckFail, admission.TLSIdentityMismatch, "no TLS"
	}
	return append(out, key, fetch.Compared(admission.CheckToolContract, want.ToolContract, a.Deployment.ToolContract, admission.ToolContractMismatch))
}

// code is the reason code for a server that could not be observed.
func code(err error) admission.Code {
	var changed *keyChanged
	var closed *closed
	switch {
	case errors.As(err, &changed):
		return admission.TLSIdentityMismatch
	case errors.As(err, &closed):
		return admission.RemoteNotBytePinnable
	case fetch.KindOf(err) == fetch.TooLarge, errors.Is(err, errTooMuch):
		return admission.ArtifactTooLarge
	}
	return admission.ArtifactUnresolved
}

// observation is what a server showed.
type observation struct {
	surface   toolcontract.Surface
	discovery string
}
