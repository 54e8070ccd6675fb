package app_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
)

func (l *ledger) hold(body obj) obj {
	l.t.Helper()
	return l.want(http.StatusCreated, "POST", "/v1/holds", encoded(l.t, body))
}

func (l *ledger) holds() []any {
	l.t.Helper()
	return l.want(http.StatusOK, "GET", "/v1/holds", nil)["holds"].([]any)
}

// held demands that an erasure is refused because of a hold, and did nothing.
func (l *ledger) held(holdID string, attempts ...string) {
	l.t.Helper()
	size := l.streamLast()
	code, out := l.do("POST", "/v1/erasures", encoded(l.t, obj{"attempts": attempts, "confirm": true}))
	refused(l.t, "an erasure of a held attempt", code, out, "conflict", http.StatusConflict, "")
	if text(out, "error.reason") != "legal_hold" || !strings.Contains(text(out, "error.message"), holdID) || l.streamLast() != size {
		l.t.Errorf("refused: %v", out)
	}
}

// TestEVI12_ALegalHoldRefusesErasure: on an attempt or a subject, as one event, over
// restarts, until it is released.
func TestEVI12_ALegalHoldRefusesErasure(t *testing.T) {
	l := newLedger(t)
	dir := l.Ready.Data
	a, b := l.kept("a", `{"n":1}`), l.kept("b", `{"n":2}`)
	one := l.hold(obj{"attempt": a})
	if text(one, "attempt") != a || one["inForce"] != true || text(one, "since") == "" {
		t.Errorf("hold: %v", one)
	}
	size := l.streamLast()
	if again := l.hold(obj{"attempt": a}); text(again, "holdId") != text(one, "holdId") || l.streamLast() != size {
		t.Errorf("the same hold again: %v", again)
	}
	l.held(text(one, "holdId"), b, a) // not even b is erased
	if l.repeat("b", `{"n":2}`) != http.StatusOK {
		t.Error("a refused erasure erased something")
	}
	subject := obj{"kind": "contract", "id": "person/17"}
	two := l.hold(obj{"subject": subject})
	later := text(l.want(http.StatusCreated, "POST", "/v1/attempts", patched(t, beginBody("later", "1"), "subject", subject)), "attemptId")
	l.held(text(two, "holdId"), later)
	l.stop()

	l = startLedger(t, dir)
	if got := l.holds(); len(got) != 2 || text(got[0], "holdId") != text(one, "holdId") || text(got[1], "subject.id") != "person/17" {
		t.Errorf("holds after a start: %v", got)
	}
	l.held(text(one, "holdId"), a)
	l.held(text(two, "holdId"), later)
	off := l.want(http.StatusOK, "POST", "/v1/holds/"+text(one, "holdId")+"/release", nil)
	if off["inForce"] != false || len(l.holds()) != 1 {
		t.Errorf("released: %v", off)
	}
	size = l.streamLast()
	l.want(http.StatusOK, "POST", "/v1/holds/"+text(one, "holdId")+"/release", nil)
	if l.streamLast() != size {
		t.Error("a second release recorded something")
	}
	if out := l.erase("purged", a); out["affected"] != 1.0 {
		t.Errorf("erased after the release: %v", out)
	}
	l.verified(l.get("/v1/attempts/" + text(one, "holdId") + "/bundle"))
	l.stop()
	l = startLedger(t, dir)
	if got := l.holds(); len(got) != 1 || text(got[0], "holdId") != text(two, "holdId") {
		t.Errorf("holds after a further start: %v", got)
	}

	for what, body := range map[string]obj{
		"on nothing": {}, "on both": {"attempt": b, "subject": subject}, "on a notice": {"attempt": text(two, "holdId")},
		"on the ledger": {"subject": obj{"kind": "ledger", "id": "x"}}, "without id": {"subject": obj{"kind": "contract", "id": ""}}, "on more": {"attempt": b, "x": 1},
	} {
		if code, out := l.do("POST", "/v1/holds", encoded(t, body)); code != http.StatusBadRequest || text(out, "error.hint") == "" {
			t.Errorf("a hold %s: %d %v", what, code, out)
		}
	}
	for _, id := range []string{b, "att_" + strings.Repeat("0", 32), "x"} {
		if code, out := l.do("POST", "/v1/holds/"+id+"/release", nil); code != http.StatusNotFound {
			t.Errorf("release of %s: %d %v", id, code, out)
		}
	}
}

// TestEVI12_AHoldSurvivesACrash: it is in force from its notice on.
func TestEVI12_AHoldSurvivesACrash(t *testing.T) {
	l := newLedger(t)
	dir, a := l.Ready.Data, l.kept("a", "1")
	l.Ledger.DieAt(func(string) error { return errDied })
	if code, _ := l.do("POST", "/v1/holds", encoded(t, obj{"attempt": a})); code != http.StatusInternalServerError {
		t.Fatal(code)
	}
	l.stop()
	l = startLedger(t, dir)
	l.held(text(l.holds()[0], "holdId"), a)
	l.want(http.StatusOK, "POST", "/v1/holds/"+text(l.holds()[0], "holdId")+"/release", nil)
	l.erase("purged", a)
}

var year = archive.Retention{Class: "evidence-1y", Kind: event.RetentionEvidence, Days: 365}

func (l *ledger) store(owner, role, content string, at time.Time) string {
	l.t.Helper()
	e, err := l.Ledger.Archive().Put(l.t.Context(), archive.Item{Owner: owner, Role: role, Retention: year, At: at}, strings.NewReader(content))
	if err != nil {
		l.t.Fatal(err)
	}
	return e.Digest
}

