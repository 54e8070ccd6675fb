package namespace

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
)

var good = "v=MCPv1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(make([]byte, 32))

func TestADM04_WhichDomainANameBelongsTo(t *testing.T) {
	for server, want := range map[string]string{
		"com.example/hello":              "example.com",
		"com.example.team/hello":         "team.example.com",
		"COM.Example/hello":              "example.com",
		"io.github.somebody/hello":       "",
		"io.gitlab.somebody/hello":       "",
		"com.example":                    "",
		"localhost/hello":                "",
		"1.0.0.127/hello":                "",
		"com..example/hello":             "",
		"com.-example/hello":             "",
		"com.exa mple/hello":             "",
		strings.Repeat("a.", 200) + "/x": "",
	} {
		if got, ok := Domain(server); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q %v, want %q", server, got, ok, want)
		}
	}
}

func TestADM01_ADomainIsAskedForItsKey(t *testing.T) {
	tests := []struct {
		name    string
		records []string
		want    admission.CheckState
	}{
		{"a key", []string{"v=spf1 -all", good}, admission.CheckPass},
		{"the other kind, without spaces", []string{"v=MCPv1;k=ecdsap384;p=" + base64.StdEncoding.EncodeToString(make([]byte, 49)) + ";"}, admission.CheckPass},
		{"none", []string{"v=spf1 -all"}, admission.CheckAbsent},
		{"nothing", nil, admission.CheckAbsent},
		{"short key", []string{"v=MCPv1; k=ed25519; p=AAAA"}, admission.CheckFail},
		{"no base64", []string{"v=MCPv1; k=ed25519; p=*"}, admission.CheckFail},
		{"unknown kind", []string{"v=MCPv1; k=rsa; p=" + base64.StdEncoding.EncodeToString(make([]byte, 32))}, admission.CheckFail},
		{"field twice", []string{good + "; k=ed25519"}, admission.CheckFail},
		{"no value", []string{"v=MCPv1; k"}, admission.CheckFail},
		{"later version", []string{"v=MCPv10; k=x; p=y"}, admission.CheckAbsent},
		{"a good one beside a bad one", []string{"v=MCPv1; k=rsa; p=", good}, admission.CheckPass},
	}
	for _, tt := range tests {
		// A name below the domain is the domain's; one above it is asked as well.
		for _, at := range []string{"team.example.com", "example.com"} {
			var asked []string
			c, err := DNS(t.Context(), func(_ context.Context, name string) ([]string, error) {
				if asked = append(asked, name); name != at {
					return nil, &net.DNSError{IsNotFound: true}
				}
				return tt.records, nil
			}, "com.example.team/x")
			if err != nil || c.State != tt.want || c.ID != admission.CheckNamespaceDNS || (c.Code != "") != (tt.want == admission.CheckFail) || asked[0] != "team.example.com" || len(asked) > 2 {
				t.Errorf("%s: %+v, %v; asked %s", tt.name, c, err, asked)
			}
			if tt.want == admission.CheckPass && !strings.HasSuffix(c.Got, " key of "+at) {
				t.Errorf("%s: got %s", tt.name, c.Got)
			}
		}
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/.well-known/mcp-registry-auth" || r.Host != "example.com" {
				t.Errorf("asked for %s %s", r.Host, r.URL)
			}
			if tt.records == nil {
				w.WriteHeader(http.StatusNotFound)
			}
			io.WriteString(w, strings.Join(tt.records, "\r\n"))
		}))
		c, err := HTTP(t.Context(), fetcher(t, s), "com.example/x")
		if err != nil || c.State != tt.want || c.ID != admission.CheckNamespaceHTTP || (c.Code != "") != (tt.want == admission.CheckFail) {
			t.Errorf("%s: %+v, %v", tt.name, c, err)
		}
		s.Close()
	}
}

// fetcher reaches a server as example.com, for which its certificate is.
func fetcher(t *testing.T, s *httptest.Server) *fetch.Fetcher {
	t.Helper()
	tr := s.Client().Transport.(*http.Transport).Clone()
	tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}
	t.Cleanup(tr.CloseIdleConnections)
	f, err := fetch.New(fetch.Config{Transport: tr, Now: time.Now, Pause: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestADM01_WhatWasNotFoundOutIsNoVerdict(t *testing.T) {
	answer := func(err error) LookupTXT {
		return func(context.Context, string) ([]string, error) { return nil, err }
	}
	for name, tt := range map[string]struct {
		server string
		err    error
		want   admission.CheckState
	}{
		"account":        {"io.github.somebody/x", errors.New("asked"), admission.CheckAbsent},
		"no such name":   {"com.example/x", &net.DNSError{IsNotFound: true}, admission.CheckAbsent},
		"no answer":      {"com.example/x", &net.DNSError{IsTimeout: true}, admission.CheckUnavailable},
		"something else": {"com.example/x", errors.New("x"), admission.CheckUnavailable},
	} {
		if c, err := DNS(t.Context(), answer(tt.err), tt.server); err != nil || c.State != tt.want {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "example.com" {
			http.Redirect(w, r, "https://www.example.com/key", http.StatusFound)
			return
		}
		io.WriteString(w, good)
	}))
	defer s.Close()
	if c, err := HTTP(t.Context(), fetcher(t, s), "com.example/x"); err != nil || c.State != admission.CheckUnavailable {
		t.Errorf("a key of another host: %+v, %v", c, err)
	}
	if c, err := HTTP(t.Context(), fetcher(t, s), "io.github.somebody/x"); err != nil || c.State != admission.CheckAbsent {
		t.Errorf("%+v, %v", c, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := DNS(ctx, answer(errors.New("x")), "com.example/x"); !errors.Is(err, cause) {
		t.Error(err)
	}
	if _, err := HTTP(ctx, fetcher(t, s), "com.example/x"); !errors.Is(err, cause) {
		t.Error(err)
	}
}

func FuzzKey(f *testing.F) {
	f.Add(good)
	f.Fuzz(func(t *testing.T, s string) {
		if alg, err := key(s); err == nil && keyBytes[alg] == 0 {
			t.Errorf("%q has a key of kind %q", s, alg)
		}
	})
}
