package stream

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func listening(t testing.TB, dir string) *Stream {
	cfg := testConfig(dir)
	cfg.ListenAddr, cfg.ConsumerUser, cfg.ConsumerToken = "127.0.0.1:0", "consumer", "secret-token"
	return open(t, cfg)
}

// reader is an external consumer, over TCP. violations gets what the server
// refuses it.
func reader(t testing.TB, s *Stream) (nc *nats.Conn, violations chan string) {
	t.Helper()
	violations = make(chan string, 100)
	nc, err := nats.Connect(s.URL(), nats.UserInfo("consumer", "secret-token"), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case violations <- err.Error():
			default:
			}
		}))
	must(t, err)
	t.Cleanup(nc.Close)
	return nc, violations
}

func TestLOG01_ExternalConsumerReads(t *testing.T) {
	s := listening(t, t.TempDir())
	all := makeLeaves(500, 100)
	fill(t, s, all)
	nc, _ := reader(t, s)
	js, err := jetstream.New(nc)
	must(t, err)
	str, err := js.Stream(t.Context(), DefaultName)
	must(t, err)
	if info := str.CachedInfo(); info.State.Msgs != 500 {
		t.Errorf("stream info says %d messages", info.State.Msgs)
	}
	m, err := str.GetMsg(t.Context(), 17)
	if err != nil || string(m.Data) != string(all[16]) {
		t.Errorf("message 17: %v", err)
	}
	raw, err := str.GetLastMsgForSubject(t.Context(), filter(3))
	if err != nil || raw.Sequence != 260 {
		t.Errorf("last of shard 3: %+v, %v", raw, err)
	}

	ordered, err := str.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	must(t, err)
	pull, err := str.CreateConsumer(t.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	must(t, err)
	for name, c := range map[string]jetstream.Consumer{"ordered": ordered, "pull": pull} {
		it, err := c.Messages()
		must(t, err)
		for i := range all {
			m, err := it.Next()
			must(t, err)
			if string(m.Data()) != string(all[i]) {
				t.Fatalf("%s: message %d is %q", name, i, m.Data())
			}
			if name == "pull" {
				must(t, m.DoubleAck(t.Context()))
			}
		}
		it.Stop()
	}
}

// What an external consumer may not do, each tried over TCP. After all of it the
// stream is what it was.
func TestLOG01_ExternalConsumerCannotWrite(t *testing.T) {
	s := listening(t, t.TempDir())
	all := makeLeaves(20, 100)
	fill(t, s, all)
	nc, violations := reader(t, s)

	cfg, err := json.Marshal(map[string]any{"name": DefaultName, "subjects": []string{"x.>"}, "storage": "file"})
	must(t, err)
	for _, tc := range []struct{ subject, body string }{
		{subject("tool_action", "attempt", 1), "forged"},
		{"counterfoil.v1.anything", "forged"},
		{"other.subject", "x"},
		{"_INBOX.x", "x"},
		{"$JS.API.STREAM.CREATE.OTHER", string(cfg)},
		{"$JS.API.STREAM.UPDATE." + DefaultName, string(cfg)},
		{"$JS.API.STREAM.DELETE." + DefaultName, ""},
		{"$JS.API.STREAM.PURGE." + DefaultName, ""},
		{"$JS.API.STREAM.MSG.DELETE." + DefaultName, `{"seq":1}`},
		{"$JS.API.STREAM.SNAPSHOT." + DefaultName, `{"deliver_subject":"_INBOX.x"}`},
		{"$JS.API.STREAM.RESTORE." + DefaultName, "{}"},
		{"$JS.API.CONSUMER.DURABLE.CREATE." + DefaultName + ".d", "{}"},
		{"$JS.API.CONSUMER.PAUSE." + DefaultName + ".d", "{}"},
		{"$JS.API.STREAM.LIST", ""},
		{"$JS.API.STREAM.INFO.OTHER", ""},
		{"$JS.API.CONSUMER.CREATE.OTHER.c", "{}"},
		{"$SYS.REQ.SERVER.PING", ""},
	} {
		must(t, nc.PublishRequest(tc.subject, "_INBOX.answer", []byte(tc.body)))
		must(t, nc.Flush())
		if v := <-violations; !strings.Contains(v, "Permissions Violation for Publish") || !strings.Contains(strings.ToLower(v), strings.ToLower(tc.subject)) {
			t.Errorf("publish to %s: %s", tc.subject, v)
		}
	}
	for _, subject := range []string{"counterfoil.>", ">", inboxPrefix + ".>", "$JS.>", "$SYS.>"} {
		sub, err := nc.SubscribeSync(subject)
		must(t, err)
		must(t, nc.Flush())
		if v := <-violations; !strings.Contains(v, "Permissions Violation for Subscription") {
			t.Errorf("subscribe to %s: %s", subject, v)
		}
		_ = sub.Unsubscribe()
	}
	mustHold(t, s, all)
}

// The server publishes answers and deliveries in its own name, wherever the
// asker wants them: not in the stream, and not as requests.
func TestLOG01_ExternalConsumerCannotWriteThroughAnswers(t *testing.T) {
	const js = "$JS.API."
	requests := []struct{ subject, body string }{
		{js + "STREAM.INFO." + DefaultName, ""},
		{js + "DIRECT.GET." + DefaultName, `{"seq":1}`},
		{js + "STREAM.MSG.GET." + DefaultName, `{"seq":1}`},
		{js + "CONSUMER.CREATE." + DefaultName, `{"stream_name":"COUNTERFOIL","config":{"ack_policy":"none","deliver_policy":"all"}}`},
		{js + "CONSUMER.MSG.NEXT." + DefaultName + ".C", `{"batch":1,"no_wait":true}`},
		{js + "CONSUMER.INFO." + DefaultName + ".C", ""},
		{js + "CONSUMER.CREATE." + DefaultName, `{"stream_name":"COUNTERFOIL","config":{"ack_policy":"none","deliver_policy":"all","headers_only":true,"deliver_subject":"TARGET"}}`},
	}
	for _, target := range []string{
		subject("tool_action", "attempt", 1),
		js + "STREAM.DELETE." + DefaultName,
		js + "STREAM.PURGE." + DefaultName,
		js + "STREAM.MSG.DELETE." + DefaultName,
	} {
		t.Run(target, func(t *testing.T) {
			s := listening(t, t.TempDir())
			all := makeLeaves(20, 100)
			fill(t, s, all)
			nc, _ := reader(t, s)
			_, err := nc.Request(js+"CONSUMER.CREATE."+DefaultName+".C", []byte(`{"stream_name":"COUNTERFOIL","config":{"name":"C","ack_policy":"none","headers_only":true,"inactive_threshold":60000000000}}`), startTimeout)
			must(t, err)
			for _, r := range requests {
				body := []byte(strings.ReplaceAll(r.body, "TARGET", target))
				for range 3 {
					must(t, nc.PublishRequest(r.subject, target, body))
				}
				// The same again with an answer: what came before is done then.
				_, err := nc.Request(r.subject, body, startTimeout)
				must(t, err)
			}
			mustHold(t, s, all)
		})
	}
}

func TestLOG01_ExternalConsumerMustAuthenticate(t *testing.T) {
	s := listening(t, t.TempDir())
	for name, opts := range map[string][]nats.Option{
		"nobody":         nil,
		"wrong token":    {nats.UserInfo("consumer", "wrong")},
		"token as token": {nats.Token("secret-token")},
		"our own name":   {nats.UserInfo(ownUser, "")},
	} {
		nc, err := nats.Connect(s.URL(), opts...)
		if err == nil {
			nc.Close()
			t.Errorf("%s: connected", name)
		} else if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
