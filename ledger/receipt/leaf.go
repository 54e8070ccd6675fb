package receipt

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
	"counterfoil/ledger/trust"
)

// judged is what the checks of an entry by itself found, for the chain.
type judged struct {
	event  *event.Event // nil if the bytes are no event
	digest event.Digest // of the bytes as they stand
	// declared is the digest that the commitment names, zero if it names none.
	declared event.Digest
	// intact: the bytes are an event, and the one that the commitment names.
	intact bool
}

// entry makes all checks of one entry. Checks that do not depend on each other
// are all made, so that one report names everything that is wrong with a leaf.
func (v *verifier) entry(e *entry) {
	v.bad = false
	if e.damage != nil {
		v.unread = true
		v.leafFail(e, Check{Name: CheckFormat, Detail: "the entry is not in canonical form: " + e.damage.Error()})
	}
	v.order(e)
	if e.receipt != nil {
		j := v.artifact(e)
		v.place(e)
		v.chain(e, &j)
	}
	if v.bad {
		v.failed++
	}
}

// leafFail records a failure of an entry and names its leaf and event.
func (v *verifier) leafFail(e *entry, c Check) {
	v.bad = true
	if e.hasIndex {
		index := e.leafIndex
		c.LeafIndex = &index
	}
	if _, ok := event.ParseEventID(string(e.eventID)); ok {
		c.EventID = string(e.eventID)
	}
	v.fail(c)
}

func (v *verifier) order(e *entry) {
	if !e.hasIndex {
		return
	}
	switch {
	case v.haveLast && e.leafIndex == v.last:
		v.leafFail(e, Check{Name: CheckEntryOrder, Detail: "two entries have one leaf index", Expected: "over " + strconv.FormatUint(v.last, 10), Got: strconv.FormatUint(e.leafIndex, 10)})
	case v.haveLast && e.leafIndex < v.last:
		v.leafFail(e, Check{Name: CheckEntryOrder, Detail: "entries are not in order of leaf index", Expected: "over " + strconv.FormatUint(v.last, 10), Got: strconv.FormatUint(e.leafIndex, 10)})
	default:
		v.pass(CheckEntryOrder)
	}
	v.haveLast, v.last = true, e.leafIndex
}

// artifact checks the event, its commitment and its signatures.
func (v *verifier) artifact(e *entry) judged {
	j := judged{digest: event.DigestOf(e.receipt)}
	j.declared, _ = event.ParseDigest(string(e.digest))
	rec, err := event.NewRecord(e.receipt, e.signatures)
	if err == nil {
		j.event = rec.Event
		v.codes[rec.Event.ClaimBoundary] = true
		if e.damage == nil {
			v.pass(CheckFormat)
		}
		v.pass(CheckSchema)
		v.summary.CanonicalPayload++
	} else {
		rec = v.unreadable(e, &j, err)
	}
	failures := v.total
	if got := j.digest.String(); got != string(e.digest) {
		v.leafFail(e, Check{Name: CheckCommitmentDigest, Detail: "the digest is not that of the event's bytes", Expected: clip(string(e.digest)), Got: got})
	} else {
		v.pass(CheckCommitmentDigest)
		j.intact = j.event != nil
	}
	if got := string(e.payloadType); got != event.PayloadType {
		v.leafFail(e, Check{Name: CheckPayloadType, Detail: "signatures over another payload type are none over an event", Expected: event.PayloadType, Got: clip(got)})
	} else {
		v.pass(CheckPayloadType)
	}
	v.reference(e, &j)
	if v.total == failures && j.intact {
		v.summary.ReceiptBindingValid++
	}
	v.origin(e, &j)
	if rec != nil {
		v.signature(e, rec)
	}
	return j
}

