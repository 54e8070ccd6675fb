package app_test

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/app"
	"counterfoil/internal/testkit/outkit"
	"counterfoil/projections/follow"
	"counterfoil/projections/kv"
)

// changeRows replaces text in every row of the views of a stopped ledger, the
// rows' checksums included, as someone with the program could.
func changeRows(t testing.TB, dir, origin, from, to string) (changed int) {
	t.Helper()
	db, err := kv.Open(kv.Config{Dir: filepath.Join(dir, "views"), Origin: origin, Tenant: "default", Schema: follow.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	if db.Fresh() != "" {
		t.Fatalf("the views were not opened as they were: %s", db.Fresh())
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]byte{}
	it := s.Iter(nil, false)
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(v, []byte(from)) {
			rows[string(it.Key())] = bytes.ReplaceAll(v, []byte(from), []byte(to))
		}
	}
	s.Close()
	b, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range rows {
		if err := b.Set([]byte(k), v); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(b.Cursor()); err != nil {
		t.Fatal(err)
	}
	return len(rows)
}

// A row that does not say what its leaf says is never answered; what is read
// from the log or the stream still is, and a rebuild makes the rows right.
func TestLOG15_TamperedRowsAreNotAnswered(t *testing.T) {
	for _, c := range []struct{ what, from, to string }{
		{"a receipt's agent", "agent:any", "agent:bad"},
		{"a receipt's status", "unknown", "unknowm"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		l := startLedger(t, dir)
		id := text(l.begin("inv"), "attemptId")
		o := l.append(id, "o", `"lifecycle":"outcome","status":"unknown"`)
		before := len(l.settled("/v1/receipts")["receipts"].([]any))
		origin := l.Ready.Origin
		l.stop()
		if changeRows(t, dir, origin, c.from, c.to) == 0 {
			t.Fatalf("%s: no row holds it", c.what)
		}
		var log outkit.Buffer
		l = startLedger(t, dir, func(cfg *app.Config) { cfg.Logger = jsonLogger(&log) })
		for _, path := range []string{"/v1/receipts", "/v1/attempts", "/v1/receipts/" + text(o, "eventId")} {
			code, b := l.raw("GET", path, nil, l.Token)
			if code != http.StatusInternalServerError || strings.Contains(string(b), c.to) {
				t.Errorf("%s: GET %s: %d %s", c.what, path, code, b)
			}
		}
		if !strings.Contains(log.String(), c.to) {
			t.Errorf("%s: the log does not say what is wrong: %s", c.what, log.String())
		}
		l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil)
		l.verified(l.get("/v1/attempts/" + id + "/bundle"))
		l.stop()
		cfg := app.Config{Dir: dir}
		startable(&cfg)
		if _, err := app.Rebuild(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		l = startLedger(t, dir)
		if n := len(l.settled("/v1/receipts")["receipts"].([]any)); n != before {
			t.Errorf("%s: %d receipts after the rebuild, want %d", c.what, n, before)
		}
		l.stop()
	}
}
