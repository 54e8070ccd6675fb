package reviewer_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/internal/reviewer"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/review"
)

const server = `{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"io.github.example/server",` +
	`"description":%q,"version":"1.0.0","packages":[{"registryType":"npm","identifier":"a","version":"1.0.0","transport":{"type":"stdio"}}]}`

func response(description, status string) string {
	return fmt.Sprintf(`{"server":`+server+`,"_meta":{"io.modelcontextprotocol.registry/official":{"status":%q}}}`, description, status)
}

func TestREV19_WhatALiveRegistrySaysIsNoted(t *testing.T) {
	answers := map[string]string{}
	var asked string
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.EscapedPath()
		body := answers["now"]
		if body == "" {
			http.Error(w, "gone", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}))
	defer registry.Close()
	f, err := fetch.New(fetch.Config{Transport: http.DefaultTransport, PlainHTTP: true, Now: time.Now, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	d := admission.ParseEntry([]byte(response("A server.", "active")))
	then, err := admission.NewSnapshot(registry.URL, d, admission.Asserted, "2026-03-04T05:06:07.000Z")
	if err != nil {
		t.Fatal(err)
	}
	live := reviewer.Registry{Fetch: f}
	changed := admission.ParseEntry([]byte(response("Another.", "deprecated")))
	for name, c := range map[string]struct {
		now  string
		want []review.Note
	}{
		"the same": {response("A server.", "active"), nil},
		"changed": {response("Another.", "deprecated"), []review.Note{
			{What: "metadata", Then: d.Canonical, Now: changed.Canonical}, {What: "status", Then: "active", Now: "deprecated"}}},
		"no entry any more": {`{"error":"not found"}`, nil},
	} {
		answers["now"] = c.now
		got, err := live.Notes(t.Context(), then)
		if err != nil {
			t.Fatal(err)
		}
		if name == "no entry any more" {
			if len(got) == 0 || got[0].What != "entry" {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if asked != "/v0.1/servers/io.github.example%2Fserver/versions/1.0.0" {
		t.Errorf("asked %s", asked)
	}
	answers["now"] = ""
	if notes, err := live.Notes(t.Context(), then); err == nil {
		t.Errorf("a registry without the entry: %+v", notes)
	}
	registry.Close()
	if notes, err := live.Notes(t.Context(), then); err == nil {
		t.Errorf("a registry that is down: %+v", notes)
	}
	then.Registry = "file:server.json"
	if notes, err := live.Notes(t.Context(), then); err != nil || notes != nil {
		t.Errorf("a local entry has no registry: %+v %v", notes, err)
	}
}
