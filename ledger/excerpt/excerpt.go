// Package excerpt shortens what others wrote, so that it fits into messages, findings
// and records. It is pure.
package excerpt

import "strings"

const more = "…"

// First is what of s is in its first n bytes, at whole runes; a longer text also loses
// what is not valid UTF-8 there.
func First(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Cut is [First], followed by "…" where s goes on: up to n+3 bytes.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return First(s, n) + more
}

// Within is s, or a beginning of it and "…": up to n bytes, of which there must be 3.
func Within(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Cut(s, n-len(more))
}

// Printable has a blank in place of each control character that a terminal would act
// on, and "?" in place of what is not valid UTF-8.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
