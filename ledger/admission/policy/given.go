package policy

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"strings"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
)

// The facts of a case, where it does not say otherwise: an npm package by its
// bytes, from a registry that asserts it, without attestations. Digests are made
// up from the words of the case.
const (
	defaultServer     = "io.github.example/server"
	defaultVersion    = "1.0.0"
	defaultRegistry   = "https://registry.example"
	defaultRepository = "https://github.com/example/server"
	defaultPackage    = "example-server"
	defaultRemote     = "https://mcp.example/mcp"
	defaultPredicate  = "https://slsa.dev/provenance/v1"
)

// given builds the input of a case.
func (r *reader) given(n *node, path string, at time.Time) *admission.Input {
	in := &admission.Input{At: at}
	if n != nil && !r.object(n, path, "server", "namespace", "artifact", "expected", "checks", "attestations", "evidence", "previous") {
		return in
	}
	r.server(in, n.get("server"), path+"/server")
	r.artifact(in, n.get("artifact"), path+"/artifact")
	r.namespace(in, n.get("namespace"), path+"/namespace")
	if s := r.text(n.get("expected"), path+"/expected", 64); s != "" {
		in.Expected = madeUp(s)
	}
	r.mappingOf(n.get("checks"), path+"/checks", admission.MaxChecks, func(key, v *node, path string) {
		c := admission.Check{
			ID:    choice(r, key, path, admission.KnownChecks...),
			State: choice(r, v, path, admission.CheckPass, admission.CheckFail, admission.CheckAbsent, admission.CheckUnavailable),
		}
		if c.State == admission.CheckFail {
			c.Code = failCode[c.ID]
		}
		in.Checks = append(in.Checks, c)
	})
	r.list(n.get("attestations"), path+"/attestations", admission.MaxFindings, func(v *node, path string) {
		in.Findings = append(in.Findings, r.attestation(in, v, path))
	})
	if s := choice(r, n.get("evidence"), path+"/evidence", admission.SourceFound, admission.SourceNone, admission.SourceUnavailable); s != "" {
		in.Sources = []admission.Source{{Locator: defaultRegistry, State: s}}
	}
	if p := n.get("previous"); p != nil && r.object(p, path+"/previous", "version", "hadProvenance") {
		in.Previous = &admission.Previous{
			Version:       orElse(r.text(p.get("version"), path+"/previous/version", 255), "0.9.0"),
			HadProvenance: r.boolean(p.get("hadProvenance"), path+"/previous/hadProvenance"),
		}
	}
	in.Snapshot = seal(in.Snapshot)
	return in
}

