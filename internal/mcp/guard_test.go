package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const callHead = `{"jsonrpc":"2.0","id":"c1","method":"tools/call","params":{"name":"receipt_begin","arguments":`

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestTRS27_MCP03_MCP04_MessagesAreBoundedBeforeTheyAreParsed(t *testing.T) {
	pad := func(n int) string { // a call of exactly n bytes
		head, tail := callHead+`{"privateInput":"`, `"}}}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	read := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)
	}
	for _, c := range []struct {
		name, message string
		code          string // of a tool result; of the error's data else; "" passes
		rpc           float64
		id            any // in the answer
		path          string
	}{
		{"small", callHead + `{}}}`, "", 0, nil, ""},
		{"65,536 bytes", pad(65_536), "", 0, nil, ""},
		{"65,537 bytes", pad(65_537), "too_large", 0, "c1", ""},
		{"1 MiB", pad(1 << 20), "too_large", 0, "c1", ""},
		{"32 levels", callHead + `{"privateInput":` + nested(29) + `}}}`, "", 0, nil, ""},
		{"33 levels", callHead + `{"privateInput":` + nested(30) + `}}}`, "invalid_request", 0, "c1", ""},
		{"4,096 levels", callHead + `{"privateInput":` + nested(4_096) + `}}}`, "invalid_request", 0, "c1", ""},
		{"20,000 levels and no id to be found", `{"params":` + nested(20_000) + `,"id":1}`, "invalid_request", -32600, nil, ""},
		{"brackets in text", callHead + `{"privateInput":"` + strings.Repeat("[", 100) + `\"["}}}`, "", 0, nil, ""},
		{"a name twice", callHead + `{"amount":1,"amount":1000}}}`, "invalid_request", 0, "c1", "/amount"},
		{"a name twice, spelled with an escape", callHead + `{"amount":1,"\u0061mount":1000}}}`, "invalid_request", 0, "c1", "/amount"},
		{"a member twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, "invalid_request", -32700, 2.0, "/id"},
		{"invalid UTF-8", callHead + "{\"a\":\"\xff\"}}}", "invalid_request", 0, "c1", "/a"},
		{"a lone surrogate", callHead + `{"a":"\ud800"}}}`, "invalid_request", 0, "c1", "/a"},
		{"NaN", callHead + `{"a":NaN}}}`, "invalid_request", 0, "c1", "/a"},
		{"breaks off", callHead + `{"a":1`, "invalid_request", 0, "c1", ""},
		{"two values", `{"jsonrpc":"2.0","id":1,"method":"ping"} {}`, "invalid_request", -32700, 1.0, ""},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "invalid_request", -32600, nil, ""},
		{"no object", `"ping"`, "invalid_request", -32700, nil, ""},
		{"an id of 255 bytes", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 255) + `","method":"ping"}`, "", 0, nil, ""},
		{"an id of 256 bytes", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 256) + `","method":"ping"}`, "invalid_request", -32600, nil, "/id"},
		{"an id that is a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "invalid_request", -32600, nil, "/id"},
		{"an id that is null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, "invalid_request", -32600, nil, "/id"},
		{"an id that is an empty text", `{"jsonrpc":"2.0","id":"","method":"ping"}`, "invalid_request", -32600, nil, "/id"},
		{"an id that is an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, "invalid_request", -32600, nil, "/id"},
		{"an id that is too large", `{"jsonrpc":"2.0","id":10000000000000000000000,"method":"ping"}`, "invalid_request", -32600, nil, "/id"},
		{"another version", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, "invalid_request", -32600, 1.0, "/jsonrpc"},
		{"an unknown member", `{"jsonrpc":"2.0","id":1,"method":"ping","auth":"x"}`, "invalid_request", -32600, 1.0, "/auth"},
		{"neither request nor answer", `{"jsonrpc":"2.0","id":1}`, "invalid_request", -32600, 1.0, ""},
		{"both", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, "invalid_request", -32600, 1.0, ""},
		{"an answer", `{"jsonrpc":"2.0","id":1,"result":{}}`, "", 0, nil, ""},
		{"an answer to nothing", `{"jsonrpc":"2.0","result":{}}`, "invalid_request", -32600, nil, "/id"},
		{"params that are no object", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`, "invalid_request", -32602, 1.0, "/params"},
		{"read", read("resources/read", `{"uri":"counterfoil://receipt/evt_1","_meta":{}}`), "", 0, nil, ""},
		{"read with more", read("resources/read", `{"uri":"x:y","roots":[]}`), "invalid_request", -32602, 7.0, "/params/roots"},
		{"list with more", read("resources/list", `{"limit":1}`), "invalid_request", -32602, 7.0, "/params/limit"},
		{"subscribe with more", read("resources/subscribe", `{"uri":"x:y","tenant":"t"}`), "invalid_request", -32602, 7.0, "/params/tenant"},
		{"a URI of 2,048 bytes", read("resources/read", `{"uri":"`+strings.Repeat("x", 2048)+`"}`), "", 0, nil, ""},
		{"a URI of 2,049 bytes", read("resources/read", `{"uri":"`+strings.Repeat("x", 2049)+`"}`), "invalid_request", -32602, 7.0, "/params/uri"},
		{"a URI that is none", read("resources/subscribe", `{"uri":""}`), "invalid_request", -32602, 7.0, "/params/uri"},
		{"a cursor of 1,024 bytes", read("resources/list", `{"cursor":"`+strings.Repeat("x", 1024)+`"}`), "", 0, nil, ""},
		{"a cursor of 1,025 bytes", read("resources/list", `{"cursor":"`+strings.Repeat("x", 1025)+`"}`), "invalid_request", -32602, 7.0, "/params/cursor"},
		{"an empty cursor", read("resources/templates/list", `{"cursor":""}`), "invalid_request", -32602, 7.0, "/params/cursor"},
		{"a cursor that is no text", read("resources/list", `{"cursor":1}`), "invalid_request", -32602, 7.0, "/params"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := guard([]byte(c.message))
			if c.code == "" {
				if m.refusal != nil {
					t.Errorf("refused: %s", m.refusal)
				}
				return
			}
			var got struct {
				Version string `json:"jsonrpc"`
				ID      any    `json:"id"`
				Result  struct {
					IsError    bool `json:"isError"`
					Structured struct {
						Error struct{ Code, Message, Path string } `json:"error"`
					} `json:"structuredContent"`
				} `json:"result"`
				Error struct {
					Code float64                              `json:"code"`
					Data struct{ Code, Message, Path string } `json:"data"`
				} `json:"error"`
			}
			if err := json.Unmarshal(m.refusal, &got); err != nil {
				t.Fatalf("%s: %v", m.refusal, err)
			}
			e := got.Result.Structured.Error
			if c.rpc != 0 {
				e = got.Error.Data
			}
			if got.Version != "2.0" || got.ID != c.id || got.Error.Code != c.rpc || got.Result.IsError != (c.rpc == 0) || e.Code != c.code || e.Path != c.path || e.Message == "" {
				t.Errorf("%s", m.refusal)
			}
			if len(m.refusal) > 2000 {
				t.Errorf("%d bytes of refusal", len(m.refusal))
			}
		})
	}
}

func FuzzTRS27_Guard(f *testing.F) {
	for _, s := range []string{callHead + `{}}}`, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}`, `[`, `{"id":`, nested(40)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := guard(raw)
		if m.refusal != nil {
			if !json.Valid(m.refusal) {
				t.Errorf("refusal %q is no JSON", m.refusal)
			}
			return
		}
		// What passes is one strict object that the library can read.
		if len(raw) > MaxMessageBytes || depth(raw) > MaxDepth || !json.Valid(raw) {
			t.Errorf("passed %q", raw)
		}
	})
}
