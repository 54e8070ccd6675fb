package app_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func begins(inv, private string) []byte {
	return bytes.Replace(beginBody(inv, `"@"`), []byte(`"@"`), []byte(private), 1)
}

func TestCaseBigPayload(t *testing.T) {
	l := newLedger(t)
	id := text(l.begin("inv"), "attemptId")
	events := "/v1/attempts/" + id + "/events"
	big := `"` + strings.Repeat("x", 5<<20) + `"`
	r := l.want(http.StatusCreated, "POST", events, fmt.Appendf(nil, `{"attemptId":%q,"sourceEventId":"o","occurredAt":"2026-07-28T00:00:01.000Z","lifecycle":"outcome","status":"succeeded","keepBody":true,"privateResult":%s}`, id, big))
	if at(r, "commitments.result") == nil {
		t.Errorf("no commitment: %v", r)
	}
	bundle := l.get("/v1/attempts/" + id + "/bundle")
	if len(bundle) > 16<<10 {
		t.Errorf("the bundle has %d bytes", len(bundle))
	}
	l.verified(bundle)

	before := l.streamLast()
	const limit = 16 << 20
	for name, body := range map[string][]byte{
		"JSON": begins("over", `"`+strings.Repeat("x", limit-1)+`"`),
		"raw":  bytes.Replace(begins("over", `1`), []byte(`"privateInput":1`), []byte(`"privateInputRaw":"`+base64.StdEncoding.EncodeToString(make([]byte, limit+1))+`"`), 1),
	} {
		code, out := l.do("POST", "/v1/attempts", body)
		path := map[string]string{"JSON": "/privateInput", "raw": "/privateInputRaw"}[name]
		refused(t, name, code, out, "too_large", http.StatusRequestEntityTooLarge, path)
		if msg := text(out, "error.message"); !strings.Contains(msg, "16777216") || !strings.Contains(msg, "16777217") {
			t.Errorf("%s: limit or size is not named: %s", name, msg)
		}
		code, answer := l.raw("POST", "/v1/events:batch", append(append([]byte(`{"begin":`), body...), '}'), l.Token)
		if code != http.StatusOK || !bytes.Contains(answer, []byte(`"status":413`)) {
			t.Errorf("%s in a batch: %d %.300s", name, code, answer)
		}
	}
	code, out := l.do("POST", "/v1/attempts", bytes.Repeat([]byte(" "), 24<<20+1))
	if code != http.StatusRequestEntityTooLarge || text(out, "error.code") != "too_large" || !strings.Contains(text(out, "error.message"), "25165824") {
		t.Errorf("body over the limit: %d %v", code, out)
	}
	if after := l.streamLast(); after != before {
		t.Errorf("the stream grew from %v to %v", before, after)
	}
	// Exactly at the limit is within it.
	l.want(http.StatusCreated, "POST", "/v1/attempts", begins("at", `"`+strings.Repeat("x", limit-2)+`"`))
}

// An unsized body is bounded as well.
func TestCaseBigPayload_Chunked(t *testing.T) {
	l := newLedger(t)
	for path, limit := range map[string]int{"/v1/attempts": 24 << 20, "/v1/events:batch": 64 << 20} {
		req, err := http.NewRequest("POST", l.Ready.Listening+path, struct{ *bytes.Reader }{bytes.NewReader(bytes.Repeat([]byte(" "), limit+1))})
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = -1
		req.Header.Set("Authorization", "Bearer "+l.Token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		_, _ = b.ReadFrom(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(b.String(), fmt.Sprint(limit)) {
			t.Errorf("POST %s: %d %s", path, res.StatusCode, b.String())
		}
	}
}

func TestEVI13_CaseNumbersNamesUnicode(t *testing.T) {
	l := newLedger(t)
	before := l.streamLast()
	for _, c := range []struct{ value, path, hint string }{
		{`{"amount_minor":9007199254740993}`, "/privateInput/amount_minor", "string"},
		{`{"a":[1,-9007199254740992]}`, "/privateInput/a/1", "string"},
		{`{"a":1e400}`, "/privateInput/a", "string"},
		{`{"a":0.12345678901234567890123}`, "/privateInput/a", "string"},
		{`{"amount":1,"amount":1000}`, "/privateInput/amount", "once"},
		{`{"amount":1,"\u0061mount":1000}`, "/privateInput/amount", "once"},
		{`["\ude00\ud83d"]`, "/privateInput/0", "UTF-8"},
		{`["` + "\xff" + `"]`, "/privateInput/0", "UTF-8"},
		{`{"x":{"\ud800":1}}`, "/privateInput/x", "UTF-8"},
		{strings.Repeat("[", 513) + strings.Repeat("]", 513), "/privateInput", "flatten"},
		{`NaN`, "/privateInput", ""}, {`{'a':1}`, "/privateInput", ""},
	} {
		code, out := l.do("POST", "/v1/attempts", begins("inv", c.value))
		if code != http.StatusBadRequest || text(out, "error.code") != "invalid_request" || !strings.Contains(text(out, "error.hint"), c.hint) {
			t.Errorf("%.60s: %d %v", c.value, code, out)
		}
		if got := text(out, "error.path"); got != c.path {
			t.Errorf("%.60s: path %q, want %q", c.value, got, c.path)
		}
	}
	if after := l.streamLast(); after != before {
		t.Errorf("the stream grew from %v to %v", before, after)
	}
	for i, ok := range []string{`{"amount_minor":"9007199254740993"}`, `9007199254740991`, `1.5`, `1e300`, `-0`, `"\u0000"`, `"\ufffe"`, `{"":{"":[]}}`, `null`, `"e\u0301"`, `"\u00e9"`,
		`{"\ufb33":1,"\ud83d\ude00":2}`, strings.Repeat("[", 500) + strings.Repeat("]", 500)} {
		l.want(http.StatusCreated, "POST", "/v1/attempts", begins(fmt.Sprintf("ok-%d", i), ok))
	}
}
