package audit

import (
	"encoding/binary"
	"fmt"
)

// splitBundle reads the first w of the n entries of a bundle. Of a damaged bundle
// it returns the entries before the damage, and what the damage is. A problem with
// w entries is one behind them.
func splitBundle(data []byte, n, w int) (entries [][]byte, problem string) {
	entries = make([][]byte, 0, w)
	for i := range n {
		if len(data) < 2 {
			return entries, fmt.Sprintf("entry %d of %d: the file ends with %d bytes where a length of 2 is expected", i, n, len(data))
		}
		size := int(binary.BigEndian.Uint16(data))
		if data = data[2:]; len(data) < size {
			return entries, fmt.Sprintf("entry %d of %d: the file ends after %d of its %d bytes", i, n, len(data), size)
		}
		if i < w {
			entries = append(entries, data[:size:size])
		}
		data = data[size:]
	}
	if len(data) > 0 {
		return entries, fmt.Sprintf("%d bytes follow the last of its %d entries", len(data), n)
	}
	return entries, ""
}

// joinBundle writes entries as a bundle.
func joinBundle(entries [][]byte) []byte {
	size := 0
	for _, e := range entries {
		size += 2 + len(e)
	}
	out := make([]byte, 0, size)
	for _, e := range entries {
		out = binary.BigEndian.AppendUint16(out, uint16(len(e)))
		out = append(out, e...)
	}
	return out
}
