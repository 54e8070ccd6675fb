package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The health check of a container: 0 if the witness cosigns, 1 if not or if nobody
// answers, 2 for an address that is none.
func TestHealth(t *testing.T) {
	body, code := "", http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("%s", r.URL)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	defer srv.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, c := range []struct {
		body   string
		status int
		server string
		want   int
		out    string // or what is said
	}{
		{`{"ready":true,"checks":[{"name":"state","ok":true,"detail":"updates are stored"}]}`, 200, srv.URL, 0, "state: ok: \"updates are stored\"\n"},
		{`{"ready":false,"checks":[{"name":"state","ok":false,"detail":"no\u001b[2J space"}]}`, 503, srv.URL, 1, `state: FAILS: "no\x1b[2J space"`},
		{`<html>`, 200, srv.URL, 1, "no answer of a witness"},
		{`{}`, 200, srv.URL, 1, "no answer of a witness"},
		{``, 200, gone.URL, 1, "hint: does it run"},
		{``, 200, "127.0.0.1:8481", 2, "not http://HOST:PORT"},
	} {
		body, code = c.body, c.status
		var out, said strings.Builder
		if got := run(t.Context(), []string{"health", "--server", c.server}, &out, &said); got != c.want || !strings.Contains(out.String()+said.String(), c.out) {
			t.Errorf("%q: exit code %d, %q, %q", c.body, got, out.String(), said.String())
		}
	}
}