func (l *ledger) openErr(digest string) error {
	r, err := l.Ledger.Archive().Open(l.t.Context(), digest)
	if err == nil {
		r.Close()
	}
	return err
}

// TestARC15_RetentionEndsBodiesNotLeaves: bodies go when their time is over, unless
// a hold is on their owner; the log stays as it is. An erasure takes them too.
func TestARC15_RetentionEndsBodiesNotLeaves(t *testing.T) {
	l := newLedger(t)
	dir := l.Ready.Data
	now := time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)
	a, b, c := l.kept("a", "1"), l.kept("b", "2"), l.kept("c", "3")
	da, db, dc := l.store(a, "evidence", "of a", now), l.store(b, "evidence", "of b", now), l.store(c, "evidence", "of c", now)
	hold := text(l.hold(obj{"attempt": b}), "holdId")
	before := l.want(http.StatusOK, "GET", "/v1/status", nil)
	checkpoint := l.get("/log/checkpoint")

	var gone *archive.Gone
	for _, step := range []struct {
		at    time.Time
		want  archive.Ended
		a, b  bool
		after func()
	}{
		{now.Add(365*24*time.Hour - time.Millisecond), archive.Ended{}, true, true, nil},
		{now.Add(365 * 24 * time.Hour), archive.Ended{Expired: 2, Held: 1}, false, true, func() {
			l.want(http.StatusOK, "POST", "/v1/holds/"+hold+"/release", nil)
		}},
		{now.Add(365 * 24 * time.Hour), archive.Ended{Expired: 1}, false, false, nil},
	} {
		got, err := l.Ledger.ExpireEvidence(t.Context(), step.at)
		if err != nil || got != step.want {
			t.Errorf("at %s: %+v, %v", step.at, got, err)
		}
		for digest, there := range map[string]bool{da: step.a, db: step.b, dc: step.a} {
			if err := l.openErr(digest); there != (err == nil) || !there && (!errors.As(err, &gone) || gone.State != archive.Expired) {
				t.Errorf("at %s: %v", step.at, err)
			}
		}
		if step.after == nil {
			if after := l.want(http.StatusOK, "GET", "/v1/status", nil); before != nil && after["streamLast"] != before["streamLast"] || string(l.get("/log/checkpoint")) != string(checkpoint) && before != nil {
				t.Error("an expiry changed the log")
			}
		} else {
			step.after()
			before = nil // the release is an event
		}
	}
	dd := l.store(a, "evidence", "again", now)
	l.erase("redacted", a)
	if err := l.openErr(dd); !errors.As(err, &gone) || gone.State != archive.Erased {
		t.Errorf("evidence of an erased attempt: %v", err)
	}
	l.stop()
	l = startLedger(t, dir)
	if err := l.openErr(dd); !errors.As(err, &gone) || gone.State != archive.Erased {
		t.Errorf("after a start: %v", err)
	}
}

// TestARC16_AChangeOfRetentionIsAnEvent: it is announced, made and confirmed, and a
// crash in between is finished.
func TestARC16_AChangeOfRetentionIsAnEvent(t *testing.T) {
	l := newLedger(t)
	dir := l.Ready.Data
	now := time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)
	a := l.kept("a", "1")
	digest := l.store(a, "evidence", "of a", now)
	until := func() time.Time {
		t.Helper()
		list, err := l.Ledger.Archive().List(t.Context(), a)
		if err != nil || len(list) != 1 || list[0].Digest != digest {
			t.Fatalf("%v, %v", list, err)
		}
		return list[0].KeptUntil
	}
	body := func(class, kind string, days int) []byte {
		return fmt.Appendf(nil, `{"attempt":%q,"class":%q,"kind":%q,"days":%d}`, a, class, kind, days)
	}
	out := l.want(http.StatusOK, "POST", "/v1/retention", body("evidence-2y", event.RetentionEvidence, 730))
	if out["changed"] != 1.0 || !until().Equal(now.Add(730*24*time.Hour)) {
		t.Errorf("%v, until %s", out, until())
	}
	l.verified(l.get("/v1/attempts/" + text(out, "notice.attemptId") + "/bundle"))
	size := l.streamLast()
	for what, b := range map[string][]byte{
		"telemetry": body("t", event.RetentionTelemetry, 30), "no class": body("", event.RetentionEvidence, 1), "no days": body("x", event.RetentionEvidence, 0),
		"too long": body("x", event.RetentionEvidence, 40_000), "no kind": body("x", "other", 1),
	} {
		if code, out := l.do("POST", "/v1/retention", b); code != http.StatusBadRequest || l.streamLast() != size {
			t.Errorf("%s: %d %v", what, code, out)
		}
	}
	l.Ledger.DieAt(func(string) error { return errDied })
	if code, _ := l.do("POST", "/v1/retention", body("evidence-3y", event.RetentionEvidence, 1095)); code != http.StatusInternalServerError {
		t.Fatal(code)
	}
	l.stop()
	l = startLedger(t, dir)
	if !until().Equal(now.Add(1095 * 24 * time.Hour)) {
		t.Errorf("after a crash: until %s", until())
	}
	for id, n := range l.notices() {
		if n != "retention succeeded" {
			t.Errorf("%s: %s", id, n)
		}
	}
	// What is stored after a change has the class that it was stored under, also
	// after a further start.
	later := l.store(a, "artifact", "later", time.Now().Add(time.Hour))
	l.stop()
	l = startLedger(t, dir)
	list, err := l.Ledger.Archive().List(t.Context(), a)
	if err != nil || len(list) != 2 || list[0].Digest != later || list[0].Class != year.Class || list[1].Class != "evidence-3y" {
		t.Errorf("%+v, %v", list, err)
	}
}
