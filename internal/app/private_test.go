package app_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/app"
	"counterfoil/internal/testkit/outkit"
)

const canary = "kanarienvogel-7f3a"

// Every private member holds the canary, bodies are kept, and nothing that the
// ledger writes, answers or says shows it.
func TestEVI12_PRV08_NoPrivateValueAnywhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var log outkit.Buffer
	l := startLedger(t, dir, func(c *app.Config) {
		c.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	value := fmt.Sprintf(`{"secret":%q,%q:[1.5,%q]}`, canary, canary, strings.ToUpper(canary))
	raw := base64.StdEncoding.EncodeToString([]byte("raw " + canary + "\x00\xff"))
	needles := []string{canary, strings.ToUpper(canary), raw, base64.StdEncoding.EncodeToString([]byte(canary)), raw[:12], base64.StdEncoding.EncodeToString([]byte(`{"secret"`))[:10]}

	var answers []string
	post := func(status int, path string, body []byte) obj {
		t.Helper()
		code, b := l.raw("POST", path, body, l.Token)
		if code != status {
			t.Fatalf("POST %s: %d %s, want %d", path, code, b, status)
		}
		answers = append(answers, string(b))
		return decoded(t, b)
	}
	private := []any{"privateInput", raws(value), "expectedEffect", raws(value), "keepBody", true}
	begin := patched(t, beginBody("inv", `1`), private...)
	id := text(post(201, "/v1/attempts", begin), "attemptId")
	events := "/v1/attempts/" + id + "/events"
	outcome := text(post(201, events, appendBody(id, "o", `"lifecycle":"outcome","status":"unknown","keepBody":true,"privateResult":`+value)), "eventId")
	post(201, events, appendBody(id, "r", `"lifecycle":"reconciliation","keepBody":true,"readback":{"source":"bank","observed":"present","value":`+value+`}`))
	post(201, events, appendBody(id, "v", fmt.Sprintf(`"lifecycle":"reversal","status":"failed","keepBody":true,"privateResultRaw":%q,"refs":{"reverses":%q}`, raw, outcome)))
	post(201, events, appendBody(id, "w", fmt.Sprintf(`"lifecycle":"review","status":"noted","reviewer":"human:ann","keepBody":true,"privateResult":%s,"refs":{"reviews":%q}`, value, outcome)))
	rawBegin := patched(t, beginBody("raw", `1`), "privateInput", nil, "privateInputRaw", raw, "keepBody", true)
	post(201, "/v1/attempts?wait=published", rawBegin)
	// Repeats, conflicts and refusals with the canary near the fault.
	post(200, "/v1/attempts", begin)
	post(409, "/v1/attempts", patched(t, begin, "privateInput", raws(`{"x":"`+canary+`"}`)))
	post(409, events, appendBody(id, "o2", `"lifecycle":"outcome","status":"failed","privateResult":`+value))
	post(400, "/v1/attempts", patched(t, beginBody("bad", `1`), "privateInput", raws(`["`+canary+`",1e400]`)))
	post(400, "/v1/attempts", []byte(strings.Replace(string(beginBody("bad2", `1`)), `"privateInput":1`, `"privateInput":"`+canary+`\ud800"`, 1)))
	post(400, "/v1/attempts", append(beginBody("bad3", `"`+canary+`"`), canary...))
	post(400, "/v1/attempts", patched(t, beginBody("bad4", `1`), "privateInputRaw", raw))
	post(400, events, appendBody(id, "bad5", `"lifecycle":"reconciliation","readback":{"source":"bank","observed":"absent","value":`+value+`}`))
	code, batch := l.raw("POST", "/v1/events:batch?wait=published", fmt.Appendf(nil, "{\"begin\":%s}\n{\"begin\":%s}\n{\"begin\":{\"x\":%q}\n", patched(t, begin, "source.invocationId", "b"), patched(t, begin, "keepBody", nil), canary), l.Token)
	if code != http.StatusOK {
		t.Fatalf("batch: %d %s", code, batch)
	}
	answers = append(answers, string(batch))

	l.settled("/v1/receipts")
	for _, path := range []string{"/v1/attempts/" + id, "/v1/attempts", "/v1/receipts", "/v1/receipts/" + outcome, "/v1/receipts/" + outcome + "/tlog-proof", "/v1/parked",
		"/v1/attempts/" + id + "/bundle", "/v1/events?follow=false", "/v1/status", "/v1/trust", "/metrics", "/readyz", "/healthz", "/log/checkpoint"} {
		answers = append(answers, string(l.get(path)))
	}
	for i, a := range answers {
		for _, n := range needles {
			if strings.Contains(a, n) {
				t.Errorf("answer %d shows %s: %.2000s", i, n, a)
			}
		}
		for _, secret := range []string{l.Token} {
			if strings.Contains(a, secret) {
				t.Errorf("answer %d shows the token", i)
			}
		}
	}
	token := l.Token
	if hits := find(t, dir, needles...); len(hits) > 0 {
		t.Errorf("on disk while it runs: %v", hits)
	}
	l.stop()
	if hits := find(t, dir, needles...); len(hits) > 0 {
		t.Errorf("on disk after the stop: %v", hits)
	}
	for _, n := range append(needles, token) {
		if strings.Contains(log.String(), n) {
			t.Errorf("the log shows %s", n)
		}
	}
	if hits := find(t, dir, id); len(hits) == 0 {
		t.Error("the search finds nothing at all: it would not have found the canary either")
	}
	// Tenant key and seeds are in no answer.
	for _, name := range []string{"tenant.key", "event.key", "log.key"} {
		secret := strings.TrimSpace(readFile(t, filepath.Join(dir, "keys", name)))
		for _, line := range strings.Fields(secret) {
			if len(line) < 32 {
				continue
			}
			for i, a := range append(answers, log.String()) {
				if strings.Contains(a, line) {
					t.Errorf("answer %d shows what is in keys/%s", i, name)
				}
			}
		}
	}
}

// A private value, an identifier or a read-back source may look like a URL:
// nobody is called.
func TestEVI02_NothingIsCalled(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan net.Addr, 1)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				close(called)
				return
			}
			called <- c.RemoteAddr()
			c.Close()
		}
	}()
	u := "http://" + ln.Addr().String() + "/callback"
	l := newLedger(t)
	body := patched(t, beginBody(u, fmt.Sprintf(`{"url":%q,"callback":%q,"$ref":%q}`, u, u, u)),
		"source.runtimeId", u, "source.agentId", u, "source.protocol", u, "source.implementation", u, "traceId", u, "action.name", u, "action.effectKind", u,
		"expectedEffect", u, "keepBody", true)
	id := text(l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", body), "attemptId")
	l.append(id, u, fmt.Sprintf(`"lifecycle":"outcome","status":"unknown","privateResult":%q`, u))
	l.append(id, u+"r", fmt.Sprintf(`"lifecycle":"reconciliation","readback":{"source":%q,"observed":"unreachable"}`, u))
	l.verified(l.get("/v1/attempts/" + id + "/bundle"))
	l.stop()
	ln.Close()
	for from := range called {
		t.Errorf("the ledger called out, from %s", from)
	}
}

