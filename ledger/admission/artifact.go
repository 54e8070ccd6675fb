package admission

import (
	"fmt"
	"slices"
)

// artifact is the second gate: what is bound, and whether it is what was meant.
func (j *judge) artifact() {
	a := j.in.Binding
	if a == nil {
		codes, detail := []Code{MissingArtifactBinding}, "no artifact was resolved"
		if f := j.in.BindingFailure; f != nil {
			detail = f.Detail
			if f.Code != MissingArtifactBinding {
				codes = append(codes, f.Code)
			}
		}
		j.say(GateArtifact, "binding", ResultFail, detail, codes...)
		j.miss("artifact_digest", "binding", "artifact digest missing for resolved transport%s", j.wanted())
		return
	}
	j.say(GateArtifact, "binding", ResultPass, string(a.Kind))
	j.selection(a)
	j.kind(a)
	j.expected(a)
	j.checks()
}

// wanted says which paths the entry has, if there is no binding.
func (j *judge) wanted() string {
	s := j.in.Snapshot
	if s == nil || s.Entry == nil {
		return ""
	}
	out := " of " + s.ServerName
	if s.ServerVersion != "" {
		out += ", version label " + s.ServerVersion
	}
	return out
}

// selection asks whether the binding is about a path of the entry, and whether
// its bytes are those that the entry names.
func (j *judge) selection(a *ArtifactBinding) {
	s := j.in.Snapshot
	if s == nil || s.Entry == nil {
		j.say(GateArtifact, "selection", ResultNotJudged, "no registry entry")
		return
	}
	var paths []string
	for _, p := range s.Entry.Packages {
		if p.RegistryType == a.PackageType && p.Identifier == a.Identifier && p.Version == a.Version && p.Transport.Type == a.Transport {
			if got := a.SHA256(); p.FileSHA256 != "" && a.Bytes != nil && got != "sha256:"+p.FileSHA256 {
				j.say(GateArtifact, "selection", ResultFail,
					fmt.Sprintf("fileSha256: expected sha256:%s, got %s", p.FileSHA256, got), FileSHA256Mismatch)
				return
			}
			j.say(GateArtifact, "selection", ResultPass, a.PackageType+" "+a.Identifier)
			return
		}
		paths = append(paths, p.RegistryType+" "+p.Identifier+" "+p.Version+" "+p.Transport.Type)
	}
	for _, r := range s.Entry.Remotes {
		if a.PackageType == TypeRemote && r.URL == a.Identifier && r.Type == a.Transport && a.Version == "" {
			j.say(GateArtifact, "selection", ResultPass, "remote "+a.Identifier)
			return
		}
		paths = append(paths, "remote "+r.URL+" "+r.Type)
	}
	j.say(GateArtifact, "selection", ResultFail,
		fmt.Sprintf("%s %s %s over %s is no path of the entry, which has: %s", a.PackageType, a.Identifier, a.Version, a.Transport, list(paths)),
		ArtifactVersionMismatch)
}

// kind asks whether the class accepts what binds the artifact (ADM-18).
func (j *judge) kind(a *ArtifactBinding) {
	if j.class == nil {
		j.say(GateArtifact, "kind", ResultNotJudged, "no class says which bindings it accepts")
		return
	}
	if !slices.Contains(j.class.Bindings, a.Kind) {
		code := BindingNotAccepted
		if a.Kind == KindNotBytePinnable {
			code = RemoteNotBytePinnable
		}
		j.say(GateArtifact, "kind", ResultFail, fmt.Sprintf("binding is %s, accepted are %s", a.Kind, list(j.class.Bindings)), code)
		j.miss("artifact_digest", "kind", "a binding of kind %s", list(j.class.Bindings))
		return
	}
	if a.Bytes != nil {
		for _, alg := range j.class.Algorithms {
			if a.Bytes.Digests[alg] == "" {
				j.say(GateArtifact, "kind", ResultFail, "no "+alg+" digest", RequiredAlgorithmMissing)
				j.miss("artifact_digest", "kind", "artifact digest by %s", alg)
				return
			}
		}
	}
	j.say(GateArtifact, "kind", ResultPass, string(a.Kind))
}

// expected compares the bytes with what was pinned before (ADM-26).
func (j *judge) expected(a *ArtifactBinding) {
	if len(j.in.Expected) == 0 {
		return
	}
	if m := Compare(j.in.Expected, a); m != nil {
		j.say(GateArtifact, "expected", ResultFail, m.Detail, m.Code)
		return
	}
	j.say(GateArtifact, "expected", ResultPass, j.in.Expected.String())
}

// Compare compares an artifact with digests that are expected of it. It is cheap
// and can be asked before anything else is fetched or verified; the failure
// names both digests (ADM-26). The same version says nothing: only bytes count.
func Compare(expected DigestSet, a *ArtifactBinding) *Failure {
	if a.Bytes == nil {
		return refuse(ArtifactDigestMismatch, "expected %s, got a binding of kind %s without bytes", expected, a.Kind)
	}
	agrees, differs := expected.Agree(a.Bytes.Digests)
	switch {
	case agrees:
		return nil
	case differs == "":
		return refuse(RequiredAlgorithmMissing, "expected %s, got %s: no algorithm in common", expected, a.Bytes.Digests)
	}
	return refuse(ArtifactDigestMismatch, "expected %s:%s, got %s:%s", differs, expected[differs], differs, a.Bytes.Digests[differs])
}

// allChecks are the checks of the artifact and of the namespace, in order.
func (in *Input) allChecks() []Check {
	if in.Snapshot == nil {
		return in.Checks
	}
	return sortedChecks(slices.Concat(in.Checks, in.Snapshot.Namespace.Checked))
}

// checks asks every comparison that was made, and every one that is demanded.
func (j *judge) checks() {
	if detail, bad := j.unfit[GateArtifact]; bad {
		j.say(GateArtifact, "checks", ResultError, detail, RequiredCheckNotPassed)
	}
	passed := make(map[string]bool)
	if s := j.in.Snapshot; s != nil { // the first gate judged those that failed
		for _, c := range s.Namespace.Checked {
			passed[c.ID] = passed[c.ID] || c.State == CheckPass
		}
	}
	for _, c := range j.in.Checks {
		switch c.State {
		case CheckPass:
			passed[c.ID] = true
			j.say(GateArtifact, "check:"+c.ID, ResultPass, c.Detail)
		case CheckFail:
			j.say(GateArtifact, "check:"+c.ID, ResultFail, fmt.Sprintf("expected %s, got %s %s", c.Expected, c.Got, c.Detail), c.Code)
		default:
			j.say(GateArtifact, "check:"+c.ID, ResultNotApplicable, string(c.State)+" "+c.Detail)
		}
	}
	if j.class == nil {
		return
	}
	for _, id := range j.class.Checks {
		if passed[id] {
			continue
		}
		v := Verdict{
			Gate: GateArtifact, ID: "demand:" + id, Result: ResultFail,
			Codes: []Code{RequiredCheckNotPassed}, Detail: "class " + j.class.Name + " demands that check " + id + " passes",
		}
		if !j.excuse(&v, j.serverName(), "check:"+id) {
			j.miss("check:"+id, v.ID, "a passed check %s", id)
		}
		j.verdicts = append(j.verdicts, v)
	}
}

func (j *judge) serverName() string {
	if j.in.Snapshot == nil {
		return ""
	}
	return j.in.Snapshot.ServerName
}
