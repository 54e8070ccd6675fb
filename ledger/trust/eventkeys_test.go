package trust

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"counterfoil/ledger/event"
)

func key(label string, from uint64) EventKey {
	pub := publicOf(label)
	return EventKey{KeyID: event.KeyID(pub), PublicKey: pub, FromIndex: from}
}

func at(i uint64) *uint64 { return &i }

func record(signers ...string) *event.Record {
	payload := []byte(`{"any":"canonical bytes"}`)
	rec := &event.Record{EventBytes: payload}
	for _, s := range signers {
		rec.Signatures = append(rec.Signatures, event.Signature{
			KeyID: event.KeyID(publicOf(s)), Sig: ed25519.Sign(eventKey(s), event.PAE(event.PayloadType, payload)),
		})
	}
	return rec
}

// KEY ROTATION: old key up to leaf 99, new key from leaf 100 on.
func TestATT09_ATT21_ATT22_KeysAreValidByLeafIndex(t *testing.T) {
	old, young := key("old", 0), key("new", 100)
	old.ToIndex = at(100)
	stolen := key("stolen", 10)
	stolen.RevokedFromIndex, stolen.ToIndex = at(20), at(30)
	keys := must(NewEventKeys([]EventKey{old, young, stolen}))(t)
	for _, c := range []struct {
		signers string
		leaf    uint64
		want    KeyReason
		bound   uint64
	}{
		{"old", 0, "", 0},
		{"old", 50, "", 0},
		{"old", 99, "", 0},
		{"old", 100, KeyRetired, 100},
		{"old", 151, KeyRetired, 100},
		{"new", 100, "", 0},
		{"new", 150, "", 0},
		{"new", 99, KeyNotYetValid, 100},
		{"old new", 50, "", 0},  // signed by both across the rotation
		{"old new", 150, "", 0}, // either order
		{"new old", 50, "", 0},
		{"stolen", 9, KeyNotYetValid, 10},
		{"stolen", 19, "", 0},
		{"stolen", 20, KeyRevoked, 20},
		{"stolen", 40, KeyRevoked, 20},
		{"nobody", 50, UnknownKey, 0},
		{"nobody old", 150, KeyRetired, 100},
	} {
		signers := strings.Fields(c.signers)
		id, err := keys.Check(record(signers...), c.leaf)
		if got := ReasonOf(err); got != c.want || (err == nil) != (c.want == "") || (err == nil) != (id != "") {
			t.Errorf("%s at %d: got %q, %v; want %q", c.signers, c.leaf, id, err, c.want)
		}
		var ke *KeyError
		if errors.As(err, &ke) && (ke.Bound != c.bound || ke.LeafIndex != c.leaf || ke.KeyID == "") {
			t.Errorf("%s at %d: got %+v", c.signers, c.leaf, ke)
		}
	}
}

func TestATT11_BadSignaturesDoNotHideAGoodOne(t *testing.T) {
	keys := must(NewEventKeys([]EventKey{key("a", 0), key("b", 0)}))(t)
	good := record("nobody", "a", "b")
	good.Signatures[1].Sig = bytes.Repeat([]byte{7}, 64)
	if id, err := keys.Check(good, 1); err != nil || id != event.KeyID(publicOf("b")) {
		t.Errorf("third signature: got %q, %v", id, err)
	}
	for name, sig := range map[string][]byte{"flipped": good.Signatures[1].Sig, "short": {1}, "long": bytes.Repeat([]byte{7}, 65)} {
		bad := record("a")
		bad.Signatures[0].Sig = sig
		if _, err := keys.Check(bad, 1); ReasonOf(err) != BadSignature {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := keys.Check(&event.Record{EventBytes: good.EventBytes}, 1); ReasonOf(err) != UnknownKey {
		t.Errorf("no signature: got %v", err)
	}
	if _, err := (EventKeys{}).Check(record("a"), 1); ReasonOf(err) != UnknownKey {
		t.Errorf("no trusted key: got %v", err)
	}
}

// The signature covers type and bytes: nothing of another type counts (ATT-03).
func TestATT04_PayloadTypeIsPinned(t *testing.T) {
	keys := must(NewEventKeys([]EventKey{key("a", 0)}))(t)
	rec := record("a")
	for name, msg := range map[string][]byte{
		"other type":      event.PAE("application/json", rec.EventBytes),
		"bare payload":    rec.EventBytes,
		"another payload": event.PAE(event.PayloadType, append(bytes.Clone(rec.EventBytes), ' ')),
	} {
		rec.Signatures[0].Sig = ed25519.Sign(eventKey("a"), msg)
		if _, err := keys.Check(rec, 1); ReasonOf(err) != BadSignature {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestATT12_EventKeysAreBoundedAndChecked(t *testing.T) {
	mislabelled := key("a", 0)
	mislabelled.KeyID = event.KeyID(publicOf("b"))
	short := key("a", 0)
	short.PublicKey = short.PublicKey[:31]
	backwards, revokedBefore, beyond := key("a", 10), key("a", 10), key("a", MaxIndex+1)
	backwards.ToIndex, revokedBefore.RevokedFromIndex = at(9), at(9)
	for name, list := range map[string][]EventKey{
		"other key's id":        {mislabelled},
		"short key":             {short},
		"ends before it begins": {backwards},
		"revoked before":        {revokedBefore},
		"beyond 2^53":           {beyond},
		"twice":                 {key("a", 0), key("a", 5)},
		"too many":              make([]EventKey, MaxEventKeys+1),
	} {
		if _, err := NewEventKeys(list); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	in := key("a", 3)
	in.ToIndex = at(7)
	keys := must(NewEventKeys([]EventKey{in}))(t)
	*in.ToIndex, in.PublicKey[0] = 1, in.PublicKey[0]^1
	*keys.Keys()[0].ToIndex = 1
	if got := keys.Keys()[0]; *got.ToIndex != 7 || event.KeyID(got.PublicKey) != got.KeyID {
		t.Errorf("a caller changed the set: %+v", got)
	}
}
