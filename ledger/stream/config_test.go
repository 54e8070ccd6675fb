package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// external runs a NATS server of somebody else's in this process.
func external(t testing.TB, dir string) (url string, nc *nats.Conn) {
	t.Helper()
	srv, err := server.NewServer(externalOptions(dir, server.RANDOM_PORT))
	must(t, err)
	srv.Start()
	t.Cleanup(func() { shutdown(srv) })
	if !srv.ReadyForConnections(startTimeout) {
		t.Fatal("server is not ready")
	}
	nc, err = nats.Connect(srv.ClientURL())
	must(t, err)
	t.Cleanup(nc.Close)
	return srv.ClientURL(), nc
}

func urlConfig(url string) Config {
	c := testConfig("")
	c.URL = url
	return c
}

// Every setting that could take a message away, change one or leave out a
// sequence is refused, all of them in one error.
func TestLOG03_ConfigDifferencesAreAllNamed(t *testing.T) {
	url, nc := external(t, t.TempDir())
	cfg := map[string]any{
		"name": DefaultName, "subjects": []string{"counterfoil.>"}, "storage": "memory", "retention": "interest", "discard": "old",
		"max_msgs": 10, "max_bytes": 100000, "max_age": 3600_000_000_000, "max_msgs_per_subject": 5, "max_msg_size": 1 << 20,
		"allow_rollup_hdrs": true, "allow_msg_ttl": true, "first_seq": 7, "max_consumers": 3,
		"allow_atomic": true, "allow_msg_schedules": true,
		"subject_transform": map[string]any{"src": "counterfoil.>", "dest": "counterfoil.>"},
		"republish":         map[string]any{"src": "counterfoil.>", "dest": "copy.>"},
		"metadata":          map[string]any{metaOrigin: "example.com/other"},
	}
	b, err := json.Marshal(cfg)
	must(t, err)
	m, err := nc.Request("$JS.API.STREAM.CREATE."+DefaultName, b, startTimeout)
	must(t, err)
	if bytes.Contains(m.Data, []byte(`"error"`)) {
		t.Fatalf("create: %s", m.Data)
	}
	_, err = Open(t.Context(), urlConfig(url))
	var ce *ConfigError
	if !errors.As(err, &ce) {
		t.Fatalf("open: %v", err)
	}
	want := []string{
		`allow_atomic is true, expected absent`,
		`allow_direct is false, expected true`,
		`allow_msg_schedules is true, expected absent`,
		`allow_msg_ttl is true, expected absent`,
		`allow_rollup_hdrs is true, expected absent`,
		`deny_delete is false, expected true`,
		`deny_purge is false, expected true`,
		`discard is "old", expected "new"`,
		`first_seq is 7, expected absent`,
		`max_age is 3600000000000, expected 0`,
		`max_bytes is 100000, expected -1`,
		`max_consumers is 3, expected -1`,
		`max_msg_size is 1048576, expected 65535`,
		`max_msgs is 10, expected -1`,
		`max_msgs_per_subject is 5, expected -1`,
		`metadata counterfoil.origin is "example.com/other", expected "example.com/test"`,
		`metadata counterfoil.tenant is absent, expected "default"`,
		`metadata counterfoil.tenant-key is absent, expected "sha256:00"`,
		`republish is {"dest":"copy.>","src":"counterfoil.>"}, expected absent`,
		`retention is "interest", expected "limits"`,
		`storage is "memory", expected "file"`,
		`subject_transform is {"dest":"counterfoil.>","src":"counterfoil.>"}, expected absent`,
		`subjects is ["counterfoil.>"], expected ["counterfoil.v1.*.*.*.*"]`,
	}
	if d := cmp.Diff(want, ce.Differences); d != "" {
		t.Errorf("differences (-want +got):\n%s", d)
	}
	for _, d := range want {
		if !strings.Contains(err.Error(), d) {
			t.Errorf("the error does not name %s", d)
		}
	}
}

// One difference at a time, also in settings that no NATS knows yet.
func TestLOG03_ConfigDifferences(t *testing.T) {
	s := &Stream{cfg: testConfig("x")}
	must(t, s.cfg.validate())
	for name, tc := range map[string]struct {
		change map[string]any
		want   int
	}{
		"as wanted":          {nil, 0},
		"server's metadata":  {map[string]any{"metadata": map[string]any{metaOrigin: s.cfg.Origin, metaTenant: s.cfg.Tenant, metaFingerprint: s.cfg.Fingerprint, "_nats.ver": "3"}}, 0},
		"replicas":           {map[string]any{"num_replicas": 3.0, "placement": map[string]any{"cluster": "c"}}, 0},
		"compression":        {map[string]any{"compression": "s2"}, 0},
		"zero values":        {map[string]any{"sealed": false, "mirror": nil, "sources": []any{}, "consumer_limits": map[string]any{}}, 0},
		"first sequence 1":   {map[string]any{"first_seq": 1.0}, 0},
		"sealed":             {map[string]any{"sealed": true}, 1},
		"mirror":             {map[string]any{"mirror": map[string]any{"name": "O"}}, 1},
		"sources":            {map[string]any{"sources": []any{map[string]any{"name": "O"}}}, 1},
		"no acknowledgement": {map[string]any{"no_ack": true}, 1},
		"asynchronous":       {map[string]any{"persist_mode": "async"}, 1},
		"counter":            {map[string]any{"allow_msg_counter": true}, 1},
		"unknown feature":    {map[string]any{"forget_on_tuesdays": true}, 1},
		"other key":          {map[string]any{"metadata": map[string]any{metaOrigin: s.cfg.Origin, metaTenant: s.cfg.Tenant, metaFingerprint: "sha256:01"}}, 1},
	} {
		got := s.wanted()
		maps.Copy(got, tc.change)
		if d := differences(s.wanted(), got); len(d) != tc.want {
			t.Errorf("%s: %q", name, d)
		}
	}
	for name := range s.wanted() {
		got := s.wanted()
		delete(got, name)
		if len(differences(s.wanted(), got)) == 0 {
			t.Errorf("%s may be absent", name)
		}
	}
}

