package mcp_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/app"
	"counterfoil/internal/mcp"
)

func TestEVI03_MCP04_ToolsAndTheirSchemasAreExact(t *testing.T) {
	surfaces(t, func(t *testing.T, _ *ledger, s *session) {
		readOnly := map[string]bool{"receipt_begin": false, "receipt_append": false, "receipt_get": true, "receipt_search": true, "bundle_export": true, "receipt_verify": true}
		for tool, err := range s.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			want, known := readOnly[tool.Name]
			if !known {
				t.Errorf("unknown tool %s", tool.Name)
			}
			delete(readOnly, tool.Name)
			a := tool.Annotations
			if a.ReadOnlyHint != want || !a.IdempotentHint || a.DestructiveHint == nil || *a.DestructiveHint || a.OpenWorldHint == nil || *a.OpenWorldHint {
				t.Errorf("%s: annotations %+v", tool.Name, a)
			}
			exact(t, tool.Name+" in", tool.InputSchema)
			exact(t, tool.Name+" out", tool.OutputSchema)
		}
		if len(readOnly) > 0 {
			t.Errorf("missing: %v", readOnly)
		}
	})
}

// exact demands of every object schema that it has no members but its own.
func exact(t *testing.T, where string, schema any) {
	switch s := schema.(type) {
	case obj:
		if s["type"] == "object" && s["additionalProperties"] == nil {
			t.Errorf("%s: an object with any members", where)
		}
		for name, v := range s {
			exact(t, where+"/"+name, v)
		}
	case []any:
		for i, v := range s {
			exact(t, fmt.Sprint(where, "/", i), v)
		}
	}
}

func TestEVI06_EVI07_EVI17_EVI22_RecordAndRead(t *testing.T) {
	surfaces(t, func(t *testing.T, _ *ledger, s *session) {
		first := s.must("receipt_begin", beginArgs("i-1", "traceId", "trace", "wait", "published"))
		again := s.must("receipt_begin", beginArgs("i-1", "traceId", "trace"))
		id := at(first, "receipt.attemptId").(string)
		if first["created"] != true || again["created"] != false || at(again, "receipt.eventId") != at(first, "receipt.eventId") {
			t.Errorf("first %v, again %v", first, again)
		}
		if at(first, "receipt.stage") != "published" || at(first, "receipt.checkpoint") == nil {
			t.Errorf("receipt %v", first)
		}
		e := s.refused("receipt_begin", beginArgs("i-1", "traceId", "other"), "conflict", "")
		if e["eventId"] != at(first, "receipt.eventId") || e["stored"] == e["offered"] {
			t.Errorf("conflict %v", e)
		}
		// A call that failed is recorded like any other.
		s.must("receipt_append", appendArgs(id, "o", "outcome", "failed", "privateResult", obj{"isError": true}, "reasonCodes", []string{"tool_error"}))
		s.refused("receipt_append", appendArgs(id, "o2", "outcome", "succeeded"), "unlawful", "")
		s.must("receipt_append", appendArgs(id, "r", "review", "noted", "refs", obj{"reviews": at(first, "receipt.eventId")}, "rubric", "house"))
		got := s.must("receipt_get", obj{"attemptId": id})
		if at(got, "attempt.state") != "failed" || len(at(got, "attempt.receipts").([]any)) != 3 || len(got["claimBoundaries"].([]any)) != 3 {
			t.Errorf("attempt %v", got)
		}
		if r := at(at(got, "attempt.receipts").([]any)[2], "statement.review"); at(r, "reviewer") != "agent:kit@7" || at(r, "rubric") != "house" {
			t.Errorf("review %v", r)
		}
		rc := s.must("receipt_get", obj{"eventId": at(first, "receipt.eventId")})
		if at(rc, "receipt.leafIndex") != 0.0 || !strings.Contains(fmt.Sprint(rc["claimBoundaries"]), "proves nothing") {
			t.Errorf("receipt %v", rc)
		}
		s.refused("receipt_get", obj{"attemptId": "att_" + strings.Repeat("0", 32)}, "not_found", "")
		s.refused("receipt_get", obj{"eventId": "evt_" + strings.Repeat("0", 64)}, "not_found", "")
		s.refused("receipt_append", appendArgs("att_"+strings.Repeat("0", 32), "o", "outcome", "failed"), "not_found", "")
	})
}

