// Package namespace asks a namespace's own domain whether it publishes a key for
// MCP registries, which is what a registry had to see before it let somebody
// publish under that name.
//
// A server name com.example.team/server belongs to the domain team.example.com. Its
// proof is the same line in two places, one of which is enough:
//
//	DNS   a TXT record of the domain, or of one above it
//	HTTP  https://DOMAIN/.well-known/mcp-registry-auth
//	line  v=MCPv1; k=ed25519 or ecdsap384; p=PUBLIC KEY, base64
//
// That the domain publishes a key today does not show that its holder published
// this entry: the check is one input and no verdict (ADM-01). Names under io.github
// and the like belong to accounts, which only the registry saw.
//
// Sources: requirements ADM-01, ADM-04; the MCP registry's documentation of
// namespace authentication.
package namespace

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
)

const maxAnswer = 64 << 10

// LookupTXT asks for the TXT records of a name; [net.Resolver.LookupTXT] is one.
type LookupTXT func(ctx context.Context, name string) ([]string, error)

var labels = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+$`)

// accounts are namespaces of accounts at a host: no domain is theirs.
var accounts = []string{"io.github.", "io.gitlab."}

// Domain is the domain that a server name belongs to; ok is false for the name of
// an account and for what is no name of a domain.
func Domain(server string) (domain string, ok bool) {
	space, _, found := strings.Cut(server, "/")
	space = strings.ToLower(space)
	if !found || slices.ContainsFunc(accounts, func(a string) bool { return strings.HasPrefix(space, a) }) {
		return "", false
	}
	parts := strings.Split(space, ".")
	slices.Reverse(parts)
	domain = strings.Join(parts, ".")
	return domain, len(domain) <= 253 && labels.MatchString(domain) && net.ParseIP(domain) == nil
}

// DNS checks the TXT records of a server's domain and of those above it, down to
// two labels: a registry takes a domain's key for all names below it. An error says
// that nothing was found out because ctx ended.
func DNS(ctx context.Context, lookup LookupTXT, server string) (admission.Check, error) {
	none := admission.Check{ID: admission.CheckNamespaceDNS, State: admission.CheckAbsent}
	domain, ok := Domain(server)
	if !ok {
		none.Detail = "the name belongs to an account, not to a domain"
		return none, nil
	}
	none.Expected = "a key of " + domain
	best := none
	for above := true; above; _, domain, above = strings.Cut(domain, ".") {
		if !strings.Contains(domain, ".") {
			break
		}
		records, err := lookup(ctx, domain)
		var dns *net.DNSError
		c := judge(none, records)
		switch {
		case ctx.Err() != nil:
			return none, context.Cause(ctx)
		case errors.As(err, &dns) && dns.IsNotFound:
			c = judge(none, nil)
		case err != nil:
			c = none
			c.State, c.Detail = admission.CheckUnavailable, fetch.Clip(err.Error())
		case c.State == admission.CheckPass:
			c.Got += " of " + domain
			return c, nil
		}
		// A bad key says more than no answer, and that more than no key.
		if rank[c.State] > rank[best.State] || best.Detail == "" {
			best = c
		}
	}
	return best, nil
}

var rank = map[admission.CheckState]int{admission.CheckAbsent: 0, admission.CheckUnavailable: 1, admission.CheckFail: 2}

// HTTP checks the file of a server's domain. The file must come from the domain
// itself: a redirect to another host proves something about that one.
func HTTP(ctx context.Context, f *fetch.Fetcher, server string) (admission.Check, error) {
	c := admission.Check{ID: admission.CheckNamespaceHTTP, State: admission.CheckAbsent}
	domain, ok := Domain(server)
	if !ok {
		c.Detail = "the name belongs to an account, not to a domain"
		return c, nil
	}
	c.Expected = "a key of " + domain
	b, blob, err := f.Bytes(ctx, fetch.Request{Locator: "https://" + domain + "/.well-known/mcp-registry-auth", MaxBytes: maxAnswer})
	switch {
	case err != nil && fetch.KindOf(err) == "":
		return c, err
	case fetch.KindOf(err) == fetch.NotFound:
		return judge(c, nil), nil
	case err != nil:
		c.State, c.Detail = admission.CheckUnavailable, fetch.Clip(err.Error())
		return c, nil
	case blob.Host != domain:
		c.State, c.Detail = admission.CheckUnavailable, fetch.Clip("answered by "+blob.Host)
		return c, nil
	}
	return judge(c, strings.Split(string(b), "\n")), nil
}

// judge looks for a line with a key. A domain that publishes none is absent: it
// may prove its namespace in the other place.
func judge(c admission.Check, lines []string) admission.Check {
	var why error
	for _, line := range lines {
		alg, err := key(line)
		if err == nil {
			c.State, c.Got, c.Code, c.Detail = admission.CheckPass, alg+" key", "", ""
			return c
		}
		if !errors.Is(err, errOther) {
			why = err
		}
	}
	if why != nil {
		c.State, c.Code, c.Detail = admission.CheckFail, admission.NamespaceUnverified, fetch.Clip(why.Error())
		return c
	}
	c.Detail = "the domain publishes no key"
	return c
}

var errOther = errors.New("a line about something else")

// keyBytes are the lengths of public keys: Ed25519, and compressed P-384.
var keyBytes = map[string]int{"ed25519": 32, "ecdsap384": 49}

// key reads a line "v=MCPv1; k=…; p=…".
func key(line string) (alg string, err error) {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(strings.ReplaceAll(line, " ", ""), "v=MCPv1") {
		return "", errOther
	}
	fields := map[string]string{}
	for part := range strings.SplitSeq(line, ";") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if name = strings.TrimSpace(name); name == "" && !ok {
			continue // after the last semicolon
		}
		if _, twice := fields[name]; !ok || twice {
			return "", fmt.Errorf("field %.40q of the domain's key stands twice or has no value", name)
		}
		fields[name] = strings.TrimSpace(value)
	}
	if fields["v"] != "MCPv1" {
		return "", errOther
	}
	n, known := keyBytes[fields["k"]]
	raw, err := base64.StdEncoding.DecodeString(fields["p"])
	if !known || err != nil || len(raw) != n {
		return "", fmt.Errorf("the domain's key of kind %.40q has %d bytes that can be read, expected ed25519 with 32 or ecdsap384 with 49", fields["k"], len(raw))
	}
	return fields["k"], nil
}
