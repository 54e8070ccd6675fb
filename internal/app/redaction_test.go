package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A redaction takes what a caller had kept, and with it every way to be given it
// again; what it is about stays. The stored answer of a call goes, its links stay
// (PRV-04). Each is stated once, by a notice that counts on, and not a second time
// (PRV-02).
func TestPRV02_PRV03_PRV04_WhatStaysOfKeptResults(t *testing.T) {
	for state, c := range map[string]struct {
		repeat int // of the same event: a redaction keeps the key that compares it
		kept   int // of a further event whose body is to be kept
		more   int // of a further event
	}{
		"redacted": {http.StatusOK, http.StatusGone, http.StatusCreated},
		"purged":   {http.StatusGone, http.StatusGone, http.StatusGone},
	} {
		t.Run(state, func(t *testing.T) {
			l := newLedger(t)
			id, other := l.kept("a", `{"secret":"s"}`), l.kept("other", `{"secret":"s"}`)
			keep := patched(t, appendBody(id, "o", `"lifecycle":"outcome","status":"succeeded","privateResult":{"answer":"stored"}`), "keepBody", true)
			path := "/v1/attempts/" + id
			outcome := l.want(http.StatusCreated, "POST", path+"/events", keep)
			l.append(id, "v", fmt.Sprintf(`"lifecycle":"reversal","status":"reversed","refs":{"reverses":%q}`, text(outcome, "eventId")))
			l.want(http.StatusOK, "POST", path+"/events", keep) // the stored result, again
			before, notices := l.want(http.StatusOK, "GET", path, nil), len(l.notices())

			if out := l.erase(state, id); out["affected"] != 1.0 || text(out, "state") != state {
				t.Fatalf("%v", out)
			}
			if n := len(l.notices()); n != notices+1 {
				t.Errorf("%d notices, were %d", n, notices)
			}
			if out := l.erase(state, id); out["affected"] != 0.0 || out["already"] != 1.0 || len(l.notices()) != notices+1 {
				t.Errorf("again: %v", out)
			}

			// The stored result is given to nobody, and no other one is stored.
			code, out := l.do("POST", path+"/events", keep)
			if code != c.repeat || code == http.StatusGone && text(out, "error.code") != "content_erased" {
				t.Errorf("the outcome again: %d %v", code, out)
			}
			if b := string(encoded(t, out)); strings.Contains(b, `"answer"`) {
				t.Errorf("the outcome again gives the result: %s", b)
			}
			further := appendBody(id, "new", fmt.Sprintf(`"lifecycle":"outcome","status":"failed","reasonCodes":["timeout"],"privateResult":1,"refs":{"corrects":%q}`, text(outcome, "eventId")))
			if code, out := l.do("POST", path+"/events", patched(t, further, "keepBody", true)); code != c.kept {
				t.Errorf("a further result to be kept: %d %v", code, out)
			}
			if code, out := l.do("POST", path+"/events", further); code != c.more {
				t.Errorf("a further event: %d %v", code, out)
			}

			// The linkage is as it was: every event, its place, its chain and its refs.
			after := l.want(http.StatusOK, "GET", path, nil)
			was, is := before["receipts"].([]any), after["receipts"].([]any)
			for i := range was {
				for _, member := range []string{"eventId", "leafIndex", "previous", "refs", "commitments", "revision"} {
					sameJSON(t, member, at(is[i], member), at(was[i], member))
				}
			}
			l.verified(l.get(path + "/bundle"))
			if code := l.repeat("other", `{"secret":"s"}`); code != http.StatusOK {
				t.Errorf("another attempt with the same content: %d", code)
			}
			// What a redaction leaves is what a purge finds, and ends with it.
			if state == "redacted" {
				if out := l.erase("purged", id); out["affected"] != 1.0 || text(out, "state") != "purged" {
					t.Errorf("purged after a redaction: %v", out)
				}
				if code, out := l.do("POST", path+"/events", keep); code != http.StatusGone {
					t.Errorf("the outcome after the purge: %d %v", code, out)
				}
				if out := l.erase("redacted", id); out["affected"] != 0.0 {
					t.Errorf("a purge is not final: %v", out)
				}
				l.verified(l.get(path + "/bundle"))
			}
			if text(l.want(http.StatusOK, "GET", "/v1/attempts/"+other, nil), "state") != "open" {
				t.Error("another attempt changed")
			}
		})
	}
}
