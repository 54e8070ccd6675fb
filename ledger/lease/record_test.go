package lease

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"os"
	"strings"
	"testing"
)

func sampleRecord(t testing.TB) (Record, keys) {
	t.Helper()
	k, l := newKeys(t), newLeaves(0)
	return Record{
		Origin: origin, Epoch: 7, Node: "node-a", Instance: strings.Repeat("0f", 16), Beat: 12,
		Guard: l.at(9), Checkpoint: k.checkpoint(l.at(9)), Witnessed: k.checkpoint(l.at(5)),
	}, k
}

// The bytes by hand, to the letter of docs/spec/lease.md.
func TestCLU01_RecordHasOneSpelling(t *testing.T) {
	empty := sha256.Sum256(nil)
	r := Record{Origin: origin, Epoch: 1, Beat: 1, Guard: Guard{Root: empty}}
	want := `{"version":1,"origin":"log.test/one","epoch":1,"node":"","instance":"","beat":1,"guard":{"size":0,"root":"` +
		base64.StdEncoding.EncodeToString(empty[:]) + `"}}` + "\n"
	got, err := r.Encode()
	must(t, err)
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	full, _ := sampleRecord(t)
	b, err := full.Encode()
	must(t, err)
	again, err := Parse(b)
	must(t, err)
	if twice, err := again.Encode(); err != nil || !bytes.Equal(twice, b) {
		t.Errorf("%q again is %q, %v", b, twice, err)
	}
	if !strings.Contains(string(b), `"checkpoint":"`+base64.StdEncoding.EncodeToString(full.Checkpoint)+`","witnessed":"`) {
		t.Errorf("the notes are not base64 in their place: %s", b)
	}
}

func TestCLU01_RecordRefusesEverySecondSpelling(t *testing.T) {
	r, _ := sampleRecord(t)
	b, err := r.Encode()
	must(t, err)
	good := string(b)
	for name, bad := range map[string]string{
		"nothing":           "",
		"no newline":        strings.TrimSuffix(good, "\n"),
		"two newlines":      good + "\n",
		"blank":             strings.Replace(good, `:7,`, `: 7,`, 1),
		"another version":   strings.Replace(good, `"version":1`, `"version":2`, 1),
		"no version":        strings.Replace(good, `"version":1,`, ``, 1),
		"unknown member":    strings.Replace(good, `"beat"`, `"more":1,"beat"`, 1),
		"member twice":      strings.Replace(good, `"beat"`, `"epoch":7,"beat"`, 1),
		"other case":        strings.Replace(good, `"beat"`, `"Beat"`, 1),
		"another order":     strings.Replace(good, `"epoch":7,"node":"node-a"`, `"node":"node-a","epoch":7`, 1),
		"escape":            strings.Replace(good, `node-a`, `node-\u0061`, 1),
		"null":              strings.Replace(good, `"beat":12`, `"beat":null`, 1),
		"float":             strings.Replace(good, `"beat":12`, `"beat":12.0`, 1),
		"empty checkpoint":  strings.Replace(good, `"checkpoint":"`, `"checkpoint":"","x":"`, 1),
		"no padding":        strings.Replace(good, `="},"checkpoint"`, `"},"checkpoint"`, 1),
		"base64 bits":       trailing(good, `="},"checkpoint"`),
		"too long":          strings.Repeat(" ", MaxRecord) + good,
		"trailing document": good + "{}",
	} {
		if bad == good {
			t.Errorf("%s: the case changes nothing", name)
		}
		_, err := Parse([]byte(bad))
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		is(t, err, ErrRecord)
	}
}

// trailing sets a bit behind the last byte of the base64 text that ends before end.
func trailing(s, end string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	at := strings.Index(s, end) - 1
	return s[:at] + string(alphabet[strings.IndexByte(alphabet, s[at])+1]) + s[at+1:]
}

