package excerpt_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"counterfoil/ledger/excerpt"
)

func TestBounds(t *testing.T) {
	for _, s := range []string{"", "short", "12345678", strings.Repeat("x", 99), strings.Repeat("é", 99), "a" + strings.Repeat("😀", 99), "abc\xff\xfe\xf0\x9f" + strings.Repeat("x", 99)} {
		for n := 3; n < 20; n++ {
			first, cut, within := excerpt.First(s, n), excerpt.Cut(s, n), excerpt.Within(s, n)
			if len(s) <= n {
				if first != s || cut != s || within != s {
					t.Errorf("%q within %d: %q, %q, %q", s, n, first, cut, within)
				}
				continue
			}
			if len(first) > n || !utf8.ValidString(first) || utf8.ValidString(s) && (!strings.HasPrefix(s, first) || len(first) < n-3) {
				t.Errorf("first %d bytes of %q: %q", n, s, first)
			}
			if cut != first+"…" || len(within) > n || !strings.HasSuffix(within, "…") {
				t.Errorf("%q at %d: %q, %q", s, n, cut, within)
			}
		}
	}
}

func TestPrintable(t *testing.T) {
	const in, want = "a\tb\x1b[1m\x7f\u0085\u009f\u00a0é\xff!", "a b [1m   \u00a0é?!"
	if got := excerpt.Printable(in); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
