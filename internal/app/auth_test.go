package app_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/app"
)

// call sends a request as it stands, header and all, without following
// redirects.
func (l *ledger) call(method, path, authorization, body string) (int, http.Header, string) {
	l.t.Helper()
	req, err := http.NewRequest(method, l.Ready.Listening, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.URL.Opaque = "//" + req.URL.Host + path // as it stands on the wire
	if raw, err := url.ParseRequestURI(path); err == nil && raw.Host == "" {
		req.URL.Opaque, req.URL.Path, req.URL.RawPath, req.URL.RawQuery = "", raw.Path, raw.RawPath, raw.RawQuery
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	code, header, b := l.answer(http.DefaultTransport.RoundTrip, req)
	return code, header, string(b)
}

// Every resource that is not public, and paths that are none.
var guarded = []struct{ method, path string }{
	{"POST", "/v1/attempts"}, {"POST", "/v1/attempts/att_00000000000000000000000000000000/events"}, {"POST", "/v1/events:batch"},
	{"GET", "/v1/attempts"}, {"GET", "/v1/attempts/att_00000000000000000000000000000000"}, {"GET", "/v1/attempts/x/bundle"},
	{"GET", "/v1/bundle?attempt=x"}, {"GET", "/v1/receipts"}, {"GET", "/v1/receipts/evt_00"}, {"GET", "/v1/receipts/evt_00/tlog-proof"},
	{"GET", "/v1/parked"}, {"GET", "/v1/events"}, {"GET", "/v1/status"}, {"GET", "/metrics"},
	{"GET", "/"}, {"GET", "/nothing"}, {"DELETE", "/v1/attempts"}, {"PUT", "/v1/trust/x"}, {"GET", "/v1/trust/"}, {"GET", "/healthz/"},
	{"GET", "/readyz/x"}, {"GET", "/log"}, {"GET", "/LOG/checkpoint"}, {"GET", "//v1/attempts"}, {"GET", "/v1//trust"}, {"GET", "/debug/pprof/"},
}

func TestEVI05_PRV15_NothingWithoutTheToken(t *testing.T) {
	l := newLedger(t)
	id := text(l.begin("secret-invocation"), "attemptId")
	wrong := strings.Repeat("0", len(l.Token))
	for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer " + wrong, "Bearer " + l.Token[:len(l.Token)-1], "Bearer " + l.Token + "0",
		"Bearer " + l.Token + " " + l.Token, "Basic " + l.Token, "Token " + l.Token, l.Token, "Bearer" + l.Token, "bearer:" + l.Token, "Bearer " + strings.ToUpper(l.Token)} {
		for _, g := range guarded {
			// The body is not looked at, and neither is the route: the answer is the same.
			code, h, body := l.call(g.method, g.path, auth, `{"not json`)
			if code != http.StatusUnauthorized || !strings.Contains(body, `"unauthorized"`) {
				t.Errorf("%s %s with %q: %d %s", g.method, g.path, auth, code, body)
			}
			if !strings.HasPrefix(h.Get("WWW-Authenticate"), "Bearer") || h.Get("Cache-Control") != "no-store" {
				t.Errorf("%s %s: header %v", g.method, g.path, h)
			}
			for _, secret := range []string{l.Token, wrong, id, "secret-invocation"} {
				if strings.Contains(body, secret) {
					t.Errorf("%s %s: the answer shows %q: %s", g.method, g.path, secret, body)
				}
			}
			if strings.Contains(strings.Join(h.Values("WWW-Authenticate"), ""), l.Token) {
				t.Error("the header shows the token")
			}
		}
	}
	if code, _, body := l.call("GET", "/v1/status", "bearer "+l.Token, ""); code != http.StatusOK {
		t.Errorf("the scheme is case-insensitive (RFC 9110): %d %s", code, body)
	}
	// A token in the query or in a cookie is none.
	if code, _, _ := l.call("GET", "/v1/status?access_token="+l.Token, "", ""); code != http.StatusUnauthorized {
		t.Errorf("token in the query: %d", code)
	}
}

func TestEVI05_PublicPathsAreTheseAlone(t *testing.T) {
	l := newLedger(t)
	l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody("inv", `1`))
	for _, path := range []string{"/log/checkpoint", "/log/tile/0/000.p/1", "/log/tile/entries/000.p/1", "/v1/trust", "/v1/policy", "/healthz", "/readyz"} {
		if code, _, body := l.call("GET", path, "", ""); code != http.StatusOK {
			t.Errorf("GET %s: %d %s", path, code, body)
		}
		// A wrong token does not close what is public.
		if code, _, _ := l.call("GET", path, "Bearer wrong", ""); code != http.StatusOK {
			t.Errorf("GET %s with a wrong token: %d", path, code)
		}
	}
	// The prefix /log/ opens nothing else.
	for _, path := range []string{"/log/../v1/status", "/log/%2e%2e/v1/status", "/log/..%2fv1/status", "/log//../v1/attempts", "/log/../metrics"} {
		if code, _, body := l.call("GET", path, "", ""); code == http.StatusOK || strings.Contains(body, "streamLast") || strings.Contains(body, "counterfoil_log_size") {
			t.Errorf("GET %s: %d %s", path, code, body)
		}
	}
}