func TestCLU01_RecordRefusesWhatCannotBe(t *testing.T) {
	_, k := sampleRecord(t)
	l, other := newLeaves(0), newLeaves(3)
	for name, change := range map[string]func(*Record){
		"no origin":                        func(r *Record) { r.Origin = "" },
		"long origin":                      func(r *Record) { r.Origin = strings.Repeat("o", 513) },
		"epoch 0":                          func(r *Record) { r.Epoch = 0 },
		"epoch too large":                  func(r *Record) { r.Epoch = 1 << 53 },
		"beat 0":                           func(r *Record) { r.Beat = 0 },
		"node without instance":            func(r *Record) { r.Instance = "" },
		"instance without node":            func(r *Record) { r.Node = "" },
		"node name":                        func(r *Record) { r.Node = "a b" },
		"instance in capitals":             func(r *Record) { r.Instance = strings.ToUpper(r.Instance) },
		"short instance":                   func(r *Record) { r.Instance = r.Instance[2:] },
		"guard too large":                  func(r *Record) { r.Guard.Size = 1 << 53 },
		"root of no leaves":                func(r *Record) { r.Guard, r.Checkpoint, r.Witnessed = Guard{}, nil, nil },
		"checkpoint above the guard":       func(r *Record) { r.Checkpoint = k.checkpoint(l.at(10)) },
		"checkpoint of another tree":       func(r *Record) { r.Checkpoint = k.checkpoint(other.at(9)) },
		"checkpoint is no note":            func(r *Record) { r.Checkpoint = []byte("text\n") },
		"checkpoint is none":               func(r *Record) { r.Checkpoint = k.sign("text\n") },
		"checkpoint of another log":        func(r *Record) { r.Origin = "log.test/two" },
		"checkpoint with an extension":     func(r *Record) { r.Checkpoint = k.sign("log.test/one\n0\n" + emptyB64 + "\nmore\n") },
		"checkpoint of no leaves":          func(r *Record) { r.Checkpoint = k.checkpoint(Guard{}) },
		"checkpoint too long":              func(r *Record) { r.Checkpoint = lines(r.Checkpoint, MaxCheckpoint) },
		"witnessed without checkpoint":     func(r *Record) { r.Checkpoint = nil },
		"witnessed above checkpoint":       func(r *Record) { r.Witnessed, r.Checkpoint = r.Checkpoint, r.Witnessed },
		"witnessed of another tree":        func(r *Record) { r.Witnessed = k.checkpoint(other.at(9)) },
		"witnessed too long":               func(r *Record) { r.Witnessed = lines(r.Witnessed, MaxWitnessed) },
		"witnessed with a broken last \\n": func(r *Record) { r.Witnessed = bytes.TrimSuffix(r.Witnessed, []byte("\n")) },
	} {
		r, _ := sampleRecord(t)
		r.Checkpoint, r.Witnessed = k.checkpoint(l.at(9)), k.checkpoint(l.at(5))
		must(t, r.check())
		change(&r)
		if _, err := r.Encode(); err == nil {
			t.Errorf("%s: written", name)
		} else {
			is(t, err, ErrRecord)
		}
		b, err := r.spell()
		must(t, err)
		if _, err := Parse(b); err == nil {
			t.Errorf("%s: read", name)
		} else {
			is(t, err, ErrRecord)
		}
	}
}

var emptyB64 = base64.StdEncoding.EncodeToString(func() []byte { h := sha256.Sum256(nil); return h[:] }())

// lines adds signature lines of others until the note is longer than a limit.
func lines(note []byte, beyond int) []byte {
	line := "— witness.test/w " + base64.StdEncoding.EncodeToString(make([]byte, 700)) + "\n"
	for len(note) <= beyond {
		note = append(bytes.Clone(note), line...)
	}
	return note
}

// The largest record that the rules allow fits a register.
func TestCLU01_LargestRecordFits(t *testing.T) {
	r, k := sampleRecord(t)
	r.Node, r.Epoch, r.Beat = strings.Repeat("n", 64), maxCount, maxCount
	pad := func(note []byte, most int) []byte {
		for {
			longer := lines(note, len(note))
			if len(longer) > most {
				return note
			}
			note = longer
		}
	}
	l := newLeaves(0)
	r.Checkpoint, r.Witnessed = pad(k.checkpoint(l.at(9)), MaxCheckpoint), pad(k.checkpoint(l.at(5)), MaxWitnessed)
	b, err := r.Encode()
	must(t, err)
	if most := base64.StdEncoding.EncodedLen(MaxCheckpoint) + base64.StdEncoding.EncodedLen(MaxWitnessed) + 2048; most > MaxRecord || len(b) > most {
		t.Errorf("a record has %d bytes, at most %d were expected, the limit is %d", len(b), most, MaxRecord)
	}
}

func FuzzCLU01_Record(f *testing.F) {
	r, _ := sampleRecord(f)
	b, err := r.Encode()
	must(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			return
		}
		if again, err := r.Encode(); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%q again is %q, %v", data, again, err)
		}
	})
}

// The example of the page is a record, byte for byte.
func TestCLU01_ExampleOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/spec/lease.md")
	must(t, err)
	_, rest, ok := strings.Cut(string(page), "```json\n")
	example, _, ended := strings.Cut(rest, "```")
	if !ok || !ended {
		t.Fatal("the page has no example")
	}
	r, err := Parse([]byte(example))
	must(t, err)
	_, shown, err := readNote(r.Checkpoint, r.Origin, MaxCheckpoint)
	must(t, err)
	if r.Node != "node-b" || r.Epoch != 2 || r.Guard.Size != 4 || shown.Size != 3 {
		t.Errorf("the example is %+v, which is not what the page says", r)
	}
}
