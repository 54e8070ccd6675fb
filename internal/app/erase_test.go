package app_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/backup"
	"counterfoil/ledger/commit"
	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/ledger/receipt"
)

// kept begins an attempt whose input is kept in the vault.
func (l *ledger) kept(invocation, input string) string {
	l.t.Helper()
	return text(l.want(http.StatusCreated, "POST", "/v1/attempts", patched(l.t, beginBody(invocation, input), "keepBody", true)), "attemptId")
}

// erase erases attempts and returns the answer.
func (l *ledger) erase(state string, attempts ...string) obj {
	l.t.Helper()
	return l.want(http.StatusOK, "POST", "/v1/erasures", encoded(l.t, obj{"attempts": attempts, "state": state, "confirm": true}))
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// repeat sends a begin again and returns the status.
func (l *ledger) repeat(invocation, input string) int {
	l.t.Helper()
	code, out := l.do("POST", "/v1/attempts", patched(l.t, beginBody(invocation, input), "keepBody", true))
	if code == http.StatusGone && text(out, "error.code") != "content_erased" {
		l.t.Errorf("a repeat of an erased attempt: %v", out)
	}
	return code
}

// notices are the attempts of kind ledger, by their id: action and state.
func (l *ledger) notices() map[string]string {
	l.t.Helper()
	out := map[string]string{}
	for _, r := range l.settled("/v1/receipts?kind=ledger&lifecycle=attempt")["receipts"].([]any) {
		id := text(r, "attemptId")
		out[id] = text(r, "action.name") + " " + text(l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil), "state")
	}
	return out
}