// Equal content in two ledgers, and twice in one, has nothing in common that was
// derived from it.
func TestPRV13_IDsAreRandom(t *testing.T) {
	body := func(inv string) []byte {
		return patched(t, beginBody(inv, `{"n":1}`), "expectedEffect", obj{"n": 1})
	}
	seen := map[string]string{}
	note := func(what, v string) {
		t.Helper()
		if v == "" {
			t.Fatalf("%s is missing", what)
		}
		if before, ok := seen[v]; ok {
			t.Errorf("%s %s is also the %s", what, v, before)
		}
		seen[v] = what
	}
	for _, name := range []string{"one", "two"} {
		l := newLedger(t)
		for _, inv := range []string{"a", "b"} {
			r := l.want(http.StatusCreated, "POST", "/v1/attempts", body(inv))
			id := text(r, "attemptId")
			note("attempt id of "+name+inv, id)
			note("attempt id without shard of "+name+inv, id[6:])
			for _, o := range r["openings"].([]any) {
				note("salt of "+name+inv+text(o, "name"), text(o, "salt"))
				note("commitment of "+name+inv+text(o, "name"), text(o, "digest"))
			}
			event := decoded(t, l.get("/v1/attempts/"+id+"/bundle"))
			tags := at(event["entries"].([]any)[0], "artifact.receipt.tags").(obj)
			for tag, v := range tags {
				note("tag "+tag+" of "+name+inv, v.(string))
			}
		}
	}
	if len(seen) != 4*(2+4+2) {
		t.Errorf("%d values were compared, want %d", len(seen), 4*(2+4+2))
	}
}
