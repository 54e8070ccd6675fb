package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity of a problem.
type Severity string

// Severities. A document with an error is refused; a warning is worth a look.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Problem is one thing that is wrong with a document.
type Problem struct {
	Line     int      `json:"line"`   // from 1; 0 is the whole document
	Column   int      `json:"column"` // from 1, in bytes
	Severity Severity `json:"severity"`
	// Code names the check, see docs/policy.md; [a-z-].
	Code string `json:"code"`
	// Path is the place in the document, such as /classes/light/retention.
	Path    string `json:"path"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// String is one line, as compilers print it, without the file's name.
func (p Problem) String() string {
	s := fmt.Sprintf("%d:%d: %s: %s: %s [%s]", p.Line, p.Column, p.Severity, p.Path, p.Message, p.Code)
	if p.Hint != "" {
		s += "\n  hint: " + p.Hint
	}
	return s
}

// Refused is the error of [Load]: every problem of the document.
type Refused struct{ Problems []Problem }

func (r *Refused) Error() string {
	var lines []string
	for _, p := range r.Problems {
		lines = append(lines, p.String())
	}
	return "policy refused:\n" + strings.Join(lines, "\n")
}

// HasErrors reports whether a document with these problems is refused.
func HasErrors(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == SeverityError })
}

func sortProblems(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Path, b.Path))
	})
}
