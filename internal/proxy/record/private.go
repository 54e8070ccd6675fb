package record

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/internal/toolcall"
	"counterfoil/ledger/canon"
)

// large stands in the place of a private value that a ledger does not take: its
// size in bytes and the SHA-256 of the bytes as they passed.
type large struct {
	LargeValue struct {
		Bytes  int    `json:"bytes"`
		SHA256 string `json:"sha256"`
	} `json:"counterfoil.largeValue.v1"`
}

// private splits a value into the two ways in which it can travel. One that is
// over the ledger's bound is replaced by its size and digest.
func private(value []byte) (jsontext.Value, []byte) {
	if len(value) > canon.Private.MaxBytes {
		return summary(value), nil
	}
	return toolcall.Private(value)
}

func summary(value []byte) jsontext.Value {
	var l large
	sum := sha256.Sum256(value)
	l.LargeValue.Bytes, l.LargeValue.SHA256 = len(value), hex.EncodeToString(sum[:])
	b, err := json.Marshal(l)
	if err != nil {
		panic("a number and hex digits cannot be encoded: " + err.Error())
	}
	return b
}
