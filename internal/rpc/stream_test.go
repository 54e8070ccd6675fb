package rpc_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
	v1 "counterfoil/proto/counterfoil/v1"
)

func TestRPCStreamResumesAndFollows(t *testing.T) {
	l := startLedger(t)
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			c := l.client(t, l.Token, p.h2c, p.opts...)
			first := begin(p.name+"-1", `"planted-value"`)
			first.Wait = "published"
			from := beginOver(t, c, first).GetReceipt().GetLeafIndex()

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := c.StreamEvents(ctx, &v1.StreamEventsRequest{From: from})
			if err != nil {
				t.Fatal(err)
			}
			next := func() *v1.StreamEventsResponse {
				t.Helper()
				if !s.Receive() {
					t.Fatalf("the stream ends: %v", s.Err())
				}
				m := s.Msg()
				if hash := sha256.Sum256(append([]byte{0}, m.GetRecord()...)); !bytes.Equal(hash[:], m.GetLeafHash()) {
					t.Errorf("leaf %d: the hash is not that of the record", m.GetLeafIndex())
				}
				rec, err := event.ParseRecord(m.GetRecord())
				if err != nil || rec.Digest().EventID() != m.GetEventId() || m.GetTreeSize() <= m.GetLeafIndex() || bytes.Contains(m.GetRecord(), []byte("planted-value")) {
					t.Errorf("leaf %d: %v %v", m.GetLeafIndex(), m, err)
				}
				return m
			}
			if m := next(); m.GetLeafIndex() != from {
				t.Fatalf("starts at %d, want %d", m.GetLeafIndex(), from)
			}
			// The next one is recorded while the stream waits for it.
			if got := beginOver(t, c, begin(p.name+"-2", "2")).GetReceipt(); next().GetEventId() != got.GetEventId() {
				t.Errorf("does not go on with %s", got.GetEventId())
			}
			cancel()

			if p.name == "connect_get" {
				return // a stream is never a GET
			}
			all, err := c.StreamEvents(t.Context(), &v1.StreamEventsRequest{StopAtPublished: true})
			if err != nil {
				t.Fatal(err)
			}
			n := uint64(0)
			for ; all.Receive(); n++ {
				if all.Msg().GetLeafIndex() != n {
					t.Fatalf("leaf %d in place of %d", all.Msg().GetLeafIndex(), n)
				}
			}
			if all.Err() != nil || n < from+2 {
				t.Errorf("%d leaves, then %v", n, all.Err())
			}
		})
	}
}

// A follower must be able to tell a stop from an end.
func TestRPCStopEndsStreamsAsUnavailable(t *testing.T) {
	l := startLedger(t)
	for _, p := range protocols {
		c := l.client(t, l.Token, p.h2c, p.opts...)
		s, err := c.StreamEvents(t.Context(), &v1.StreamEventsRequest{From: 0}) // before there is any event
		if err != nil {
			t.Fatal(err)
		}
		r := begin(p.name, "1")
		r.Wait = "published"
		beginOver(t, c, r)
		if !s.Receive() {
			t.Fatalf("%s: %v", p.name, s.Err())
		}
		defer func() {
			for s.Receive() {
			}
			if d := wantError(t, s.Err(), connect.CodeUnavailable, "unavailable"); d.GetReason() != "stopping" {
				t.Errorf("%s: %v", p.name, d)
			}
		}()
	}
	l.stop(t)
}

