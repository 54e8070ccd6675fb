package consumer_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"counterfoil/ledger/consumer"
)

// A ledger that sends nonsense in its event stream: an error, never a hang, and
// the next call begins anew.
func TestLOG12_EventStreamsThatLie(t *testing.T) {
	line := func(index int, record string) string {
		return fmt.Sprintf(`{"leafIndex":%d,"leafHash":"x","record":%s,"treeSize":9}`+"\n", index, record)
	}
	for name, c := range map[string]struct{ body, says string }{
		"ends":           {"", "broke off"},
		"half a line":    {`{"leafIndex":3`, "broke off"},
		"no JSON":        {"hello\n", "a line of the event stream"},
		"another index":  {line(4, "{}"), "shows leaf 4, expected 3"},
		"repeats":        {line(2, "{}"), "shows leaf 2, expected 3"},
		"long line":      {strings.Repeat(" ", 300<<10) + "\n", "over 262144 bytes"},
		"long record":    {line(3, `"`+strings.Repeat("x", 70_000)+`"`), "a leaf has at most 65535"},
		"only signs":     {"\n\n\n", "broke off"},
		"negative index": {`{"leafIndex":-1}` + "\n", "a line of the event stream"},
	} {
		before := goleak.IgnoreCurrent()
		asked := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked++; r.Header.Get("Authorization") != "Bearer secret" || r.URL.RequestURI() != "/v1/events?from=3" {
				t.Errorf("%s: %s, %v", name, r.URL, r.Header)
			}
			_, _ = io.WriteString(w, c.body)
		}))
		client := &http.Client{Transport: &http.Transport{}}
		e := must(consumer.NewEvents(consumer.EventsConfig{Server: srv.URL + "/", Token: "secret", Client: client}))(t)
		for call := range 2 {
			leaves, err := e.Next(t.Context(), 3, 10)
			if err == nil || len(leaves) > 0 || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %d leaves, %v", name, len(leaves), err)
			}
			if asked != call+1 {
				t.Errorf("%s: asked %d times in %d calls", name, asked, call+1)
			}
		}
		e.Close()
		client.CloseIdleConnections()
		srv.Close()
		goleak.VerifyNone(t, before)
	}
}

func TestLOG12_EventStreamGivesWhatCameBeforeItBroke(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{\"leafIndex\":0,\"record\":{\"a\":1}}\n\n{\"leafIndex\":1,\"parked\":\"unparseable\"}\n{\"leafIn")
	}))
	defer srv.Close()
	e := must(consumer.NewEvents(consumer.EventsConfig{Server: srv.URL}))(t)
	defer e.Close()
	var leaves [][]byte
	for len(leaves) < 2 {
		more := must(e.Next(t.Context(), uint64(len(leaves)), 10))(t)
		leaves = append(leaves, more...)
	}
	if string(leaves[0]) != `{"a":1}` || leaves[1] != nil {
		t.Errorf("got %q", leaves)
	}
	if more, err := e.Next(t.Context(), 2, 10); err == nil {
		t.Errorf("after the break: %q", more)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Next(ctx, 7, 1); err == nil {
		t.Error("no error of a context that is over")
	}
}

// The token goes to the ledger and nowhere else, and no error shows it.
func TestLOG12_TokenOfTheEventStream(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("redirected: %v", r.Header) }))
	defer other.Close()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusUnauthorized, http.StatusInternalServerError} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(status)
		}))
		e := must(consumer.NewEvents(consumer.EventsConfig{Server: srv.URL, Token: "secret"}))(t)
		if _, err := e.Next(t.Context(), 0, 1); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), fmt.Sprint(status)) {
			t.Errorf("%d: %v", status, err)
		}
		e.Close()
		srv.Close()
	}
	for _, bad := range []string{"", "127.0.0.1:8480", "ftp://x", "http://user:secret@x", "http://x?y=z", "http://x#y", "://"} {
		if _, err := consumer.NewEvents(consumer.EventsConfig{Server: bad}); err == nil || strings.Contains(err.Error(), "user:secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
