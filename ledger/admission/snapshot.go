package admission

import (
	"fmt"
	"slices"
	"strings"
)

// SnapshotSchema is the schema of a [RegistrySnapshot].
const SnapshotSchema = "counterfoil.registry-snapshot.v1"

// Normaliser names the way in which [ParseEntry] reads an entry. A change of it
// changes Normalised and leaves Raw as it is (ADM-05).
const Normaliser = "counterfoil.entry.v1"

// RegistrySnapshot is the registry entry as it was discovered. Raw fields and
// normalised fields stand side by side, each with its digest (ADM-04, ADM-05).
type RegistrySnapshot struct {
	Schema string `json:"schema"`
	// Registry is the registry's URL, or "file:" and the base name of a local
	// file.
	Registry string `json:"registry"`
	// ServerName, ServerVersion and Entry are absent if the entry was refused.
	ServerName    string `json:"serverName,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`
	// Raw names the bytes of server.json as they were read; of a registry's
	// response, the bytes of its member server.
	Raw Blob `json:"raw"`
	// Canonical is the digest of the RFC 8785 form of the same value; absent if
	// it has none.
	Canonical string `json:"canonical,omitempty"`
	// Normaliser and Normalised say how Entry was read and name its canonical
	// bytes.
	Normaliser string `json:"normaliser"`
	Normalised string `json:"normalised,omitempty"`
	Entry      *Entry `json:"entry,omitempty"`
	// Response is what the registry says about the entry: it may change, so it
	// is digested apart. Absent for a local file.
	Response *ResponseMeta `json:"response,omitempty"`
	// Namespace is always present (ADM-11 reads it).
	Namespace NamespaceAuth `json:"namespace"`
	// Refused says why the entry could not be used.
	Refused *Failure `json:"refused,omitempty"`
	// CapturedAt is when the entry was read, in event.TimeLayout.
	CapturedAt string `json:"capturedAt"`
}

// Blob names bytes that are kept elsewhere.
type Blob struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"` // in bytes
}

// ResponseMeta is the mutable metadata of a registry's response.
type ResponseMeta struct {
	// Digest is that of the RFC 8785 form of the response's member _meta.
	Digest string `json:"digest"`
	// Status is active, deprecated or deleted, if the registry says.
	Status string `json:"status,omitempty"`
}

// NamespaceAuth is what is known about the right to publish under the server's
// name. It is one input and never a verdict about safety (ADM-01).
type NamespaceAuth struct {
	// Method is how the registry is said to have checked: registry_asserted if
	// all that is known is that the registry, or a file, has the entry.
	Method NamespaceMethod `json:"method"`
	Result NamespaceResult `json:"result"`
	// Checked is what we checked again ourselves.
	Checked []Check `json:"checked,omitempty"`
}

// NamespaceMethod is a way to prove a namespace.
type NamespaceMethod string

// Methods. None says that nothing was captured.
const (
	MethodRegistryAsserted NamespaceMethod = "registry_asserted"
	MethodGitHubAT         NamespaceMethod = "github_at"
	MethodGitHubOIDC       NamespaceMethod = "github_oidc"
	MethodOIDC             NamespaceMethod = "oidc"
	MethodDNS              NamespaceMethod = "dns"
	MethodHTTP             NamespaceMethod = "http"
	MethodNone             NamespaceMethod = "none"
)

// NamespaceMethods lists the methods. It must not be changed.
var NamespaceMethods = []NamespaceMethod{MethodRegistryAsserted, MethodGitHubAT, MethodGitHubOIDC, MethodOIDC, MethodDNS, MethodHTTP, MethodNone}

// NamespaceResult is how far the namespace is proven.
type NamespaceResult string

// Results. Pass is only for what we checked again ourselves; a method that only
// others saw is asserted.
const (
	NamespacePass        NamespaceResult = "pass"
	NamespaceAsserted    NamespaceResult = "asserted"
	NamespaceFail        NamespaceResult = "fail"
	NamespaceNotCaptured NamespaceResult = "not_captured"
)

// Asserted is the namespace authentication of a local file, or of a registry
// that does not tell more.
var Asserted = NamespaceAuth{Method: MethodRegistryAsserted, Result: NamespaceAsserted}

// Captured reports whether there is anything to judge (ADM-11).
func (n NamespaceAuth) Captured() bool {
	return n.Method != "" && n.Method != MethodNone && n.Result != "" && n.Result != NamespaceNotCaptured
}

// String is method:result, as in the spanning set.
func (n NamespaceAuth) String() string {
	if n.Method == "" {
		return string(MethodNone) + ":" + string(NamespaceNotCaptured)
	}
	return string(n.Method) + ":" + string(n.Result)
}

func (n NamespaceAuth) validate(path string) error {
	if !slices.Contains(NamespaceMethods, n.Method) {
		return bad(path+"/method", "is %q, want one of %v", clip(string(n.Method)), NamespaceMethods)
	}
	if err := validateChecks(path+"/checked", n.Checked); err != nil {
		return err
	}
	var passed, failed bool
	for _, c := range n.Checked {
		switch c.State {
		case CheckPass:
			passed = passed || c.ID == CheckNamespaceDNS && n.Method == MethodDNS || c.ID == CheckNamespaceHTTP && n.Method == MethodHTTP
		case CheckFail:
			failed = true
		}
	}
	switch n.Result {
	case NamespacePass:
		if !passed {
			return &Error{path + "/result", "is pass, but no check of method " + string(n.Method) + " passed here",
				"say asserted for what only others checked"}
		}
	case NamespaceAsserted, NamespaceFail:
	case NamespaceNotCaptured:
		if n.Method != MethodNone {
			return bad(path+"/result", "is not_captured with method %s", n.Method)
		}
	default:
		return bad(path+"/result", "is %q, want pass, asserted, fail or not_captured", clip(string(n.Result)))
	}
	if n.Method == MethodNone && n.Result != NamespaceNotCaptured {
		return bad(path+"/result", "is %s with method none", n.Result)
	}
	if failed && n.Result != NamespaceFail {
		return bad(path+"/result", "is %s, but a check failed", n.Result)
	}
	return nil
}

