package app_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/event"
)

// judged is an admission's records, made as a caller makes them.
func judged(t *testing.T, class string) *admission.Set {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", "policies", class+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	snapshot, err := admission.NewSnapshot("file:server.json", admission.ParseEntry([]byte(
		`{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"io.github.example/server",`+
			`"description":"A server.","version":"1.0.0","packages":[{"registryType":"npm","identifier":"server","version":"1.0.0","transport":{"type":"stdio"}}]}`)),
		admission.Asserted, event.FormatTime(at))
	if err != nil {
		t.Fatal(err)
	}
	j := admission.Decide(&admission.Input{
		Class: class, Snapshot: snapshot, At: at,
		Binding: &admission.ArtifactBinding{
			Schema: admission.BindingSchema, Kind: admission.KindBytes, PackageType: "npm", Identifier: "server", Version: "1.0.0", Transport: "stdio",
			Locator: "server.tgz", RetrievedAt: event.FormatTime(at),
			Bytes: &admission.BytesBinding{Size: 3, Digests: admission.DigestSet{"sha256": strings.Repeat("a", 64), "sha512": strings.Repeat("b", 128)}},
		},
	}, p)
	set, err := admission.NewSet(j, p)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func receiptBody(t *testing.T, set *admission.Set, kind string) []byte {
	t.Helper()
	records := map[string]json.RawMessage{}
	for role, r := range map[string]admission.Record{"registry_snapshot": set.Snapshot, "artifact_binding": set.Binding,
		"evidence_bundle": set.Evidence, "policy_decision": set.Decision} {
		b, err := admission.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		records[role] = b
	}
	return encoded(t, obj{"records": records, "retention": obj{"class": "kept", "kind": kind, "days": 30}})
}

func (l *ledger) beginAdmission(invocation string) string {
	l.t.Helper()
	return text(l.want(http.StatusCreated, "POST", "/v1/attempts",
		patched(l.t, beginBody(invocation, "1"), "subject", obj{"kind": "admission", "id": "io.github.example/server"})), "attemptId")
}