func TestMCP04_TRS24_ArgumentsAreExact(t *testing.T) {
	surfaces(t, func(t *testing.T, l *ledger, s *session) {
		id := s.begin("i")
		for _, name := range []string{"is_admin", "source", "runtimeId", "agentId", "approval", "tenant", "ledger", "statement"} {
			s.refused("receipt_begin", beginArgs("x", name, "me"), "invalid_request", "/"+name)
		}
		for _, name := range []string{"reviewer", "call_id", "assurance", "occuredAt"} {
			s.refused("receipt_append", appendArgs(id, "r", "review", "noted", name, "me"), "invalid_request", "/"+name)
		}
		for _, name := range []string{"trust", "trustFile", "eventKeys", "vkey"} {
			s.refused("receipt_verify", obj{"attemptIds": []string{id}, name: "{}"}, "invalid_request", "/"+name)
		}
		for _, c := range []struct {
			tool string
			args any
			path string
		}{
			{"receipt_begin", beginArgs("i", "invocationId", nil), "/invocationId"},
			{"receipt_begin", beginArgs("i", "occurredAt", "2026-07-28T00:00:00Z"), "/occurredAt"},
			{"receipt_begin", beginArgs(strings.Repeat("x", 256)), "/invocationId"},
			{"receipt_begin", beginArgs("i", "action", obj{"name": "pay", "effectKind": "k", "effectMode": "m", "amount": 1}), "/action/amount"},
			{"receipt_begin", beginArgs("i", "keepBody", "yes"), "/keepBody"},
			{"receipt_append", appendArgs(id, "a", "attempt", "requested"), "/lifecycle"},
			{"receipt_append", appendArgs("att_1", "a", "outcome", "failed"), "/attemptId"},
			{"receipt_get", obj{}, ""},
			{"receipt_get", obj{"attemptId": id, "eventId": "evt_1"}, ""},
			{"receipt_get", obj{"eventId": "evt_1"}, "/eventId"},
			{"receipt_search", obj{"limit": 257}, "/limit"},
			{"receipt_search", obj{"limit": 0}, "/limit"},
			{"receipt_search", obj{"pageToken": ""}, "/pageToken"},
			{"receipt_search", obj{"pageToken": strings.Repeat("a", 1025)}, "/pageToken"},
			{"receipt_search", obj{"pageToken": "no token"}, ""},
			{"receipt_search", obj{"state": "open", "status": "failed"}, "/status"},
			{"receipt_search", obj{"state": "blocked"}, ""},
			{"bundle_export", obj{"attemptIds": []string{}}, "/attemptIds"},
			{"bundle_export", obj{"attemptIds": []string{id, "att_1"}}, "/attemptIds/1"},
			{"receipt_verify", obj{}, ""},
			{"receipt_verify", obj{"bundle": "{}", "attemptIds": []string{id}}, ""},
			{"receipt_verify", obj{"attemptIds": []string{id}, "minSize": -1}, "/minSize"},
		} {
			s.refused(c.tool, c.args, "invalid_request", c.path)
		}
		if st, err := l.client(t).Status(t.Context()); err != nil || st.Value.StreamLast != 1 {
			t.Errorf("something was recorded: %+v %v", st, err)
		}
	})
}

