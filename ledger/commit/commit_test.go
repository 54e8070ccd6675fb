package commit_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"counterfoil/ledger/commit"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// blob is a byte string of the vector file: hex, or one byte string repeated.
type blob []byte

func (b *blob) UnmarshalJSON(in []byte) error {
	var rep struct {
		RepeatHex string
		Times     int
	}
	if in[0] == '{' {
		if err := json.Unmarshal(in, &rep); err != nil {
			return err
		}
	} else {
		rep.Times = 1
		if err := json.Unmarshal(in, &rep.RepeatHex); err != nil {
			return err
		}
	}
	unit, err := hex.DecodeString(rep.RepeatHex)
	*b = bytes.Repeat(unit, rep.Times)
	return err
}

type vector struct {
	Rule, Name, AttemptID, Slot, Want  string
	Salt, Value, AttemptKey, TenantKey blob
	TagKey, Request, Key               blob
	ValueUtf8, RequestUtf8             *string
}

func (v vector) value() []byte   { return pick(v.Value, v.ValueUtf8) }
func (v vector) request() []byte { return pick(v.Request, v.RequestUtf8) }

func pick(b blob, s *string) []byte {
	if s != nil {
		return []byte(*s)
	}
	return b
}

type text struct{ Rule, Text string }

type vectors struct {
	Commitment, Salt, TagKey, RequestTag, EffectTag, Fingerprint []vector
	DigestText, TagText                                          struct{ Accept, Reject []text }
}

func load(t *testing.T) vectors {
	t.Helper()
	raw, err := os.ReadFile("../../testdata/vectors/commit.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPRV09_Vectors(t *testing.T) {
	v := load(t)
	for group, g := range map[string]struct {
		vectors []vector
		compute func(v vector) string
	}{
		"commitment": {v.Commitment, func(v vector) string {
			return commit.FormatDigest(commit.Commitment(v.Name, commit.Salt(v.Salt), v.value()))
		}},
		"salt": {v.Salt, func(v vector) string {
			s := commit.DeriveSalt(v.AttemptKey, v.AttemptID, v.Slot, v.Name)
			return hex.EncodeToString(s[:])
		}},
		"tagKey": {v.TagKey, func(v vector) string {
			return hex.EncodeToString(commit.TagKey(v.TenantKey, v.AttemptKey))
		}},
		"requestTag": {v.RequestTag, func(v vector) string {
			return commit.FormatTag(commit.RequestTag(v.TagKey, v.request()))
		}},
		"effectTag": {v.EffectTag, func(v vector) string {
			return commit.FormatTag(commit.EffectTag(v.TagKey, v.value()))
		}},
		"fingerprint": {v.Fingerprint, func(v vector) string { return commit.Fingerprint(v.Key) }},
	} {
		if len(g.vectors) == 0 {
			t.Errorf("%s: no vectors", group)
		}
		for _, v := range g.vectors {
			if got := g.compute(v); v.Want == "" || got != v.Want {
				t.Errorf("%s: %s:\n got %s\nwant %s", group, v.Rule, got, v.Want)
			}
		}
	}
}

func TestPRV09_OneSpellingOfDigestsAndTags(t *testing.T) {
	v := load(t)
	for kind, k := range map[string]struct {
		accept, reject []text
		parse          func(string) ([32]byte, error)
		format         func([32]byte) string
	}{
		"digest": {v.DigestText.Accept, v.DigestText.Reject, commit.ParseDigest, commit.FormatDigest},
		"tag":    {v.TagText.Accept, v.TagText.Reject, commit.ParseTag, commit.FormatTag},
	} {
		if len(k.accept) == 0 || len(k.reject) == 0 {
			t.Fatalf("%s: no vectors", kind)
		}
		for _, c := range k.accept {
			d, err := k.parse(c.Text)
			if err != nil {
				t.Errorf("%s: %s: %v", kind, c.Rule, err)
			} else if k.format(d) != c.Text {
				t.Errorf("%s: %s: round trip gives %s", kind, c.Rule, k.format(d))
			}
		}
		for _, c := range k.reject {
			if _, err := k.parse(c.Text); !errors.Is(err, commit.ErrSyntax) {
				t.Errorf("%s: %s: error %v, want ErrSyntax", kind, c.Rule, err)
			}
		}
	}
	_, err := commit.ParseDigest(strings.Repeat("\xff", 1<<20))
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("a long foreign string is not bounded in the error (%d bytes)", len(fmt.Sprint(err)))
	}
}

