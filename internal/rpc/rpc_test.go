package rpc_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"counterfoil/internal/app"
	v1 "counterfoil/proto/counterfoil/v1"
	"counterfoil/proto/counterfoil/v1/counterfoilv1connect"
)

// ledger is a running ledger and ways to call it.
type ledger struct {
	*app.Server
	log *bytes.Buffer // closed over by the ledger: read it after stop
}

func startLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{log: new(bytes.Buffer)}
	s, err := app.Start(context.Background(), app.Config{Dir: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(l.log, nil)), Random: rand.Reader, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	l.Server = s
	t.Cleanup(func() { l.stop(t) })
	return l
}

func (l *ledger) stop(t *testing.T) {
	if l.Server == nil {
		return
	}
	if err := l.Stop(context.Background()); err != nil {
		t.Errorf("stop: %v\n%s", err, l.log)
	}
	l.Server = nil
}

type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

// client speaks HTTP/2 without TLS if h2c is set, else HTTP/1.1.
func (l *ledger) client(t *testing.T, token string, h2c bool, opts ...connect.ClientOption) counterfoilv1connect.LedgerServiceClient {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!h2c)
	tr.Protocols.SetUnencryptedHTTP2(h2c)
	t.Cleanup(tr.CloseIdleConnections)
	return counterfoilv1connect.NewLedgerServiceClient(&http.Client{Transport: bearer{token, tr}}, l.Ready.Listening, opts...)
}

// protocols are all that a client can speak.
var protocols = []struct {
	name string
	h2c  bool
	opts []connect.ClientOption
}{
	{"connect", false, nil},
	{"connect_json", false, []connect.ClientOption{connect.WithProtoJSON()}},
	{"connect_get", true, []connect.ClientOption{connect.WithHTTPGet()}},
	{"grpc_web", false, []connect.ClientOption{connect.WithGRPCWeb()}},
	{"grpc", true, []connect.ClientOption{connect.WithGRPC()}},
}

func begin(invocation, input string) *v1.BeginRequest {
	return &v1.BeginRequest{
		Source: &v1.Source{RuntimeId: "runtime:any", AgentId: "agent:any", InvocationId: invocation, Protocol: "mcp", Implementation: "external-agent-runtime"},
		Action: &v1.Action{Name: "external_tool_call", EffectKind: "org.example/declared-effect", EffectMode: "one_time"}, TraceId: "trace-001",
		OccurredAt: "2026-07-28T00:00:00.000Z", PrivateInput: &v1.BeginRequest_PrivateInputJson{PrivateInputJson: []byte(input)},
	}
}

func outcome(attempt, id, status string) *v1.AppendRequest {
	return &v1.AppendRequest{AttemptId: attempt, SourceEventId: id, Lifecycle: "outcome", Status: status, OccurredAt: "2026-07-28T00:00:01.000Z"}
}

// post calls the HTTP interface.
func (l *ledger) post(t *testing.T, path, contentType, token, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequest("POST", l.Ready.Listening+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%s: %d %q", path, res.StatusCode, b)
	}
	return res.StatusCode, out
}

// wantError checks code and detail of an error.
func wantError(t *testing.T, err error, code connect.Code, want string) *v1.ErrorDetail {
	t.Helper()
	var ce *connect.Error
	if !errors.As(err, &ce) || ce.Code() != code {
		t.Fatalf("got %v, want %v", err, code)
	}
	if len(ce.Details()) != 1 {
		t.Fatalf("%v: got %d details, want 1", err, len(ce.Details()))
	}
	v, err := ce.Details()[0].Value()
	if err != nil {
		t.Fatal(err)
	}
	d, ok := v.(*v1.ErrorDetail)
	if !ok || d.GetCode() != want {
		t.Fatalf("got detail %v, want code %s", v, want)
	}
	return d
}