// failCode is the code of a check that fails.
var failCode = map[string]admission.Code{
	admission.CheckMCPName: admission.MCPNameMismatch, admission.CheckFileSHA256: admission.FileSHA256Mismatch,
	admission.CheckIntegrity: admission.ArtifactIntegrity, admission.CheckVersion: admission.ArtifactVersionMismatch,
	admission.CheckTag: admission.TagMoved, admission.CheckNamespaceDNS: admission.NamespaceUnverified,
	admission.CheckNamespaceHTTP: admission.NamespaceUnverified, admission.CheckTLSIdentity: admission.TLSIdentityMismatch,
	admission.CheckToolContract: admission.ToolContractMismatch,
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// madeUp gives digests to words.
func madeUp(s string) admission.DigestSet {
	short, long := sha256.Sum256([]byte(s)), sha512.Sum512([]byte(s))
	return admission.DigestSet{"sha256": hex.EncodeToString(short[:]), "sha512": hex.EncodeToString(long[:])}
}

func (r *reader) server(in *admission.Input, n *node, path string) {
	e := &admission.Entry{SchemaVersion: admission.SchemaVersions[len(admission.SchemaVersions)-1], Name: defaultServer, Version: defaultVersion}
	e.Repository = &admission.Repository{URL: defaultRepository, Source: "github"}
	s := &admission.RegistrySnapshot{
		Schema: admission.SnapshotSchema, Registry: defaultRegistry, Normaliser: admission.Normaliser, Entry: e,
		CapturedAt: event.FormatTime(in.At), Namespace: admission.Asserted,
	}
	in.Snapshot = s
	if n == nil || !r.object(n, path, "name", "version", "repository", "registry", "status") {
		return
	}
	e.Name = orElse(r.text(n.get("name"), path+"/name", 200), e.Name)
	e.Version = orElse(r.text(n.get("version"), path+"/version", 255), e.Version)
	e.Repository.URL = orElse(r.text(n.get("repository"), path+"/repository", maxTextBytes), e.Repository.URL)
	s.Registry = orElse(r.text(n.get("registry"), path+"/registry", maxTextBytes), s.Registry)
	if status := r.text(n.get("status"), path+"/status", 64); status != "" {
		s.Response = &admission.ResponseMeta{Digest: admission.Digest([]byte(status)), Status: status}
	}
}

// seal fills in what follows from the entry.
func seal(s *admission.RegistrySnapshot) *admission.RegistrySnapshot {
	raw := []byte(s.Entry.Name + "@" + s.Entry.Version)
	d := &admission.Discovered{
		Raw:       admission.Blob{Digest: admission.Digest(raw), Size: int64(len(raw))},
		Canonical: admission.Digest(raw), Response: s.Response, Entry: s.Entry,
	}
	// An input that is malformed is judged as it is: malformed.
	sealed, _ := admission.NewSnapshot(s.Registry, d, s.Namespace, s.CapturedAt)
	return sealed
}

func (r *reader) namespace(in *admission.Input, n *node, path string) {
	if n == nil {
		return
	}
	if n.text == "none" {
		in.Snapshot.Namespace = admission.NamespaceAuth{Method: admission.MethodNone, Result: admission.NamespaceNotCaptured}
		return
	}
	if !r.object(n, path, "!method", "!result") {
		return
	}
	ns := admission.NamespaceAuth{
		Method: choice(r, n.get("method"), path+"/method", admission.NamespaceMethods...),
		Result: choice(r, n.get("result"), path+"/result", admission.NamespacePass, admission.NamespaceAsserted, admission.NamespaceFail),
	}
	check := map[admission.NamespaceMethod]string{admission.MethodDNS: admission.CheckNamespaceDNS, admission.MethodHTTP: admission.CheckNamespaceHTTP}[ns.Method]
	switch {
	case ns.Result == admission.NamespacePass && check == "":
		r.fail(n, "value", path+"/result", "", "only dns and http can pass; what only others saw is asserted")
	case ns.Result == admission.NamespacePass:
		ns.Checked = []admission.Check{{ID: check, State: admission.CheckPass}}
	}
	in.Snapshot.Namespace = ns
}

func (r *reader) artifact(in *admission.Input, n *node, path string) {
	e := in.Snapshot.Entry
	a := &admission.ArtifactBinding{
		Schema: admission.BindingSchema, Kind: admission.KindBytes, PackageType: admission.TypeNPM, Identifier: defaultPackage,
		Version: e.Version, Transport: "stdio", RetrievedAt: event.FormatTime(in.At),
	}
	in.Binding = a
	if n != nil && n.text == "none" {
		in.Binding, in.BindingFailure = nil, &admission.Failure{Code: admission.ArtifactUnresolved, Detail: "nothing there"}
		e.Packages = []admission.Package{{RegistryType: a.PackageType, Identifier: a.Identifier, Version: a.Version, Transport: admission.Transport{Type: "stdio"}}}
		return
	}
	if n != nil && r.object(n, path, "kind", "packageType", "identifier", "locator", "transport", "bytes", "fileSha256Of", "mediaType") {
		a.Kind = orElseT(choice(r, n.get("kind"), path+"/kind", admission.KindBytes, admission.KindPinnedDeployment,
			admission.KindAttestedRelease, admission.KindNotBytePinnable), a.Kind)
		if a.Kind != admission.KindBytes {
			a.PackageType, a.Identifier, a.Transport = admission.TypeRemote, defaultRemote, "streamable-http"
		}
		a.PackageType = orElse(r.text(n.get("packageType"), path+"/packageType", 64), a.PackageType)
		a.Identifier = orElse(r.text(n.get("identifier"), path+"/identifier", maxTextBytes), a.Identifier)
		a.Transport = orElse(choice(r, n.get("transport"), path+"/transport", "stdio", "streamable-http", "sse"), a.Transport)
		a.Locator = r.text(n.get("locator"), path+"/locator", maxTextBytes)
	}
	if a.PackageType == admission.TypeRemote || a.PackageType == admission.TypeOCI {
		a.Version = ""
	}
	a.Locator = orElse(a.Locator, a.Identifier)
	words := orElse(r.text(n.get("bytes"), path+"/bytes", 64), a.Identifier+"@"+e.Version)
	switch a.Kind {
	case admission.KindBytes:
		a.Bytes = &admission.BytesBinding{Digests: madeUp(words), Size: int64(len(words)), MediaType: r.text(n.get("mediaType"), path+"/mediaType", 255)}
	case admission.KindPinnedDeployment:
		a.Deployment = &admission.DeploymentBinding{ToolContract: admission.Digest([]byte(words)), TLSKey: admission.Digest([]byte("tls " + words))}
	case admission.KindAttestedRelease:
		a.Release = &admission.ReleaseBinding{Release: e.Version, Attestation: admission.Digest([]byte("payload " + words))}
	case admission.KindNotBytePinnable:
		a.Statement = &admission.StatementBinding{Reason: "the operator does not publish what runs", StatedBy: "policy test"}
	}
	transport := admission.Transport{Type: a.Transport}
	if a.Transport != "stdio" {
		transport.URL = a.Identifier
	}
	if a.PackageType == admission.TypeRemote {
		e.Remotes = []admission.Remote{transport}
		return
	}
	p := admission.Package{RegistryType: a.PackageType, Identifier: a.Identifier, Version: a.Version, Transport: transport}
	if s := r.text(n.get("fileSha256Of"), path+"/fileSha256Of", 64); s != "" {
		p.FileSHA256 = madeUp(s)["sha256"]
	}
	e.Packages = []admission.Package{p}
}

func orElseT[T ~string](s, otherwise T) T { return T(orElse(string(s), string(otherwise))) }

// attestation builds a finding about the artifact.
func (r *reader) attestation(in *admission.Input, n *node, path string) admission.Finding {
	f := admission.Finding{
		Locator: "attestation", Verifier: "test", State: admission.FindingVerified, PredicateType: defaultPredicate,
		SignedAt: event.FormatTime(in.At), Evidence: admission.Digest([]byte(path)), Payload: admission.Digest([]byte("payload " + path)),
	}
	if !r.object(n, path, "state", "code", "predicateType", "about", "subject", "issuer", "identity", "keyId", "sourceRepository",
		"ref", "runner", "builderId", "sourceUri") {
		return f
	}
	f.State = orElseT(choice(r, n.get("state"), path+"/state", admission.FindingVerified, admission.FindingFailed, admission.FindingUnavailable), f.State)
	if f.State != admission.FindingVerified {
		code, ok := admission.ParseCode(r.text(n.get("code"), path+"/code", 64))
		if !ok {
			r.fail(n, "value", path+"/code", "", "a finding that is %s has a reason code", f.State)
		}
		f.Code = code
	}
	f.PredicateType = orElse(r.text(n.get("predicateType"), path+"/predicateType", maxTextBytes), f.PredicateType)
	if f.PredicateType == admission.PlainSignature {
		f.PredicateType, f.Payload = "", ""
	} else {
		f.Subjects = []admission.Subject{r.subject(in, n, path)}
	}
	text := func(member string) string { return r.text(n.get(member), path+"/"+member, maxTextBytes) }
	f.Signer = &admission.Signer{
		KeyID: text("keyId"), Issuer: text("issuer"), Identity: text("identity"), SourceRepository: text("sourceRepository"),
		SourceRepositoryRef: text("ref"), RunnerEnvironment: text("runner"),
	}
	if f.Signer.KeyID == "" && f.Signer.Issuer == "" && f.Signer.Identity == "" {
		f.Signer.KeyID = "unnamed"
	}
	if strings.Contains(f.PredicateType, "provenance") {
		f.Provenance = &admission.Provenance{BuilderID: text("builderId"), SourceURI: text("sourceUri")}
	}
	return f
}

func (r *reader) subject(in *admission.Input, n *node, path string) admission.Subject {
	s := admission.Subject{Digests: madeUp("other bytes")}
	if in.Binding != nil {
		if in.Binding.Bytes != nil && r.text(n.get("about"), path+"/about", 64) != "other bytes" {
			s.Digests = in.Binding.Bytes.Digests
		}
		if names := in.Binding.SubjectNames(); len(names) > 0 {
			s.Name = names[0]
		}
	}
	s.Name = orElse(r.text(n.get("subject"), path+"/subject", maxTextBytes), s.Name)
	return s
}
