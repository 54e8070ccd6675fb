package jsonrpc

import (
	"bytes"
	"testing"
)

func TestMessagesBehindOneAnotherAreAllRead(t *testing.T) {
	for _, c := range []struct {
		in      string
		methods string
		batch   bool
		ok      bool
	}{
		{``, "", false, true},
		{" \r\n", "", false, true},
		{`{"method":"a"}` + "\r\n", "a ", false, true},
		{`{"method":"a"}{"method":"b"}`, "a b ", false, true},
		{`[{"method":"a"},{"method":"b"}] {"method":"c"}`, "a b c ", true, true},
		{`[]`, "", true, true},
		{`[{"method":"a"},7]`, "a ", true, false},
		{`{"method":"a"} x`, "a ", false, false},
		{`{"method":"a"`, "", false, false},
		{`{"method":"\u0061","params":{"n":1e999,"s":"\ud800","s":1}}`, "a ", false, true},
		{`7`, "", false, false},
	} {
		ms, batch, err := ParseAll([]byte(c.in))
		got := ""
		for _, m := range ms {
			got += m.Method + " "
		}
		if got != c.methods || batch != c.batch || (err == nil) != c.ok {
			t.Errorf("%s: %q, batch %v, %v", c.in, got, batch, err)
		}
	}
}

func TestAMethodThatAnyPeerCouldRead(t *testing.T) {
	for in, want := range map[string]bool{
		`{"method":"tools/call"}`:                             true,
		`{"method":"tools/call","method":"ping"}`:             true,
		`{"method":"ping","method":"tools\/c\u0061ll"}`:       true,
		`{"METHOD":"tools/call","method":"ping"}`:             true,
		`{"Method":"tools/call"}`:                             true,
		`{"method":"ping","params":{"method":"tools/call"}}`:  false,
		`{"method":"Tools/call"}`:                             false,
		`{"id":1,"result":{"method":"tools/call"}}`:           false,
		`{"method":["tools/call"],"x":"\"method\":\"tools/"}`: false,
	} {
		m, err := Parse([]byte(in))
		if err != nil || m.MayBe("tools/call") != want {
			t.Errorf("%s: %v, want %v, %v", in, !want, want, err)
		}
	}
}

func TestIDsHaveOneSpelling(t *testing.T) {
	for a, want := range map[string]string{`3`: "3", `3.0`: "3", `"3"`: `"3"`, `"\u0033"`: `"3"`, `null`: "", `{}`: "", ``: "",
		`9007199254740993`: "9007199254740993", `-1`: "-1", `true`: ""} {
		if got := IDKey([]byte(a)); got != want {
			t.Errorf("%s: %q, want %q", a, got, want)
		}
	}
}

func TestWhatAnAnswerSays(t *testing.T) {
	for in, want := range map[string]string{
		`{"id":1,"result":{"a":1}}`:            `{"a":1}`,
		`{"id":1,"error":{"code":1}}`:          `{"code":1}`,
		`{"id":1,"result":1,"error":null}`:     `1`,
		`{"id":1,"result":1,"result":2}`:       `{"id":1,"result":1,"result":2}`,
		`{"id":1,"method":"m","result":1}`:     "",
		`{"id":null,"error":{"code":-32700}}`:  "",
		`{"id":"a","method":"","result":null}`: "null",
	} {
		m, err := Parse([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(m.Answer()); m.IsAnswer() != (want != "") || want != "" && got != want {
			t.Errorf("%s: %v %s, want %s", in, m.IsAnswer(), got, want)
		}
	}
}

func FuzzParseAll(f *testing.F) {
	for _, s := range []string{`{"method":"a"}{"id":1}`, `[{"id":1,"result":{}}]`, `{"id":`, "\ufeff{}", `[[{}]]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		ms, _, _ := ParseAll(raw)
		if !bytes.Equal(before, raw) {
			t.Fatal("the bytes were changed")
		}
		for _, m := range ms {
			one, err := Parse(m.Raw)
			if err != nil || one.Key != m.Key || one.Method != m.Method || one.Duplicates != m.Duplicates {
				t.Fatalf("%q alone is %+v, %v", m.Raw, one, err)
			}
		}
	})
}
