package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/app"
)

// wire sends bytes as they stand and returns the answers until the server closes.
func (l *ledger) wire(request string) (answers []*http.Response, bodies []string) {
	l.t.Helper()
	u, err := url.Parse(l.Ready.Listening)
	if err != nil {
		l.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, strings.ReplaceAll(request, "HOST", u.Host))
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	in := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return answers, bodies // the end
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			return answers, bodies
		}
		answers, bodies = append(answers, res), append(bodies, string(b))
	}
}

// What two servers in a row could take for different requests is refused, or taken
// for what its framing says and nothing more: the second request in each of these is
// the body of the first.
func TestEVI05_RequestsAreNotSmuggled(t *testing.T) {
	l := newLedger(t)
	inner := "GET /v1/status HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer " + l.Token + "\r\n\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(strings.ReplaceAll(inner, "HOST", strings.TrimPrefix(l.Ready.Listening, "http://"))), inner)
	for name, c := range map[string]struct{ header, body string }{
		"two lengths":             {"Content-Length: 0\r\nContent-Length: 99\r\n", inner},
		"two lengths in one":      {"Content-Length: 0, 99\r\n", inner},
		"a signed length":         {"Content-Length: +0\r\n", inner},
		"a length in hex":         {"Content-Length: 0x0\r\n", inner},
		"a length below zero":     {"Content-Length: -1\r\n", inner},
		"another coding":          {"Transfer-Encoding: xchunked\r\n", inner},
		"two codings":             {"Transfer-Encoding: gzip, chunked\r\n", inner},
		"chunked twice":           {"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n" + inner},
		"space before the colon":  {"Content-Length : 0\r\n", inner},
		"length, and chunked":     {"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", chunk},
		"a bare line feed":        {"X: y\nTransfer-Encoding: chunked\r\n", chunk},
		"a chunk's size is wrong": {"Transfer-Encoding: chunked\r\n", "0x0\r\n\r\n" + inner},
		"a name with a space":     {"X y: z\r\nContent-Length: 0\r\n", inner},
		"a NUL":                   {"X: a\x00b\r\nContent-Length: 0\r\n", inner},
	} {
		answers, bodies := l.wire("POST /v1/attempts HTTP/1.1\r\nHost: HOST\r\n" + c.header + "\r\n" + c.body)
		if len(answers) != 1 || answers[0].StatusCode < 400 {
			t.Errorf("%s: %d answers, %v", name, len(answers), bodies)
		}
		for _, b := range bodies {
			if strings.Contains(b, "counterfoil.status.v1") {
				t.Errorf("%s: the body was taken for a request: %s", name, b)
			}
		}
	}
	// And the way it is meant to be: two requests, two answers.
	get := "GET /v1/status HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer " + l.Token + "\r\n\r\n"
	if answers, bodies := l.wire(get + get); len(answers) != 2 || answers[1].StatusCode != 200 {
		t.Errorf("two requests in a row: %v", bodies)
	}
}

func TestEVI05_HeadersAreTakenOnceAndBounded(t *testing.T) {
	l := newLedger(t)
	for name, c := range map[string]struct {
		header string
		want   int
	}{
		"two tokens":        {"Host: HOST\r\nAuthorization: Bearer " + l.Token + "\r\nAuthorization: Bearer x\r\n", 401},
		"the same twice":    {"Host: HOST\r\nAuthorization: Bearer " + l.Token + "\r\nAuthorization: Bearer " + l.Token + "\r\n", 401},
		"two hosts":         {"Host: HOST\r\nHost: evil.example\r\nAuthorization: Bearer " + l.Token + "\r\n", 400},
		"no host":           {"Authorization: Bearer " + l.Token + "\r\n", 400},
		"a host that lies":  {"Host: HOST.evil.example\r\nAuthorization: Bearer " + l.Token + "\r\n", 403},
		"a huge header":     {"Host: HOST\r\nAuthorization: Bearer " + l.Token + "\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n", 431},
		"a thousand of 100": {"Host: HOST\r\nAuthorization: Bearer " + l.Token + "\r\n" + strings.Repeat("X: "+strings.Repeat("x", 100)+"\r\n", 1000), 431},
		"one of 32 KiB":     {"Host: HOST\r\nAuthorization: Bearer " + l.Token + "\r\nX: " + strings.Repeat("x", 32<<10) + "\r\n", 200},
	} {
		answers, bodies := l.wire("GET /v1/status HTTP/1.1\r\n" + c.header + "Connection: close\r\n\r\n")
		if len(answers) != 1 || answers[0].StatusCode != c.want {
			t.Errorf("%s: want %d, got %.300v", name, c.want, bodies)
		}
		for _, b := range bodies {
			if strings.Contains(b, l.Token) {
				t.Errorf("%s: the answer shows the token", name)
			}
		}
	}
}

