package admission

import (
	"strings"
	"time"

	"counterfoil/ledger/event"
)

// Facts are what the rules of a policy can ask about. Every member is always
// there, empty if nothing is known: a rule can never mistake a fact that is
// missing for one that does not hold.
type Facts struct {
	Class        FactClass         `json:"class"`
	Server       FactServer        `json:"server"`
	Namespace    FactNamespace     `json:"namespace"`
	Artifact     FactArtifact      `json:"artifact"`
	Attestations []FactAttestation `json:"attestations"`
	// Checks has every check that is known by name, and those that were made;
	// the value is a CheckState.
	Checks   map[string]string `json:"checks"`
	Previous FactPrevious      `json:"previous"`
	Now      time.Time         `json:"now"`
}

// FactClass is the class that was asked for.
type FactClass struct {
	Name   string `json:"name"`
	Impact string `json:"impact"`
}

// FactServer is the registry entry.
type FactServer struct {
	Name          string `json:"name"`
	Namespace     string `json:"namespace"` // the part before the slash
	Version       string `json:"version"`
	SchemaVersion string `json:"schemaVersion"`
	Registry      string `json:"registry"`
	Status        string `json:"status"` // of the registry's response
	Repository    string `json:"repository"`
}

// FactNamespace is the namespace authentication.
type FactNamespace struct {
	Method string `json:"method"`
	Result string `json:"result"`
}

// FactArtifact is the artifact binding.
type FactArtifact struct {
	Kind         string `json:"kind"`
	PackageType  string `json:"packageType"`
	Identifier   string `json:"identifier"`
	Version      string `json:"version"`
	Transport    string `json:"transport"`
	Locator      string `json:"locator"`
	SHA256       string `json:"sha256"` // hex
	SHA512       string `json:"sha512"` // hex
	Size         int64  `json:"size"`
	MediaType    string `json:"mediaType"`
	ToolContract string `json:"toolContract"`
	TLSKey       string `json:"tlsKey"`
}

// FactAttestation is one finding.
type FactAttestation struct {
	State            string    `json:"state"`
	Code             string    `json:"code"`
	Used             bool      `json:"used"` // it met a demand of the class
	PredicateType    string    `json:"predicateType"`
	KeyID            string    `json:"keyId"`
	Issuer           string    `json:"issuer"`
	Identity         string    `json:"identity"`
	SourceRepository string    `json:"sourceRepository"`
	SourceRef        string    `json:"sourceRef"`
	Runner           string    `json:"runner"`
	BuilderID        string    `json:"builderId"`
	BuildType        string    `json:"buildType"`
	SourceURI        string    `json:"sourceUri"`
	SignedAt         time.Time `json:"signedAt"` // year 1 if unknown
}

// FactPrevious is the admission before this one of the same server, if any.
type FactPrevious struct {
	Known         bool   `json:"known"`
	Version       string `json:"version"`
	HadProvenance bool   `json:"hadProvenance"`
}

// KnownChecks are the Check constants.
var KnownChecks = []string{
	CheckMCPName, CheckFileSHA256, CheckIntegrity, CheckVersion, CheckTag,
	CheckNamespaceDNS, CheckNamespaceHTTP, CheckTLSIdentity, CheckToolContract,
}

// facts fills in all that is known.
func (in *Input) facts(class *Class, findings []Finding, used []int) *Facts {
	f := &Facts{
		Class: FactClass{class.Name, string(class.Impact)}, Checks: make(map[string]string),
		Attestations: []FactAttestation{}, Now: in.At,
	}
	if s := in.Snapshot; s != nil {
		f.Namespace = FactNamespace{string(s.Namespace.Method), string(s.Namespace.Result)}
		f.Server = FactServer{Name: s.ServerName, Version: s.ServerVersion, Registry: s.Registry}
		f.Server.Namespace, _, _ = strings.Cut(s.ServerName, "/")
		if s.Entry != nil {
			f.Server.SchemaVersion = s.Entry.SchemaVersion
			if s.Entry.Repository != nil {
				f.Server.Repository = s.Entry.Repository.URL
			}
		}
		if s.Response != nil {
			f.Server.Status = s.Response.Status
		}
	}
	if a := in.Binding; a != nil {
		f.Artifact = FactArtifact{
			Kind: string(a.Kind), PackageType: a.PackageType, Identifier: a.Identifier,
			Version: a.Version, Transport: a.Transport, Locator: a.Locator,
		}
		if a.Bytes != nil {
			f.Artifact.SHA256, f.Artifact.SHA512 = a.Bytes.Digests["sha256"], a.Bytes.Digests["sha512"]
			f.Artifact.Size, f.Artifact.MediaType = a.Bytes.Size, a.Bytes.MediaType
		}
		if a.Deployment != nil {
			f.Artifact.ToolContract, f.Artifact.TLSKey = a.Deployment.ToolContract, a.Deployment.TLSKey
		}
	}
	for i := range findings {
		f.Attestations = append(f.Attestations, factOf(&findings[i], used, i))
	}
	for _, id := range KnownChecks {
		f.Checks[id] = string(CheckAbsent)
	}
	for _, c := range in.allChecks() {
		if f.Checks[c.ID] != string(CheckFail) {
			f.Checks[c.ID] = string(c.State)
		}
	}
	if p := in.Previous; p != nil {
		f.Previous = FactPrevious{true, p.Version, p.HadProvenance}
	}
	return f
}

func factOf(g *Finding, used []int, i int) FactAttestation {
	a := FactAttestation{State: string(g.State), Code: string(g.Code), PredicateType: g.PredicateType}
	for _, u := range used {
		a.Used = a.Used || u == i
	}
	if s := g.Signer; s != nil {
		a.KeyID, a.Issuer, a.Identity = s.KeyID, s.Issuer, s.Identity
		a.SourceRepository, a.SourceRef, a.Runner = s.SourceRepository, s.SourceRepositoryRef, s.RunnerEnvironment
	}
	if p := g.Provenance; p != nil {
		a.BuilderID, a.BuildType, a.SourceURI = p.BuilderID, p.BuildType, p.SourceURI
	}
	if t, ok := event.ParseTime(g.SignedAt); ok {
		a.SignedAt = t
	}
	return a
}

// EmptyFacts are facts of which nothing is known but that they are there.
func EmptyFacts() *Facts { return (&Input{}).facts(&Class{}, nil, nil) }
