package admit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/admission/evidence/namespace"
	"counterfoil/ledger/event"
)

// found is a registry entry that was read.
type found struct {
	registry string // its URL, or file: and a base name
	body     []byte
	d        *admission.Discovered
	failure  *admission.Failure // nothing was read
	snapshot *admission.RegistrySnapshot
}

// readLocal reads a local entry; nil if the argument is a name of a registry.
func readLocal(arg string) (*found, error) {
	info, err := os.Stat(arg)
	if errors.Is(err, fs.ErrNotExist) && isName(arg) {
		return nil, nil
	}
	if err == nil && !info.Mode().IsRegular() { // opening a pipe can wait for ever
		return nil, &Usage{fmt.Sprintf("%s is no regular file", arg)}
	}
	f, err := os.Open(arg)
	if err != nil {
		return nil, &Usage{fmt.Sprintf("%v (hint: give a server.json, or a name such as io.github.example/server)", err)}
	}
	defer f.Close()
	// One byte more than an entry may have, so that it is refused for its size.
	b, err := io.ReadAll(io.LimitReader(f, admission.MaxEntryBytes+1))
	if err != nil {
		return nil, &Usage{err.Error()}
	}
	return &found{registry: "file:" + fetch.Redact(filepath.Base(arg)), body: b, d: admission.ParseEntry(b)}, nil
}

// isName reports whether an argument can be NAME or NAME@VERSION.
func isName(arg string) bool {
	name, _, _ := strings.Cut(arg, "@")
	namespace, server, ok := strings.Cut(name, "/")
	return ok && namespace != "" && server != "" && !strings.ContainsAny(server, "/") && strings.Contains(namespace, ".") &&
		!strings.HasPrefix(namespace, ".") && !strings.HasSuffix(server, ".json")
}

// subject is the subject id of the admission before its entry is known to be good.
func (r *run) subject() string {
	if r.found == nil {
		name, _, _ := strings.Cut(r.req.Entry, "@")
		return name
	}
	if e := r.found.d.Entry; e != nil {
		return e.Name
	}
	return r.found.registry
}

// discover reads the entry. Reads are repeated by the fetcher, at the one source
// only (ADM-21, ADM-31).
func (r *run) discover(ctx context.Context) (status, error) {
	if r.found == nil {
		var err error
		if r.found, err = r.fromRegistry(ctx); err != nil {
			return status{}, err
		}
	}
	f := r.found
	if f.failure != nil {
		return status{code: f.failure.Code}, nil
	}
	auth, err := r.namespace(ctx)
	if err != nil {
		return status{}, err
	}
	s, err := admission.NewSnapshot(f.registry, f.d, auth, event.FormatTime(r.cfg.Stack.Fetch.Now()))
	if err != nil {
		return status{}, fmt.Errorf("registry snapshot: %w", err)
	}
	f.snapshot = s
	digest, _, err := admission.Name(s)
	if err != nil {
		return status{}, err
	}
	st := status{refs: map[string]string{"registry_snapshot": digest, "registry_entry": s.Raw.Digest}}
	if s.Refused != nil {
		st.code = s.Refused.Code
	}
	return st, nil
}

// namespace is what is known of the right to the server's name: the registry, or the
// file, asserts it, unless we were told to ask the name's own domain and it agrees.
func (r *run) namespace(ctx context.Context) (admission.NamespaceAuth, error) {
	auth := admission.Asserted
	e := r.found.d.Entry
	if !r.req.CheckNamespace || e == nil {
		return auth, nil
	}
	if _, ok := namespace.Domain(e.Name); !ok {
		return auth, nil // of an account, which only the registry saw
	}
	dns, err := namespace.DNS(ctx, r.cfg.Stack.LookupTXT, e.Name)
	if err != nil {
		return auth, fmt.Errorf("check the namespace: %w", err)
	}
	http, err := namespace.HTTP(ctx, r.cfg.Stack.Fetch, e.Name)
	if err != nil {
		return auth, fmt.Errorf("check the namespace: %w", err)
	}
	auth.Checked = []admission.Check{dns, http}
	switch {
	case dns.State == admission.CheckFail || http.State == admission.CheckFail:
		auth.Result = admission.NamespaceFail
	case dns.State == admission.CheckPass:
		auth.Method, auth.Result = admission.MethodDNS, admission.NamespacePass
	case http.State == admission.CheckPass:
		auth.Method, auth.Result = admission.MethodHTTP, admission.NamespacePass
	}
	return auth, nil
}