// A page in a browser can have its own name resolve to this machine, and can send
// requests from where it stands: neither is answered, with a token or without, over
// any protocol of the port.
func TestEVI05_PagesOfOthersAreNotAnswered(t *testing.T) {
	l := newLedger(t)
	port := l.Ready.Listening[strings.LastIndexByte(l.Ready.Listening, ':')+1:]
	paths := []struct{ method, path string }{{"GET", "/v1/status"}, {"POST", "/v1/attempts"}, {"POST", "/mcp"}, {"GET", "/mcp"},
		{"POST", "/counterfoil.v1.LedgerService/GetStatus"}, {"GET", "/v1/events?follow=false"}, {"OPTIONS", "/v1/attempts"}}
	refused := func(what string, headers ...string) {
		t.Helper()
		for _, p := range paths {
			code, h, body := l.send(p.method, p.path, "{}", append([]string{"Authorization", "Bearer " + l.Token, "Content-Type", "application/json"}, headers...)...)
			if code != http.StatusForbidden || !strings.Contains(body, "forbidden") && !strings.Contains(body, "permission_denied") {
				t.Errorf("%s: %s %s: %d %s", what, p.method, p.path, code, body)
			}
			if h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: %s %s invites other origins", what, p.method, p.path)
			}
		}
	}
	for _, host := range []string{"evil.example", "evil.example:" + port, "localhost.evil.example", "127.0.0.1.evil.example:" + port, "127.0.0.2:" + port, "0.0.0.0:" + port} {
		refused("host "+host, "Host", host)
	}
	for _, origin := range []string{"https://evil.example", "null", "http://localhost.evil.example", "file://", "http://127.0.0.1.evil.example:" + port, "://"} {
		refused("origin "+origin, "Origin", origin)
	}
	refused("two origins", "Origin", "http://127.0.0.1:"+port, "Origin", "https://evil.example")
	for _, own := range [][]string{{"Host", "localhost:" + port}, {"Host", "[::1]:" + port}, {"Host", "LOCALHOST"}, {"Origin", "http://127.0.0.1:" + port}, {"Host", "localhost:" + port, "Origin", "http://localhost:" + port}} {
		if code, _, body := l.send("GET", "/v1/status", "", append(own, "Authorization", "Bearer "+l.Token)...); code != http.StatusOK {
			t.Errorf("%v: %d %s", own, code, body)
		}
	}
	// What is public is of no use to who can only look from outside, and is refused all
	// the same under another name.
	if code, _, _ := l.send("GET", "/healthz", "", "Host", "evil.example"); code != http.StatusForbidden {
		t.Errorf("healthz under another name: %d", code)
	}

	named := startLedger(t, filepath.Join(t.TempDir(), "data"), func(c *app.Config) { c.ExternalURL = "https://ledger.example" })
	for _, h := range [][]string{{"Host", "ledger.example"}, {"Host", "ledger.example", "Origin", "https://ledger.example"}} {
		if code, _, body := named.send("GET", "/v1/status", "", append(h, "Authorization", "Bearer "+named.Token)...); code != http.StatusOK {
			t.Errorf("the name that it is known by, %v: %d %s", h, code, body)
		}
	}
	l = named
	refused("another name", "Host", "evil.example")
}
