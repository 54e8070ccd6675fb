// Package canon turns JSON into canonical bytes, or says where and why it
// cannot.
//
// Canonical bytes are RFC 8785 (JCS): UTF-8, no insignificant white space,
// members sorted by their UTF-16 code units, shortest strings and ECMAScript
// numbers. Two profiles narrow what is accepted before anything is hashed:
//
//   - [Restricted], for what is signed and logged: integers only, within
//     ±(2^53−1), no noncharacters, at most 32 KiB and 32 levels.
//   - [Private], for values that callers commit to: any JSON that RFC 8785
//     carries exactly, floats included, at most 16 MiB.
//
// Both refuse duplicate names (however they are spelled), invalid UTF-8, lone
// surrogates and trailing bytes. Nothing is normalised in silence: a number
// whose digits a double cannot carry is refused, and NFC and NFD stay
// different. Source: RFC 8785, RFC 7493 (I-JSON), requirements ATT-05, ATT-06,
// TRS-27.
//
// The package is pure and safe for concurrent use.
package canon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxSafeInteger is the largest integer that every JSON implementation carries
// exactly, 2^53−1.
const MaxSafeInteger = 1<<53 - 1

// Profile bounds what [Profile.Canonical] accepts.
type Profile struct {
	// MaxBytes bounds the input before anything is read. A bound on the input
	// also bounds the output: canonical form grows by at most a factor of six
	// (escapes of control characters), never by nesting.
	MaxBytes int
	// MaxDepth is the deepest nesting of arrays and objects.
	MaxDepth int
	// Floats admits fractions and exponents.
	Floats bool
	// Noncharacters admits U+FDD0..U+FDEF and U+xFFFE, U+xFFFF in strings.
	Noncharacters bool
}

// Restricted is the domain of everything that is signed or logged.
var Restricted = Profile{MaxBytes: 32 << 10, MaxDepth: 32}

// Private is the domain of values that callers commit to.
var Private = Profile{MaxBytes: 16 << 20, MaxDepth: 512, Floats: true, Noncharacters: true}

// Reasons that an [Error] can carry. They are part of the public contract.
const (
	ReasonTooLarge     = "too_large"
	ReasonTooDeep      = "too_deep"
	ReasonSyntax       = "invalid_json"
	ReasonDuplicate    = "duplicate_member"
	ReasonUTF8         = "invalid_utf8"
	ReasonFloat        = "float_not_allowed"
	ReasonBigInteger   = "integer_too_large"
	ReasonPrecision    = "number_not_exact"
	ReasonNegativeZero = "negative_zero"
	ReasonNoncharacter = "noncharacter"
	ReasonNotCanonical = "not_canonical"
)

// Error says where a document was refused, and why.
type Error struct {
	// Reason is one of the Reason constants.
	Reason string
	// Path is the JSON pointer (RFC 6901) of the refused value; "" is the
	// whole document.
	Path string
	// Detail says what was found. It quotes nothing of the document.
	Detail string
	// Hint says what to send instead; it may be empty.
	Hint string
}

func (e *Error) Error() string { return Refusal(e.Path, "document", e.Reason+": "+e.Detail, e.Hint) }

// Canonical returns the canonical bytes of src, which it does not keep or
// change. Errors are of type *[Error].
func (p Profile) Canonical(src []byte) ([]byte, error) {
	if err := p.Check(src); err != nil {
		return nil, err
	}
	out := jsontext.Value(bytes.Clone(src))
	if err := out.Canonicalize(); err != nil {
		return nil, Syntax(err)
	}
	return out, nil
}

// CheckCanonical reports whether src is within the profile and already in
// canonical form.
func (p Profile) CheckCanonical(src []byte) error {
	out, err := p.Canonical(src)
	if err != nil {
		return err
	}
	if !bytes.Equal(out, src) {
		i := 0
		for i < len(out) && i < len(src) && out[i] == src[i] {
			i++
		}
		return &Error{Reason: ReasonNotCanonical, Detail: fmt.Sprintf("differs from its canonical form at byte %d", i),
			Hint: "hash and sign the bytes as they were given, in RFC 8785 form"}
	}
	return nil
}

// Check reports the first reason why src is outside the profile.
func (p Profile) Check(src []byte) error {
	if len(src) > p.MaxBytes {
		return &Error{Reason: ReasonTooLarge, Detail: fmt.Sprintf("%d bytes, limit %d", len(src), p.MaxBytes),
			Hint: "send a digest or a reference instead of the whole value"}
	}
	if err := checkDepth(src, p.MaxDepth); err != nil {
		return err
	}
	dec := jsontext.NewDecoder(bytes.NewReader(src))
	first := true
	for {
		tok, err := dec.ReadToken()
		if err == io.EOF && !first {
			return nil
		}
		if err != nil {
			return Syntax(err)
		}
		if dec.StackDepth() == 0 && !first && tok.Kind() != '}' && tok.Kind() != ']' {
			return &Error{Reason: ReasonSyntax, Detail: "more than one value"}
		}
		first = false
		switch tok.Kind() {
		case '0':
			if reason, detail, hint := p.number(tok.String()); reason != "" {
				return &Error{Reason: reason, Path: string(dec.StackPointer()),
					Detail: fmt.Sprintf("%s, at offset %d", detail, dec.InputOffset()-int64(len(tok.String()))), Hint: hint}
			}
		case '"':
			if !p.Noncharacters && hasNoncharacter(tok.String()) {
				return &Error{Reason: ReasonNoncharacter, Path: string(dec.StackPointer()),
					Detail: "string has a Unicode noncharacter", Hint: "remove it, or send the value as private raw bytes"}
			}
		}
		if dec.StackDepth() == 0 {
			// The value is complete: only white space may follow.
			if _, err := dec.ReadToken(); err != io.EOF {
				return &Error{Reason: ReasonSyntax, Detail: fmt.Sprintf("bytes after the value at offset %d", dec.InputOffset())}
			}
			return nil
		}
	}
}