// unreadable reports why a receipt is no record, and returns what there is to
// verify a signature over all the same, nil if the signatures cannot be read: a
// good signature over bytes that are not canonical makes them no event (ATT-05).
func (v *verifier) unreadable(e *entry, j *judged, err error) *event.Record {
	failures := v.total
	ev, eventErr := event.Parse(e.receipt)
	switch {
	case eventErr == nil:
		j.event = ev
		v.codes[ev.ClaimBoundary] = true
	case e.damage != nil: // reported
	default:
		v.unread = true
		c := Check{Name: CheckSchema, Detail: eventErr.Error()}
		if ce := canon.Restricted.CheckCanonical(e.receipt); ce != nil {
			c = Check{Name: CheckFormat, Detail: "the receipt is not canonical JSON: " + ce.Error()}
		} else if got := schemaOf(e.receipt); got != event.Schema {
			c = Check{Name: CheckSchema, Detail: "the event is of a schema version that this verifier does not know", Expected: event.Schema, Got: clip(got)}
		}
		v.leafFail(e, c)
	}
	sigs, sigErr := parseSignatures(e.signatures)
	if sigErr != nil && e.damage == nil {
		v.leafFail(e, Check{Name: CheckFormat, Detail: "the signatures are not in canonical form: " + sigErr.Error()})
	}
	if e.damage == nil && v.total == failures {
		v.leafFail(e, Check{Name: CheckSchema, Detail: err.Error()})
	}
	if sigErr != nil {
		return nil
	}
	return &event.Record{EventBytes: e.receipt, SignatureBytes: e.signatures, Signatures: sigs}
}

// schemaOf returns the member schema of canonical JSON.
func schemaOf(receipt []byte) string {
	var s struct {
		Schema string `json:"schema"`
	}
	_ = json.Unmarshal(receipt, &s) // "" then, which is no schema
	return s.Schema
}