func beginOver(t *testing.T, c counterfoilv1connect.LedgerServiceClient, r *v1.BeginRequest) *v1.BeginResponse {
	t.Helper()
	b, err := c.Begin(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEVI01_RPCEveryProtocolRecordsAndReads(t *testing.T) {
	l := startLedger(t)
	for i, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			c, ctx := l.client(t, l.Token, p.h2c, p.opts...), t.Context()
			b := beginOver(t, c, begin(p.name, `{"secret":"planted-value","n":1.5}`)).GetReceipt()
			if b.GetSchemaVersion() != "counterfoil.receipt.v1" || b.GetStage() == "accepted" || len(b.GetOpenings()) != 1 || len(b.GetOpenings()[0].GetSalt()) != 32 ||
				b.GetSubject().GetKind() != "tool_action" || b.GetCommitments()["input"] != b.GetOpenings()[0].GetDigest() {
				t.Fatalf("begin: %v", b)
			}
			if want := uint64(2 * i); b.GetLeafIndex() != want {
				t.Errorf("leaf index %d, want %d", b.GetLeafIndex(), want)
			}
			out := outcome(b.GetAttemptId(), "done", "succeeded")
			out.Wait = "published"
			a, err := c.Append(ctx, out)
			if err != nil || !a.GetCreated() || a.GetReceipt().GetStage() != "published" || a.GetReceipt().GetCheckpoint() == "" {
				t.Fatalf("append: %v %v", a, err)
			}
			got, err := c.GetAttempt(ctx, &v1.GetAttemptRequest{AttemptId: b.GetAttemptId()})
			if err != nil || got.GetAttempt().GetState() != "succeeded" || len(got.GetAttempt().GetReceipts()) != 2 {
				t.Fatalf("get: %v %v", got, err)
			}
			rc, err := c.GetReceipt(ctx, &v1.GetReceiptRequest{EventId: a.GetReceipt().GetEventId()})
			if err != nil || rc.GetReceipt().GetCommitment().GetDigest() != a.GetReceipt().GetCommitment().GetDigest() || len(rc.GetReceipt().GetInclusionProof()) == 0 {
				t.Fatalf("receipt: %v %v", rc, err)
			}
			if s := fmt.Sprint(b, a, got, rc); strings.Contains(s, "planted-value") {
				t.Errorf("a private value is in an answer: %s", s)
			}
			bundle, err := c.ExportBundle(ctx, &v1.ExportBundleRequest{AttemptIds: []string{b.GetAttemptId()}})
			if err != nil || !bytes.Contains(bundle.GetBundleJson(), []byte(`"counterfoil.bundle.v1"`)) {
				t.Fatalf("bundle: %v %v", bundle, err)
			}
			page, err := c.ListAttempts(ctx, &v1.ListAttemptsRequest{State: "succeeded", Limit: 1, Order: "newest"})
			if err != nil || len(page.GetAttempts()) != 1 || page.GetAttempts()[0].GetAttemptId() != b.GetAttemptId() || (page.GetNextPageToken() == "") != (i == 0) {
				t.Fatalf("attempts: %v %v", page, err)
			}
			rcs, err := c.ListReceipts(ctx, &v1.ListReceiptsRequest{Lifecycle: "outcome", Limit: 256})
			if err != nil || len(rcs.GetReceipts()) != i+1 || rcs.GetTreeSize() == 0 {
				t.Fatalf("receipts: %v %v", rcs, err)
			}
			proof, err := c.GetTlogProof(ctx, &v1.GetTlogProofRequest{EventId: a.GetReceipt().GetEventId()})
			if err != nil || !bytes.HasPrefix(proof.GetTlogProof(), []byte("c2sp.org/tlog-proof@v1\n")) {
				t.Fatalf("tlog-proof: %s %v", proof.GetTlogProof(), err)
			}
			parked, err := c.ListParked(ctx, &v1.ListParkedRequest{})
			if err != nil || len(parked.GetParked()) != 0 || parked.GetTreeSize() == 0 {
				t.Fatalf("parked: %v %v", parked, err)
			}
			st, err := c.GetStatus(ctx, &v1.GetStatusRequest{})
			if err != nil || !st.GetStatus().GetReady() || st.GetStatus().GetLogSize() != uint64(2*i+2) || len(st.GetStatus().GetChecks()) == 0 {
				t.Fatalf("status: %v %v", st, err)
			}
			_, err = c.ListReceipts(ctx, &v1.ListReceiptsRequest{Limit: 257})
			wantError(t, err, connect.CodeInvalidArgument, "invalid_request")
		})
	}
}

func TestEVI05_RPCNeedsTheTokenBeforeAnythingElse(t *testing.T) {
	l := startLedger(t)
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			for _, token := range []string{"", l.Token + "x"} {
				c := l.client(t, token, p.h2c, p.opts...)
				_, err := c.Begin(t.Context(), begin("a", "1"))
				if d := wantError(t, err, connect.CodeUnauthenticated, "unauthorized"); strings.Contains(d.String(), l.Token) {
					t.Errorf("the refusal echoes the token: %v", d)
				}
				s, err := c.StreamEvents(t.Context(), &v1.StreamEventsRequest{})
				if err == nil {
					for s.Receive() {
						t.Errorf("an event without a token: %v", s.Msg())
					}
					err = s.Err()
				}
				wantError(t, err, connect.CodeUnauthenticated, "unauthorized")
				trust, err := c.GetTrust(t.Context(), &v1.GetTrustRequest{})
				if err != nil || !json.Valid(trust.GetTrustJson()) || bytes.HasSuffix(trust.GetTrustJson(), []byte("\n")) {
					t.Errorf("trust: %v %v", trust, err)
				}
			}
		})
	}
	// What cannot be read at all is refused for its token too.
	for _, path := range []string{"Begin", "StreamEvents", "None"} {
		code, out := l.post(t, "/counterfoil.v1.LedgerService/"+path, "application/json", "", strings.Repeat("{", 1<<10))
		if code != http.StatusUnauthorized {
			t.Errorf("%s: %d %v", path, code, out)
		}
	}
}