// TestPRV01_PRV05_PRV06_PRV07_AnErasure: it needs a confirmation, is announced and
// confirmed in the log, leads one way, says what it does not cover, and touches no
// other attempt.
func TestPRV01_PRV05_PRV06_PRV07_AnErasure(t *testing.T) {
	const canary = "CANARY-7d21"
	l := newLedger(t)
	a, b := l.kept("a", `{"secret":"`+canary+`"}`), l.kept("b", `{"secret":"`+canary+`"}`)
	size := l.streamLast()

	code, out := l.do("POST", "/v1/erasures", encoded(t, obj{"attempts": []string{a}}))
	refused(t, "no confirmation", code, out, "invalid_request", http.StatusBadRequest, "/confirm")
	if l.repeat("a", `{"secret":"`+canary+`"}`) != http.StatusOK || l.streamLast() != size {
		t.Fatal("an erasure that nobody confirmed did something")
	}

	out = l.erase("", a, a)
	if out["affected"] != 1.0 || out["already"] != 0.0 || text(out, "state") != "purged" || text(out, "verdict") != "incomplete" || out["open"] != 1.0 {
		t.Errorf("erased: %v", out)
	}
	all := string(encoded(t, out))
	for _, want := range []string{`"backups"`, `"exports"`, `"sources"`, `"storage"`, `"log"`, `"tombstone"`} {
		if !strings.Contains(all, `{"code":`+want) {
			t.Errorf("the answer does not say %s", want)
		}
	}
	if s := strings.ToLower(all); strings.Contains(s, "unlearn") || strings.Contains(s, "complete erasure") || strings.Contains(s, strings.ToLower(canary)) {
		t.Errorf("the answer says too much: %s", s)
	}
	n := out["notices"].([]any)[0].(obj)
	events := l.want(http.StatusOK, "GET", "/v1/attempts/"+text(n, "attemptId"), nil)
	if text(events, "state") != "succeeded" || n["leafIndex"] != size || n["doneIndex"] != size+1 {
		t.Errorf("notice %v: %v", n, events)
	}
	l.settled("/v1/receipts")
	leaf := string(l.events("")[int(size)].Record)
	if !strings.Contains(leaf, `"statement":{"erasure":{"attempts":["`+a+`"],"state":"purged"}}`) || strings.Contains(leaf, canary) || strings.Contains(leaf, "external_tool_call") {
		t.Errorf("the notice: %s", leaf)
	}

	if code := l.repeat("a", `{"secret":"`+canary+`"}`); code != http.StatusGone {
		t.Errorf("a repeat: %d", code)
	}
	if code := l.repeat("a", `{"secret":"other"}`); code != http.StatusGone {
		t.Errorf("a repeat with other content: %d", code)
	}
	if code, out := l.do("POST", "/v1/attempts/"+a+"/events", appendBody(a, "late", `"lifecycle":"outcome","status":"succeeded"`)); code != http.StatusGone {
		t.Errorf("an append: %d %v", code, out)
	}
	if code := l.repeat("b", `{"secret":"`+canary+`"}`); code != http.StatusOK {
		t.Errorf("another attempt: %d", code)
	}

	// One way: nothing changes any more, and nothing is recorded.
	size = l.streamLast()
	for _, state := range []string{"purged", "redacted"} {
		if out := l.erase(state, a); out["affected"] != 0.0 || out["already"] != 1.0 || len(out["notices"].([]any)) != 0 {
			t.Errorf("%s again: %v", state, out)
		}
	}
	if l.repeat("a", "1") != http.StatusGone || l.streamLast() != size {
		t.Error("a purged attempt came back, or something was recorded")
	}
	// A redaction keeps the key, so a repeat is known; a purge of it ends that.
	if out := l.erase("redacted", b); out["affected"] != 1.0 {
		t.Errorf("redacted: %v", out)
	}
	if code := l.repeat("b", `{"secret":"`+canary+`"}`); code != http.StatusOK {
		t.Errorf("a repeat of a redacted attempt: %d", code)
	}
	if code, out := l.do("POST", "/v1/attempts/"+b+"/events", patched(t, appendBody(b, "x", `"lifecycle":"outcome","status":"succeeded","privateResult":1`), "keepBody", true)); code != http.StatusGone {
		t.Errorf("a body for a redacted attempt: %d %v", code, out)
	}
	l.append(b, "y", `"lifecycle":"outcome","status":"succeeded","privateResult":1`)
	if out := l.erase("purged", b); out["affected"] != 1.0 || out["open"] != 0.0 || l.repeat("b", "1") != http.StatusGone {
		t.Errorf("purged after a redaction: %v", out)
	}

	for what, body := range map[string]obj{
		"of nothing":         {"confirm": true},
		"of both":            {"attempts": []string{a}, "subject": obj{"kind": "contract", "id": "x"}, "confirm": true},
		"to active":          {"attempts": []string{a}, "state": "active", "confirm": true},
		"of a notice":        {"attempts": []string{text(n, "attemptId")}, "confirm": true},
		"of the ledger":      {"subject": obj{"kind": "ledger", "id": "x"}, "confirm": true},
		"of another kind":    {"subject": obj{"kind": "person", "id": "x"}, "confirm": true},
		"with a member more": {"attempts": []string{a}, "confirm": true, "why": "x"},
	} {
		if code, out := l.do("POST", "/v1/erasures", encoded(t, body)); code != http.StatusBadRequest || text(out, "error.hint") == "" {
			t.Errorf("%s: %d %v", what, code, out)
		}
	}
	for what, body := range map[string]obj{
		"attempt": {"attempts": []string{"att_" + strings.Repeat("0", 32)}, "confirm": true},
		"subject": {"subject": obj{"kind": "contract", "id": "x"}, "confirm": true},
	} {
		if code, out := l.do("POST", "/v1/erasures", encoded(t, body)); code != http.StatusNotFound {
			t.Errorf("unknown %s: %d %v", what, code, out)
		}
	}
	// Nowhere in what the ledger shows or holds is the value.
	for _, path := range []string{"/v1/receipts", "/v1/attempts", "/v1/attempts/" + a, "/v1/attempts/" + a + "/bundle", "/v1/events"} {
		if path != "/v1/events" && strings.Contains(string(l.get(path)), canary) {
			t.Errorf("%s shows the value", path)
		}
	}
	dir := l.Ready.Data
	l.stop()
	if hits := find(t, dir, canary); len(hits) > 0 {
		t.Error(hits)
	}
}

// TestPRV11_ReceiptsVerifyAfterAnErasure: bundles of before and after, and that of
// the erasure itself.
func TestPRV11_ReceiptsVerifyAfterAnErasure(t *testing.T) {
	l := newLedger(t)
	a := l.kept("a", `{"n":1}`)
	l.append(a, "o", `"lifecycle":"outcome","status":"succeeded","privateResult":{"n":2}`)
	before := l.get("/v1/attempts/" + a + "/bundle")
	n := l.erase("purged", a)["notices"].([]any)[0]
	l.verified(before)
	l.verified(l.get("/v1/attempts/" + a + "/bundle"))
	l.verified(l.get("/v1/attempts/" + text(n, "attemptId") + "/bundle"))
}

var errDied = errors.New("died here")

