package policy

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"counterfoil/ledger/admission"
)

// signer accepts signers: by certificate or by key.
type signer struct {
	issuer            string
	subject           string
	subjectPattern    *regexp.Regexp
	repository        string
	repositoryOfEntry bool
	refPattern        *regexp.Regexp
	runner            string
	keys              []string
}

func (r *reader) signer(n *node, path string) admission.SignerMatch {
	if !r.object(n, path, "issuer", "subject", "subjectPattern", "sourceRepository", "repositoryOfEntry", "refPattern", "runner", "keyIds") {
		return nil
	}
	s := &signer{
		issuer:            r.text(n.get("issuer"), path+"/issuer", maxTextBytes),
		subject:           r.text(n.get("subject"), path+"/subject", maxTextBytes),
		subjectPattern:    r.pattern(n.get("subjectPattern"), path+"/subjectPattern"),
		repository:        r.text(n.get("sourceRepository"), path+"/sourceRepository", maxTextBytes),
		repositoryOfEntry: r.boolean(n.get("repositoryOfEntry"), path+"/repositoryOfEntry"),
		refPattern:        r.pattern(n.get("refPattern"), path+"/refPattern"),
		runner:            r.text(n.get("runner"), path+"/runner", 64),
		keys:              r.texts(n.get("keyIds"), path+"/keyIds"),
	}
	certificate := slices.ContainsFunc(n.keys, func(k *node) bool { return k.text != "keyIds" })
	switch {
	case n.get("keyIds") != nil && certificate:
		r.fail(n, "signer", path, "make two signers of it", "has keyIds and members of a certificate")
	case n.get("keyIds") != nil:
	case n.get("issuer") == nil:
		r.fail(n, "signer", path+"/issuer", "without an issuer anybody can claim any name", "is missing")
	case n.get("subject") == nil && n.get("subjectPattern") == nil:
		r.fail(n, "signer", path+"/subject", "", "neither subject nor subjectPattern is there")
	case n.get("subject") != nil && n.get("subjectPattern") != nil:
		r.fail(n, "signer", path+"/subjectPattern", "", "subject is there already")
	}
	return s
}

// Accepts implements [admission.SignerMatch].
func (s *signer) Accepts(by *admission.Signer, e *admission.Entry) bool {
	if by == nil {
		return false
	}
	if len(s.keys) > 0 {
		return by.KeyID != "" && slices.Contains(s.keys, by.KeyID)
	}
	return by.KeyID == "" && s.issuer != "" && by.Issuer == s.issuer &&
		(s.subject != "" && by.Identity == s.subject || s.subjectPattern != nil && s.subjectPattern.MatchString(by.Identity)) &&
		(s.repository == "" || by.SourceRepository == s.repository) &&
		(!s.repositoryOfEntry || e != nil && e.Repository != nil && sameRepository(by.SourceRepository, e.Repository.URL)) &&
		(s.refPattern == nil || s.refPattern.MatchString(by.SourceRepositoryRef)) &&
		(s.runner == "" || by.RunnerEnvironment == s.runner)
}

// String implements [admission.SignerMatch].
func (s *signer) String() string {
	if len(s.keys) > 0 {
		return "key " + strings.Join(s.keys, " or ")
	}
	out := s.subject
	if s.subjectPattern != nil {
		out = s.subjectPattern.String()
	}
	out += " of " + s.issuer
	if s.repository != "" {
		out += " from " + s.repository
	}
	if s.repositoryOfEntry {
		out += " from the entry's repository"
	}
	if s.refPattern != nil {
		out += " at " + s.refPattern.String()
	}
	if s.runner != "" {
		out += " on " + s.runner
	}
	return out
}

// sameRepository compares URLs of source repositories. Entries write them with
// and without git+, .git and a slash at the end.
func sameRepository(a, b string) bool {
	a, b = trimRepository(a), trimRepository(b)
	return a != "" && a == b
}

func trimRepository(u string) string {
	u = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(u, "git+"), "/"), ".git")
	scheme, rest, ok := strings.Cut(u, "://")
	host, path, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 || scheme != "https" || path == "" {
		return ""
	}
	return strings.ToLower(host) + "/" + path
}

// pattern reads a regular expression (RE2) over the whole of a value. The
// libraries that verify do not anchor patterns, and many people think that they
// do; so a pattern must say so itself, and must not accept just anything.
func (r *reader) pattern(n *node, path string) *regexp.Regexp {
	s := r.text(n, path, maxTextBytes)
	if s == "" {
		return nil
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		r.fail(n, "pattern", path, "the syntax is RE2", "%v", err)
		return nil
	}
	if !anchored(tree) {
		r.fail(n, "unanchored-pattern", path, "write ^…$ around all of it, with (…) around alternatives",
			"pattern %q can match a part of a longer name", s)
		return nil
	}
	if wild(tree) {
		r.fail(n, "open-pattern", path, `name the characters, such as [A-Za-z0-9_.-]+`,
			"pattern %q accepts any text in its place", s)
		return nil
	}
	if dot(tree) {
		r.report(SeverityWarning, n, "loose-dot", path, `write \. for a dot`, "pattern %q has a dot that matches any character", s)
	}
	re, err := regexp.Compile(s)
	if err != nil {
		r.fail(n, "pattern", path, "the syntax is RE2", "%v", err)
		return nil
	}
	return re
}

// anchored reports whether every match is of the whole text.
func anchored(t *syntax.Regexp) bool {
	switch t.Op {
	case syntax.OpCapture:
		return anchored(t.Sub[0])
	case syntax.OpAlternate:
		return !slices.ContainsFunc(t.Sub, func(s *syntax.Regexp) bool { return !anchored(s) })
	case syntax.OpConcat:
		if len(t.Sub) < 2 {
			return false
		}
		return edge(t.Sub[0], syntax.OpBeginText) && edge(t.Sub[len(t.Sub)-1], syntax.OpEndText)
	}
	return false
}

func edge(t *syntax.Regexp, op syntax.Op) bool {
	return t.Op == op || t.Op == syntax.OpCapture && edge(t.Sub[0], op)
}

// wild reports whether a part of the pattern accepts text of any length and any
// characters: .* and what comes to the same.
func wild(t *syntax.Regexp) bool {
	repeated := t.Op == syntax.OpStar || t.Op == syntax.OpPlus || t.Op == syntax.OpRepeat && (t.Max == -1 || t.Max > 8)
	return repeated && slices.ContainsFunc(t.Sub, anything) || slices.ContainsFunc(t.Sub, wild)
}

// anything reports whether the pattern can match every character of a name: a
// dot, or a class such as [^x] or [\s\S]. One that stops at a slash, [^/], stays
// within a part of the name.
func anything(t *syntax.Regexp) bool {
	switch t.Op {
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return true
	case syntax.OpCharClass:
		var n rune
		slash := false
		for i := 0; i+1 < len(t.Rune); i += 2 {
			n += t.Rune[i+1] - t.Rune[i] + 1
			slash = slash || t.Rune[i] <= '/' && '/' <= t.Rune[i+1]
		}
		return n > 1000 && slash
	}
	return slices.ContainsFunc(t.Sub, anything)
}

func dot(t *syntax.Regexp) bool {
	return t.Op == syntax.OpAnyChar || t.Op == syntax.OpAnyCharNotNL || slices.ContainsFunc(t.Sub, dot)
}
