package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/receipt"
)

const token = "0123456789abcdef0123456789abcdef"

// serve starts a server and a client whose pauses are counted, not waited for.
func serve(t *testing.T, cfg Config, h http.HandlerFunc) (*Client, *[]time.Duration) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	var pauses []time.Duration
	cfg.Server, cfg.Token = srv.URL, token
	if cfg.Pause == nil {
		cfg.Pause = func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, &pauses
}

func refuse(w http.ResponseWriter, status int, doc string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, doc)
}

const receiptDoc = `{"schemaVersion":"counterfoil.receipt.v1","eventId":"evt_1","attemptId":"att_1","leafIndex":7,"stage":"logged","later":true}`

func TestEVI05_TokenIsSentAndNeverEchoed(t *testing.T) {
	c, _ := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+token {
			t.Errorf("authorization %q", got)
		}
		refuse(w, http.StatusUnauthorized, `{"error":{"code":"unauthorized","message":"a bearer token is required","hint":"send it"}}`)
	})
	_, err := c.Status(t.Context())
	var e *Error
	if !errors.As(err, &e) || e.Status != 401 || e.Code != "unauthorized" || e.Hint != "send it" {
		t.Fatalf("got %#v", err)
	}
	if strings.Contains(fmt.Sprintf("%v %+v", err, e), token) {
		t.Error("the error shows the token")
	}
}

func TestEVI05_RedirectsAreNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed, with authorization %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	c, _ := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	var e *Error
	if _, err := c.Status(t.Context()); !errors.As(err, &e) || e.Status != http.StatusTemporaryRedirect || e.Code != "" {
		t.Fatalf("got %v", err)
	}
}

func TestEVI06_BeginSendsTheFieldsAndReadsTheReceipt(t *testing.T) {
	status := http.StatusCreated
	c, _ := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		want := `{"source":{"runtimeId":"r","agentId":"a","invocationId":"i","protocol":"p","implementation":"m"},` +
			`"occurredAt":"2026-07-28T00:00:00.000Z","action":{"name":"n","effectKind":"k","effectMode":"e"},"privateInputRaw":"/w=="}`
		if diff := cmp.Diff(want, string(body)); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
		if r.Method != http.MethodPost || r.URL.RequestURI() != "/v1/attempts?wait=published" {
			t.Errorf("%s %s", r.Method, r.URL.RequestURI())
		}
		refuse(w, status, receiptDoc+"\n")
	})
	b := &Begin{Source: Source{RuntimeID: "r", AgentID: "a", InvocationID: "i", Protocol: "p", Implementation: "m"},
		OccurredAt: "2026-07-28T00:00:00.000Z", Action: Action{Name: "n", EffectKind: "k", EffectMode: "e"}, PrivateInputRaw: []byte{0xff}}
	for _, isNew := range []bool{true, false} {
		a, err := c.Begin(t.Context(), b, Published)
		if err != nil {
			t.Fatal(err)
		}
		if a.New != isNew || a.Value.EventID != "evt_1" || a.Value.LeafIndex != 7 || string(a.Raw) != receiptDoc {
			t.Errorf("got %+v %s, want new %v", a, a.Raw, isNew)
		}
		status = http.StatusOK
	}
}

func TestEVI07_AppendGoesToItsAttempt(t *testing.T) {
	c, _ := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/v1/attempts/att_%2F..%2Fx/events" || r.URL.RawQuery != "" {
			t.Errorf("path %s query %s", r.URL.EscapedPath(), r.URL.RawQuery)
		}
		body, _ := io.ReadAll(r.Body)
		want := `{"attemptId":"att_/../x","lifecycle":"outcome","sourceEventId":"s","occurredAt":"t","status":"failed","privateResult":{"a":1.5},"reasonCodes":["tool_error"]}`
		if string(body) != want {
			t.Errorf("body %s", body)
		}
		refuse(w, http.StatusCreated, receiptDoc)
	})
	a := &Append{AttemptID: "att_/../x", Lifecycle: "outcome", SourceEventID: "s", OccurredAt: "t", Status: "failed",
		PrivateResult: []byte(`{"a":1.5}`), ReasonCodes: []string{"tool_error"}}
	if _, err := c.Append(t.Context(), a, ""); err != nil {
		t.Fatal(err)
	}
}