// TestPRV01_AnErasureIsFinishedAfterACrashAtEveryStep: until its outcome is in the
// log it does not count as done, and the next start finishes it.
func TestPRV01_AnErasureIsFinishedAfterACrashAtEveryStep(t *testing.T) {
	for _, state := range []string{"redacted", "purged"} {
		for _, step := range []string{"announced", "destroyed"} {
			t.Run(state+" "+step, func(t *testing.T) {
				l := newLedger(t)
				a := l.kept("a", `{"n":1}`)
				l.Ledger.DieAt(func(s string) error {
					if s == step {
						return errDied
					}
					return nil
				})
				if code, out := l.do("POST", "/v1/erasures", encoded(t, obj{"attempts": []string{a}, "state": state, "confirm": true})); code != http.StatusInternalServerError {
					t.Fatalf("the process did not die: %d %v", code, out)
				}
				got := l.notices()
				for id, n := range got {
					if n != "erasure."+state+" "+lifecycle.Open {
						t.Errorf("a half done erasure is shown as %s: %s", n, id)
					}
				}
				if len(got) != 1 {
					t.Fatalf("notices %v", got)
				}
				dir := l.Ready.Data
				l.stop()
				l = startLedger(t, dir)
				for id, n := range l.notices() {
					if n != "erasure."+state+" succeeded" {
						t.Errorf("after a start: %s: %s", n, id)
					}
				}
				if out := l.erase(state, a); out["affected"] != 0.0 || out["already"] != 1.0 {
					t.Errorf("after a start: %v", out)
				}
				size := l.streamLast()
				l.stop()
				if l = startLedger(t, dir); l.streamLast() != size {
					t.Error("a further start recorded something")
				}
			})
		}
	}
}

// TestPRV01_TheNextChangeFinishesWhatFailed: also without a new start. What was
// announced first is done first, whatever a hold says that came later.
func TestPRV01_TheNextChangeFinishesWhatFailed(t *testing.T) {
	for _, step := range []string{"announced", "destroyed"} {
		l := newLedger(t)
		a, b := l.kept("a", `{"n":1}`), l.kept("b", `{"n":2}`)
		l.Ledger.DieAt(func(s string) error {
			if s == step {
				return errDied
			}
			return nil
		})
		if code, _ := l.do("POST", "/v1/erasures", encoded(t, obj{"attempts": []string{a}, "confirm": true})); code != http.StatusInternalServerError {
			t.Fatal(code)
		}
		l.Ledger.DieAt(nil)
		one := l.hold(obj{"attempt": b})
		got := l.notices()
		open := 0
		for _, n := range got {
			if n != "erasure.purged succeeded" && n != "hold succeeded" {
				open++
			}
		}
		if l.repeat("a", `{"n":1}`) != http.StatusGone || len(got) != 2 || open != 0 {
			t.Errorf("died when %s: %v", step, got)
		}
		l.held(text(one, "holdId"), b)
		if len(l.holds()) != 1 {
			t.Errorf("holds %v", l.holds())
		}
	}
}

// TestPRV01_AnOlderVaultBringsNothingBack: the vault of before, beside the log of
// after, has every erasure that the log has.
func TestPRV01_AnOlderVaultBringsNothingBack(t *testing.T) {
	l := newLedger(t)
	dir := l.Ready.Data
	a, b, c := l.kept("a", `{"n":1}`), l.kept("b", `{"n":2}`), l.kept("c", `{"n":3}`)
	l.stop()
	old := filepath.Join(t.TempDir(), "vault")
	if err := os.CopyFS(old, os.DirFS(filepath.Join(dir, "vault"))); err != nil {
		t.Fatal(err)
	}
	l = startLedger(t, dir)
	d := l.kept("d", `{"n":4}`) // the old vault never had it
	l.erase("purged", a, d)
	l.erase("redacted", b)
	l.stop()
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "vault")), os.CopyFS(filepath.Join(dir, "vault"), os.DirFS(old))); err != nil {
		t.Fatal(err)
	}
	l = startLedger(t, dir)
	for invocation, want := range map[string]int{"a": http.StatusGone, "d": http.StatusGone, "b": http.StatusOK, "c": http.StatusOK} {
		if got := l.repeat(invocation, fmt.Sprintf(`{"n":%d}`, invocation[0]-'a'+1)); got != want {
			t.Errorf("a repeat of %s: %d, want %d", invocation, got, want)
		}
	}
	if out := l.erase("redacted", a, b, c, d); out["affected"] != 1.0 || out["already"] != 3.0 {
		t.Errorf("states: %v", out)
	}
}