// checkDepth refuses deep nesting before a parser builds a stack for it.
func checkDepth(src []byte, limit int) error {
	depth, inString := 0, false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case inString:
			if c == '\\' {
				i++
			} else if c == '"' {
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return &Error{Reason: ReasonTooDeep, Detail: fmt.Sprintf("nesting over %d levels at offset %d", limit, i),
					Hint: "flatten the value"}
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

const bigHint = `send it as a string`

// number checks one literal; reason is "" when it is accepted.
func (p Profile) number(lit string) (reason, detail, hint string) {
	digits := strings.TrimPrefix(lit, "-")
	if !strings.ContainsAny(lit, ".eE") {
		if digits == "0" && lit != digits && !p.Floats {
			return ReasonNegativeZero, "-0 has no place among integers", "send 0"
		}
		if n, err := strconv.ParseUint(digits, 10, 64); err != nil || n > MaxSafeInteger {
			return ReasonBigInteger, "the integer is beyond ±(2^53−1)", bigHint
		}
		return "", "", ""
	}
	if !p.Floats {
		return ReasonFloat, "the number is not a plain integer", "send an integer in a smaller unit, or a string"
	}
	f, err := strconv.ParseFloat(lit, 64)
	if err != nil || !sameDecimal(lit, strconv.FormatFloat(f, 'e', -1, 64)) {
		return ReasonPrecision, "the number has more digits than a double carries", bigHint
	}
	if abs := math.Abs(f); abs > MaxSafeInteger && abs < 1e21 {
		// ECMAScript writes these as plain integers, so the canonical form
		// would itself be refused.
		return ReasonBigInteger, "the number is an integer beyond ±(2^53−1)", bigHint
	}
	return "", "", ""
}

// sameDecimal compares two number literals by their exact decimal value.
func sameDecimal(a, b string) bool {
	an, am, ae := decimal(a)
	bn, bm, be := decimal(b)
	return am == bm && (am == "" || (an == bn && ae == be))
}

// decimal splits a literal into sign, digits without outer zeros, and the
// exponent of the first digit. Zero has no digits.
func decimal(s string) (negative bool, digits string, exponent int) {
	negative = strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exponent, _ = strconv.Atoi(strings.TrimPrefix(s[i+1:], "+")) // an exponent beyond int already failed to parse as a double or is zero
		s = s[:i]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	all := whole + fraction
	exponent += len(whole) - 1
	trimmed := strings.TrimLeft(all, "0")
	exponent -= len(all) - len(trimmed)
	return negative, strings.TrimRight(trimmed, "0"), exponent
}

func hasNoncharacter(s string) bool {
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r&0xFFFE == 0xFFFE || (r >= 0xFDD0 && r <= 0xFDEF) {
			return true
		}
		i += n
	}
	return false
}

// unquoted is what a parser says, without what it quotes of the document.
func unquoted(said string) string {
	for _, known := range []string{"invalid surrogate pair", "invalid escape sequence", "duplicate object member name"} {
		if strings.HasPrefix(said, known) {
			return known
		}
	}
	const character = "invalid character "
	if rest, ok := strings.CutPrefix(said, character); ok {
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			return strings.TrimSuffix(character, " ") + rest[len(quoted):]
		}
	}
	if strings.ContainsAny(said, "\"'`") {
		return "invalid JSON"
	}
	return said
}

// Syntax words an error of reading JSON, of syntax or of another kind: the place is told, and nothing of the
// document is quoted but the names in Path.
func Syntax(err error) *Error {
	out := &Error{Reason: ReasonSyntax, Detail: "not the members and types that are expected"}
	var se *jsontext.SyntacticError
	if errors.As(err, &se) {
		out.Path = string(se.JSONPointer)
		out.Detail = fmt.Sprintf("%s at offset %d", unquoted(se.Err.Error()), se.ByteOffset)
		switch {
		case errors.Is(se.Err, jsontext.ErrDuplicateName):
			out.Reason, out.Hint = ReasonDuplicate, "send each name once; escapes spell the same name"
		case strings.Contains(se.Err.Error(), "UTF-8") || strings.Contains(se.Err.Error(), "surrogate"):
			out.Reason, out.Hint = ReasonUTF8, "send well-formed UTF-8; a lone surrogate is not a character"
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		out.Detail = "document ends early"
	}
	return out
}