func TestEVI17_ConflictNamesBothDigests(t *testing.T) {
	doc := `{"error":{"code":"conflict","message":"recorded with other content","stored":"hmac-sha256:aa","offered":"hmac-sha256:bb","hint":"use a new id"}}`
	c, pauses := serve(t, Config{}, func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusConflict, doc) })
	_, err := c.BeginRaw(t.Context(), []byte(`{}`), "")
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	want := "conflict: recorded with other content; stored hmac-sha256:aa, offered hmac-sha256:bb"
	if err.Error() != want || string(e.Raw) != doc || len(*pauses) != 0 {
		t.Errorf("got %q after %d pauses, want %q", err, len(*pauses), want)
	}
}

func TestDUR06_UnavailableIsRepeatedForIdempotentCallsOnly(t *testing.T) {
	unavailable := func(reason string) string {
		return `{"error":{"code":"unavailable","reason":"` + reason + `"}}`
	}
	begin := func(c *Client) error { _, err := c.BeginRaw(t.Context(), []byte(`{}`), ""); return err }
	const full = `{"error":{"code":"unavailable","message":"no space","reason":"disk_full"}}`
	for _, c := range []struct {
		name     string
		failures int
		doc      string
		call     func(*Client) error
		requests int
		ok       bool
	}{
		{"begin", 3, full, func(c *Client) error { _, err := c.BeginRaw(t.Context(), []byte(`{}`), ""); return err }, 4, true},
		{"append", 1, full, func(c *Client) error { _, err := c.AppendRaw(t.Context(), "att_1", []byte(`{}`), ""); return err }, 2, true},
		{"begin, for too long", 99, full, func(c *Client) error { _, err := c.BeginRaw(t.Context(), []byte(`{}`), ""); return err }, 6, false},
		{"a proxy's 503", 1, "<html>", func(c *Client) error { _, err := c.BeginRaw(t.Context(), []byte(`{}`), ""); return err }, 2, true},
		{"a read", 1, full, func(c *Client) error { _, err := c.Status(t.Context()); return err }, 1, false},
		{"a log that disagrees", 1, unavailable("log_disagrees"), begin, 1, false},
		{"a log that was set back", 1, unavailable("log_set_back"), begin, 1, false},
		{"a vault that failed", 1, unavailable("vault_unavailable"), begin, 1, false},
		{"an attempt without its key", 1, unavailable("key_missing"), begin, 1, false},
		{"a stage not reached in time", 1, unavailable("timeout"), begin, 1, false},
		{"a stream that is away", 1, unavailable("stream_unavailable"), begin, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			requests := 0
			cl, pauses := serve(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
				if requests++; requests <= c.failures {
					refuse(w, http.StatusServiceUnavailable, c.doc)
					return
				}
				refuse(w, http.StatusOK, receiptDoc)
			})
			err := c.call(cl)
			if (err == nil) != c.ok || requests != c.requests || len(*pauses) != c.requests-1 {
				t.Errorf("got %v after %d requests and pauses %v, want ok %v after %d", err, requests, *pauses, c.ok, c.requests)
			}
			for i := 1; i < len(*pauses); i++ {
				if (*pauses)[i] != 2*(*pauses)[i-1] {
					t.Errorf("pauses %v do not double", *pauses)
				}
			}
		})
	}
}

func TestDUR06_BrokenConnections(t *testing.T) {
	requests := 0
	c, _ := serve(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		switch requests++; requests {
		case 1: // the connection ends before an answer
			panic(http.ErrAbortHandler)
		case 2: // and within one
			w.Header().Set("Content-Length", "9999")
			_, _ = io.WriteString(w, receiptDoc)
		default:
			refuse(w, http.StatusOK, receiptDoc)
		}
	})
	if a, err := c.BeginRaw(t.Context(), []byte(`{}`), ""); err != nil || a.New || requests != 3 {
		t.Errorf("got %v, %v after %d requests", a, err, requests)
	}
}