// TestPRV07_DUR03_RestoredBackups: a backup from after an erasure restores the
// erasure; one from before does not know of it, which nothing in it can change.
func TestPRV07_DUR03_RestoredBackups(t *testing.T) {
	l := newLedger(t)
	a := l.kept("a", `{"n":1}`)
	before, m := l.backup(backup.Point{}, "p")
	l.erase("purged", a)
	more, _ := l.backup(m.To, "p")
	whole, _ := l.backup(backup.Point{}, "p")
	l.stop()
	for what, tc := range map[string]struct {
		files []string
		want  int
	}{
		"before": {[]string{before}, http.StatusOK}, "whole": {[]string{whole}, http.StatusGone}, "incremental": {[]string{before, more}, http.StatusGone},
	} {
		dir := filepath.Join(t.TempDir(), "restored")
		if _, err := backup.Restore(t.Context(), dir, tc.files, backup.Options{Passphrase: "p", Logger: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
		r := startLedger(t, dir)
		if got := r.repeat("a", `{"n":1}`); got != tc.want {
			t.Errorf("%s: a repeat: %d, want %d", what, got, tc.want)
		}
		r.stop()
	}
}

// TestPRV03_ASubjectIsErased: every attempt about it, in as many notices as it
// takes, and no other.
func TestPRV03_ASubjectIsErased(t *testing.T) {
	l := newLedger(t)
	subject := obj{"kind": "contract", "id": "person/17"}
	begin := func(n int, s any) string {
		return text(l.want(http.StatusCreated, "POST", "/v1/attempts", patched(t, beginBody(fmt.Sprint(n), `{"n":1}`), "subject", s)), "attemptId")
	}
	const many = 260
	for n := range many {
		begin(n, subject)
	}
	begin(1000, obj{"kind": "contract", "id": "person/1"})
	begin(1001, obj{"kind": "admission", "id": "person/17"})
	out := l.want(http.StatusOK, "POST", "/v1/erasures", encoded(t, obj{"subject": subject, "confirm": true}))
	if out["affected"] != float64(many) || len(out["notices"].([]any)) != 2 || out["more"] != false {
		t.Errorf("erased: %v", out)
	}
	for n, want := range map[int]int{0: http.StatusGone, many - 1: http.StatusGone} {
		code, _ := l.do("POST", "/v1/attempts", patched(t, beginBody(fmt.Sprint(n), `{"n":1}`), "subject", subject))
		if code != want {
			t.Errorf("attempt %d: %d", n, code)
		}
	}
	for n, s := range map[int]obj{1000: {"kind": "contract", "id": "person/1"}, 1001: {"kind": "admission", "id": "person/17"}} {
		if code, _ := l.do("POST", "/v1/attempts", patched(t, beginBody(fmt.Sprint(n), `{"n":1}`), "subject", s)); code != http.StatusOK {
			t.Errorf("an attempt about something else: %d", code)
		}
	}
	if out := l.want(http.StatusOK, "POST", "/v1/erasures", encoded(t, obj{"subject": subject, "confirm": true})); out["affected"] != 0.0 || out["already"] != float64(many) {
		t.Errorf("again: %v", out)
	}
}

// TestPRV10_ADisclosureOfARealLedger: the opening that begin gave out opens, and
// the erasure's own events make a value unavailable that nobody shows.
func TestPRV10_ADisclosureOfARealLedger(t *testing.T) {
	l := newLedger(t)
	began := l.want(http.StatusCreated, "POST", "/v1/attempts", beginBody("a", `{"secret":1}`))
	other := l.kept("b", "1")
	l.erase("purged", text(began, "attemptId"))
	l.erase("purged", other)
	l.settled("/v1/receipts")
	var logged []receipt.Logged
	for _, e := range l.events("") {
		rec, err := event.ParseRecord(e.Record)
		if err != nil {
			t.Fatal(err)
		}
		logged = append(logged, receipt.Logged{Index: uint64(len(logged)), Event: rec.Event})
	}
	o := began["openings"].([]any)[0]
	salt, err := base64.StdEncoding.DecodeString(text(o, "salt"))
	if err != nil || len(salt) != commit.Size {
		t.Fatalf("salt %q, %v", text(o, "salt"), err)
	}
	opening := &commit.Opening{Name: text(o, "name"), Encoding: commit.JCS, Salt: commit.Salt(salt), Value: []byte(`{"secret":1}`)}
	for what, tc := range map[string]struct {
		opening *commit.Opening
		erasure []receipt.Logged
		want    receipt.Disclosure
	}{
		"nothing": {want: receipt.DisclosureMissing}, "the opening": {opening: opening, want: receipt.DisclosureOpened},
		"its erasure": {erasure: logged[2:4], want: receipt.DisclosureErased}, "that of another": {erasure: logged[4:6], want: receipt.DisclosureMismatch},
		"announced alone": {erasure: logged[2:3], want: receipt.DisclosureMismatch},
	} {
		if got, detail := receipt.Disclose(logged[0], "input", tc.opening, tc.erasure); got != tc.want {
			t.Errorf("%s: %s (%s), want %s", what, got, detail, tc.want)
		}
	}
}
