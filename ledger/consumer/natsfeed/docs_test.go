package natsfeed_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"counterfoil/internal/testkit/natskit"
	"counterfoil/ledger/consumer"
	"counterfoil/ledger/consumer/natsfeed"
)

// What docs/consumers.md asks of NATS, asked with the credentials that it names,
// for where its own program is not there.
func TestLOG12_DocumentedStreamAndUser(t *testing.T) {
	raw := must(os.ReadFile("../../../docs/consumers.md"))(t)
	page := string(raw)
	for _, command := range []string{
		"NATS_USER=" + natsfeed.DefaultUser + " NATS_PASSWORD=$(cat counterfoil-data/consumer.token)",
		"nats stream info " + natsfeed.DefaultStream,
		"nats stream get " + natsfeed.DefaultStream + " 1",
		"nats consumer add " + natsfeed.DefaultStream + " mine --pull --deliver all --ack explicit",
		"nats consumer next " + natsfeed.DefaultStream + " mine --count 2",
	} {
		if !strings.Contains(page, command) {
			t.Errorf("the page has no %q", command)
		}
	}
	l := newLedger(t)
	l.fill(2, "published")
	events := follow(t, must(consumer.New(l.config()))(t), 0, 2)
	_, js := natskit.Consumer(t, l.nats, natsfeed.DefaultUser, l.consumerToken())
	stream := must(js.Stream(t.Context(), natsfeed.DefaultStream))(t)
	if m := must(stream.GetMsg(t.Context(), 1))(t); string(m.Data) != string(events[0].Leaf) {
		t.Errorf("message 1 is %.100q", m.Data)
	}
	c := must(stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Name: "mine", Durable: "mine", DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy}))(t)
	batch := must(c.Fetch(2, jetstream.FetchMaxWait(30*time.Second)))(t)
	n := 0
	for m := range batch.Messages() {
		meta := must(m.Metadata())(t)
		if int(meta.Sequence.Stream) != n+1 || string(m.Data()) != string(events[n].Leaf) || m.Ack() != nil {
			t.Errorf("message %d is %d", n+1, meta.Sequence.Stream)
		}
		n++
	}
	if n != 2 || batch.Error() != nil {
		t.Errorf("%d messages, %v", n, batch.Error())
	}
}