func TestEVI17_RPCSameRequestAsOverHTTP(t *testing.T) {
	l := startLedger(t)
	c := l.client(t, l.Token, true, connect.WithGRPC())
	for name, tc := range map[string]struct {
		body    string // members of the private value over HTTP
		request func(*v1.BeginRequest)
	}{
		"json": {`"privateInput":{"b":2,"a":[1e1,"é"]},"expectedEffect":null,"keepBody":true`, func(r *v1.BeginRequest) {
			r.PrivateInput = &v1.BeginRequest_PrivateInputJson{PrivateInputJson: []byte(` {"a":[10,"\u00e9"],"b":2.0}`)}
			r.ExpectedEffectJson, r.KeepBody = []byte("null"), true
		}},
		"raw": {`"privateInputRaw":"AAEC/w=="`, func(r *v1.BeginRequest) {
			r.PrivateInput = &v1.BeginRequest_PrivateInputRaw{PrivateInputRaw: []byte{0, 1, 2, 255}}
		}},
		"none": {`"subject":{"kind":"retrieval","id":"q"}`, func(r *v1.BeginRequest) {
			r.PrivateInput, r.Subject = nil, &v1.Subject{Kind: "retrieval", Id: "q"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			over := func(input string) (int, map[string]any) {
				return l.post(t, "/v1/attempts", "application/json", l.Token, `{"source":{"runtimeId":"runtime:any","agentId":"agent:any","invocationId":"`+name+
					`","protocol":"mcp","implementation":"external-agent-runtime"},"occurredAt":"2026-07-28T00:00:00.000Z","traceId":"trace-001",`+
					`"action":{"name":"external_tool_call","effectKind":"org.example/declared-effect","effectMode":"one_time"},`+input+`}`)
			}
			code, first := over(tc.body)
			if code != http.StatusCreated {
				t.Fatalf("begin: %d %v", code, first)
			}
			r := begin(name, "0")
			tc.request(r)
			again := beginOver(t, c, r)
			if again.GetCreated() || again.GetReceipt().GetEventId() != first["eventId"] {
				t.Errorf("the same over RPC: created %v, %s; over HTTP %v", again.GetCreated(), again.GetReceipt().GetEventId(), first["eventId"])
			}
			r.PrivateInput = &v1.BeginRequest_PrivateInputJson{PrivateInputJson: []byte(`"other"`)}
			_, err := c.Begin(t.Context(), r)
			d := wantError(t, err, connect.CodeAlreadyExists, "conflict")
			code, other := over(tc.body + `,"tra` + `ceId2":1`)
			if code != http.StatusBadRequest {
				t.Errorf("unknown member: %d %v", code, other)
			}
			if d.GetEventId() != first["eventId"] || !strings.HasPrefix(d.GetStored(), "hmac-sha256:") || !strings.HasPrefix(d.GetOffered(), "hmac-sha256:") || d.GetStored() == d.GetOffered() {
				t.Errorf("conflict: %v", d)
			}
		})
	}
	t.Run("append", func(t *testing.T) {
		id := beginOver(t, c, begin("append", "1")).GetReceipt().GetAttemptId()
		a, err := c.Append(t.Context(), outcome(id, "done", "unknown"))
		if err != nil {
			t.Fatal(err)
		}
		code, same := l.post(t, "/v1/attempts/"+id+"/events", "application/json", l.Token,
			`{"attemptId":"`+id+`","sourceEventId":"done","lifecycle":"outcome","status":"unknown","occurredAt":"2026-07-28T00:00:01.000Z"}`)
		if code != http.StatusOK || same["eventId"] != a.GetReceipt().GetEventId() {
			t.Errorf("the same over HTTP: %d %v", code, same)
		}
		rec, err := c.Append(t.Context(), &v1.AppendRequest{AttemptId: id, SourceEventId: "look", Lifecycle: "reconciliation", OccurredAt: "2026-07-28T00:00:02.000Z",
			Readback: &v1.AppendReadBack{Source: "bank", Observed: "present", Count: proto.Int64(2), ValueJson: []byte("null")}})
		if err != nil || rec.GetReceipt().GetAction().GetStatus() != "contradicted" || rec.GetReceipt().GetStatement().GetReadback().GetCount() != 2 {
			t.Errorf("reconciliation: %v %v", rec, err)
		}
	})
}

func TestEVI06_RPCErrorsSayWhat(t *testing.T) {
	l := startLedger(t)
	c := l.client(t, l.Token, true, connect.WithGRPC())
	id := beginOver(t, c, begin("a", "1")).GetReceipt().GetAttemptId()
	reversal := outcome(id, "r", "reversed")
	reversal.Lifecycle, reversal.Refs = "reversal", map[string]string{"reverses": "evt_" + strings.Repeat("0", 64)}
	late := outcome(id, "late", "succeeded")
	late.OccurredAt = "2026-07-28T00:00:01Z"
	deep := begin("deep", "1")
	deep.PrivateInput = &v1.BeginRequest_PrivateInputJson{PrivateInputJson: []byte(`{"a":[0,9007199254740993]}`)}
	two := begin("two", `1,"keepBody":true`)
	empty := begin("empty", ``)
	raw := begin("raw", ``)
	raw.PrivateInput = &v1.BeginRequest_PrivateInputRaw{}
	assured := begin("assured", "1")
	assured.Source.Assurance = &v1.Assurance{Level: "vouched"}
	unknown := begin("unknown", "1")
	unknown.Source.ProtoReflect().SetUnknown([]byte{0xfa, 0x01, 0x01, 'x'})
	long := outcome(id, "long", "succeeded")
	long.ReasonCodes = []string{strings.Repeat("é", 1<<20)}
	wait := begin("wait", "1")
	wait.Wait = "tomorrow"
	for name, tc := range map[string]struct {
		call func(context.Context) error
		code connect.Code
		want string
		path string
	}{
		"unlawful":       {appends(c, reversal), connect.CodeFailedPrecondition, "unlawful", ""},
		"time":           {appends(c, late), connect.CodeInvalidArgument, "invalid_request", "/occurredAt"},
		"no attempt":     {appends(c, outcome("att_"+strings.Repeat("0", 32), "x", "failed")), connect.CodeNotFound, "not_found", ""},
		"no attempt id":  {appends(c, outcome("", "x", "failed")), connect.CodeNotFound, "not_found", ""},
		"inexact":        {begins(c, deep), connect.CodeInvalidArgument, "invalid_request", "/privateInput/a/1"},
		"two values":     {begins(c, two), connect.CodeInvalidArgument, "invalid_request", "/privateInput"},
		"no value":       {begins(c, empty), connect.CodeInvalidArgument, "invalid_request", "/privateInput"},
		"no bytes":       {begins(c, raw), connect.CodeInvalidArgument, "invalid_request", "/privateInputRaw"},
		"assurance":      {begins(c, assured), connect.CodeInvalidArgument, "invalid_request", "/source"},
		"unknown field":  {begins(c, unknown), connect.CodeInvalidArgument, "invalid_request", ""},
		"nothing at all": {begins(c, &v1.BeginRequest{}), connect.CodeInvalidArgument, "invalid_request", "/source/runtimeId"},
		"long":           {appends(c, long), connect.CodeInvalidArgument, "invalid_request", "/reasonCodes/0"},
		"wait":           {begins(c, wait), connect.CodeInvalidArgument, "invalid_request", ""},
		"no event": {func(ctx context.Context) error {
			_, err := c.GetReceipt(ctx, &v1.GetReceiptRequest{EventId: "evt_" + strings.Repeat("0", 64)})
			return err
		}, connect.CodeNotFound, "not_found", ""},
		"no bundle": {func(ctx context.Context) error { _, err := c.ExportBundle(ctx, &v1.ExportBundleRequest{}); return err }, connect.CodeInvalidArgument, "invalid_request", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := wantError(t, tc.call(t.Context()), tc.code, tc.want)
			if d.GetPath() != tc.path && tc.path != "" || d.GetMessage() == "" || (tc.want == "unlawful") != (d.GetReason() != "") {
				t.Errorf("detail: %v", d)
			}
		})
	}
}

func appends(c counterfoilv1connect.LedgerServiceClient, r *v1.AppendRequest) func(context.Context) error {
	return func(ctx context.Context) error { _, err := c.Append(ctx, r); return err }
}

func begins(c counterfoilv1connect.LedgerServiceClient, r *v1.BeginRequest) func(context.Context) error {
	return func(ctx context.Context) error { _, err := c.Begin(ctx, r); return err }
}