// fromRegistry asks the registry for one version.
func (r *run) fromRegistry(ctx context.Context) (*found, error) {
	name, version, _ := strings.Cut(r.req.Entry, "@")
	if version == "" {
		version = "latest"
	}
	base := strings.TrimSuffix(r.cfg.Registry, "/")
	f := &found{registry: base}
	at := base + "/v0.1/servers/" + url.PathEscape(name) + "/versions/" + url.PathEscape(version)
	b, _, err := r.cfg.Stack.Fetch.Bytes(ctx, fetch.Request{Locator: at, MaxBytes: admission.MaxEntryBytes, Accept: "application/json"})
	switch {
	case fetch.KindOf(err) == fetch.TooLarge:
		f.failure = &admission.Failure{Code: admission.EntryTooLarge, Detail: fetch.Clip(err.Error())}
	case fetch.KindOf(err) != "":
		f.failure = &admission.Failure{Code: admission.EntryUnavailable, Detail: fetch.Clip(err.Error())}
	case err != nil:
		return nil, fmt.Errorf("read the entry of %s: %w", name, err)
	default:
		f.body, f.d = b, admission.ParseEntry(b)
		if e := f.d.Entry; e != nil && (e.Name != name || version != "latest" && e.Version != version) {
			f.d.Entry, f.d.Refused = nil, &admission.Failure{Code: admission.EntryInvalid,
				Detail: fetch.Clip(fmt.Sprintf("asked for %s version %s, the registry answered with %s version %s", name, version, e.Name, e.Version))}
		}
	}
	return f, nil
}

// raw is the bytes of server.json that the snapshot names.
func (f *found) raw() []byte {
	var response struct {
		Server jsontext.Value `json:"server"`
	}
	if f.d != nil && admission.Digest(f.body) != f.d.Raw.Digest && json.Unmarshal(f.body, &response) == nil {
		return response.Server
	}
	return f.body
}

// choose picks the one path through an entry (ADM-22).
func choose(e *admission.Entry, want string) (*admission.Selection, error) {
	kind, identifier, _ := strings.Cut(want, ":")
	var (
		fits []admission.Selection
		have []string
	)
	for i := range e.Packages {
		p := &e.Packages[i]
		have = append(have, p.RegistryType+":"+p.Identifier)
		if (kind == "" || kind == p.RegistryType) && (identifier == "" || identifier == p.Identifier) {
			fits = append(fits, admission.Selection{Server: e, Package: p})
		}
	}
	for i := range e.Remotes {
		t := &e.Remotes[i]
		have = append(have, admission.TypeRemote+":"+t.URL)
		if (kind == "" || kind == admission.TypeRemote) && (identifier == "" || identifier == t.URL) {
			fits = append(fits, admission.Selection{Server: e, Remote: t})
		}
	}
	switch {
	case len(fits) == 1:
		return &fits[0], nil
	case len(have) == 0:
		return nil, errors.New("the entry has neither packages nor remotes")
	case len(fits) == 0:
		return nil, fmt.Errorf("the entry has no %s (hint: it has %s)", want, strings.Join(have, ", "))
	}
	return nil, fmt.Errorf("the entry has %d ways that fit (hint: choose one with --package TYPE or TYPE:IDENTIFIER: %s)", len(fits), strings.Join(have, ", "))
}
