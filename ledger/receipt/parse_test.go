package receipt

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"counterfoil/internal/testkit/seeds"
	"counterfoil/ledger/event"
)

// JSON has many spellings; a bundle has one.
func TestATT06_BundleHasOneSpelling(t *testing.T) {
	w := story(t)
	good := w.bundle()
	edit := func(old, replacement string) []byte { t.Helper(); return replace(t, good, old, replacement) }
	for name, b := range map[string][]byte{
		"space before":           append([]byte(" "), good...),
		"newline after":          append(bytes.Clone(good), '\n'),
		"a second document":      append(bytes.Clone(good), good...),
		"byte order mark":        append([]byte("\ufeff"), good...),
		"indented":               bytes.ReplaceAll(good, []byte(`,"`), []byte(`, "`)),
		"space between entries":  edit(`}},{"artifact"`, `}}, {"artifact"`),
		"space after a colon":    edit(`"leafIndex":3`, `"leafIndex": 3`),
		"escaped letter":         edit(`"origin":"l`, `"origin":"\u006c`),
		"escaped slash":          edit(`"origin":"ledger.example/`, `"origin":"ledger.example\/`),
		"newline as \\u000a":     edit(`\n7\n`, `\u000a7\n`),
		"dash of a note escaped": edit("—", `\u2014`),
		"number as a string":     edit(`"leafIndex":3`, `"leafIndex":"3"`),
		"number with a fraction": edit(`"leafIndex":3`, `"leafIndex":3.0`),
		"number with exponent":   edit(`"leafIndex":3`, `"leafIndex":3e0`),
		"leading zero":           edit(`"leafIndex":3`, `"leafIndex":03`),
		"negative zero":          edit(`"leafIndex":0`, `"leafIndex":-0`),
		"beyond 2^53":            edit(`"leafIndex":6`, `"leafIndex":9007199254740992`),
		"beyond 2^64":            edit(`"leafIndex":6`, `"leafIndex":18446744073709551622`),
		"no leaf index":          edit(`"leafIndex":3,`, ``),
		"null checkpoint":        append([]byte(`{"checkpoint":null,`), bytes.SplitN(good, []byte(`","claimB`), 2)[1]...),
		"null previous":          edit(`"lifecycle":"attempt","revision"`, `"lifecycle":"attempt","previous":null,"revision"`),
		"empty previous":         edit(`"lifecycle":"attempt","revision"`, `"lifecycle":"attempt","previous":"","revision"`),
		"members reordered":      edit(`"leafIndex":3,"origin":"`+origin+`"`, `"origin":"`+origin+`","leafIndex":3`),
		"duplicate member":       edit(`"leafIndex":3,`, `"leafIndex":3,"leafIndex":3,`),
		"other case":             edit(`"leafIndex":3`, `"LeafIndex":3`),
		"unknown member":         edit(`"leafIndex":3`, `"kind":"x","leafIndex":3`),
		"proof without padding":  edit(`="]`, `"]`),
		"proof URL alphabet":     edit(proofText(w.proof(3, 7))[:25], strings.NewReplacer("+", "-", "/", "_").Replace(proofText(w.proof(3, 7))[:24])+"-"),
		"proof trailing bits":    trailingBits(t, good, w.proof(3, 7)[0]),
		"null proof":             edit(proofText(w.proof(3, 7)), `"inclusionProof":null,`),
		"trailing comma":         edit(`}}],"schemaVersion"`, `}},],"schemaVersion"`),
		"entries as an object":   edit(`"entries":[`, `"entries":{`),
		"codes out of order":     edit(`"claimBoundaries":{`, `"claimBoundaries":{"zzz_v1":"x",`),
		"invalid UTF-8":          edit(`"origin":"l`, "\"origin\":\"\xff"),
		"lone surrogate":         edit(`"origin":"l`, `"origin":"\ud800`),
		"control character":      edit(`"origin":"l`, "\"origin\":\"\x01"),
		"delete is no control":   edit(`"origin":"l`, "\"origin\":\"\x7f"),
		"signatures spaced":      edit(`"signatures":[{"keyId"`, `"signatures":[ {"keyId"`),
		"signature unpadded":     edit(`=="}]`, `"}]`),
		"no signatures":          edit(string(w.records[3].SignatureBytes), `[]`),
		"event spaced":           edit(`"receipt":{"action"`, `"receipt":{ "action"`),
		"array":                  append(append([]byte("["), good...), ']'),
		"text":                   []byte("verified"),
		"empty object":           []byte("{}"),
		"brackets":               bytes.Repeat([]byte("["), 1<<16),
	} {
		if bytes.Equal(b, good) {
			t.Errorf("%s: the test changes nothing", name)
		}
		if _, err := Parse(b); !errors.Is(err, ErrBundle) {
			t.Errorf("%s: got %v, want ErrBundle", name, err)
		}
		r := Verify(b, w.trusts("event"), Options{})
		if name == "delete is no control" {
			wantFailed(t, name, r, CheckOrigin) // canonical, and another log
			continue
		}
		if r.Status != Failed || len(r.Failures(CheckFormat)) == 0 {
			t.Errorf("%s: want a failure of format\n%s", name, text(r))
		}
	}
	if _, err := Parse(good); err != nil {
		t.Error(err)
	}
}