func TestEVI03_EVI21_NoOtherVerbs(t *testing.T) {
	l := newLedger(t)
	id := text(l.begin("inv"), "attemptId")
	before := l.streamLast()
	attempt := "/v1/attempts/" + id
	for _, path := range []string{"/v1/attempts", attempt, attempt + "/events", "/v1/events:batch", "/v1/receipts", "/v1/events", "/v1/trust", "/v1/status", "/healthz", "/metrics", "/log/checkpoint"} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BEGIN"} {
			if path == "/v1/events" && method == "GET" {
				continue // a stream
			}
			code, _, body := l.call(method, path, "Bearer "+l.Token, `{}`)
			served := map[string]bool{"GET": path != attempt+"/events" && path != "/v1/events:batch", "POST": path == "/v1/attempts" || path == attempt+"/events" || path == "/v1/events:batch"}[method]
			if served == (code == http.StatusMethodNotAllowed) || !served && code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d %s", method, path, code, body)
			}
			if !served && !strings.Contains(body, `"method_not_allowed"`) {
				t.Errorf("%s %s: %s", method, path, body)
			}
		}
	}
	// What would decide, do or undo something is nowhere.
	for _, verb := range []string{"authorize", "approve", "dispatch", "execute", "finalize", "route", "reverse", "retry", "cancel", "reconcile", "edit", "delete", "sign"} {
		for _, path := range []string{"/v1/" + verb, attempt + "/" + verb, attempt + ":" + verb, "/v1/attempts:" + verb, "/v1/events:" + verb} {
			if code, _, body := l.call("POST", path, "Bearer "+l.Token, `{}`); code != http.StatusNotFound && code != http.StatusMethodNotAllowed {
				t.Errorf("POST %s: %d %s", path, code, body)
			}
		}
		code, out := l.do("POST", attempt+"/events", appendBody(id, "e-"+verb, `"lifecycle":"`+verb+`","status":"succeeded"`))
		refused(t, verb, code, out, "invalid_request", http.StatusBadRequest, "/lifecycle")
	}
	if after := l.streamLast(); after != before {
		t.Errorf("the stream grew from %v to %v", before, after)
	}
}

func TestEVI04_OtherAddressesNeedAFlag(t *testing.T) {
	cfg := app.Config{Logger: slog.New(slog.DiscardHandler), Random: rand.Reader, Now: time.Now}
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0", "10.0.0.1:8480", "localhost.example.com:0", "127.0.0.1.example.com:0"} {
		c := cfg
		c.Dir, c.Listen = filepath.Join(t.TempDir(), "data"), addr
		if _, err := app.Start(context.Background(), c); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("listen on %s: %v", addr, err)
		}
		c.Listen, c.NATSListen = "127.0.0.1:0", addr
		if _, err := app.Start(context.Background(), c); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("consumers on %s: %v", addr, err)
		}
	}
	l := startLedger(t, filepath.Join(t.TempDir(), "data"), func(c *app.Config) { c.Listen, c.AllowRemote = "0.0.0.0:0", true })
	if code, _ := l.raw("GET", "/v1/status", nil, ""); code != http.StatusUnauthorized {
		t.Errorf("the token is needed there too: %d", code)
	}
	if app.DefaultListen != "127.0.0.1:8480" {
		t.Errorf("default address %s", app.DefaultListen)
	}
}
