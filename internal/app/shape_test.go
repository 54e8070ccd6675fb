package app_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func members(o any) []string {
	m, _ := o.(obj)
	return slices.Sorted(maps.Keys(m))
}

func TestEVI14_EVI16_MembersOfAReceipt(t *testing.T) {
	l := newLedger(t)
	r := l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", patched(t, beginBody("inv", `{"n":1}`), "expectedEffect", 1))
	id := text(r, "attemptId")
	for path, want := range map[string]string{
		"":       "action attemptId capturedAt checkpoint claimBoundary clockSkew commitment commitments eventId eventType leafIndex ledger lifecycle occurredAt openings revision schemaVersion source sourceAttestation stage subject tenant traceId treeSize",
		"action": "effectKind effectMode name phase status", "commitment": "digest payloadType signatures", "commitments": "expectedEffect input",
		"source": "agentId implementation invocationId protocol runtimeId", "sourceAttestation": "level status", "subject": "id kind",
	} {
		part := any(r)
		if path != "" {
			part = r[path]
		}
		if diff := cmp.Diff(strings.Fields(want), members(part)); diff != "" {
			t.Errorf("members of %q (-want +got):\n%s", path, diff)
		}
	}
	for path, want := range map[string]any{"schemaVersion": "counterfoil.receipt.v1", "eventType": "tool_action.attempt", "occurredAt": "2026-07-28T00:00:00.000Z",
		"action.phase": "intent", "action.status": "requested", "sourceAttestation.level": "self_asserted", "sourceAttestation.status": "unverified",
		"ledger": l.Ready.Origin, "commitment.payloadType": "application/vnd.counterfoil.event.v1+json", "leafIndex": 0.0, "treeSize": 1.0, "stage": "published"} {
		if got := at(r, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if text(r, "eventId") != "evt_"+strings.TrimPrefix(text(r, "commitment.digest"), "sha256:") {
		t.Errorf("eventId %s is not the digest %s", text(r, "eventId"), text(r, "commitment.digest"))
	}
	o := l.append(id, "o", `"lifecycle":"outcome","status":"failed","privateResult":1`)
	if text(o, "source.eventId") != "o" || text(o, "previous") != text(r, "commitment.digest") || text(o, "eventType") != "tool_action.outcome" || text(o, "action.phase") != "outcome" {
		t.Errorf("outcome: %v", o)
	}
	// In a bundle, digest and signatures stand beside the signed event; the event
	// holds no digest, signature, id or place of its own (EVI-16).
	l.settled("/v1/receipts")
	bundle := l.get("/v1/attempts/" + id + "/bundle")
	for i, e := range decoded(t, bundle)["entries"].([]any) {
		if got := members(at(e, "artifact")); !slices.Equal(got, []string{"commitment", "receipt"}) {
			t.Errorf("artifact has %v", got)
		}
		signed := at(e, "artifact.receipt").(obj)
		for _, m := range []string{"eventId", "commitment", "signatures", "digest", "leafIndex", "inclusionProof", "checkpoint", "stage"} {
			if _, ok := signed[m]; ok {
				t.Errorf("entry %d: the signed event holds %s", i, m)
			}
		}
		if got := members(at(e, "artifact.commitment")); !slices.Equal(got, []string{"digest", "payloadType", "signatures"}) {
			t.Errorf("commitment has %v", got)
		}
	}
	l.verified(bundle)
}

// Events are signed or they are nothing: no answer calls one unsigned, and none
// could be passed off as signed (ATT-29: the signatures bind key and digest).
func TestATT01_ATT02_ATT24_EveryEventIsSigned(t *testing.T) {
	l := newLedger(t)
	id := l.attemptWith("inv", `1`)
	l.append(id, "o", `"lifecycle":"outcome","status":"unknown"`)
	l.reconcile(id, "r", `{"source":"s","observed":"absent"}`)
	l.settled("/v1/receipts")
	answers := []string{string(l.get("/v1/attempts/" + id)), string(l.get("/v1/receipts")), string(l.get("/v1/attempts/" + id + "/bundle")), string(l.get("/v1/events?follow=false"))}
	for _, a := range answers {
		for _, word := range []string{"legacy_unsigned", "unsigned", "signed_v1"} {
			if strings.Contains(a, word) {
				t.Errorf("%q in %.200s", word, a)
			}
		}
	}
	keys := l.trust().EventKeys.Keys()
	for _, r := range l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil)["receipts"].([]any) {
		sigs, _ := at(r, "commitment.signatures").([]any)
		if len(sigs) != 1 || text(sigs[0], "sig") == "" || text(sigs[0], "keyId") != keys[0].KeyID {
			t.Errorf("signatures of %s: %v", text(r, "eventId"), sigs)
		}
	}
	if n := l.verified(l.get("/v1/attempts/" + id + "/bundle")).Counts.Entries; n != 3 {
		t.Errorf("%d of 3 events are in the bundle", n)
	}
}

func TestLOG06_LOG07_EveryAnswerSaysTreeSizeAndStage(t *testing.T) {
	l := newLedger(t)
	for _, stage := range []string{"accepted", "logged", "published"} {
		r := l.want(http.StatusCreated, "POST", "/v1/attempts?wait="+stage, beginBody("inv-"+stage, `1`))
		order := []string{"accepted", "logged", "published"}
		if slices.Index(order, text(r, "stage")) < slices.Index(order, stage) {
			t.Errorf("waited for %s, got %s", stage, text(r, "stage"))
		}
		if stage == "published" && (text(r, "checkpoint") == "" || r["treeSize"].(float64) < 3 || r["inclusionProof"] == nil) {
			t.Errorf("published without proof: %v", r)
		}
	}
	for _, stage := range []string{"witnessed", "sequenced", "ACCEPTED", "logged "} {
		code, out := l.do("POST", "/v1/attempts?wait="+strings.ReplaceAll(stage, " ", "%20"), beginBody("w", `1`))
		if code != http.StatusBadRequest || text(out, "error.hint") == "" {
			t.Errorf("wait=%s: %d %v", stage, code, out)
		}
	}
	list := l.settled("/v1/receipts?limit=1")
	one := text(list["receipts"].([]any)[0], "eventId")
	attempt := text(list["receipts"].([]any)[0], "attemptId")
	for _, path := range []string{"/v1/attempts", "/v1/receipts", "/v1/parked", "/v1/attempts/" + attempt, "/v1/receipts/" + one} {
		if size, ok := l.want(http.StatusOK, "GET", path, nil)["treeSize"].(float64); !ok || size < 3 {
			t.Errorf("GET %s says tree size %v", path, size)
		}
	}
	for line := range strings.Lines(string(l.get("/v1/events?follow=false"))) {
		var e obj
		if err := json.Unmarshal([]byte(line), &e); err != nil || e["treeSize"] == nil || e["leafIndex"] == nil {
			t.Errorf("event %s: %v", line, err)
		}
	}
	if st := l.want(http.StatusOK, "GET", "/v1/status", nil); st["viewSize"] != 3.0 || st["publishedSize"] != 3.0 || st["logSize"] != 3.0 {
		t.Errorf("status: %v", st)
	}
}

// What was acknowledged at stage logged is found by its id at once, with and
// without proof, though no checkpoint covered it when it was answered.
func TestLOG07_AcknowledgedIsReadableAtOnce(t *testing.T) {
	l := newLedger(t)
	for range 20 {
		r := l.begin("inv-" + text(l.want(http.StatusOK, "GET", "/v1/status", nil), "origin") + string(rune('a'+int(l.streamLast()))))
		for _, path := range []string{"/v1/receipts/" + text(r, "eventId") + "/tlog-proof", "/v1/receipts/" + text(r, "eventId"), "/v1/attempts/" + text(r, "attemptId"), "/v1/attempts/" + text(r, "attemptId") + "/bundle"} {
			if code, b := l.raw("GET", path, nil, l.Token); code != http.StatusOK {
				t.Fatalf("GET %s: %d %s", path, code, b)
			}
		}
	}
	for _, path := range []string{"/v1/receipts/evt_" + strings.Repeat("0", 64), "/v1/receipts/evt_" + strings.Repeat("0", 64) + "/tlog-proof", "/v1/receipts/x", "/v1/receipts/x/tlog-proof"} {
		want, code := http.StatusNotFound, "not_found"
		if strings.Contains(path, "/x") {
			want, code = http.StatusBadRequest, "invalid_request"
		}
		if got, out := l.do("GET", path, nil); got != want || text(out, "error.code") != code {
			t.Errorf("GET %s: %d %v", path, got, out)
		}
	}
}
