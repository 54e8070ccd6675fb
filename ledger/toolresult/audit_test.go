package toolresult

import (
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// chains has attempts that end in every way.
func chains(t *testing.T) map[string]*chain {
	return map[string]*chain{
		"open":         begin(t),
		"succeeded":    begin(t).add(event.Outcome, "succeeded"),
		"failed":       begin(t).add(event.Outcome, "failed"),
		"not started":  begin(t).add(event.Outcome, "not_started"),
		"unknown":      begin(t).add(event.Outcome, "unknown"),
		"committed":    begin(t).add(event.Outcome, "unknown").add(event.Reconciliation, "once"),
		"absent":       begin(t).add(event.Outcome, "unknown").add(event.Reconciliation, "absent"),
		"contradicted": begin(t).add(event.Outcome, "unknown").add(event.Reconciliation, "other"),
		"reversed":     begin(t).add(event.Outcome, "succeeded").add(event.Reversal, "reversed"),
	}
}

// walk returns the names of all members and the text of all other tokens.
func walk(t *testing.T, b []byte) (names, values []string) {
	t.Helper()
	dec := jsontext.NewDecoder(strings.NewReader(string(b)))
	for {
		tok, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			return names, values
		}
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if kind, n := dec.StackIndex(dec.StackDepth()); kind == '{' && n%2 == 1 && tok.Kind() == '"' {
			names = append(names, tok.String())
		} else {
			values = append(values, tok.String())
		}
	}
}

// TestTRS01_NothingOfTheAuditIsInTheResult walks the result of every kind of
// attempt: no member of the audit, no id, digest, commitment, tag or name of a
// party, and no value that is not in the closed lists.
func TestTRS01_NothingOfTheAuditIsInTheResult(t *testing.T) {
	closed := map[string]bool{"null": true, "{": true, "}": true, Schema: true, UntrustedData: true, TrustedControl: true}
	for _, r := range lawful {
		for _, s := range []string{string(r.status), string(r.outcome), string(r.delivery), string(r.code), r.boundary, r.code.Message(), string(r.code.Recovery()),
			fmt.Sprint(r.code.RetryAfterSeconds())} {
			closed[s] = true
		}
	}
	for name, c := range chains(t) {
		m, a, err := Project(c.events[0].AttemptID, &c.state, LocalReplay, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		doc, audit := m.Append(nil), a.AppendProtected(nil)
		if v := jsontext.Value(audit).Clone(); v.Canonicalize() != nil || string(v) != string(audit) {
			t.Errorf("%s: the audit %s is not canonical", name, audit)
		}
		names, values := walk(t, doc)
		auditNames, auditValues := walk(t, audit)
		for _, n := range auditNames {
			if n != "schema" && n != "status" && slices.Contains(names, n) {
				t.Errorf("%s: the result has the member %s of the audit", name, n)
			}
		}
		for _, v := range values {
			if !closed[v] {
				t.Errorf("%s: the result holds %q, which is in no list", name, v)
			}
		}
		secret := []string{tagA, tagB, "att_", "evt_", "sha256:", "sha256", "runtime-7", "agent-7", "invocation-7", "server-7", "trace-7", "default", "ledger.example", "pay", "bank.example"}
		for _, v := range auditValues {
			if len(v) > 24 {
				secret = append(secret, v)
			}
		}
		for _, e := range c.events {
			secret = append(secret, e.AttemptID, e.Commitments["input"], event.DigestOf(e.Append(nil)).EventID(), event.DigestOf(e.Append(nil)).String())
		}
		for _, s := range secret {
			if s != "" && s != AuditSchema && strings.Contains(string(doc), s) {
				t.Errorf("%s: the result holds %q", name, s)
			}
		}
	}
}

func TestTRS01_TheAuditNamesTheEvidence(t *testing.T) {
	c := begin(t).add(event.Outcome, "failed")
	m, a, err := Project(c.events[0].AttemptID, &c.state, Fresh, []byte(`{ "b": 1, "a": "é" }`))
	if err != nil {
		t.Fatal(err)
	}
	if string(m.Data()) != `{"a":"é","b":1}` || m.Delivery() != Fresh {
		t.Errorf("got %s", m.Append(nil))
	}
	sum := sha256.Sum256(m.Append(nil))
	want := `{"attemptId":"` + c.events[0].AttemptID + `","events":[{"eventId":"` + event.DigestOf(c.events[0].Append(nil)).EventID() + `","lifecycle":"attempt","status":"requested"},{"eventId":"` +
		event.DigestOf(c.events[1].Append(nil)).EventID() + `","lifecycle":"outcome","status":"failed"}],"resultSha256":"` + hex.EncodeToString(sum[:]) + `","schema":"counterfoil.tool-audit.v1","state":"failed"}`
	if got := string(a.AppendProtected(nil)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	c.add(event.Outcome, "succeeded") // what follows changes neither
	if got := string(a.AppendProtected(nil)); got != want {
		t.Errorf("the audit changed: %s", got)
	}
	for name, f := range map[string]func() error{
		"no attempt id": func() error { _, _, err := Project("att_1", &c.state, Fresh, nil); return err },
		"not begun":     func() error { _, _, err := Project(c.events[0].AttemptID, &lifecycle.State{}, Fresh, nil); return err },
		"open, fresh":   func() error { _, _, err := Project(c.events[0].AttemptID, &begin(t).state, Fresh, nil); return err },
		"bad data":      func() error { _, _, err := Project(c.events[0].AttemptID, &c.state, Fresh, []byte(`{`)); return err },
	} {
		var e *Error
		if err := f(); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTRS01_AnAuditCannotBecomePartOfAnAnswer: by its type, whatever holds it and
// whoever encodes or prints it.
func TestTRS01_AnAuditCannotBecomePartOfAnAnswer(t *testing.T) {
	c := begin(t).add(event.Outcome, "succeeded")
	m, a, err := Project(c.events[0].AttemptID, &c.state, Fresh, nil)
	if err != nil {
		t.Fatal(err)
	}
	answers := []any{a, &a, []any{a}, map[string]any{"audit": a}, struct {
		Result ModelResult    `json:"result"`
		Audit  ProtectedAudit `json:"audit"`
	}{m, a}}
	for _, answer := range answers {
		if b, err := json.Marshal(answer); !errors.Is(err, ErrProtected) {
			t.Errorf("%T is encoded as %s, %v", answer, b, err)
		}
		if b, err := stdjson.Marshal(answer); !errors.Is(err, ErrProtected) {
			t.Errorf("%T is encoded as %s, %v", answer, b, err)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q"} {
			if got := fmt.Sprintf(verb, answer); strings.Contains(got, c.events[0].AttemptID) || strings.Contains(got, hex.EncodeToString([]byte(c.events[0].AttemptID))) {
				t.Errorf("%s prints %s", verb, got)
			}
		}
	}
	// A result has no place for one: a row of the table and a value of the tool.
	for i := range reflect.TypeFor[ModelResult]().NumField() {
		if f := reflect.TypeFor[ModelResult]().Field(i); f.IsExported() || f.Type != reflect.TypeFor[uint8]() && f.Type != reflect.TypeFor[jsontext.Value]() {
			t.Errorf("a result holds %s %s", f.Name, f.Type)
		}
	}
	b, err := json.Marshal(struct {
		Result ModelResult `json:"result"`
	}{m})
	if err != nil || string(b) != `{"result":`+string(m.Append(nil))+`}` {
		t.Errorf("got %s, %v", b, err)
	}
}