func TestTRS24_TheSourceIsThatOfTheSession(t *testing.T) {
	l := startLedger(t)
	source := func(s *session, invocation string) obj {
		return at(s.must("receipt_begin", beginArgs(invocation)), "receipt.source").(obj)
	}
	remote := mcp.Remote{Client: l.client(t)}
	for _, c := range []struct {
		name           string
		s              *session
		runtime, agent string
	}{
		{"client's name", overHTTP(t, sessions, l), "mcp:kit", "agent:kit@7"},
		{"headers", overHTTP(t, sessions, l, mcp.RuntimeHeader, "desk-17", mcp.AgentHeader, "agent:mia"), "desk-17", "agent:mia"},
		{"an identifier that no event carries", overHTTP(t, sessions, l, mcp.RuntimeHeader, strings.Repeat("x", 300)), "sha256:", "agent:kit@7"},
		{"stdio", overStdio(t, sessions, mcp.Config{Ledger: remote}), "mcp:kit", "agent:kit@7"},
		{"configuration", overStdio(t, sessions, mcp.Config{Ledger: remote, RuntimeID: "desk-18", AgentID: "agent:leo"}), "desk-18", "agent:leo"},
	} {
		got := source(c.s, "i "+c.name)
		if !strings.HasPrefix(got["runtimeId"].(string), c.runtime) || got["agentId"] != c.agent || got["invocationId"] != "i "+c.name || !strings.HasPrefix(got["protocol"].(string), "mcp/20") {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestEVI12_NoPrivateValueAndNoSaltComesBack(t *testing.T) {
	l := startLedger(t)
	s := overStdio(t, sessions, mcp.Config{Ledger: mcp.Remote{Client: l.client(t)}})
	const canary = "canary-7731"
	id := s.begin("i", "privateInput", obj{"k": canary}, "expectedEffect", canary, "keepBody", true)
	s.must("receipt_append", appendArgs(id, "o", "outcome", "unknown", "privateResultRaw", "Y2FuYXJ5LTc3MzE="))
	s.must("receipt_append", appendArgs(id, "r", "reconciliation", "", "readback", obj{"source": "bank", "observed": "present", "value": canary}))
	s.must("receipt_get", obj{"attemptId": id})
	s.must("bundle_export", obj{"attemptIds": []string{id}})
	// Refusals do not quote what they refuse.
	s.refused("receipt_append", appendArgs(id, "x", "outcome", "failed", "readback", obj{"source": "s", "observed": canary}), "invalid_request", "")
	s.refused("receipt_begin", beginArgs("j", "privateInput", json.RawMessage(`{"`+canary+`":123456789012345678901234567890}`)), "invalid_request", "")
	res, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "counterfoil://attempt/" + id})
	if err != nil || len(res.Contents) != 1 {
		t.Fatal(res, err)
	}
	wire := s.wire.String()
	for _, secret := range []string{`"` + canary, "Y2FuYXJ5LTc3MzE", `salt`, `openings`} {
		if i := strings.Index(wire, secret); i >= 0 {
			t.Errorf("%q in an answer: …%.200s", secret, wire[max(0, i-80):])
		}
	}
}

func TestMCP01_PagesAreBoundedAndLeaveNothingOut(t *testing.T) {
	surfacesOf(t, 2, func(t *testing.T, l *ledger, s *session) {
		const n = 300
		long := strings.Repeat("ü", 127) // pages of such identifiers are cut by their size
		c := l.client(t)
		for i := range n {
			b, _ := json.Marshal(obj{"source": obj{"runtimeId": long, "agentId": long, "invocationId": fmt.Sprint(i), "protocol": "p", "implementation": "m"},
				"occurredAt": "2026-07-28T00:00:00.000Z", "action": obj{"name": long, "effectKind": "k", "effectMode": "m"}})
			if _, err := c.BeginRaw(t.Context(), b, "accepted"); err != nil {
				t.Fatal(err)
			}
		}
		last := s.must("receipt_begin", beginArgs("last", "wait", "published"))
		s.must("receipt_get", obj{"eventId": at(last, "receipt.eventId")}) // the views are there
		for _, args := range []obj{{"limit": 256}, {"limit": 256, "order": "newest"}, {"limit": 256, "state": "open"}} {
			seen, token := map[any]bool{}, any(nil)
			for pages := 0; ; pages++ {
				if token != nil {
					args["pageToken"] = token
				}
				page := s.must("receipt_search", args)
				items := slices.Concat(page["receipts"].([]any), page["attempts"].([]any))
				if b, _ := json.Marshal(page); len(items) > 256 || len(items) == 0 || len(b) > 64<<10 {
					t.Fatalf("a page of %d items and %d bytes", len(items), len(b))
				}
				for _, it := range items {
					seen[at(it, "attemptId")] = true
				}
				if token = page["nextPageToken"]; token == nil {
					break
				}
			}
			if len(seen) != n+1 {
				t.Errorf("%v: %d attempts, want %d", args, len(seen), n+1)
			}
		}
		seen, params := map[string]bool{}, &sdk.ListResourcesParams{}
		for {
			page, err := s.ListResources(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Resources) > 256 {
				t.Fatalf("%d resources on a page", len(page.Resources))
			}
			for _, r := range page.Resources {
				if seen[r.URI] {
					t.Errorf("%s twice", r.URI)
				}
				seen[r.URI] = true
			}
			if params.Cursor = page.NextCursor; params.Cursor == "" {
				break
			}
		}
		if len(seen) != n+1 {
			t.Errorf("%d resources, want %d", len(seen), n+1)
		}
	})
}

func TestMCP02_WhatIsOverTheBoundIsNotInlined(t *testing.T) {
	surfacesOf(t, 2, func(t *testing.T, _ *ledger, s *session) {
		id := s.begin("i")
		first := at(s.must("receipt_get", obj{"attemptId": id}), "attempt.receipts").([]any)[0]
		for i := range 80 { // reviews may follow reviews
			s.must("receipt_append", appendArgs(id, fmt.Sprint(i), "review", "noted", "wait", "accepted", "refs", obj{"reviews": at(first, "eventId")}))
		}
		if e := s.refused("bundle_export", obj{"attemptIds": []string{id}}, "too_large", ""); !strings.Contains(e["hint"].(string), "counterfoil bundle "+id+" --out") {
			t.Errorf("hint %v", e["hint"])
		}
		s.refused("receipt_get", obj{"attemptId": id}, "too_large", "")
		if got := s.must("receipt_verify", obj{"attemptIds": []string{id}}); got["status"] != "not_judged" {
			t.Errorf("verify %v", got)
		}
		_, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "counterfoil://attempt/" + id})
		if err == nil || !strings.Contains(err.Error(), "too_large") {
			t.Errorf("read: %v", err)
		}
	})
}

