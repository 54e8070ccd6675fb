package app_test

import (
	"net/http"
	"path/filepath"
	"testing"
)

// TestEVI04_NothingOfACallIsIgnored: a misspelt parameter is refused, another
// method is told which ones there are, and a wrong token is told from none.
func TestEVI04_NothingOfACallIsIgnored(t *testing.T) {
	l := startLedger(t, filepath.Join(t.TempDir(), "data"))
	for _, c := range []struct{ method, path string }{
		{"POST", "/v1/attempts?wiat=published"},
		{"POST", "/v1/attempts/att_00000000000000000000000000000000/events?stage=logged"},
		{"POST", "/v1/events:batch?wiat=accepted"},
		{"GET", "/v1/attempts/att_00000000000000000000000000000000?full=1"},
		{"GET", "/v1/bundle?attempts=x"},
		{"GET", "/v1/status?x=1"},
	} {
		code, out := l.do(c.method, c.path, beginBody("x", "1"))
		if e, _ := out["error"].(map[string]any); code != http.StatusBadRequest || e["code"] != "invalid_request" {
			t.Errorf("%s %s: %d %v", c.method, c.path, code, out)
		}
	}
	req, err := http.NewRequest("PUT", l.Ready.Listening+"/v1/attempts", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "GET, POST" {
		t.Errorf("PUT: %d, Allow %q", res.StatusCode, res.Header.Get("Allow"))
	}
	_, none := l.raw("GET", "/v1/status", nil, "")
	_, wrong := l.raw("GET", "/v1/status", nil, "wrong")
	if string(none) == string(wrong) {
		t.Errorf("a wrong token is not told from none: %s", wrong)
	}
}
