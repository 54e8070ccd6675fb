package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
	mcpsessions "counterfoil/testdata/sessions/mcp"
)

// read returns the steps of a recording, and the error that ended it.
func read(t *testing.T, recording string) ([]*Step, error) {
	t.Helper()
	r, err := NewReader(strings.NewReader(recording))
	if err != nil {
		t.Fatal(err)
	}
	var steps []*Step
	for {
		s, err := r.Next()
		if errors.Is(err, io.EOF) {
			return steps, nil
		}
		if err != nil {
			return steps, err
		}
		steps = append(steps, s)
	}
}

func sample(t *testing.T, name string) string {
	t.Helper()
	b, err := mcpsessions.FS.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// calls words each call: number, tool, effect mode, invocation, status, reasons.
func calls(t *testing.T, steps []*Step) []string {
	t.Helper()
	begins, out := map[int]*client.Begin{}, []string{}
	for _, s := range steps {
		if s.Begin != nil {
			begins[s.Call] = s.Begin
			continue
		}
		b := begins[s.Call]
		if b == nil {
			t.Fatalf("call %d ends before it begins", s.Call)
		}
		out = append(out, fmt.Sprintf("%d %s %s %s %s %v", s.Call, b.Action.Name, b.Action.EffectMode, b.Source.InvocationID, s.Outcome.Status, s.Outcome.ReasonCodes))
	}
	if len(begins) != len(out) {
		t.Errorf("%d calls, %d outcomes", len(begins), len(out))
	}
	return out
}

func TestEVI22_RecordedSessions(t *testing.T) {
	for name, want := range map[string][]string{
		"filesystem.jsonl": {
			"1 list_allowed_directories read_only 1:3 succeeded []",
			"2 write_file destructive_idempotent 2:4 succeeded []",
			"3 read_text_file read_only 3:5 succeeded []",
			"4 edit_file destructive 4:6 succeeded []",
			"5 read_text_file read_only 5:7 failed [tool_error]",
			"6 read_text_file read_only 6:8 failed [tool_error]",
			"7 move_file destructive 7:9 succeeded []",
			"8 list_directory read_only 8:10 succeeded []",
			"9 no_such_tool unspecified 9:11 failed [tool_error]",
		},
		"everything.jsonl": {
			"1 echo read_only 1:3 succeeded []",
			"2 get-sum read_only 2:4 succeeded []",
			"3 get-tiny-image read_only 3:5 succeeded []",
			"4 get-structured-content read_only 4:6 succeeded []",
			"5 trigger-long-running-operation read_only 5:7 succeeded []",
			"6 get-annotated-message read_only 6:8 succeeded []",
			"7 get-sum read_only 7:9 failed [tool_error]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			steps, err := read(t, sample(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, calls(t, steps)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEVI06_EVI07_MembersOfTheSteps(t *testing.T) {
	recording := sample(t, "filesystem.jsonl")
	steps, err := read(t, recording)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(recording))
	trace := hex.EncodeToString(sum[:16])
	got := []*Step{steps[2], steps[3], steps[9]}
	want := []*Step{
		{Call: 2, Line: 10, Begin: &client.Begin{
			Source: client.Source{RuntimeID: "mcp-session:" + trace, AgentID: "agent:capture@1.0.0", InvocationID: "2:4",
				Protocol: "mcp/2025-11-25", Implementation: "secure-filesystem-server@0.2.0"},
			OccurredAt: "2026-11-30T04:34:14.515Z", TraceID: trace,
			Action:       client.Action{Name: "write_file", EffectKind: "mcp.tools/call", EffectMode: "destructive_idempotent"},
			PrivateInput: []byte(`{"path":"/srv/agent/workspace/summary.md","content":"# Summary\nüñí ✓ total 42\n"}`),
		}},
		{Call: 2, Line: 11, Outcome: &client.Append{Lifecycle: "outcome", SourceEventID: "outcome", OccurredAt: "2026-11-30T04:34:14.519Z", Status: "succeeded",
			PrivateResult: []byte(`{"content":[{"type":"text","text":"Successfully wrote to /srv/agent/workspace/summary.md"}],` +
				`"structuredContent":{"content":"Successfully wrote to /srv/agent/workspace/summary.md"}}`)}},
		{Call: 5, Line: 17, Outcome: &client.Append{Lifecycle: "outcome", SourceEventID: "outcome", OccurredAt: "2026-11-30T04:34:14.529Z", Status: "failed",
			PrivateResult: []byte(`{"content":[{"type":"text","text":"ENOENT: no such file or directory, open '/srv/agent/workspace/missing.md'"}],"isError":true}`),
			ReasonCodes:   []string{"tool_error"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// talk builds a recording: "c " or "s " and the message, one line a millisecond.
func talk(lines ...string) string {
	var b strings.Builder
	for i, l := range lines {
		dir := map[byte]string{'c': "client", 's': "server"}[l[0]]
		fmt.Fprintf(&b, `{"at":"2026-01-01T00:00:00.%03dZ","dir":%q,"message":%s}`+"\n", i, dir, l[2:])
	}
	return b.String()
}

// toolCall is a tools/call of tool t with an id.
func toolCall(id string) string {
	return `c {"id":` + id + `,"method":"tools/call","params":{"name":"t"}}`
}

func TestEVI09_WhatCameOfACall(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"no answer is unknown, not failed", []string{toolCall("1")}, []string{"1 t unspecified 1:1 unknown [response_missing]"}},
		{"error", []string{toolCall("1"), `s {"id":1,"error":{"code":-32602,"message":"no"}}`}, []string{"1 t unspecified 1:1 failed [protocol_error]"}},
		{"error null beside a result", []string{toolCall("1"), `s {"id":1,"error":null,"result":{}}`}, []string{"1 t unspecified 1:1 succeeded []"}},
		{"error beside a result", []string{toolCall("1"), `s {"id":1,"error":{},"result":{}}`}, []string{"1 t unspecified 1:1 failed [protocol_error]"}},
		{"isError false", []string{toolCall("1"), `s {"id":1,"result":{"isError":false}}`}, []string{"1 t unspecified 1:1 succeeded []"}},
		{"neither result nor error", []string{toolCall("1"), `s {"id":1}`}, []string{"1 t unspecified 1:1 unknown [response_missing]"}},
		{"cancelled", []string{toolCall(`"a"`), `c {"method":"notifications/cancelled","params":{"requestId":"a"}}`},
			[]string{`1 t unspecified 1:"a" unknown [cancelled]`}},
		{"cancelled and answered", []string{toolCall("1"), `c {"method":"notifications/cancelled","params":{"requestId":1}}`, `s {"id":1,"result":{}}`},
			[]string{"1 t unspecified 1:1 succeeded []"}},
		{"cancelled by the server", []string{toolCall("1"), `s {"method":"notifications/cancelled","params":{"requestId":1}}`},
			[]string{"1 t unspecified 1:1 unknown [response_missing]"}},
		{"cancelled, another id", []string{toolCall("1"), `c {"method":"notifications/cancelled","params":{"requestId":"1"}}`},
			[]string{"1 t unspecified 1:1 unknown [response_missing]"}},
		{"interleaved", []string{toolCall("1"), toolCall(`"1"`), `s {"id":"1","error":{}}`, `s {"id":1,"result":{}}`},
			[]string{`2 t unspecified 2:"1" failed [protocol_error]`, "1 t unspecified 1:1 succeeded []"}},
		{"1 and 1.0 are one id", []string{toolCall("1"), `s {"id":1.0,"result":{}}`}, []string{"1 t unspecified 1:1 succeeded []"}},
		{"id used again", []string{toolCall("1"), `s {"id":1,"result":{}}`, toolCall("1"), `s {"id":1,"error":{}}`},
			[]string{"1 t unspecified 1:1 succeeded []", "2 t unspecified 2:1 failed [protocol_error]"}},
		{"second answer", []string{toolCall("1"), `s {"id":1,"result":{}}`, `s {"id":1,"error":{}}`}, []string{"1 t unspecified 1:1 succeeded []"}},
		{"id used twice at once", []string{toolCall("1"), toolCall("1"), `s {"id":1,"result":{}}`, `s {"id":1,"error":{}}`, toolCall("1"), `s {"id":1,"result":{}}`},
			[]string{"3 t unspecified 3:1 succeeded []", "1 t unspecified 1:1 unknown [response_missing]", "2 t unspecified 2:1 unknown [response_missing]"}},
		{"the server's ids are its own", []string{toolCall("0"), `s {"id":0,"method":"roots/list"}`, `c {"id":0,"result":{"roots":[]}}`, `s {"id":0,"error":{}}`},
			[]string{"1 t unspecified 1:0 failed [protocol_error]"}},
		{"the server calls no tools", []string{`s {"id":1,"method":"tools/call","params":{"name":"t"}}`, `c {"id":1,"result":{}}`}, []string{}},
		{"an answer by the client", []string{toolCall("1"), `c {"id":1,"result":{}}`}, []string{"1 t unspecified 1:1 unknown [response_missing]"}},
		{"another method's answer", []string{`c {"id":1,"method":"ping"}`, toolCall("2"), `s {"id":1,"result":{}}`}, []string{"1 t unspecified 1:2 unknown [response_missing]"}},
		{"without id", []string{`c {"method":"tools/call","params":{"name":"t"}}`, `s {"id":null,"error":{}}`}, []string{"1 t unspecified 1 unknown [response_missing]"}},
		{"initialised anew", []string{toolCall("1"), `c {"id":1,"method":"initialize"}`, `s {"id":1,"result":{}}`, toolCall("2"), `s {"id":2,"result":{}}`},
			[]string{"1 t unspecified 1:1 unknown [response_missing]", "2 t unspecified 2:2 succeeded []"}},
		{"batch", []string{"c [" + toolCall("1")[2:] + "," + toolCall("2")[2:] + "]", `s [{"id":2,"result":{}},{"id":1,"result":{}}]`},
			[]string{"2 t unspecified 2:2 succeeded []", "1 t unspecified 1:1 succeeded []"}},
		{"annotations as listed last", []string{
			`c {"id":1,"method":"tools/list"}`, `s {"id":1,"result":{"tools":[{"name":"t","annotations":{"readOnlyHint":true}},7]}}`, toolCall("2"),
			`c {"id":3,"method":"tools/list"}`, `s {"id":3,"result":{"tools":[{"name":"t","annotations":{"destructiveHint":false,"idempotentHint":true}}]}}`, toolCall("4"),
		}, []string{"1 t read_only 1:2 unknown [response_missing]", "2 t additive_idempotent 2:4 unknown [response_missing]"}},
		{"hints that are no booleans", []string{`c {"id":1,"method":"tools/list"}`,
			`s {"id":1,"result":{"tools":[{"name":"t","annotations":{"readOnlyHint":"true","destructiveHint":1}}]}}`, toolCall("2")},
			[]string{"1 t unspecified 1:2 unknown [response_missing]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps, err := read(t, talk(c.lines...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, calls(t, steps)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEVI09_ATaskIsAnsweredByItsResult(t *testing.T) {
	start := []string{`c {"id":1,"method":"tools/call","params":{"name":"t","task":{"ttl":1}}}`, `s {"id":1,"result":{"task":{"taskId":"k","status":"working"}}}`}
	for name, c := range map[string]struct {
		more []string
		want string
	}{
		"accepted only":      {nil, "1 t unspecified 1:1 unknown [response_missing]"},
		"result":             {[]string{`c {"id":2,"method":"tasks/result","params":{"taskId":"k"}}`, `s {"id":2,"result":{"isError":true}}`}, "1 t unspecified 1:1 failed [tool_error]"},
		"result of another":  {[]string{`c {"id":2,"method":"tasks/result","params":{"taskId":"x"}}`, `s {"id":2,"result":{}}`}, "1 t unspecified 1:1 unknown [response_missing]"},
		"error of who knows": {[]string{`c {"id":2,"method":"tasks/result","params":{"taskId":"k"}}`, `s {"id":2,"error":{}}`}, "1 t unspecified 1:1 unknown [response_missing]"},
		"result asked for twice": {[]string{`c {"id":2,"method":"tasks/result","params":{"taskId":"k"}}`, `c {"id":3,"method":"tasks/result","params":{"taskId":"k"}}`,
			`s {"id":3,"result":{}}`, `s {"id":2,"result":{"isError":true}}`}, "1 t unspecified 1:1 succeeded []"},
	} {
		t.Run(name, func(t *testing.T) {
			steps, err := read(t, talk(append(start, c.more...)...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.want}, calls(t, steps)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEVI13_WhatJSONCannotCarryTravelsAsBytes(t *testing.T) {
	for _, c := range []struct{ name, message, json, raw string }{
		{"as JSON", `{"id":1,"method":"tools/call","params":{"name":"t","arguments":{"b":1.50, "a":null}}}`, `{"b":1.50, "a":null}`, ""},
		{"none", `{"id":1,"method":"tools/call","params":{"name":"t"}}`, "", ""},
		{"null", `{"id":1,"method":"tools/call","params":{"name":"t","arguments":null}}`, "null", ""},
		{"big integer", `{"id":1,"method":"tools/call","params":{"name":"t","arguments":{"n":9007199254740993}}}`, "", `{"n":9007199254740993}`},
		{"lone surrogate", `{"id":1,"method":"tools/call","params":{"name":"t","arguments":["\ude00"]}}`, "", `["\ude00"]`},
		{"invalid UTF-8", "{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\",\"arguments\":[\"\xff\"]}}", "", "[\"\xff\"]"},
		{"member twice", `{"id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1,"\u0061":2}}}`, "", `{"a":1,"\u0061":2}`},
		{"arguments twice", `{"id":1,"method":"tools/call","params":{"name":"t","arguments":1,"arguments":2}}`, "", `{"name":"t","arguments":1,"arguments":2}`},
		{"params twice", `{"id":1,"method":"tools/call","params":{},"params":{"name":"t"}}`, "", `{"id":1,"method":"tools/call","params":{},"params":{"name":"t"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps, err := read(t, talk("c "+c.message))
			if err != nil {
				t.Fatal(err)
			}
			b := steps[0].Begin
			if b.Action.Name != "t" || string(b.PrivateInput) != c.json || string(b.PrivateInputRaw) != c.raw {
				t.Errorf("got tool %q, JSON %s, raw %q", b.Action.Name, b.PrivateInput, b.PrivateInputRaw)
			}
		})
	}
}

func TestEVI06_IdentifiersFitTheEvent(t *testing.T) {
	long, _ := json.Marshal(strings.Repeat("x", 300))
	steps, err := read(t, talk(
		`c {"id":0,"method":"initialize","params":{"clientInfo":{"name":"a\u0007"}}}`,
		`s {"id":0,"result":{"protocolVersion":"2024-11-05","serverInfo":{"name":"s"}}}`,
		`c {"id":`+string(long)+`,"method":"tools/call","params":{"name":"a\nb"}}`,
		`c {"id":"é\u0000","method":"tools/call","params":{"name":7}}`,
	))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps[:2] {
		for _, id := range []string{s.Begin.Source.RuntimeID, s.Begin.Source.AgentID, s.Begin.Source.InvocationID, s.Begin.Source.Protocol,
			s.Begin.Source.Implementation, s.Begin.Action.Name, s.Begin.Action.EffectKind, s.Begin.Action.EffectMode, s.Begin.TraceID} {
			if err := event.CheckID("", id); err != nil {
				t.Errorf("call %d: %q: %v", s.Call, id, err)
			}
		}
	}
	if a, b := steps[0].Begin, steps[1].Begin; a.Source.InvocationID == b.Source.InvocationID || b.Action.Name != "unnamed" ||
		a.Source.Protocol != "mcp/2024-11-05" || a.Source.Implementation != "s" {
		t.Errorf("got %+v and %+v", a, b)
	}
}

func TestEVI06_TimesHaveOneSpelling(t *testing.T) {
	for at, want := range map[string]string{
		"2026-01-01T00:00:00Z":                "2026-01-01T00:00:00.000Z",
		"2026-01-01T00:00:00.9999Z":           "2026-01-01T00:00:00.999Z",
		"2026-01-01T01:30:00.5+01:30":         "2026-01-01T00:00:00.500Z",
		"2026-01-01T00:00:00.123456789-12:00": "2026-01-01T12:00:00.123Z",
		"0000-01-01T00:00:00+01:00":           "", // the year before 0
		"9999-12-31T23:59:59-01:00":           "", // the year 10000
		"2026-01-01":                          "",
		"2026-13-01T00:00:00Z":                "",
	} {
		steps, err := read(t, `{"at":"`+at+`","dir":"client","message":{"method":"tools/call"}}`)
		switch {
		case want == "" && err == nil:
			t.Errorf("%s is accepted as %s", at, steps[0].Begin.OccurredAt)
		case want != "" && (err != nil || steps[0].Begin.OccurredAt != want):
			t.Errorf("%s: got %v, %v, want %s", at, steps, err, want)
		}
	}
}

func TestTRS27_RefusedLines(t *testing.T) {
	good := strings.TrimSuffix(talk(toolCall("1")), "\n")
	for name, bad := range map[string]string{
		"no JSON":             "x",
		"empty line":          "",
		"array":               "[]",
		"cut":                 good[:len(good)-1],
		"trailing bytes":      good + "x",
		"unknown member":      `{"at":"2026-01-01T00:00:00Z","dir":"client","message":{},"more":1}`,
		"member twice":        `{"at":"2026-01-01T00:00:00Z","dir":"client","dir":"server","message":{}}`,
		"no time":             `{"dir":"client","message":{}}`,
		"no message":          `{"at":"2026-01-01T00:00:00Z","dir":"client"}`,
		"unknown direction":   `{"at":"2026-01-01T00:00:00Z","dir":"proxy","message":{}}`,
		"message no object":   `{"at":"2026-01-01T00:00:00Z","dir":"client","message":7}`,
		"batch of no objects": `{"at":"2026-01-01T00:00:00Z","dir":"client","message":[7]}`,
		"byte order mark":     "\ufeff" + good,
		"too deep":            `{"at":"2026-01-01T00:00:00Z","dir":"client","message":{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}}`,
		"too long":            `{"at":"` + strings.Repeat(" ", MaxLineBytes),
	} {
		t.Run(name, func(t *testing.T) {
			steps, err := read(t, good+"\n"+bad+"\n")
			var le *LineError
			if !errors.As(err, &le) || le.Line != 2 || len(steps) != 1 {
				t.Errorf("got %d steps and %v, want one and an error on line 2", len(steps), err)
			}
		})
	}
	if steps, err := read(t, good); err != nil || len(steps) != 2 {
		t.Errorf("a last line without its end: %d steps, %v", len(steps), err)
	}
}

func TestTRS27_OpenRequestsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range MaxOpen + 1 {
		fmt.Fprintf(&b, `{"at":"2026-01-01T00:00:00Z","dir":"client","message":{"id":%d,"method":"ping"}}`+"\n", i)
	}
	var le *LineError
	if _, err := read(t, b.String()); !errors.As(err, &le) || le.Line != MaxOpen+1 {
		t.Errorf("got %v", err)
	}
}

// changing gives other bytes the second time.
type changing struct {
	*strings.Reader
	after string
}

func (c *changing) Seek(o int64, w int) (int64, error) {
	c.Reader = strings.NewReader(c.after)
	return c.Reader.Seek(o, w)
}

func TestEVI17_ARecordingThatChangesIsNoticed(t *testing.T) {
	r, err := NewReader(&changing{strings.NewReader(talk(toolCall("1"))), talk(toolCall("2"))})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = r.Next()
	}
	if errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "changed") {
		t.Errorf("got %v", err)
	}
}

func TestTRS27_EmptyRecording(t *testing.T) {
	if _, err := NewReader(strings.NewReader("")); err == nil {
		t.Error("an empty recording is accepted")
	}
}
