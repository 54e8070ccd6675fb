package intake

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// No refusal quotes anything of a private value: no number and no text after a
// broken character. It says where, by the names of the members that the caller
// chose, and what kind of fault it is.
func TestTRS24_RefusalsQuoteNoPrivateValue(t *testing.T) {
	values := map[string]string{
		"digits":          `{"CANARY":[12345678901234567890.12345]}`,
		"big integer":     `{"CANARY":1234567890123456789}`,
		"big exponent":    `{"CANARY":1234567890123456789e400}`,
		"lone surrogate":  `{"a":"\ud800CANARY"}`,
		"surrogate name":  `{"\ud800CANARY":1}`,
		"broken pair":     `{"a":"\ud800\u0041CANARY"}`,
		"name twice":      `{"x":{"CANARY":1,"CANARY":2}}`,
		"escaped twice":   `{"CANARY":1,"CANAR\u0059":2}`,
		"invalid UTF-8":   "{\"CANARY\":\"\xffCANARY\"}",
		"escape":          `{"CANARY":"\qCANARY"}`,
		"escape at end":   `{"CANARY":"\u12ZZCANARY"}`,
		"bare word":       `{"CANARY":CANARY}`,
		"literal":         `{"CANARY":truCANARY}`,
		"control":         "{\"CANARY\":\"CANARY\n\"}",
		"breaks off":      `{"CANARY":"CANARY`,
		"name not quoted": `{CANARY:1}`,
		"deep":            `{"CANARY":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`,
		"no colon":        `{"CANARY" "CANARY"}`,
		"number":          `{"CANARY":-CANARY}`,
	}
	const begin = `{"source":{"runtimeId":"r","agentId":"a","invocationId":"i","protocol":"p","implementation":"m/1"},` +
		`"occurredAt":"2026-07-28T00:00:00.000Z","action":{"name":"n","effectKind":"k","effectMode":"one_time"},%q:%s}`
	const appended = `{"attemptId":"att_00000000000000000000000000000001","lifecycle":"outcome","sourceEventId":"s","status":"succeeded",` +
		`"occurredAt":"2026-07-28T00:00:00.000Z",%q:%s}`
	const readback = `{"attemptId":"att_00000000000000000000000000000001","lifecycle":"reconciliation","sourceEventId":"s",` +
		`"occurredAt":"2026-07-28T00:00:00.000Z","readback":{"source":"x","observed":"present",%q:%s}}`
	large := `"` + strings.Repeat("x", 17<<20) + `"`
	for what, v := range values {
		for name, parse := range map[string]func(string) error{
			"/privateInput":   func(v string) error { _, err := ParseBegin(fmt.Appendf(nil, begin, "privateInput", v)); return err },
			"/expectedEffect": func(v string) error { _, err := ParseBegin(fmt.Appendf(nil, begin, "expectedEffect", v)); return err },
			"/misspelt":       func(v string) error { _, err := ParseBegin(fmt.Appendf(nil, begin, "misspelt", v)); return err },
			"/privateResult": func(v string) error {
				_, err := ParseAppend(fmt.Appendf(nil, appended, "privateResult", v), "")
				return err
			},
			"/readback/value": func(v string) error { _, err := ParseAppend(fmt.Appendf(nil, readback, "value", v), ""); return err },
		} {
			err := parse(v)
			var re *RequestError
			if !errors.As(err, &re) {
				t.Errorf("%s in %s: %v, want a refusal", what, name, err)
				continue
			}
			if s := re.Detail + re.Hint; strings.Contains(s, "CANARY") || strings.Contains(s, "1234567") {
				t.Errorf("%s in %s: quoted: %s", what, name, s)
			}
			if !strings.HasPrefix(re.Path, name) && re.Path != "" || re.Detail == "" {
				t.Errorf("%s in %s: path %q, detail %q", what, name, re.Path, re.Detail)
			}
		}
		// Beyond the bound of a private value the decoder alone says what is wrong.
		_, err := ParseBegin(fmt.Appendf(nil, begin, "privateInput", "["+large+","+v+"]"))
		var re *RequestError
		if !errors.As(err, &re) || strings.Contains(re.Detail+re.Hint, "CANARY") || strings.Contains(re.Detail+re.Hint, "1234567") {
			t.Errorf("%s after 17 MiB: %.300v", what, err)
		}
	}
}