func TestCLM04_CLM05_VerifyJudgesByTheOperatorsTrustFileAlone(t *testing.T) {
	l := startLedger(t)
	remote := mcp.Remote{Client: l.client(t)}
	without := overHTTP(t, sessions, l)
	path := t.TempDir() + "/trust.json"
	b, _ := os.ReadFile(l.trust)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	judge, err := mcp.TrustFile(path)
	if err != nil {
		t.Fatal(err)
	}
	with := overStdio(t, sessions, mcp.Config{Ledger: remote, Trust: judge})

	id := with.begin("i", "wait", "published")
	bundle := with.must("bundle_export", obj{"attemptIds": []string{id}})["bundle"].(string)
	for _, args := range []obj{{"bundle": bundle}, {"attemptIds": []string{id}}, {"bundle": bundle, "minSize": 1}} {
		if got := with.must("receipt_verify", args); got["status"] != "verified" || len(at(got, "report.claims").([]any)) == 0 || len(at(got, "report.notClaimed").([]any)) == 0 {
			t.Errorf("%.60v: %v", args, got)
		}
		if got := without.must("receipt_verify", args); got["status"] != "not_judged" || len(at(got, "report.claims").([]any)) != 0 {
			t.Errorf("without trust %.60v: %v", args, got)
		}
	}
	for name, bad := range map[string]string{
		"changed":  strings.Replace(bundle, `"pay"`, `"ray"`, 1),
		"spaced":   " " + bundle,
		"cut":      bundle[:len(bundle)-1],
		"no JSON":  "x",
		"min size": bundle,
	} {
		args := obj{"bundle": bad}
		if name == "min size" {
			args["minSize"] = 1000
		}
		if got := with.must("receipt_verify", args); got["status"] != "failed" {
			t.Errorf("%s: %v", name, got["status"])
		}
	}
	// A trust file that is replaced counts at once, and one that cannot be used
	// judges nothing.
	other := startLedger(t)
	if b, err = os.ReadFile(other.trust); err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := with.must("receipt_verify", obj{"bundle": bundle}); got["status"] != "failed" {
		t.Errorf("another trust file: %v", got["status"])
	}
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := with.must("receipt_verify", obj{"bundle": bundle}); got["status"] != "not_judged" {
		t.Errorf("a broken trust file: %v", got["status"])
	}
	if _, err := mcp.TrustFile(path); err == nil {
		t.Error("a server starts with a broken trust file")
	}
}

func TestCLM04_VerifyOverHTTPByTheTrustFileOfServe(t *testing.T) {
	first := startLedger(t) // makes the keys
	first.stop()
	l := startLedger(t, func(c *app.Config) { c.Dir, c.MCPTrust = first.Ready.Data, first.trust })
	s := overHTTP(t, sessions, l)
	id := s.begin("i")
	if got := s.must("receipt_verify", obj{"attemptIds": []string{id}}); got["status"] != "verified" {
		t.Errorf("%v", got)
	}
}
