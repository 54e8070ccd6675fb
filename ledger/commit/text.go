package commit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	digestPrefix = "sha256:"
	tagPrefix    = "hmac-sha256:"
)

// ErrSyntax is the error of a digest or tag that is not written in the one
// accepted way.
var ErrSyntax = errors.New("malformed digest")

// FormatDigest writes a digest: "sha256:" and 64 lower-case hex digits.
func FormatDigest(d [Size]byte) string { return spell(digestPrefix, d) }

// FormatTag writes a tag: "hmac-sha256:" and 64 lower-case hex digits.
func FormatTag(t [Size]byte) string { return spell(tagPrefix, t) }

func spell(prefix string, d [Size]byte) string {
	var buf [len(tagPrefix) + 2*Size]byte
	return string(hex.AppendEncode(append(buf[:0], prefix...), d[:]))
}

// ParseDigest reads exactly what [FormatDigest] writes; else [ErrSyntax].
func ParseDigest(s string) ([Size]byte, error) { return parse(s, digestPrefix) }

// ParseTag reads exactly what [FormatTag] writes; else [ErrSyntax].
func ParseTag(s string) ([Size]byte, error) { return parse(s, tagPrefix) }

func parse(s, prefix string) (out [Size]byte, err error) {
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok || len(digits) != hex.EncodedLen(Size) || strings.Trim(digits, "0123456789abcdef") != "" {
		return out, fmt.Errorf("%w: expected %q and 64 lower-case hex digits, got %q", ErrSyntax, prefix, abbreviate(s))
	}
	_, err = hex.Decode(out[:], []byte(digits))
	return out, err
}

// abbreviate bounds what a foreign string may add to an error.
func abbreviate(s string) string {
	const most = 96
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