func TestEVI13_RPCBounds(t *testing.T) {
	l := startLedger(t)
	for _, p := range protocols {
		if p.name != "connect_json" && p.name != "grpc" {
			continue // the longest and the shortest way to write bytes
		}
		t.Run(p.name, func(t *testing.T) {
			c := l.client(t, l.Token, p.h2c, append(p.opts, connect.WithSendGzip())...)
			raw := func(size int) func(context.Context) error {
				r := begin(fmt.Sprint(p.name, size), "0")
				r.PrivateInput = &v1.BeginRequest_PrivateInputRaw{PrivateInputRaw: make([]byte, size)}
				return begins(c, r)
			}
			if err := raw(16 << 20)(t.Context()); err != nil {
				t.Errorf("16 MiB: %v", err)
			}
			if d := wantError(t, raw(16<<20+1)(t.Context()), connect.CodeResourceExhausted, "too_large"); !strings.Contains(d.GetMessage(), "16777216") {
				t.Errorf("the limit is not named: %v", d)
			}
			// Zeros pack well: the bound is on what comes out.
			if err := raw(intake.MaxBodyBytes)(t.Context()); connect.CodeOf(err) != connect.CodeResourceExhausted {
				t.Errorf("over the message's bound: %v", err)
			}
		})
	}
}

// A length that a message announces costs nothing before its bytes are there.
func TestEVI13_RPCAnnouncedLength(t *testing.T) {
	l := startLedger(t)
	body := binary.BigEndian.AppendUint32([]byte{0}, 1<<32-1)
	req, err := http.NewRequest("POST", l.Ready.Listening+"/counterfoil.v1.LedgerService/Begin", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc-web+proto")
	req.Header.Set("Authorization", "Bearer "+l.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if got := res.Header.Get("Grpc-Status") + string(b); err != nil || !strings.Contains(got, "8") {
		t.Errorf("got %q %v, want status 8, resource_exhausted", got, err)
	}
}

// Connect is plain HTTP: a shell can speak it.
func TestEVI06_RPCConnectJSON(t *testing.T) {
	l := startLedger(t)
	const path, source = "/counterfoil.v1.LedgerService/Begin", `"source":{"runtimeId":"r","agentId":"a","invocationId":"i","protocol":"p","implementation":"m"},` +
		`"occurredAt":"2026-07-28T00:00:00.000Z","action":{"name":"n","effectKind":"k","effectMode":"m"}`
	input := base64.StdEncoding.EncodeToString([]byte(`{"secret":1}`))
	code, out := l.post(t, path, "application/json", l.Token, `{`+source+`,"privateInputJson":"`+input+`"}`)
	if code != http.StatusOK || out["created"] != true || out["receipt"].(map[string]any)["stage"] != "logged" {
		t.Fatalf("begin: %d %v", code, out)
	}
	code, out = l.post(t, path, "application/json; charset=utf-8", l.Token, `{`+source+`}`)
	if code != http.StatusConflict || out["code"] != "already_exists" {
		t.Errorf("conflict: %d %v", code, out)
	}
	for name, tc := range map[string]struct{ body, want string }{
		"unknown member": {`{` + source + `,"privateInpt":"planted-value"}`, `unknown field "privateInpt"`},
		"twice":          {`{` + source + `,"occurredAt":"planted-value"}`, "line 1"},
		"not base64":     {`{` + source + `,"privateInputJson":"planted-value!"}`, "field privateInputJson"},
		"both":           {`{` + source + `,"privateInputJson":"MQ==","privateInputRaw":"MQ=="}`, "line 1"},
		"no JSON":        {`planted-value`, "not the JSON of BeginRequest"},
		"nothing":        {``, "not the JSON of BeginRequest"},
	} {
		code, out := l.post(t, path, "application/json", l.Token, tc.body)
		if code != http.StatusBadRequest || out["code"] != "invalid_argument" || !strings.Contains(fmt.Sprint(out), tc.want) {
			t.Errorf("%s: %d %v, want %s", name, code, out, tc.want)
		}
		if strings.Contains(fmt.Sprint(out), "planted-value") {
			t.Errorf("%s: the answer quotes a value: %v", name, out)
		}
	}
	_, metrics := l.get(t, "/metrics")
	for _, want := range []string{`LedgerService/Begin`, `409`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics do not have %s", want)
		}
	}
	l.stop(t)
	if s := l.log.String(); strings.Contains(s, "planted-value") || strings.Contains(s, "secret") {
		t.Errorf("a value is in the log: %s", s)
	}
}

func (l *ledger) get(t *testing.T, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequest("GET", l.Ready.Listening+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}