// An intake of another ledger or with another key refuses to begin.
func TestLOG03_StreamOfAnotherLedgerIsRefused(t *testing.T) {
	dir := filled(t, makeLeaves(3, 20))
	for name, change := range map[string]func(*Config){
		metaOrigin:      func(c *Config) { c.Origin = "example.com/other" },
		metaTenant:      func(c *Config) { c.Tenant = "other" },
		metaFingerprint: func(c *Config) { c.Fingerprint = "sha256:ff" },
	} {
		cfg := testConfig(dir)
		change(&cfg)
		_, err := Open(t.Context(), cfg)
		var ce *ConfigError
		if !errors.As(err, &ce) || len(ce.Differences) != 1 || !strings.Contains(ce.Differences[0], name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustHold(t, open(t, testConfig(dir)), makeLeaves(3, 20))
}

// Whoever publishes, no stored body is larger than a leaf may be: one larger
// message would block the log for ever. And nobody can delete.
func TestLOG03_ForeignPublisher(t *testing.T) {
	url, nc := external(t, t.TempDir())
	s := open(t, urlConfig(url))
	publish := func(size int, h nats.Header) string {
		m, err := nc.RequestMsg(&nats.Msg{Subject: subject("a", "b", 1), Header: h, Data: bytes.Repeat([]byte("x"), size)}, startTimeout)
		must(t, err)
		var a struct {
			Error *apiError `json:"error"`
			Seq   int       `json:"seq"`
		}
		must(t, json.Unmarshal(m.Data, &a))
		if a.Error != nil {
			return fmt.Sprint(a.Error.ErrCode)
		}
		return fmt.Sprint("stored ", a.Seq)
	}
	for _, tc := range []struct {
		size int
		h    nats.Header
		want string
	}{
		{MaxBody, nil, "stored 1"},
		{MaxBody + 1, nil, "10054"},
		{MaxBody, nats.Header{"A": {"b"}}, "10054"},
		{1 << 19, nil, "10054"},
		{10, nats.Header{"Nats-Rollup": {"all"}}, "10111"},
		{10, nats.Header{"Nats-TTL": {"1s"}}, "10166"},
		{0, nil, "stored 2"},
	} {
		if got := publish(tc.size, tc.h); got != tc.want {
			t.Errorf("%d bytes, header %v: %s, expected %s", tc.size, tc.h, got, tc.want)
		}
	}
	for subject, body := range map[string]string{
		"$JS.API.STREAM.PURGE." + DefaultName:      "",
		"$JS.API.STREAM.MSG.DELETE." + DefaultName: `{"seq":1}`,
	} {
		m, err := nc.Request(subject, []byte(body), startTimeout)
		must(t, err)
		if !bytes.Contains(m.Data, []byte(`"error"`)) {
			t.Errorf("%s: %s", subject, m.Data)
		}
	}
	if st, err := s.State(t.Context()); err != nil || st != (State{First: 1, Last: 2, Messages: 2}) {
		t.Errorf("state %+v, %v", st, err)
	}
	// The largest and the empty body come through every way of reading.
	msgs, err := s.Tail(t.Context(), 1).Next(t.Context(), 10)
	must(t, err)
	if len(msgs) == 0 || len(msgs[0].Body) != MaxBody {
		t.Errorf("tail gave %d messages", len(msgs))
	}
	for seq, size := range map[uint64]int{1: MaxBody, 2: 0} {
		if m, err := s.Get(t.Context(), seq); err != nil || len(m.Body) != size {
			t.Errorf("message %d: %d bytes, %v", seq, len(m.Body), err)
		}
	}
}

func TestSubjectsAndFilters(t *testing.T) {
	for _, tc := range []struct {
		subject         string
		subjectOK, fltr bool
	}{
		{"counterfoil.v1.default.tool_action.attempt.0f", true, true},
		{"counterfoil.v1._._._.00", true, true},
		{"counterfoil.v1.default.*.*.0f", false, true},
		{"counterfoil.v1.default.a*.b.0f", false, false},
		{"counterfoil.v1.default.a.>", false, false},
		{"counterfoil.v1.default.a.b", false, false},
		{"counterfoil.v1.default.a.b.c.d", false, false},
		{"counterfoil.v1.default..b.00", false, false},
		{"counterfoil.v1.default.a.b.", false, false},
		{"counterfoil.v2.default.a.b.00", false, false},
		{"counterfoil.v1.default.a b.c.00", false, false},
		{"counterfoil.v1.default.a\r\nX: y.c.00", false, false},
		{"counterfoil.v1.default.ä.c.00", false, false},
		{"counterfoil.v1.default." + strings.Repeat("a", 200) + ".b.00", false, false},
		{"", false, false},
	} {
		if err := checkSubject(tc.subject, false); (err == nil) != tc.subjectOK {
			t.Errorf("subject %q: %v", tc.subject, err)
		}
		if err := checkSubject(tc.subject, true); (err == nil) != tc.fltr {
			t.Errorf("filter %q: %v", tc.subject, err)
		}
	}
}

func TestConfigValidation(t *testing.T) {
	_, err := Open(t.Context(), Config{Dir: "a", URL: "b", Name: "no dots.", ListenAddr: "127.0.0.1:0"})
	for _, want := range []string{"exactly one of", "stream name", "no tenant", "no origin", "no fingerprint", "needs a consumer's user and token"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}
