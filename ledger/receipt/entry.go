package receipt

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/event"
)

var b64 = base64.StdEncoding.Strict()

// Entry is one receipt of a bundle: a record and its place in the log.
type Entry struct {
	Record    *event.Record
	LeafIndex uint64
	// Proof is the inclusion proof under the bundle's checkpoint, 32-byte
	// hashes, sibling of the leaf first. It is empty for the only leaf of a tree,
	// and without a checkpoint.
	Proof [][]byte
}

// The fixed parts of an entry. Whatever stands between them is a JSON value.
const (
	litArtifact    = `{"artifact":{"commitment":{"digest":`
	litPayloadType = `,"payloadType":`
	litSignatures  = `,"signatures":`
	litReceipt     = `},"receipt":`
	litRecord      = `},"record":{`
	litProof       = `"inclusionProof":[`
	litLeafIndex   = `"leafIndex":`
	litOrigin      = `,"origin":`
	litReference   = `},"reference":{"attemptId":`
	litEventID     = `,"eventId":`
	litLifecycle   = `,"lifecycle":`
	litPrevious    = `,"previous":`
	litRevision    = `,"revision":`
	litEntryEnd    = `}}`
)

// The fixed parts of a bundle.
const (
	litCheckpoint = `{"checkpoint":`
	litBoundaries = `"claimBoundaries":{`
	litEntries    = `},"entries":[`
	litSchema     = `],"schemaVersion":`
	litBundleEnd  = `}`
)

// appendEntry adds the canonical bytes of an entry to dst; without proof if
// the bundle has no checkpoint.
func appendEntry(dst []byte, e *Entry, withProof bool) []byte {
	ev, digest := e.Record.Event, e.Record.Digest()
	dst = quote(append(dst, litArtifact...), digest.String())
	dst = quote(append(dst, litPayloadType...), event.PayloadType)
	dst = append(append(dst, litSignatures...), e.Record.SignatureBytes...)
	dst = append(append(dst, litReceipt...), e.Record.EventBytes...)
	dst = append(dst, litRecord...)
	if withProof {
		dst = append(dst, litProof...)
		for i, h := range e.Proof {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '"')
			dst = append(b64.AppendEncode(dst, h), '"')
		}
		dst = append(dst, "],"...)
	}
	dst = strconv.AppendUint(append(dst, litLeafIndex...), e.LeafIndex, 10)
	dst = quote(append(dst, litOrigin...), ev.Ledger)
	dst = quote(append(dst, litReference...), ev.AttemptID)
	dst = quote(append(dst, litEventID...), digest.EventID())
	dst = quote(append(dst, litLifecycle...), string(ev.Lifecycle))
	if ev.Previous != "" {
		dst = quote(append(dst, litPrevious...), ev.Previous)
	}
	dst = strconv.AppendInt(append(dst, litRevision...), ev.Revision, 10)
	return append(dst, litEntryEnd...)
}

// checkEntry reports why an entry cannot stand in a bundle under a checkpoint of
// the given size, or in one without.
func checkEntry(e *Entry, logged bool, size uint64) error {
	if e.Record == nil || e.Record.Event == nil {
		return fmt.Errorf("leaf %d has no record", e.LeafIndex)
	}
	if e.LeafIndex > maxInteger {
		return fmt.Errorf("leaf index %d is beyond 2^53-1", e.LeafIndex)
	}
	if _, ok := event.ClaimBoundaryText(e.Record.Event.ClaimBoundary); !ok {
		return fmt.Errorf("leaf %d: claim boundary %q is not registered, so its text cannot be exported", e.LeafIndex, e.Record.Event.ClaimBoundary)
	}
	if !logged {
		if len(e.Proof) > 0 {
			return fmt.Errorf("leaf %d has an inclusion proof, but there is no checkpoint", e.LeafIndex)
		}
		return nil
	}
	if e.LeafIndex >= size {
		return fmt.Errorf("leaf %d is not under the checkpoint of size %d", e.LeafIndex, size)
	}
	if want := proofLength(e.LeafIndex, size); len(e.Proof) != want {
		return fmt.Errorf("leaf %d: inclusion proof of %d hashes, want %d at size %d", e.LeafIndex, len(e.Proof), want, size)
	}
	for _, h := range e.Proof {
		if len(h) != sha256.Size {
			return fmt.Errorf("leaf %d: a proof hash has %d bytes, want %d", e.LeafIndex, len(h), sha256.Size)
		}
	}
	return nil
}

// maxInteger is the largest integer of canonical JSON, 2^53−1.
const maxInteger = 1<<53 - 1

// quote appends an RFC 8785 string.
func quote(dst []byte, s string) []byte {
	out, _ := jsontext.AppendQuote(dst, s) // fails for invalid UTF-8 only, which no parser here lets through
	return out
}
