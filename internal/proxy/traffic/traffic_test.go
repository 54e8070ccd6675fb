package traffic

import (
	"testing"

	"counterfoil/internal/jsonrpc"
)

func TestOPR07_RefusalsRepeatTheIDs(t *testing.T) {
	for in, want := range map[string]string{
		`{"id":1,"method":"tools/call"}`:                     `1`,
		`{"id":1.50,"method":"tools/call"}`:                  `1.50`,
		`{"id":"\u00e4\/","method":"tools/call"}`:            `"\u00e4\/"`,
		`{"id":1e999,"method":"tools/call"}`:                 `1e999`,
		`{"id":[{"a":1,"a":2}],"method":"tools/call"}`:       `[{"a":1,"a":2}]`,
		`{"id":null,"method":"tools/call"}`:                  `null`,
		`{"id":1,"id":2,"method":"tools/call"}`:              `2`,
		`{"id":7,"method":"tools/call","params":{"x":NaN}}`:  `null`, // nobody knows what was asked
		`[{"id":8,"method":"tools/call"},{"method":"note"}]`: `8`,
	} {
		p := Read([]byte(in))
		if !p.HoldsCall() {
			t.Fatalf("%s holds no call", in)
		}
		p.refuse(refusalEvidence, "why")
		ms, _, err := jsonrpc.ParseAll(p.Refusal())
		if err != nil || len(ms) != 1 || string(ms[0].ID) != want || ms[0].Err == nil {
			t.Errorf("%s: %s, %v", in, p.Refusal(), err)
		}
	}
	p := Read([]byte(`{"method":"tools/call"}`))
	p.refuse(refusalBusy, "why")
	if !p.Refused() || len(p.Refusal()) != 0 {
		t.Errorf("a notification is answered: %s", p.Refusal())
	}
}

func TestEVI22_WhatIsNoCall(t *testing.T) {
	for _, in := range []string{``, ` `, `{}`, `[]`, `hello`, `{"id":1,"method":"ping"}`, `{"id":1,"result":{"method":"tools/call"}}`, `{"method":"tools/calls"}`, `{"method":"tools/list",}`} {
		if Read([]byte(in)).HoldsCall() {
			t.Errorf("%s holds a call", in)
		}
	}
}

func FuzzRefusalsAreJSON(f *testing.F) {
	f.Add([]byte(`[{"id":"\ud800","method":"tools/call"}]{"id":1`))
	f.Add([]byte("{\"id\":\"\xff\",\"method\":\"tools/call\"}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := Read(raw)
		p.refuse(refusalEvidence, "why")
		if _, _, err := jsonrpc.ParseAll(p.Refusal()); err != nil {
			t.Fatalf("%q is refused with %q: %v", raw, p.Refusal(), err)
		}
	})
}
