package sigstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
)

// Statement types of in-toto that are read. They have the same members.
const (
	statementV01 = "https://in-toto.io/Statement/v0.1"
	statementV1  = "https://in-toto.io/Statement/v1"
)

// Bounds of a statement.
const (
	maxSubjects       = 1024
	maxSubjectDigests = 32
	maxTypeBytes      = 255
)

// statement is what is read of a signed payload.
type statement struct {
	predicateType string
	subjects      []admission.Subject
	provenance    *admission.Provenance
}

// readStatement reads a payload strictly: valid UTF-8, no member twice, and the
// members that a statement must have. Members that it does not know are skipped.
func readStatement(payload []byte) (*statement, error) {
	var in struct {
		Type          string         `json:"_type"`
		PredicateType string         `json:"predicateType"`
		Predicate     jsontext.Value `json:"predicate"`
		Subject       []struct {
			Name   string              `json:"name"`
			Digest admission.DigestSet `json:"digest"`
		} `json:"subject"`
	}
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Type != statementV1 && in.Type != statementV01:
		return nil, fmt.Errorf("_type is %.100q, expected %s", in.Type, statementV1)
	case in.PredicateType == "" || len(in.PredicateType) > maxTypeBytes || in.PredicateType != clip(in.PredicateType, maxTypeBytes):
		return nil, fmt.Errorf("predicateType is %.100q, expected a text of at most %d bytes", in.PredicateType, maxTypeBytes)
	case len(in.Subject) == 0:
		return nil, errors.New("no subject")
	case len(in.Subject) > maxSubjects:
		return nil, fmt.Errorf("%d subjects, limit %d", len(in.Subject), maxSubjects)
	}
	s := &statement{predicateType: in.PredicateType, provenance: provenance(in.PredicateType, in.Predicate)}
	for i, sub := range in.Subject {
		if len(sub.Digest) == 0 || len(sub.Digest) > maxSubjectDigests {
			return nil, fmt.Errorf("subject %d has %d digests, expected 1 to %d", i, len(sub.Digest), maxSubjectDigests)
		}
		if len(sub.Name) > admission.MaxLocatorBytes || sub.Name != clip(sub.Name, len(sub.Name)) {
			return nil, fmt.Errorf("subject %d has a name of %d bytes, or one with control characters", i, len(sub.Name))
		}
		for alg, value := range sub.Digest {
			if alg == "" || len(alg) > 64 || value == "" || len(value) > 255 || alg+value != clip(alg+value, 512) {
				return nil, fmt.Errorf("subject %d has a digest %.64q", i, alg)
			}
		}
		s.subjects = append(s.subjects, admission.Subject{Name: sub.Name, Digests: sub.Digest})
	}
	return s, nil
}

// subjects keeps at most what a finding holds, those with the artifact's digests
// first.
func subjects(all []admission.Subject, a *admission.ArtifactBinding) []admission.Subject {
	if len(all) <= admission.MaxSubjects {
		return all
	}
	digests := digestsOf(a)
	about := func(s admission.Subject) bool { agrees, _ := digests.Agree(s.Digests); return agrees }
	kept := slices.DeleteFunc(slices.Clone(all), func(s admission.Subject) bool { return !about(s) })
	for _, s := range all {
		if len(kept) >= admission.MaxSubjects {
			break
		}
		if !about(s) {
			kept = append(kept, s)
		}
	}
	return kept[:min(len(kept), admission.MaxSubjects)]
}

// Members reads a JSON object strictly, its members as they are spelled. It
// refuses a member that stands twice, at any depth, and bytes after the object.
func Members(raw []byte) (map[string]jsontext.Value, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil, errors.New("not a JSON object")
	}
	var m map[string]jsontext.Value
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	return m, nil
}

// Text is the string that a JSON value is, "" for any other.
func Text(v jsontext.Value) string {
	var s string
	if v.Kind() != '"' || json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}