func TestDUR06_NobodyListens(t *testing.T) {
	c, pauses := serve(t, Config{Retries: 2}, nil)
	gone := httptest.NewServer(nil)
	gone.Close()
	c.base.Host = strings.TrimPrefix(gone.URL, "http://")
	_, err := c.BeginRaw(t.Context(), []byte(`{}`), "")
	var u *Unreachable
	if !errors.As(err, &u) || len(*pauses) != 2 || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v after %d pauses", err, len(*pauses))
	}
}

func TestDUR06_TheContextEndsTheRepeating(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	c, _ := serve(t, Config{Pause: func(ctx context.Context, _ time.Duration) error {
		cancel(stop)
		return context.Cause(ctx)
	}}, func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, `{"error":{"code":"unavailable"}}`) })
	_, err := c.BeginRaw(ctx, []byte(`{}`), "")
	var e *Error
	if !errors.Is(err, stop) || !errors.As(err, &e) {
		t.Errorf("got %v, want both the stop and the last refusal", err)
	}
}

func TestTRS27_AnswersAreBounded(t *testing.T) {
	c, _ := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/trust" {
			_, _ = io.Copy(w, io.LimitReader(zeros{}, MaxAnswerBytes+1))
			return
		}
		w.WriteHeader(400)
		_, _ = io.Copy(w, io.LimitReader(zeros{}, 1<<20))
	})
	if _, err := c.Trust(t.Context()); err == nil || !strings.Contains(err.Error(), "67108864") {
		t.Errorf("got %v", err)
	}
	var e *Error
	if _, err := c.Status(t.Context()); !errors.As(err, &e) || e.Status != 400 || e.Code != "" || e.Hint == "" {
		t.Errorf("got %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestEVI04_ServerAddresses(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:8480", "ftp://x", "http://", "http://u:p@x", "http://x/?q=1", "http://x/#f", "http://[::1"} {
		if _, err := New(Config{Server: bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if _, err := New(Config{Server: "http://x", Token: "a\nb"}); err == nil {
		t.Error("a token with a line break is accepted")
	}
	c, err := New(Config{Server: "https://x/ledger/"})
	if err != nil || c.Server() != "https://x/ledger" {
		t.Errorf("got %v, %v", c, err)
	}
}

// TestLOG07_WaitLooksUntilTheStageIsReached: also over an event that the views do
// not know yet and a ledger that is away for a moment; a refusal ends it.
func TestLOG07_WaitLooksUntilTheStageIsReached(t *testing.T) {
	answers := []struct {
		status int
		doc    string
	}{
		{http.StatusNotFound, `{"error":{"code":"not_found","message":"no such event"}}`},
		{http.StatusServiceUnavailable, `{"error":{"code":"unavailable","message":"starting","reason":"starting"}}`},
		{http.StatusOK, strings.Replace(receiptDoc, "logged", "published", 1)},
		{http.StatusOK, strings.Replace(receiptDoc, "logged", "witnessed", 1)},
	}
	asked := 0
	c, paused := serve(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		a := answers[min(asked, len(answers)-1)]
		asked++
		refuse(w, a.status, a.doc)
	})
	a, err := c.Wait(t.Context(), "evt_1", Witnessed)
	if err != nil || a.Value.Stage != Witnessed || asked != 4 || len(*paused) != 3 {
		t.Errorf("%+v, %v after %d questions and pauses %v", a, err, asked, *paused)
	}
	asked = 2
	if a, err := c.Wait(t.Context(), "evt_1", Logged); err != nil || a.Value.Stage != Published || asked != 3 {
		t.Errorf("a later stage will do: %+v, %v", a, err)
	}
	answers[0] = struct {
		status int
		doc    string
	}{http.StatusUnauthorized, `{"error":{"code":"unauthorized","message":"no"}}`}
	asked = 0
	if _, err := c.Wait(t.Context(), "evt_1", Published); err == nil || asked != 1 {
		t.Errorf("refused: %v after %d questions", err, asked)
	}
	if _, err := c.Wait(t.Context(), "evt_1", "soon"); err == nil {
		t.Error("an unknown stage is waited for")
	}
	if _, _, err := c.Verify(t.Context(), nil, receipt.Options{}, "att_1"); err == nil {
		t.Error("verified without a trust file")
	}
}
