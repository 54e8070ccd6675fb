package quickstart

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
	"counterfoil/ledger/trust"
)

const recording = `{"at":"2026-07-28T00:00:01Z","dir":"client","message":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":"PRIVATE-CANARY"}}}
{"at":"2026-07-28T00:00:02Z","dir":"server","message":{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":"PRIVATE-CANARY"}}}
`

// trustFile is one that parses and that nothing was signed under.
func trustFile(t *testing.T) []byte {
	t.Helper()
	public := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	vkey, err := trust.NewVerifierKey("example.com/log", trust.TypeEd25519, public)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := trust.NewEventKeys([]trust.EventKey{{KeyID: event.KeyID(public), PublicKey: public}})
	if err != nil {
		t.Fatal(err)
	}
	return (&trust.File{Log: vkey, EventKeys: keys}).Append(nil)
}

// run tells the story of a ledger that answers with a given bundle.
func run(t *testing.T, bundle string) (dir, story string, err error) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/bundle":
			_, _ = io.WriteString(w, bundle)
		case "/v1/trust":
			_, _ = w.Write(trustFile(t))
		case "/v1/status":
			_, _ = io.WriteString(w, `{"origin":"example.com/log","logSize":2,"publishedSize":2}`)
		default:
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"attemptId":"att_1","leafIndex":0}`)
		}
	}))
	t.Cleanup(srv.Close)
	cl, err := client.New(client.Config{Server: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	var out bytes.Buffer
	err = Run(t.Context(), Config{Client: cl, Data: dir, Sessions: fstest.MapFS{"s.jsonl": {Data: []byte(recording)}, "README.md": {}},
		Out: &out, Program: "cf", ClientFlags: " --flag x"})
	return dir, out.String(), err
}

func TestBND02_WhatDoesNotVerifyIsSaidAndIsAnError(t *testing.T) {
	for bundle, status := range map[string]string{
		"not a bundle": "failed",
		"":             "not_judged",
	} {
		dir, story, err := run(t, bundle)
		if err == nil || !strings.Contains(err.Error(), "s.bundle.json: "+status) {
			t.Errorf("%q: got %v, want %s", bundle, err, status)
		}
		if !strings.Contains(story, fmt.Sprintf("   s.bundle.json: %s, ", status)) {
			t.Errorf("%q: the story says\n%s", bundle, story)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "bundles", "s.bundle.json")); err != nil || string(b) != bundle {
			t.Errorf("the bundle on disk: %q, %v", b, err)
		}
	}
}

func TestPRV08_TheStoryHasNamesCountsAndIdsOnly(t *testing.T) {
	_, story, _ := run(t, "not a bundle")
	for _, want := range []string{"s: 1 call of unknown: 1 failed", "att_1  failed  read", "cf get att_1 --flag x", "cf verify "} {
		if !strings.Contains(story, want) {
			t.Errorf("the story has no %q:\n%s", want, story)
		}
	}
	if strings.Contains(story, "CANARY") || strings.Contains(story, "cf serve") {
		t.Errorf("the story says\n%s", story)
	}
}

func TestQuoteIsReadBackByAShell(t *testing.T) {
	for in, want := range map[string]string{"a/b-1.json": "a/b-1.json", "my data": "'my data'", "it's": `'it'\''s'`, "": "''", "a b": "'a b'", "$x": "'$x'"} {
		if got := Quote(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
