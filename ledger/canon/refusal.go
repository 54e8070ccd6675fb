package canon

import "cmp"

// Refusal words why a document was refused, in the one way that all refusals of
// documents are worded: where, what was found there, and what to do instead. An empty
// path is the whole document, which whole names. hint may be empty.
func Refusal(path, whole, detail, hint string) string {
	s := cmp.Or(path, whole) + ": " + detail
	if hint != "" {
		s += " (hint: " + hint + ")"
	}
	return s
}
