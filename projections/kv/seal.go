package kv

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/dgraph-io/badger/v4"
)

// Every value ends with the CRC-32C of its key and itself, which is outside of
// the digest. Badger's own checksums are not used on reading: it takes a block
// that fails them for a block without rows, so that rows would be missing
// without a word. See DB.Verify.
var crc = crc32.MakeTable(crc32.Castagnoli)

const crcBytes = 4

func seal(key, value []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, crc), crc, value)
	return binary.BigEndian.AppendUint32(value[:len(value):len(value)], sum)
}

// unseal returns the value of a row. It is valid as long as the item.
func unseal(item *badger.Item) (v []byte, err error) {
	key := item.Key()
	// Badger has copied the value; it lives as long as the item.
	if err := item.Value(func(b []byte) error { v = b; return nil }); err != nil {
		return nil, fmt.Errorf("read row %.20q: %w", key, err)
	}
	n := len(v) - crcBytes
	if n < 0 || binary.BigEndian.Uint32(v[n:]) != crc32.Update(crc32.Checksum(key, crc), crc, v[:n]) {
		return nil, fmt.Errorf("%w: %.20q", ErrDamaged, key)
	}
	return v[:n:n], nil
}
