package receipt

import (
	"bytes"
	"cmp"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner reads canonical JSON against a template: there is one accepted
// spelling, so every byte outside the values is known beforehand. It takes
// slices of the input and copies nothing.
type scanner struct {
	b    []byte // up to where the template may reach
	at   int
	part string // what ends where b ends; "" is the document
}

// scanError says where the input leaves the template.
type scanError struct {
	at   int
	want string
	got  string
}

func (e *scanError) Error() string {
	return fmt.Sprintf("at byte %d: expected %s, got %s", e.at, e.want, e.got)
}

func (s *scanner) fail(want string) *scanError {
	got := "the end of the " + cmp.Or(s.part, "document")
	if rest := s.b[s.at:]; len(rest) > 0 {
		got = fmt.Sprintf("%q", rest[:min(len(rest), 24)])
	}
	return &scanError{at: s.at, want: want, got: got}
}

func (s *scanner) peek(lit string) bool {
	return len(s.b)-s.at >= len(lit) && string(s.b[s.at:s.at+len(lit)]) == lit
}

func (s *scanner) skip(lit string) bool {
	if !s.peek(lit) {
		return false
	}
	s.at += len(lit)
	return true
}

func (s *scanner) expect(lit string) *scanError {
	if s.skip(lit) {
		return nil
	}
	// Point at the first byte that differs.
	for i := 0; i < len(lit); i++ {
		if s.at == len(s.b) || s.b[s.at] != lit[i] {
			return s.fail(fmt.Sprintf("%q", lit[i:]))
		}
		s.at++
	}
	return nil
}

// text reads a string in its canonical spelling.
func (s *scanner) text() ([]byte, *scanError) {
	start := s.at
	if s.at == len(s.b) || s.b[s.at] != '"' {
		return nil, s.fail("a string")
	}
	plain := true
	for i := s.at + 1; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '\\':
			plain = false
			i++
		case c == '"':
			raw := s.b[start : i+1]
			s.at = i + 1
			if plain {
				return raw[1 : len(raw)-1], nil
			}
			out, err := jsontext.AppendUnquote(nil, raw)
			if err == nil {
				var again []byte
				if again, err = jsontext.AppendQuote(nil, out); err == nil && bytes.Equal(again, raw) {
					return out, nil
				}
			}
			s.at = start
			return nil, s.fail("a string in canonical form")
		case c < ' ':
			s.at = i
			return nil, s.fail("no control character inside a string")
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(s.b[i:])
			if r == utf8.RuneError && n <= 1 {
				s.at = i
				return nil, s.fail("valid UTF-8")
			}
			i += n - 1
		}
	}
	s.at = len(s.b)
	return nil, s.fail("the end of a string")
}

// integer reads a number from 0 to 2^53−1 in its canonical spelling.
func (s *scanner) integer() (uint64, *scanError) {
	start := s.at
	var n uint64
	for s.at < len(s.b) && s.b[s.at] >= '0' && s.b[s.at] <= '9' && s.at-start < 17 {
		n = n*10 + uint64(s.b[s.at]-'0')
		s.at++
	}
	if s.at == start || n > maxInteger || (s.b[start] == '0' && s.at-start > 1) {
		s.at = start
		return 0, s.fail("an integer from 0 to 2^53-1 without leading zeros")
	}
	return n, nil
}

// value takes one object or array by its brackets. What is inside is for its
// own parser to judge: brackets that lie about a value make that value invalid.
func (s *scanner) value(open byte) ([]byte, *scanError) {
	start := s.at
	if s.at == len(s.b) || s.b[s.at] != open {
		return nil, s.fail(fmt.Sprintf("%q", open))
	}
	depth := 0
	for i := s.at; i < len(s.b); i++ {
		switch s.b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at = i + 1
				return s.b[start:s.at], nil
			}
		case '"':
			end := stringEnd(s.b, i)
			if end < 0 {
				s.at = len(s.b)
				return nil, s.fail("the end of a string")
			}
			i = end
		}
	}
	s.at = len(s.b)
	return nil, s.fail("the end of a value")
}

// stringEnd returns the index of the quote that ends the string at i, −1 if
// there is none.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return -1
		}
		i += j
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return -1
}