// parseSignatures reads an array of signatures whose event could not be read.
func parseSignatures(raw []byte) ([]event.Signature, error) {
	if len(raw) > event.MaxLeafBytes {
		return nil, fmt.Errorf("%d bytes, limit %d", len(raw), event.MaxLeafBytes)
	}
	var list []struct {
		KeyID string `json:"keyId"`
		Sig   string `json:"sig"`
	}
	if err := json.Unmarshal(raw, &list, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if len(list) == 0 || len(list) > event.MaxSignatures {
		return nil, fmt.Errorf("%d signatures, want 1 to %d", len(list), event.MaxSignatures)
	}
	sigs := make([]event.Signature, len(list))
	for i, s := range list {
		sig, err := b64.DecodeString(s.Sig)
		if err != nil {
			return nil, fmt.Errorf("signature %d is not standard base64 with padding", i+1)
		}
		sigs[i] = event.Signature{KeyID: s.KeyID, Sig: sig}
	}
	if !bytes.Equal(event.AppendSignatures(nil, sigs), raw) {
		return nil, errors.New("not in canonical form")
	}
	return sigs, nil
}

// reference compares what stands beside the event with what the event says. The
// event id of an event whose bytes were changed is that of the commitment: the
// change is reported once.
func (v *verifier) reference(e *entry, j *judged) {
	if e.damage != nil {
		return
	}
	failures := v.total
	differ := func(member, expected, got string) {
		if expected != got {
			v.leafFail(e, Check{Name: CheckReference, Detail: member + " is not that of the event", Expected: expected, Got: clip(got)})
		}
	}
	id := j.digest
	if j.declared != (event.Digest{}) && string(e.eventID) == j.declared.EventID() {
		id = j.declared
	}
	differ("eventId", id.EventID(), string(e.eventID))
	if ev := j.event; ev != nil {
		differ("attemptId", ev.AttemptID, string(e.attemptID))
		differ("lifecycle", string(ev.Lifecycle), string(e.lifecycle))
		differ("previous", ev.Previous, string(e.previous))
		differ("revision", strconv.FormatInt(ev.Revision, 10), strconv.FormatUint(e.revision, 10))
	}
	if v.total == failures {
		v.pass(CheckReference)
	}
}

func (v *verifier) origin(e *entry, j *judged) {
	want := v.file.Origin()
	ok := true
	if e.damage == nil && string(e.origin) != want {
		ok = false
		v.leafFail(e, Check{Name: CheckOrigin, Detail: "the entry is of another log", Expected: want, Got: clip(string(e.origin))})
	}
	if j.event != nil && j.event.Ledger != want {
		ok = false
		v.leafFail(e, Check{Name: CheckOrigin, Detail: "the event was written for another log", Expected: want, Got: clip(j.event.Ledger)})
	}
	if ok && j.event != nil {
		v.pass(CheckOrigin)
	}
}

// signature looks for one signature that counts.
func (v *verifier) signature(e *entry, rec *event.Record) {
	if !e.hasIndex {
		return // without its leaf no key can be said to be valid
	}
	id, err := v.file.EventKeys.CheckBytes(rec.EventBytes, rec.Signatures, e.leafIndex)
	switch trust.ReasonOf(err) {
	case "":
		v.pass(CheckEventSignature)
		v.pass(CheckKeyValidity)
		v.keys[id]++
		v.summary.SignatureValid++
	case trust.UnknownKey:
		v.leafFail(e, Check{Name: CheckEventSignature, Detail: err.Error(),
			Expected: fmt.Sprintf("one of %d trusted event keys", v.file.EventKeys.Len()), Got: signerIDs(rec)})
	case trust.BadSignature:
		v.leafFail(e, Check{Name: CheckEventSignature, Detail: err.Error(), Expected: "a signature over the event's bytes", Got: signerIDs(rec)})
	default:
		v.pass(CheckEventSignature)
		c := Check{Name: CheckKeyValidity, Detail: err.Error(), Got: "leaf " + strconv.FormatUint(e.leafIndex, 10)}
		var ke *trust.KeyError
		if errors.As(err, &ke) {
			c.Expected = fmt.Sprintf("leaf under %d", ke.Bound)
			if ke.Reason == trust.KeyNotYetValid {
				c.Expected = fmt.Sprintf("leaf %d or later", ke.Bound)
			}
		}
		v.leafFail(e, c)
	}
}

// signerIDs names the keys that a record says it is signed by.
func signerIDs(rec *event.Record) string {
	s := rec.Signatures[0].KeyID
	if n := len(rec.Signatures); n > 1 {
		s += fmt.Sprintf(" and %d more", n-1)
	}
	return clip(s)
}

// place checks the leaf against the checkpoint.
func (v *verifier) place(e *entry) {
	if !v.logged || !e.hasIndex {
		return
	}
	size := v.checkpoint.Size
	if e.leafIndex >= size {
		v.leafFail(e, Check{Name: CheckLeafIndex, Detail: "the leaf is not under the checkpoint", Expected: fmt.Sprintf("under %d", size), Got: strconv.FormatUint(e.leafIndex, 10)})
		return
	}
	v.pass(CheckLeafIndex)
	if !e.hasProof {
		if e.damage == nil {
			v.leafFail(e, Check{Name: CheckProofLength, Detail: "the entry has no inclusion proof", Expected: hashCount(proofLength(e.leafIndex, size)), Got: "none"})
		}
		return
	}
	want, got := proofLength(e.leafIndex, size), proofHashes(e.proof)
	if got != want {
		v.leafFail(e, Check{Name: CheckProofLength, Detail: fmt.Sprintf("the place of the leaf in a tree of %d needs another number of hashes", size), Expected: hashCount(want), Got: hashCount(got)})
		return
	}
	v.pass(CheckProofLength)
	proof, err := decodeProof(e.proof, v.proof[:0])
	if err != nil {
		v.leafFail(e, Check{Name: CheckFormat, Detail: err.Error()})
		return
	}
	var leaf Hash
	leaf, v.leafBuffer = leafHash(v.leafBuffer, e.receipt, e.signatures)
	if root := rootOf(leaf, e.leafIndex, size, proof); root != v.checkpoint.Root {
		v.leafFail(e, Check{Name: CheckInclusion, Detail: fmt.Sprintf("leaf (hash %x) and proof do not give the root of the checkpoint", leaf),
			Expected: fmt.Sprintf("root %x", v.checkpoint.Root), Got: fmt.Sprintf("root %x", root)})
		return
	}
	v.pass(CheckInclusion)
}

func hashCount(n int) string {
	if n == 1 {
		return "1 hash"
	}
	return strconv.Itoa(n) + " hashes"
}
