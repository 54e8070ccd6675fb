package sigstore

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
)

// Predicate types that are read further.
const (
	ProvenanceV1  = "https://slsa.dev/provenance/v1"
	ProvenanceV02 = "https://slsa.dev/provenance/v0.2"
)

type resource struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest"`
}

// digest is alg:hex, of the commit if there is one.
func (r resource) digest() string {
	for _, alg := range append([]string{"gitCommit", "sha1", "sha256"}, slices.Sorted(maps.Keys(r.Digest))...) {
		if d := r.Digest[alg]; d != "" {
			return short(alg + ":" + d)
		}
	}
	return ""
}

// provenance is the short form of a provenance predicate, nil for any other and
// for one that does not read as its type says.
func provenance(predicateType string, predicate jsontext.Value) *admission.Provenance {
	var p *admission.Provenance
	switch predicateType {
	case ProvenanceV1:
		p = provenanceV1(predicate)
	case ProvenanceV02:
		p = provenanceV02(predicate)
	}
	if p == nil || *p == (admission.Provenance{}) {
		return nil
	}
	return p
}

func provenanceV1(predicate jsontext.Value) *admission.Provenance {
	var in struct {
		BuildDefinition struct {
			BuildType          string `json:"buildType"`
			ExternalParameters struct {
				Workflow jsontext.Value `json:"workflow"`
				Source   jsontext.Value `json:"source"`
			} `json:"externalParameters"`
			ResolvedDependencies []resource `json:"resolvedDependencies"`
		} `json:"buildDefinition"`
		RunDetails struct {
			Builder struct {
				ID string `json:"id"`
			} `json:"builder"`
			Metadata struct {
				InvocationID string `json:"invocationId"`
			} `json:"metadata"`
		} `json:"runDetails"`
	}
	if json.Unmarshal(predicate, &in) != nil {
		return nil
	}
	d := in.BuildDefinition
	p := &admission.Provenance{
		BuilderID: short(in.RunDetails.Builder.ID), BuildType: short(d.BuildType),
		Invocation: short(in.RunDetails.Metadata.InvocationID),
	}
	var workflow struct {
		Ref        string `json:"ref"`
		Repository string `json:"repository"`
	}
	if d.ExternalParameters.Workflow.Kind() == '{' && json.Unmarshal(d.ExternalParameters.Workflow, &workflow) == nil {
		p.SourceURI, p.SourceRef = short(workflow.Repository), short(workflow.Ref)
	}
	// The source is one of the dependencies: the one of the workflow's repository,
	// or the first.
	for i, r := range d.ResolvedDependencies {
		uri := strings.TrimPrefix(r.URI, "git+")
		repository, ref, _ := strings.Cut(uri, "@")
		switch {
		case p.SourceURI != "" && repository == p.SourceURI:
			p.SourceDigest = r.digest()
			return p
		case p.SourceURI == "" && i == 0:
			p.SourceURI, p.SourceRef, p.SourceDigest = short(repository), short(ref), r.digest()
			return p
		}
	}
	return p
}

func provenanceV02(predicate jsontext.Value) *admission.Provenance {
	var in struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
		BuildType  string `json:"buildType"`
		Invocation struct {
			ConfigSource resource `json:"configSource"`
		} `json:"invocation"`
		Metadata struct {
			BuildInvocationID string `json:"buildInvocationId"`
		} `json:"metadata"`
	}
	if json.Unmarshal(predicate, &in) != nil {
		return nil
	}
	source := in.Invocation.ConfigSource
	repository, ref, _ := strings.Cut(strings.TrimPrefix(source.URI, "git+"), "@")
	return &admission.Provenance{
		BuilderID: short(in.Builder.ID), BuildType: short(in.BuildType), SourceURI: short(repository),
		SourceRef: short(ref), SourceDigest: source.digest(), Invocation: short(in.Metadata.BuildInvocationID),
	}
}

// short leaves out what a record could not hold: a text that is cut would say
// something else.
func short(s string) string {
	if len(s) > admission.MaxLocatorBytes || s != clip(s, len(s)) {
		return ""
	}
	return s
}