// trailingBits sets a bit of the last character of a hash that says nothing.
func trailingBits(t *testing.T, b []byte, hash []byte) []byte {
	t.Helper()
	enc := b64.EncodeToString(hash)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	i := strings.IndexByte(alphabet, enc[42])
	return replace(t, b, enc, enc[:42]+string(alphabet[i+1])+"=")
}

// Whatever byte of a bundle changes, it does not verify, and something says so.
func TestBND02_NoByteIsWithoutMeaning(t *testing.T) {
	w := newWorld(t)
	w.attempts(2)
	w.log(newAttempt(origin, 9))
	b, file := w.bundle(4), w.trusts("event")
	for i := range b {
		bit := byte(1) << (i % 8)
		b[i] ^= bit
		if r := Verify(b, file, Options{}); r.Status != Failed || r.Counts.Failures == 0 {
			t.Errorf("bit %d of byte %d (%q): %s", i%8, i, b[max(0, i-20):min(len(b), i+20)], text(r))
		}
		if _, err := Parse(b); err == nil && !inside(b, i) {
			t.Errorf("bit %d of byte %d (%q): parsed", i%8, i, b[max(0, i-20):min(len(b), i+20)])
		}
		b[i] ^= bit
	}
	wantVerified(t, "at the end", Verify(b, file, Options{}))
	for i := range b {
		if r := Verify(b[:i], file, Options{}); r.Status == Verified {
			t.Errorf("cut at %d verifies", i)
		}
	}
}

// inside reports whether byte i is part of what Parse does not verify:
// checkpoint, signatures, proof and leaf index.
func inside(b []byte, i int) bool {
	for _, part := range [][2]string{{litCheckpoint, litBoundaries}, {litSignatures, litReceipt}, {litProof, litOrigin}} {
		from, to := bytes.Index(b, []byte(part[0])), bytes.Index(b, []byte(part[1]))
		if i >= from && i < to {
			return true
		}
	}
	return false
}

func TestBND10_ParseAndBuildAreInverse(t *testing.T) {
	w := story(t)
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.Uint64Range(1, 7).Draw(r, "size")
		leaves := rapid.SliceOfNDistinct(rapid.Uint64Range(0, size-1), 1, int(size), rapid.ID[uint64]).Draw(r, "leaves")
		entries, cp := w.entries(size, leaves...), w.checkpoint(size)
		if rapid.Bool().Draw(r, "bare") {
			cp = nil
			for i := range entries {
				entries[i].Proof = nil
			}
		}
		raw := w.build(entries, cp)
		b, err := Parse(raw)
		if err != nil {
			r.Fatal(err)
		}
		if again := w.build(b.Entries, b.Checkpoint); !bytes.Equal(raw, again) {
			r.Fatalf("comes back as %s", again)
		}
	})
}

// A report of anything is a JSON document, whatever the input quotes.
func TestBND03_ReportOfAnythingIsJSON(t *testing.T) {
	w := story(t)
	for name, b := range map[string][]byte{
		"long name of letters of two bytes":  replace(t, w.bundle(), `"origin":"`+origin, `"origin":"x`+strings.Repeat("é", 100)),
		"time of letters of two bytes":       replace(t, w.bundle(), `"occurredAt":"2026`, `"occurredAt":"x`+strings.Repeat("é", 100)),
		"invalid UTF-8":                      replace(t, w.bundle(), `"origin":"l`, "\"origin\":\"\xff\xfe"),
		"invalid UTF-8 at the end of a text": append(bytes.Repeat([]byte("é"), 30), 0xc3),
	} {
		doc, err := Verify(b, w.trusts("event"), Options{}).JSON()
		if err != nil || !jsontext.Value(doc).IsValid() {
			t.Errorf("%s: %v: %s", name, err, doc)
		}
	}
}

func FuzzParseBundle(f *testing.F) {
	seeds.Add(f, "bundle")
	w := story(f)
	file := w.trusts("event")
	f.Add(w.bundle(3))
	f.Add(w.build(nil, nil))
	f.Add([]byte(`{"claimBoundaries":{},"entries":[{"artifact":{"commitment":{"digest":"` + event.DigestOf(nil).String() + `"}}}],"schemaVersion":"counterfoil.bundle.v1"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := Verify(b, file, Options{})
		if doc, err := r.JSON(); err != nil || !jsontext.Value(doc).IsValid() {
			t.Fatalf("report %v: %s", err, doc)
		}
		parsed, err := Parse(b)
		if err != nil {
			if !errors.Is(err, ErrBundle) {
				t.Fatalf("untyped error %v", err)
			}
			if r.Status == Verified {
				t.Fatalf("verified, but %v: %q", err, b)
			}
			return
		}
		if again := forgeLike(parsed, b); !bytes.Equal(again, b) {
			t.Fatalf("%q comes back as %q", b, again)
		}
	})
}

// forgeLike writes a parsed bundle again without the checks of Build; proofs
// where they were.
func forgeLike(p *Bundle, b []byte) []byte {
	codes := map[string]string{}
	var list []byte
	for i := range p.Entries {
		e := &p.Entries[i]
		code := e.Record.Event.ClaimBoundary
		codes[code], _ = event.ClaimBoundaryText(code)
		if i > 0 {
			list = append(list, ',')
		}
		list = appendEntry(list, e, e.Proof != nil)
	}
	return append(append(appendHead(nil, p.Checkpoint, codes), list...), tail...)
}
