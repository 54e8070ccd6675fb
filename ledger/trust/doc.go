// Package trust is the public side of every signature that Counterfoil checks:
// signed notes and their verifier keys, checkpoints, the keys that sign events
// with the leaf indexes where they are valid, and the trust file that brings all
// of this to a verifier from outside of what it verifies.
//
//	note.go        C2SP signed-note, stricter than the usual parsers
//	vkey.go        verifier keys of types 0x01, 0x04 and 0x06
//	checkpoint.go  C2SP tlog-checkpoint
//	eventkeys.go   who may sign the event of which leaf
//	file.go        the trust file, counterfoil.trust.v1
//	policy.go      C2SP tlog-policy text
//	tally.go       what a note's signatures are worth under a policy, and why
//
// Everything here has one accepted spelling, except the trust file, which
// people edit: there white space and the order of members are free.
//
// The package holds no private keys and signs nothing. It is pure (no I/O, no
// clock) and safe for concurrent use.
package trust

import (
	"encoding/base64"
	"fmt"

	"counterfoil/ledger/excerpt"
)

var b64 = base64.StdEncoding.Strict()

// decode64 reads standard base64 with padding in its one spelling. The standard
// decoder skips line breaks even when strict, so the length is compared too.
func decode64(s string) ([]byte, error) {
	b, err := b64.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("not standard base64 with padding: %w", err)
	}
	if b64.EncodedLen(len(b)) != len(s) {
		return nil, fmt.Errorf("not standard base64 with padding: line breaks inside")
	}
	return b, nil
}

// clip shortens what is quoted in a message.
func clip(s string) string { return excerpt.Cut(s, 80) }
