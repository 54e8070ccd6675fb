package kv

import "encoding/binary"

// AppendString adds s to a key such that no encoded string is a prefix of
// another and the order of keys is the byte order of the strings: a zero byte
// becomes 00 FF, and 00 01 ends the string.
func AppendString(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		dst = append(dst, s[i])
		if s[i] == 0 {
			dst = append(dst, 0xFF)
		}
	}
	return append(dst, 0, 1)
}

// CutString reads what AppendString wrote and returns the rest of the key.
func CutString(key []byte) (s string, rest []byte, ok bool) {
	var out []byte
	for i := 0; i+1 < len(key); i++ {
		if key[i] != 0 {
			out = append(out, key[i])
			continue
		}
		switch key[i+1] {
		case 0xFF:
			out = append(out, 0)
			i++
		case 1:
			return string(out), key[i+2:], true
		default:
			return "", nil, false
		}
	}
	return "", nil, false
}

// AppendUint64 adds n to a key in 8 bytes, big-endian, so that keys sort by n.
func AppendUint64(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

// CutUint64 reads what AppendUint64 wrote and returns the rest of the key.
func CutUint64(key []byte) (n uint64, rest []byte, ok bool) {
	if len(key) < 8 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(key), key[8:], true
}
