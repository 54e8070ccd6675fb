package readback_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/internal/readback"
	"counterfoil/ledger/client"
)

type obj = map[string]any

// kit is a real ledger and a reconciler beside it.
type kit struct {
	t      *testing.T
	ledger *app.Server
	*client.Client
}

func newKit(t *testing.T) *kit {
	t.Helper()
	s, err := app.Start(context.Background(), app.Config{Dir: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0", Random: rand.Reader, Now: time.Now,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	c, err := client.New(client.Config{Server: s.Ready.Listening, Token: s.Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &kit{t, s, c}
}

// begin begins an attempt of a tool that expects an effect, "" for none.
func (k *kit) begin(tool, invocation, effect string) string {
	k.t.Helper()
	body := obj{"source": obj{"runtimeId": "r", "agentId": "a", "invocationId": invocation, "protocol": "p", "implementation": "m"},
		"occurredAt": "2026-07-28T00:00:00.000Z", "action": obj{"name": tool, "effectKind": "payment", "effectMode": "one_time"}, "traceId": "trace"}
	if effect != "" {
		body["expectedEffect"] = json.RawMessage(effect)
	}
	b, _ := json.Marshal(body)
	r, err := k.BeginRaw(k.t.Context(), b, "published")
	if err != nil {
		k.t.Fatal(err)
	}
	return r.Value.AttemptID
}

func (k *kit) append(attempt, id, rest string) *client.Receipt {
	k.t.Helper()
	r, err := k.AppendRaw(k.t.Context(), attempt, fmt.Appendf(nil, `{"sourceEventId":%q,"occurredAt":"2026-07-28T00:00:01.000Z",%s}`, id, rest), "published")
	if err != nil {
		k.t.Fatal(err)
	}
	return &r.Value
}

func (k *kit) unknown(attempt string) {
	k.append(attempt, "o", `"lifecycle":"outcome","status":"unknown"`)
}

func (k *kit) attempt(id string) *client.Attempt {
	k.t.Helper()
	a, err := k.Attempt(k.t.Context(), id)
	if err != nil {
		k.t.Fatal(err)
	}
	return &a.Value
}

// says is a helper that answers by the invocation that it is asked about.
func (k *kit) says(answers map[string]string) *readback.Helper {
	k.t.Helper()
	var script strings.Builder
	script.WriteString("#!/bin/sh\nread -r q\ncase \"$q\" in\n")
	for invocation, answer := range answers {
		fmt.Fprintf(&script, "*'\"invocationId\":\"%s\"'*) %s;;\n", invocation, answer)
	}
	script.WriteString("*) echo \"unexpected: $q\" >&2; exit 9;;\nesac\n")
	dir := k.t.TempDir()
	path := filepath.Join(dir, "helper")
	if err := os.WriteFile(path, []byte(script.String()), 0o700); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		k.t.Fatal(err)
	}
	return &readback.Helper{Path: path, Env: []string{"PATH=/usr/bin:/bin"}, Limit: time.Minute}
}

func echo(doc string) string { return "echo '" + doc + "'" }

// pass makes one pass and returns what was reported, by attempt.
func (k *kit) pass(r readback.Reconciler) (map[string]*readback.Result, int) {
	k.t.Helper()
	k.ledger.Ledger.CatchUp(context.Background())
	got := map[string]*readback.Result{}
	r.Client = k.Client
	if r.Now == nil {
		r.Now = time.Now
	}
	r.Report = func(res *readback.Result) error { got[res.AttemptID] = res; return nil }
	failed, err := r.Pass(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	return got, failed
}

// TestCaseUnknownOutcome_OPR10_OPR12: what a source shows resolves an unknown
// outcome, and nothing else does.
func TestCaseUnknownOutcome_OPR10_OPR12_EVI10_Automatic(t *testing.T) {
	k := newKit(t)
	const effect = `{"amount":10.50,"to":"Zoë"}`
	cases := []struct{ name, answer, status, state string }{
		{"none", `{"source":"bank","observed":"absent"}`, "confirmed_absent", "confirmed_absent"},
		{"matching", `{"source":"bank","observed":"present","value":{"to":"Zoë","amount":10.5}}`, "confirmed_committed", "confirmed_committed"},
		{"differing", `{"source":"bank","observed":"present","value":{"to":"Zoë","amount":11}}`, "contradicted", "contradicted"},
		{"two", `{"source":"bank","observed":"present","count":2,"value":{"to":"Zoë","amount":10.5}}`, "contradicted", "contradicted"},
		{"unreachable", `{"source":"bank","observed":"unreachable"}`, "still_unknown", "unknown"},
		{"no value", `{"source":"bank","observed":"present"}`, "still_unknown", "unknown"},
	}
	answers, ids := map[string]string{}, map[string]string{}
	for _, c := range cases {
		answers[c.name] = echo(c.answer)
		ids[c.name] = k.begin("pay", c.name, effect)
		k.unknown(ids[c.name])
	}
	got, failed := k.pass(readback.Reconciler{Helpers: map[string]*readback.Helper{"pay": k.says(answers)}})
	if failed != 0 || len(got) != len(cases) {
		t.Fatalf("%d failed: %+v", failed, got)
	}
	for _, c := range cases {
		a, res := k.attempt(ids[c.name]), got[ids[c.name]]
		last := a.Receipts[len(a.Receipts)-1]
		if res.Status != c.status || a.State != c.state || a.Reconciliation != c.status || last.EventID != res.EventID || last.Lifecycle != "reconciliation" || res.Source != "bank" {
			t.Errorf("%s: %+v, the attempt is %s", c.name, res, a.State)
		}
		b, _ := json.Marshal(res)
		if strings.Contains(string(b), "retry") || strings.Contains(string(b), "Zoë") {
			t.Errorf("%s: %s", c.name, b)
		}
	}
	// Asked again, only what is still unknown is asked about, and the same answer
	// is not recorded again. More is.
	answers["no value"] = echo(`{"source":"bank","observed":"present","value":{"to":"Zoë","amount":10.5}}`)
	got, failed = k.pass(readback.Reconciler{Helpers: map[string]*readback.Helper{"pay": k.says(answers)}})
	if r := got[ids["unreachable"]]; failed != 0 || len(got) != 2 || r.Left != readback.LeftSame || k.attempt(ids["unreachable"]).Revision != 3 {
		t.Errorf("%d failed: %+v", failed, r)
	}
	if r := got[ids["no value"]]; r.Status != "confirmed_committed" {
		t.Errorf("%+v", r)
	}
}

func TestOPR12_AHelperThatFailsRecordsNothing(t *testing.T) {
	k := newKit(t)
	ok, broken, wrong := k.begin("pay", "ok", ""), k.begin("pay", "broken", ""), k.begin("pay", "wrong", "")
	other, open := k.begin("mail", "other", ""), k.begin("pay", "open", "")
	for _, id := range []string{ok, broken, wrong, other} {
		k.unknown(id)
	}
	h := k.says(map[string]string{"ok": echo(`{"source":"bank","observed":"absent"}`), "broken": "exit 1", "open": echo(`{"source":"bank","observed":"absent"}`),
		"wrong": echo(`{"source":"bank","observed":"maybe"}`)})
	got, failed := k.pass(readback.Reconciler{Helpers: map[string]*readback.Helper{"pay": h}})
	if failed != 2 || got[ok].Status != "confirmed_absent" || got[broken].Err == "" || !strings.Contains(got[wrong].Err, "invalid_request") || got[other] != nil || got[open] != nil {
		t.Errorf("%d failed: %+v", failed, got)
	}
	for _, id := range []string{broken, wrong, other} {
		if a := k.attempt(id); a.State != "unknown" || a.Revision != 2 {
			t.Errorf("%s is %s at revision %d", id, a.State, a.Revision)
		}
	}
	// An open attempt is asked about only where that was asked for, and at an age.
	late := func() time.Time { return time.Now().Add(time.Hour) }
	for _, c := range []struct {
		r    readback.Reconciler
		want bool
	}{
		{readback.Reconciler{OpenAfter: 2 * time.Hour, Now: late}, false},
		{readback.Reconciler{OpenAfter: 30 * time.Minute, UnknownAfter: 2 * time.Hour, Now: late}, true},
	} {
		c.r.Helpers = map[string]*readback.Helper{"pay": h}
		got, _ := k.pass(c.r)
		if (got[open] != nil) != c.want || c.want && (got[open].Status != "confirmed_absent" || got[broken] != nil) {
			t.Errorf("open after %s: %+v", c.r.OpenAfter, got)
		}
	}
}

// TestOPR09_EVI11_OneIsRecordedAtARevision: two that come to one revision record one
// read-back, and what somebody settled while a helper ran is left.
func TestOPR09_EVI11_OneIsRecordedAtARevision(t *testing.T) {
	k := newKit(t)
	id, settled := k.begin("pay", "i", ""), k.begin("pay", "s", "")
	k.unknown(id)
	k.unknown(settled)
	h := k.says(map[string]string{"i": echo(`{"source":"bank","observed":"unreachable"}`), "s": echo(`{"source":"bank","observed":"absent"}`)})
	r := readback.Reconciler{Helpers: map[string]*readback.Helper{"pay": h}}
	// Another reconciler recorded at the revision that this one will decide on.
	k.append(id, "readback:3", `"lifecycle":"reconciliation","readback":{"source":"other","observed":"unreachable"}`)
	stale := k.attempt(settled)
	k.append(settled, "x", `"lifecycle":"reconciliation","readback":{"source":"other","observed":"absent"}`)
	got, failed := k.pass(r)
	if failed != 0 || got[id].Status != "still_unknown" || k.attempt(id).Revision != 4 {
		t.Errorf("%+v", got[id])
	}
	if got[settled] != nil || stale.Revision != 2 || k.attempt(settled).Revision != 3 {
		t.Errorf("%+v", got[settled])
	}
}
