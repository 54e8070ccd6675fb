package query

import (
	"errors"
	"testing"
)

// A page token comes back from callers: what is taken was given for this list.
func FuzzPageToken(f *testing.F) {
	bound := []byte("0123456789abcdef")
	f.Add(token(bound, []byte{0, 0, 0, 0, 0, 0, 0, 7}))
	f.Add(token([]byte("another list ..."), []byte{1}))
	f.Add("")
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, s string) {
		p := &Page{Token: s}
		position, err := p.open(bound)
		var ie *InvalidError
		switch {
		case err != nil && !errors.As(err, &ie):
			t.Fatalf("untyped error %v", err)
		case err == nil && s != "" && (len(position) == 0 || token(bound, position) != s):
			t.Fatalf("%q comes back as %q", s, token(bound, position))
		}
		for _, newest := range []bool{false, true} {
			p := &Page{Token: s, Newest: newest}
			if from, to, err := p.openIndex(bound, 100); err == nil && (to > 100 || from > 100 && from != to && s == "") {
				t.Fatalf("%q is the range %d to %d of 100", s, from, to)
			}
		}
	})
}