// TestPRV09_AnyChangeMismatches: an opening opens its own commitment and no
// commitment of another attempt key, attempt, slot, name or value.
func TestPRV09_AnyChangeMismatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type place struct {
			Key            []byte
			ID, Slot, Name string
			Value          []byte
		}
		key := rapid.SliceOfN(rapid.Byte(), 32, 32)
		str := rapid.StringMatching(`[a-z:]{1,6}`)
		val := rapid.SliceOfN(rapid.Byte(), 0, 8)
		draw := func(label string) place {
			return place{key.Draw(t, label+"Key"), str.Draw(t, label+"ID"), str.Draw(t, label+"Slot"), str.Draw(t, label+"Name"), val.Draw(t, label+"Value")}
		}
		a, b := draw("a"), draw("b")
		// b is a with any subset of its parts, mostly one, replaced.
		keep := rapid.SliceOfN(rapid.IntRange(0, 3), 5, 5).Draw(t, "keep")
		if keep[0] > 0 {
			b.Key = a.Key
		}
		if keep[1] > 0 {
			b.ID = a.ID
		}
		if keep[2] > 0 {
			b.Slot = a.Slot
		}
		if keep[3] > 0 {
			b.Name = a.Name
		}
		if keep[4] > 0 {
			b.Value = a.Value
		}
		open := func(p place) commit.Opening {
			return commit.Opening{Name: p.Name, Encoding: commit.Raw, Salt: commit.DeriveSalt(p.Key, p.ID, p.Slot, p.Name), Value: p.Value}
		}
		oa, ob := open(a), open(b)
		digest := commit.Commitment(oa.Name, oa.Salt, oa.Value)
		if err := commit.Verify(oa, digest); err != nil {
			t.Fatalf("own opening: %v", err)
		}
		same := bytes.Equal(a.Key, b.Key) && a.ID == b.ID && a.Slot == b.Slot && a.Name == b.Name && bytes.Equal(a.Value, b.Value)
		if err := commit.Verify(ob, digest); same != (err == nil) {
			t.Fatalf("same place and value: %v, verify: %v", same, err)
		} else if err != nil && !errors.Is(err, commit.ErrMismatch) {
			t.Fatalf("error %v, want ErrMismatch", err)
		}
	})
}

func TestPRV09_EveryBitOfAnOpeningCounts(t *testing.T) {
	o := commit.Opening{Name: commit.NameInput, Encoding: commit.JCS, Value: []byte(`{"a":1}`)}
	o.Salt = commit.DeriveSalt(bytes.Repeat([]byte{7}, 32), "att_00", commit.SlotBegin, o.Name)
	digest := commit.Commitment(o.Name, o.Salt, o.Value)
	for i := range o.Salt {
		for bit := range 8 {
			c := o
			c.Salt[i] ^= 1 << bit
			mustMismatch(t, c, digest)
		}
	}
	for i := range o.Value {
		for bit := range 8 {
			c := o
			c.Value = bytes.Clone(o.Value)
			c.Value[i] ^= 1 << bit
			mustMismatch(t, c, digest)
		}
	}
	for i := range digest {
		for bit := range 8 {
			d := digest
			d[i] ^= 1 << bit
			mustMismatch(t, o, d)
		}
	}
}

func TestVerifyRefusesUnknownEncodings(t *testing.T) {
	for _, enc := range []commit.Encoding{"", "JCS", "json", "raw "} {
		o := commit.Opening{Name: "input", Encoding: enc}
		err := commit.Verify(o, commit.Commitment(o.Name, o.Salt, o.Value))
		if !errors.Is(err, commit.ErrEncoding) {
			t.Errorf("%q: error %v, want ErrEncoding", enc, err)
		}
	}
}

func TestSlotsDiffer(t *testing.T) {
	if commit.SlotAppend("") == commit.SlotBegin || commit.SlotAppend("begin") == commit.SlotBegin {
		t.Error("an append can take the slot of the begin")
	}
	if got := commit.SlotAppend("e1"); got != "append:e1" {
		t.Errorf("slot = %q", got)
	}
}

func TestPRV08_OpeningsAreNotPrinted(t *testing.T) {
	const canary = "CANARY-4711"
	o := commit.Opening{Name: "input", Encoding: commit.Raw, Value: []byte(canary)}
	for i := range o.Salt {
		o.Salt[i] = 0xAB
	}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+"\n", o)
		fmt.Fprintf(&out, verb+"\n", &o)
		fmt.Fprintf(&out, verb+"\n", []commit.Opening{o})
		fmt.Fprintf(&out, verb+"\n", o.Salt)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "opening", o, "salt", o.Salt)
	err := commit.Verify(o, [32]byte{})
	fmt.Fprintln(&out, err)
	for _, leak := range []string{canary, hex.EncodeToString([]byte(canary)), "abab", "171", "0xab"} {
		if strings.Contains(strings.ToLower(out.String()), strings.ToLower(leak)) {
			t.Errorf("%q is printed:\n%s", leak, out.String())
		}
	}
}

func TestInputsAreNotKept(t *testing.T) {
	key, val := bytes.Repeat([]byte{1}, 32), []byte("value")
	k, v := bytes.Clone(key), bytes.Clone(val)
	_ = commit.TagKey(key, key)
	_ = commit.RequestTag(key, val)
	_ = commit.EffectTag(key, val)
	_ = commit.DeriveSalt(key, "a", "b", "c")
	_ = commit.Fingerprint(key)
	if diff := cmp.Diff([][]byte{k, v}, [][]byte{key, val}); diff != "" {
		t.Errorf("an input was changed:\n%s", diff)
	}
}

func mustMismatch(t *testing.T, o commit.Opening, d [32]byte) {
	t.Helper()
	if err := commit.Verify(o, d); !errors.Is(err, commit.ErrMismatch) {
		t.Fatalf("error %v, want ErrMismatch", err)
	}
}