// TestARC03_ADM09_EVI02_TheLedgerKeepsRecordsAndSigns: the ledger judges nothing. Of what
// it is given it keeps each record, and a receipt that it signed.
func TestARC03_ADM09_EVI02_TheLedgerKeepsRecordsAndSigns(t *testing.T) {
	l := newLedger(t)
	id := l.beginAdmission("a")
	set := judged(t, "light")
	out := l.want(http.StatusCreated, "POST", "/v1/admissions/"+id+"/receipt", receiptBody(t, set, "security_evidence"))
	sealed := l.get("/v1/archive/" + text(out, "receipt"))
	receipt, _, err := admission.Open(sealed, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := receipt.Check(set); err != nil || receipt.SpanningSet != text(out, "spanningSetDigest") || !strings.Contains(string(sealed), text(out, "keyId")) {
		t.Errorf("receipt %s: %v", sealed, err)
	}
	for _, d := range []string{receipt.SpanningSet, receipt.Records.RegistrySnapshot, receipt.Records.ArtifactBinding, receipt.Records.EvidenceBundle, receipt.Records.PolicyDecision} {
		if b := l.get("/v1/archive/" + d); admission.Digest(b) != d {
			t.Errorf("%s has other bytes", d)
		}
	}
	// another layout of the same records is the same records
	indented, err := json.MarshalIndent(json.RawMessage(receiptBody(t, set, "security_evidence")), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	again := l.want(http.StatusCreated, "POST", "/v1/admissions/"+id+"/receipt", indented)
	if text(again, "spanningSetDigest") != receipt.SpanningSet {
		t.Errorf("other layout: %v", again)
	}
}

// TestADM16_ADM25_ARC06_ARC07_WhatIsNotKept: records of two judgements, kinds of attempt
// that are no admission, and retention that the archive refuses.
func TestADM16_ADM25_ARC06_ARC07_WhatIsNotKept(t *testing.T) {
	l := newLedger(t)
	id, other := l.beginAdmission("a"), text(l.begin("b"), "attemptId")
	good := receiptBody(t, judged(t, "light"), "security_evidence")
	at := "/v1/admissions/" + id + "/receipt"

	foreign := judged(t, "light")
	foreign.Snapshot.CapturedAt = "2026-11-30T13:00:00.000Z"
	for name, c := range map[string]struct {
		path, body string
		status     int
		code, at   string
	}{
		"another's snapshot":  {at, string(receiptBody(t, foreign, "security_evidence")), 400, "invalid_request", "/records"},
		"no decision":         {at, string(patched(t, good, "records.policy_decision", nil)), 400, "invalid_request", "/records/policy_decision"},
		"a decision is no":    {at, string(patched(t, good, "records.policy_decision", obj{"schema": "x"})), 400, "invalid_request", "/records/policy_decision"},
		"unknown member":      {at, string(patched(t, good, "also", 1)), 400, "invalid_request", ""},
		"no retention":        {at, string(patched(t, good, "retention", nil)), 400, "invalid_request", ""},
		"days":                {at, string(patched(t, good, "retention.days", 0)), 400, "invalid_request", ""},
		"no admission":        {"/v1/admissions/" + other + "/receipt", string(good), 400, "invalid_request", ""},
		"no attempt":          {"/v1/admissions/att_" + strings.Repeat("0", 32) + "/receipt", string(good), 404, "not_found", ""},
		"no attempt id":       {"/v1/admissions/me/receipt", string(good), 404, "not_found", ""},
		"too large":           {at, strings.Repeat(" ", 2<<20), 413, "too_large", ""},
		"no role":             {"/v1/archive?owner=" + id + "&role=receipt&class=c&kind=security_evidence&days=1", "x", 400, "invalid_request", ""},
		"a word for days":     {"/v1/archive?owner=" + id + "&role=evidence&class=c&kind=security_evidence&days=x", "x", 400, "invalid_request", ""},
		"unknown parameter":   {"/v1/archive?owner=" + id + "&role=evidence&class=c&kind=security_evidence&days=1&more=1", "x", 400, "invalid_request", ""},
		"evidence over bound": {"/v1/archive?owner=" + id + "&role=evidence&class=c&kind=security_evidence&days=1", strings.Repeat("x", 4<<20+1), 413, "too_large", ""},
	} {
		code, out := l.do("POST", c.path, []byte(c.body))
		refused(t, name, code, out, c.code, c.status, c.at)
	}
	// evidence about a privileged tool is never telemetry: a typed failure of the archive
	code, out := l.do("POST", at, receiptBody(t, judged(t, "privileged"), "discovery_telemetry"))
	if code != http.StatusServiceUnavailable || text(out, "error.reason") != string(admission.ArchiveRetentionDenied) {
		t.Errorf("telemetry: %d %v", code, out)
	}
	code, out = l.do("POST", "/v1/archive?owner="+id+"&role=evidence&class=c&kind=discovery_telemetry&days=1&sensitive=true", []byte("x"))
	if code != http.StatusServiceUnavailable || text(out, "error.reason") != string(admission.ArchiveRetentionDenied) {
		t.Errorf("telemetry: %d %v", code, out)
	}
}

// TestADM20_ReasonCodesOfAdmissionsAreForAdmissions: no other kind of attempt may have
// them, and what a code means depends on the kind.
func TestADM20_ReasonCodesOfAdmissionsAreForAdmissions(t *testing.T) {
	l := newLedger(t)
	id, other := l.beginAdmission("a"), text(l.begin("b"), "attemptId")
	const rest = `"lifecycle":"outcome","status":"failed","reasonCodes":["evidence_gap","attestation_missing"]`
	code, out := l.do("POST", "/v1/attempts/"+other+"/events", appendBody(other, "e", rest))
	refused(t, "a tool action", code, out, "invalid_request", http.StatusBadRequest, "/reasonCodes/1")
	got := l.append(id, "e", rest)
	if codes := got["reasonCodes"].([]any); len(codes) != 2 || codes[1] != "attestation_missing" {
		t.Errorf("admission: %v", got)
	}
	code, out = l.do("POST", "/v1/attempts/"+id+"/events", appendBody(id, "f", strings.Replace(rest, "attestation_missing", "made_up", 1)))
	refused(t, "an unknown code", code, out, "invalid_request", http.StatusBadRequest, "/reasonCodes/1")
}
