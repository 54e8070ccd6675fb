package lifecycle

import (
	"encoding/binary"
	"encoding/hex"
	"errors"

	"counterfoil/ledger/event"
)

// codecVersion is the first byte of an encoded state. The encoding is private
// to derived stores: a store with another version is rebuilt.
const codecVersion = 1

var codecLifecycles = []event.Lifecycle{event.Attempt, event.Outcome, event.Reversal, event.Reconciliation, event.Review}

// AppendBinary adds a compact encoding of the state to dst.
func (s *State) AppendBinary(dst []byte) ([]byte, error) {
	dst = append(dst, codecVersion)
	dst = append(dst, s.Identity[:]...)
	dst = appendString(dst, s.Expected)
	dst = binary.AppendUvarint(dst, uint64(len(s.Entries)))
	for _, e := range s.Entries {
		l := 0
		for l < len(codecLifecycles) && codecLifecycles[l] != e.Lifecycle {
			l++
		}
		dst = append(dst, byte(l))
		dst = append(dst, e.Digest[:]...)
		dst = append(dst, e.SourceKey[:]...)
		dst = appendString(dst, e.Status)
		dst = appendString(dst, e.Result)
		dst = binary.AppendVarint(dst, int64(e.Target))
	}
	return dst, nil
}

var errCodec = errors.New("lifecycle: encoded state is damaged")

// UnmarshalBinary reads what AppendBinary wrote.
func (s *State) UnmarshalBinary(b []byte) error {
	*s = State{}
	if len(b) < 1+len(s.Identity) || b[0] != codecVersion {
		return errCodec
	}
	b = b[1+copy(s.Identity[:], b[1:]):]
	var ok bool
	if s.Expected, b, ok = cutString(b); !ok {
		return errCodec
	}
	n, size := binary.Uvarint(b)
	if size <= 0 || n > event.MaxRevision {
		return errCodec
	}
	b = b[size:]
	s.Entries = make([]Entry, n)
	for i := range s.Entries {
		e := &s.Entries[i]
		if len(b) < 1+len(e.Digest)+len(e.SourceKey) || int(b[0]) >= len(codecLifecycles) {
			return errCodec
		}
		e.Lifecycle = codecLifecycles[b[0]]
		b = b[1:]
		b = b[copy(e.Digest[:], b):]
		b = b[copy(e.SourceKey[:], b):]
		if e.Status, b, ok = cutString(b); !ok {
			return errCodec
		}
		if e.Result, b, ok = cutString(b); !ok {
			return errCodec
		}
		target, size := binary.Varint(b)
		if size <= 0 || target < -1 || target >= int64(n) {
			return errCodec
		}
		e.Target, b = int(target), b[size:]
	}
	if len(b) != 0 {
		return errCodec
	}
	return nil
}

// appendString writes tags as raw bytes, since they are most of the volume.
func appendString(dst []byte, s string) []byte {
	const tag = "hmac-sha256:"
	if len(s) == len(tag)+64 && s[:len(tag)] == tag {
		if raw, err := hex.DecodeString(s[len(tag):]); err == nil {
			dst = append(dst, 255)
			return append(dst, raw...)
		}
	}
	dst = append(dst, byte(min(len(s), 254))) // status words are short
	return append(dst, s[:min(len(s), 254)]...)
}

func cutString(b []byte) (string, []byte, bool) {
	if len(b) == 0 {
		return "", nil, false
	}
	n := int(b[0])
	b = b[1:]
	if n == 255 {
		if len(b) < 32 {
			return "", nil, false
		}
		return "hmac-sha256:" + hex.EncodeToString(b[:32]), b[32:], true
	}
	if len(b) < n {
		return "", nil, false
	}
	return string(b[:n]), b[n:], true
}