// NewSnapshot makes the record of an entry that was read.
func NewSnapshot(registry string, d *Discovered, ns NamespaceAuth, capturedAt string) (*RegistrySnapshot, error) {
	s := &RegistrySnapshot{
		Schema: SnapshotSchema, Registry: registry, Raw: d.Raw, Canonical: d.Canonical,
		Normaliser: Normaliser, Response: d.Response, Namespace: ns, Refused: d.Refused, CapturedAt: capturedAt,
	}
	if d.Entry != nil {
		b, err := encode(d.Entry)
		if err != nil {
			return nil, fmt.Errorf("normalised entry: %w", err)
		}
		s.Entry, s.Normalised = d.Entry, Digest(b)
		s.ServerName, s.ServerVersion = d.Entry.Name, d.Entry.Version
	}
	return s, s.Validate()
}

// ParseSnapshot reads a snapshot from its canonical bytes.
func ParseSnapshot(b []byte) (*RegistrySnapshot, error) { return parse[RegistrySnapshot](b) }

// Validate implements [Record].
func (s *RegistrySnapshot) Validate() error {
	if err := first(
		checkSchema(s.Schema, SnapshotSchema),
		checkRegistry("/registry", s.Registry),
		checkDigest("/raw/digest", s.Raw.Digest),
		checkOptionalDigest("/canonical", s.Canonical),
		checkDotted("/normaliser", s.Normaliser),
		s.Namespace.validate("/namespace"),
		checkTime("/capturedAt", s.CapturedAt),
	); err != nil {
		return err
	}
	if s.Raw.Size < 0 {
		return bad("/raw/size", "is %d", s.Raw.Size)
	}
	if r := s.Response; r != nil {
		if err := first(checkDigest("/response/digest", r.Digest), checkOptionalText("/response/status", r.Status, 64)); err != nil {
			return err
		}
	}
	if s.Refused != nil {
		if s.Entry != nil || s.ServerName != "" || s.ServerVersion != "" || s.Normalised != "" {
			return bad("/refused", "an entry that was refused has no name, version or normalised form")
		}
		return s.Refused.validate("/refused")
	}
	return s.validateEntry()
}

func (s *RegistrySnapshot) validateEntry() error {
	if s.Entry == nil {
		return bad("/entry", "is missing")
	}
	if err := first(checkDigest("/canonical", s.Canonical), s.Entry.validate("/entry")); err != nil {
		return err
	}
	if s.ServerName != s.Entry.Name {
		return bad("/serverName", "is %q, the entry says %q", clip(s.ServerName), s.Entry.Name)
	}
	if s.ServerVersion != s.Entry.Version {
		return bad("/serverVersion", "is %q, the entry says %q", clip(s.ServerVersion), s.Entry.Version)
	}
	b, err := encode(s.Entry)
	if err != nil {
		return err
	}
	if got := Digest(b); s.Normalised != got {
		return bad("/normalised", "is %q, the entry has %s", clip(s.Normalised), got)
	}
	return nil
}

func checkRegistry(path, s string) error {
	if err := checkText(path, s, MaxLocatorBytes); err != nil {
		return err
	}
	if !strings.HasPrefix(s, "https://") && !strings.HasPrefix(s, "http://") && !strings.HasPrefix(s, "file:") {
		return bad(path, "is %q, want a URL, or file: and a name", clip(s))
	}
	return nil
}

// checkDotted wants a dotted name such as counterfoil.entry.v1.
func checkDotted(path, s string) error {
	for part := range strings.SplitSeq(s, ".") {
		if err := checkToken(path, part); err != nil {
			return err
		}
	}
	return nil
}

func (f *Failure) validate(path string) error {
	if !f.Code.bad() {
		return bad(path+"/code", "is %q, want a registered reason code of what went wrong", clip(string(f.Code)))
	}
	return checkOptionalText(path+"/detail", f.Detail, MaxDetailBytes)
}

func validateChecks(path string, checks []Check) error {
	if len(checks) > MaxChecks {
		return bad(path, "%d checks, limit %d", len(checks), MaxChecks)
	}
	for i, c := range checks {
		at := fmt.Sprintf("%s/%d", path, i)
		if err := first(checkToken(at+"/id", c.ID),
			checkOptionalText(at+"/expected", c.Expected, MaxDetailBytes),
			checkOptionalText(at+"/got", c.Got, MaxDetailBytes),
			checkOptionalText(at+"/detail", c.Detail, MaxDetailBytes)); err != nil {
			return err
		}
		switch c.State {
		case CheckFail:
			if !c.Code.bad() {
				return bad(at+"/code", "is %q, want a registered reason code of what went wrong", clip(string(c.Code)))
			}
		case CheckPass, CheckAbsent, CheckUnavailable:
			if c.Code != "" {
				return bad(at+"/code", "is %q, but the check did not fail", clip(string(c.Code)))
			}
		default:
			return bad(at+"/state", "is %q, want pass, fail, absent or unavailable", clip(string(c.State)))
		}
	}
	return nil
}
