package vault

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"counterfoil/ledger/commit"
)

// head is the content of a b row:
//
//	version (1) ‖ encoding (1 jcs, 2 raw) ‖ size (8, big-endian) ‖ digest (32)
//	‖ length (2) slot ‖ length (2) name ‖ layout
//
// and, by layout, 0: the body; 1: the id (16) of its chunks.
type head struct {
	encoding   commit.Encoding
	size       int
	digest     [sha256.Size]byte
	slot, name string
	inline     []byte
	chunked    bool
	chunks     [bodyIDSize]byte
}

const headVersion = 1

var encodings = map[byte]commit.Encoding{1: commit.JCS, 2: commit.Raw}

func (h head) chunkCount() int { return (h.size + chunkSize - 1) / chunkSize }

func (h head) encode() []byte {
	out := []byte{headVersion, 0}
	for b, e := range encodings {
		if e == h.encoding {
			out[1] = b
		}
	}
	out = binary.BigEndian.AppendUint64(out, uint64(h.size))
	out = append(out, h.digest[:]...)
	for _, s := range []string{h.slot, h.name} {
		out = binary.BigEndian.AppendUint16(out, uint16(len(s)))
		out = append(out, s...)
	}
	if h.chunked {
		return append(append(out, 1), h.chunks[:]...)
	}
	return append(append(out, 0), h.inline...)
}

// decodeHead accepts exactly what encode gives; else [ErrCorrupt].
func decodeHead(in []byte) (h head, err error) {
	bad := fmt.Errorf("%w: the head of a body cannot be read", ErrCorrupt)
	take := func(n int) []byte {
		if err != nil || len(in) < n {
			err = bad
			return make([]byte, n)
		}
		out := in[:n]
		in = in[n:]
		return out
	}
	if take(1)[0] != headVersion {
		return head{}, bad
	}
	var ok bool
	if h.encoding, ok = encodings[take(1)[0]]; !ok {
		return head{}, bad
	}
	size := binary.BigEndian.Uint64(take(8))
	h.digest = [sha256.Size]byte(take(sha256.Size))
	h.slot = string(take(int(binary.BigEndian.Uint16(take(2)))))
	h.name = string(take(int(binary.BigEndian.Uint16(take(2)))))
	layout := take(1)[0]
	if err != nil || size > MaxBody {
		return head{}, bad
	}
	h.size = int(size)
	switch {
	case layout == 0 && len(in) == h.size && h.size <= maxInline:
		h.inline = in
	case layout == 1 && len(in) == bodyIDSize && h.size > maxInline:
		h.chunked, h.chunks = true, [bodyIDSize]byte(in)
	default:
		return head{}, bad
	}
	return h, nil
}
