package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"counterfoil/internal/admit"
	"counterfoil/internal/durable"
	"counterfoil/internal/wait"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/admission/evidence/sigstore"
	"counterfoil/ledger/admission/policy"
)

// mcpRegistry is where names are looked up.
const mcpRegistry = "https://registry.modelcontextprotocol.io"

// maxTrustBytes bounds a file of trust material.
const maxTrustBytes = 4 << 20

// admitFlags are the flags of admit.
type admitFlags struct {
	req                                     admit.Request
	policy, trustedRoot, npmKeys, mcpbRoots string
	keys                                    []string
	registry, npmRegistry, expect, wait     string
	vsa                                     string
	offline, plainHTTP, privateNetwork      bool
}

func (c *cli) admitCommand() *cobra.Command {
	var f admitFlags
	cmd := &cobra.Command{
		Use:   "admit SERVER_JSON|NAME[@VERSION] --class CLASS --policy FILE",
		Short: "Admit an MCP server on evidence, or say why not",
		Long: `admit reads a registry entry, a file or by NAME from a registry, resolves the artifact,
verifies what others signed about it, asks the policy, and records the decision with all
it rests on. This program asks the network and verifies; the ledger keeps and signs. An
admit also sets the contract of the server's name.

Exit codes: 0 admit, 1 quarantine or reject, 2 it could not be judged.`,
		Example: `  counterfoil admit server.json --class light --policy deploy/policies/light.yaml
  counterfoil admit io.github.example/server@1.2.0 --class standard --package npm \
      --policy deploy/policies/standard.yaml --trusted-root trusted_root.json --json
  counterfoil admit server.json --class privileged --policy deploy/policies/privileged.yaml \
      --artifact server-2.0.0.tgz --evidence provenance.json --trusted-root trusted_root.json --offline`,
		Args: want(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.req.Entry = args[0]
			res, err := c.admit(cmd.Context(), &f)
			if err != nil {
				return c.unjudged(err)
			}
			if c.json {
				err = c.printJSON(res)
			} else {
				err = c.showAdmission(res)
			}
			if err != nil {
				return err
			}
			return failed(res.Decision == admission.Admit)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.req.Class, "class", "", "risk class of the policy")
	fl.StringVar(&f.policy, "policy", "", "policy document (YAML, docs/policy.md)")
	fl.StringVar(&f.req.Package, "package", "", "way through the entry: npm, oci, pypi, mcpb or remote, or TYPE:IDENTIFIER (default: the only one)")
	fl.StringVar(&f.req.Artifact, "artifact", "", "file or URL of the artifact, in place of where the entry says")
	fl.StringArrayVar(&f.req.Evidence, "evidence", nil, "file, URL or folder of evidence; may be given several times")
	fl.StringVar(&f.trustedRoot, "trusted-root", "", "Sigstore trusted_root.json; without it no keyless signature verifies")
	fl.StringVar(&f.npmKeys, "npm-keys", "", "key file of the npm registry")
	fl.StringArrayVar(&f.keys, "key", nil, "public key in PEM that is believed; may be given several times")
	fl.StringVar(&f.mcpbRoots, "mcpb-roots", "", "certificates in PEM that may sign MCP bundles")
	fl.StringVar(&f.expect, "expect", "", "digest that the artifact must have, sha256:HEX or sha512:HEX")
	fl.BoolVar(&f.req.Repin, "repin", false, "take other bytes or tools than an earlier admission of this version pinned")
	fl.StringVar(&f.req.Contract, "contract", "", "name of the contract that an admit sets (default: the server's name)")
	fl.BoolVar(&f.req.NoContract, "no-contract", false, "set no contract")
	fl.StringVar(&f.req.Backfill, "backfill", "", "record an old admission by reference to this event, contract or ticket")
	fl.StringVar(&f.vsa, "vsa", "", "file for the decision as a SLSA verification summary, in a Sigstore bundle")
	fl.StringVar(&f.registry, "registry", mcpRegistry, "MCP registry for names")
	fl.StringVar(&f.npmRegistry, "npm-registry", "", "npm registry or mirror that is asked in place of the public one")
	fl.BoolVar(&f.offline, "offline", false, "read files only; every URL is refused")
	fl.BoolVar(&f.plainHTTP, "plain-http", false, "allow http:// URLs, for servers on this machine")
	fl.BoolVar(&f.privateNetwork, "private-network", false, "let entries lead to addresses that are not public")
	fl.BoolVar(&f.req.CheckNamespace, "check-namespace", false, "ask the domain of the server's name whether it publishes a key for registries")
	complete(cmd, "package", "npm", "oci", "pypi", "mcpb", "remote")
	c.addClientFlags(cmd)
	addWait(cmd, &f.wait)
	return cmd
}

// unjudged turns trouble into exit code 2: nothing was judged.
func (c *cli) unjudged(err error) error {
	var usage *usageError
	if errors.As(err, &usage) {
		return err
	}
	_ = c.report(err)
	return exitCode(exitUsage)
}

func (c *cli) admit(ctx context.Context, f *admitFlags) (*admit.Result, error) {
	stage, err := stageOf(f.wait)
	if err != nil {
		return nil, err
	}
	if f.req.Class == "" || f.policy == "" {
		return nil, usagef("--class CLASS --policy FILE; the classes are in the policy", "admit needs a class and a policy")
	}
	if f.req.Expected, err = expectFlag(f.expect); err != nil {
		return nil, err
	}
	b, err := readPolicy(f.policy)
	if err != nil {
		return nil, err
	}
	p, err := policy.Load(b)
	if err != nil {
		return nil, &hinted{fmt.Errorf("policy %s: %w", f.policy, err), "all problems: counterfoil policy lint " + f.policy}
	}
	stack, err := c.stack(f)
	if err != nil {
		return nil, err
	}
	cl, err := c.connect(false)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	res, err := admit.Run(ctx, admit.Config{
		Ledger: cl, Policy: p, Stack: stack, Registry: f.registry, Wait: stage, Random: c.env.Random, Pause: wait.For,
	}, f.req)
	var wrong *admit.Usage
	if errors.As(err, &wrong) {
		message, hint, _ := strings.Cut(wrong.Error(), " (hint: ")
		return nil, &usageError{err: errors.New(message), hint: strings.TrimSuffix(hint, ")")}
	}
	if err != nil || f.vsa == "" {
		return res, err
	}
	if res.VSA == "" {
		c.say("no verification summary: it is about an artifact's bytes, and signed by a key that signs whole messages")
		return res, nil
	}
	b, err = cl.ArchiveBody(ctx, res.VSA, maxTrustBytes)
	if err == nil {
		err = os.WriteFile(f.vsa, b, 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("the decision %s is recorded as %s, its summary is not written: %w", res.Decision, res.EventID, err)
	}
	return res, nil
}

// expectFlag reads a digest with its algorithm.
func expectFlag(s string) (admission.DigestSet, error) {
	if s == "" {
		return nil, nil
	}
	alg, value, _ := strings.Cut(s, ":")
	n := map[string]int{"sha256": 32, "sha384": 48, "sha512": 64}[alg]
	if b, err := hex.DecodeString(value); err != nil || n == 0 || len(b) != n || value != strings.ToLower(value) {
		return nil, usagef("--expect sha256:… with 64 lower-case hex digits", "--expect %q is no digest", s)
	}
	return admission.DigestSet{alg: value}, nil
}

// stack makes resolvers and verifiers of the flags.
func (c *cli) stack(f *admitFlags) (*admit.Stack, error) {
	m := admit.Material{NPMRegistry: f.npmRegistry, PlainHTTP: f.plainHTTP, Now: c.env.Now}
	for _, t := range []struct {
		to         **sigstore.File
		name, file string
	}{{&m.TrustedRoot, "trusted_root", f.trustedRoot}, {&m.NPMKeys, "npm_keys", f.npmKeys}, {&m.MCPBRoots, "mcpb_roots", f.mcpbRoots}} {
		if t.file == "" {
			continue
		}
		body, err := durable.ReadFile(t.file, maxTrustBytes)
		if err != nil {
			return nil, err
		}
		*t.to = &sigstore.File{Name: t.name, Body: body}
	}
	for _, file := range f.keys {
		body, err := durable.ReadFile(file, maxTrustBytes)
		if err != nil {
			return nil, err
		}
		m.Keys = append(m.Keys, &sigstore.File{Name: "public_key", Body: body})
	}
	if !f.offline {
		m.Transport, m.LookupTXT = c.network(f), net.DefaultResolver.LookupTXT
	}
	return admit.NewStack(m)
}

// network is how URLs are asked. Entries come from anybody: they must not lead into
// the operator's own network, unless the operator says so. Through a proxy it is for the
// proxy to keep that rule.
func (c *cli) network(f *admitFlags) http.RoundTripper {
	proxied := c.env.Getenv("HTTPS_PROXY") + c.env.Getenv("https_proxy")
	if !f.privateNetwork && proxied == "" {
		return fetch.Public()
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
		IdleConnTimeout: 30 * time.Second, ForceAttemptHTTP2: true,
	}
}

func (c *cli) showAdmission(r *admit.Result) error {
	codes := make([]string, len(r.ReasonCodes))
	for i, code := range r.ReasonCodes {
		codes[i] = string(code)
	}
	contract := ""
	if r.Contract != nil {
		contract = r.Contract.Name
	}
	a := r.Answers
	if err := pairs(c.env.Stdout, "decision", string(r.Decision), "reasons", strings.Join(codes, ", "), "server", strings.TrimSpace(r.Server+" "+r.Version),
		"class", r.Class, "policy", r.Policy.ID+" "+r.Policy.Version+" "+r.Policy.Digest, "artifact", r.Artifact,
		"metadata read", a.MetadataRead, "artifact verified", a.ArtifactVerified, "attestation", a.AttestationAccepted, "archived", a.ArchivedTogether,
		"receipt", r.Receipt, "spanning set", r.SpanningSetDigest, "attempt", r.AttemptID, "event", r.EventID, "contract", contract); err != nil {
		return err
	}
	for _, v := range r.Failed {
		if _, err := fmt.Fprintf(c.env.Stdout, "failed   %s: %s\n", plain(v.ID), plain(v.Detail)); err != nil {
			return fmt.Errorf("write to stdout: %w", err)
		}
	}
	for _, m := range r.Missing {
		if _, err := fmt.Fprintf(c.env.Stdout, "missing  %s (class %s): %s\n", plain(m.Evidence), plain(m.Class), plain(m.Detail)); err != nil {
			return fmt.Errorf("write to stdout: %w", err)
		}
	}
	return nil
}
